"""What tests of the reports share: the store that RocketMQ wrote, and one Spark session for the whole run."""

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import PROJECT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the golden store's archive."""
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(PROJECT / "tests" / "golden" / "rocketmq-5.4.0-store.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    found = next(folder.rglob("clean-shutdown"))
    return found.parent


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """A real Spark on two cores."""
    from spark_jobs.session import get_session, stop_session

    yield get_session("local[2]", tmp_path_factory.mktemp("spark"))
    stop_session()
