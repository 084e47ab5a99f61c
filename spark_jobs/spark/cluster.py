"""A Spark cluster: whether its master is there, gives workers, and whether those can do what is asked of them.

Spark by itself asks a master that is away for a minute, waits for workers without end, and tells of a missing package
in a page of Java. Here each of that is a sentence, in bounded time. All of it holds for a Spark Connect server, too.
"""

import socket
import threading
from typing import TYPE_CHECKING
from uuid import uuid4

from spark_jobs.errors import ClusterError, PassingError
from spark_jobs.spark import connect
from spark_jobs.spark.cluster_workers import Worker, look_around, what_is_missing
from spark_jobs.spark.job_group import job_group

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEME = "spark://"
MASTER_PATIENCE_S = 5.0
WORKERS_PATIENCE_S = 120.0
MOST_TASKS = 10_000
"""At once, as far as anybody asks for it."""


def is_local(master: str) -> bool:
    """Whether Spark runs in this machine's own processes."""
    return master.startswith("local")


def reach_master(master: str, patience_s: float = MASTER_PATIENCE_S) -> str:
    """The address of this machine by which the master's is reached; "" where ``master`` is none that can be asked.

    PassingError when nobody answers at any of its addresses.
    """
    addresses = [connect.address(master)] if connect.is_connect(master) else []
    if master.startswith(SCHEME):
        for address in master.removeprefix(SCHEME).split(","):
            name, _, number = address.rpartition(":")
            addresses.append((name.strip("[]"), int(number)))
    failures = []
    for host, port in addresses:
        try:
            with socket.create_connection((host, port), timeout=patience_s) as probe:
                return str(probe.getsockname()[0])
        except OSError as error:
            failures.append(f"{host}:{port}: {error.strerror or error}")
    if failures:
        raise PassingError(f"{named(master)} does not answer ({'; '.join(failures)}): start it, or name another.")
    return ""


def named(master: str) -> str:
    """What it is, and where it was said."""
    what = f"server {connect.without_parameters(master)}" if connect.is_connect(master) else f"master {master}"
    return f"The Spark {what} (GLASSMQ_SPARK_MASTER)"


def parallelism(spark: "SparkSession") -> int:
    """Tasks that run at once, with the workers that there are so far."""
    if not connect.is_of_connect(spark):
        return spark.sparkContext.defaultParallelism
    from pyspark.sql import functions as F

    parts = spark.range(MOST_TASKS).select(F.spark_partition_id().alias("part"))
    last: int = parts.agg(F.max("part")).collect()[0][0]
    return last + 1


def require_workers(spark: "SparkSession", master: str, patience_s: float = WORKERS_PATIENCE_S) -> None:
    """Have tasks look whether the Python of the cluster's executors is one that the tasks can run in.

    PassingError when they have not run in time, ClusterError when an executor lacks something.
    """
    from pyspark.sql import functions as F

    over = threading.Event()
    with job_group(spark, f"look at the workers {uuid4().hex[:8]}") as jobs:

        def give_up() -> None:
            over.set()
            jobs.cancel()

        timer = threading.Timer(patience_s, give_up)
        timer.start()
        try:
            spark.range(1).count()  # ends when there is an executor: before that nobody knows what can run at once
            tasks = max(2, parallelism(spark))
            # Without Arrow, which is one of the packages that are looked for.
            looking = F.udf(look_around, "string", useArrow=False)
            found = spark.range(0, tasks, 1, tasks).select(looking("id").alias("found")).collect()
        except Exception as error:
            if over.is_set():
                raise PassingError(
                    f"{named(master)} has not carried out a few small tasks within {patience_s:g} s: it "
                    "has no worker, none with enough free cores and memory, or a very slow one."
                ) from error
            raise
        finally:
            timer.cancel()
    problem = what_is_missing({Worker.decode(row["found"]) for row in found})
    if problem:
        raise ClusterError(problem)
