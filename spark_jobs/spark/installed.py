"""Which of the packages that reports need are installed with all of their files."""

import sysconfig
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

SITE = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
"""The folders into which pip installs packages."""
DISTRIBUTIONS = {"grpc": "grpcio", "grpc_status": "grpcio-status"}
"""What packages are called that are not called as they are imported."""


def lack_of(package: str) -> str:
    """``is not installed`` or ``is only partly installed``; empty for a package that is there with all of its files.

    Wheels have the folder ``….dist-info`` at their end, so pip writes it when all other files are there. A pip that was
    killed before that leaves a package without one, which the next pip installs again. A package that pip did not
    install here, such as the pyspark of a SPARK_HOME in PYTHONPATH, needs none.
    """
    spec = find_spec(package)
    if spec is None:
        return "is not installed"
    if SITE.isdisjoint(Path(folder).parent for folder in spec.submodule_search_locations or ()):
        return ""
    try:
        distribution(DISTRIBUTIONS.get(package, package))
    except PackageNotFoundError:
        return "is only partly installed"
    return ""
