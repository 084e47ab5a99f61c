"""What the workers of a cluster have, as a task finds it, and what of it will not do."""

import json
import logging
import socket
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

logger = logging.getLogger(__name__)

PACKAGES = ("pyarrow", "numpy", "pandas", "numba", "msgspec")
"""What the tasks import beside the sources that are sent to them."""


class Worker(NamedTuple):
    """A machine: its packages with their versions, "" for what is not installed; what Numba has against the others."""

    host: str
    packages: tuple[tuple[str, str], ...]
    complaint: str = ""

    def encode(self) -> str:
        """As a task returns it."""
        return json.dumps(self)

    @classmethod
    def decode(cls, text: str) -> "Worker":
        """The worker of which a task has told."""
        host, packages, complaint = json.loads(text)
        return cls(host, tuple((name, found) for name, found in packages), complaint)


def look_around(_: object = None) -> str:
    """What is here, encoded: Spark calls it where a task runs."""
    return Worker(socket.gethostname(), tuple((name, installed(name)) for name in PACKAGES), complaint()).encode()


def installed(package: str) -> str:
    """The package's version, "" when it is not here."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def complaint() -> str:
    """Why Numba cannot be imported although it is here: a NumPy that is newer than it knows."""
    try:
        import_module("numba")
    except ImportError as error:
        return str(error) if installed("numba") else ""
    return ""


def what_is_missing(workers: Iterable[Worker]) -> str:
    """A sentence about workers that lack a package, or ""; other versions than here are told to the log alone."""
    here = {name: installed(name) for name in PACKAGES}
    wrong: dict[str, list[str]] = {}
    for worker in sorted(workers):
        for name, found in worker.packages:
            if not found and here[name]:
                wrong.setdefault(worker.host, []).append(f"{name} is missing")
            elif found != here[name]:
                logger.warning("%s has %s %s, this machine has %s.", worker.host, name, found, here[name] or "none")
        if worker.complaint:
            wrong.setdefault(worker.host, []).append(worker.complaint.rstrip("."))
    if not wrong:
        return ""
    return (
        "Reports need packages that workers of the cluster lack ("
        + "; ".join(f"{host}: {', '.join(dict.fromkeys(what))}" for host, what in wrong.items())
        + "): install requirements/base.txt and requirements/spark.txt there, or set PYSPARK_PYTHON to a Python that "
        "has them."
    )
