"""What tests of the reports share: the store that RocketMQ wrote, and one Spark session for the whole run."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fakes import golden_store
from tests.fakes.redis_server import redis_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["redis_server"]


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds both golden stores."""
    return golden_store.unpack(tmp_path_factory.mktemp("golden"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """A real Spark on two cores."""
    from spark_jobs.session import get_session, stop_session

    yield get_session("local[2]", tmp_path_factory.mktemp("spark"))
    stop_session()
