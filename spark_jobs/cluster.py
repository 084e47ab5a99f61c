"""A Spark cluster: whether its master is there, gives workers, and whether those have what the tasks import.

Spark by itself asks a master that is away for a minute, waits for workers without end, and tells of a missing package
in a page of Java. Here each of that is a sentence, in bounded time.
"""

import logging
import socket
import sys
import threading
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, NamedTuple

from spark_jobs.errors import ClusterError, PassingError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

SCHEME = "spark://"
PACKAGES = ("pyarrow", "numpy", "pandas", "numba", "msgspec")
"""What the tasks import beside the sources that are sent to them."""
MASTER_PATIENCE_S = 5.0
WORKERS_PATIENCE_S = 60.0
LOOK_S = 0.2


class Worker(NamedTuple):
    """What a task found where it ran: the versions are "" for what is not installed."""

    host: str
    python: str
    packages: tuple[tuple[str, str], ...]


def is_local(master: str) -> bool:
    """Whether Spark runs in this machine's own processes."""
    return master.startswith("local")


def reach_master(master: str, patience_s: float = MASTER_PATIENCE_S) -> str:
    """The address of this machine by which the master's is reached; "" where ``master`` is none of Spark's own.

    PassingError when nobody answers at any of its addresses.
    """
    if not master.startswith(SCHEME):
        return ""
    failures = []
    for address in master.removeprefix(SCHEME).split(","):
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=patience_s) as probe:
                return str(probe.getsockname()[0])
        except OSError as error:
            failures.append(f"{address}: {error.strerror or error}")
    raise PassingError(
        f"The Spark master {master} (GLASSMQ_SPARK_MASTER) does not answer ({'; '.join(failures)}): start it, or name "
        "another.")


def require_workers(spark: "SparkSession", master: str, patience_s: float = WORKERS_PATIENCE_S) -> None:
    """Wait until the cluster has given an executor, then look whether its Python is one that the tasks can run in.

    PassingError when there is no executor in time, ClusterError when one lacks something.
    """
    context = spark.sparkContext
    pause = threading.Event()
    for _ in range(round(patience_s / LOOK_S)):
        if context._jsc.sc().getExecutorMemoryStatus().size() > 1:  # the driver is one of them
            break
        pause.wait(LOOK_S)
    else:
        raise PassingError(
            f"The Spark master {master} (GLASSMQ_SPARK_MASTER) has given no executor within {patience_s:g} s: it has "
            "no worker, or none with enough free cores and memory.")
    context.setJobGroup("look at the workers", "what the workers have", interruptOnCancel=True)
    tasks = max(2, context.defaultParallelism)
    found = set(context.parallelize(range(tasks), tasks).map(look_around).collect())
    problem = what_is_missing(found)
    if problem:
        raise ClusterError(problem)


def look_around(_: object = None) -> Worker:
    """What is here."""
    return Worker(socket.gethostname(), f"{sys.version_info.major}.{sys.version_info.minor}",
        tuple((name, installed(name)) for name in PACKAGES))


def installed(package: str) -> str:
    """The package's version, "" when it is not here."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def what_is_missing(workers: "Iterable[Worker]") -> str:
    """A sentence about workers that lack a package, or ""; other versions than here are told to the log alone."""
    here = dict(look_around().packages)
    lacking: dict[str, list[str]] = {}
    for worker in sorted(workers):
        for name, found in worker.packages:
            if not found and here[name]:
                lacking.setdefault(worker.host, []).append(name)
            elif found != here[name]:
                logger.warning("%s has %s %s, this machine has %s.", worker.host, name, found, here[name] or "none")
    if not lacking:
        return ""
    return ("Reports need packages that workers of the cluster lack ("
        + "; ".join(f"{host}: {', '.join(sorted(set(names)))}" for host, names in lacking.items())
        + "): install requirements/base.txt and requirements/spark.txt there, or set PYSPARK_PYTHON to a Python that "
        "has them.")
