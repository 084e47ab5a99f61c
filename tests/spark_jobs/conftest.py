"""What tests of the reports share: the store that RocketMQ wrote, and one Spark session for the whole run."""

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.conftest import JAVA_OPTIONS
from tests.fakes import golden_store
from tests.fakes.redis_server import redis_server
from tests.fakes.spark_cluster import INTERPRETED
from tests.spark_jobs import driven as driven_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["redis_server"]


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds both golden stores."""
    return golden_store.unpack(tmp_path_factory.mktemp("golden"))


@pytest.fixture(scope="module", autouse=True)
def short_lived_java() -> Iterator[None]:
    """Every Java that a test starts has JAVA_OPTIONS."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(*JAVA_OPTIONS)
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """A real Spark on two cores.

    Adaptive execution would plan each query again after each of its shuffles, though all of them have one partition.
    """
    from spark_jobs.spark.session import get_session, stop_session

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(*JAVA_OPTIONS)
        session = get_session("local[2]", tmp_path_factory.mktemp("spark"), reads_little=True)
    for name, value in INTERPRETED.items():
        session.conf.set(name, value)
    session.conf.set("spark.sql.adaptive.enabled", "false")
    session.conf.set("spark.sql.shuffle.partitions", "1")
    yield session
    stop_session()


@pytest.fixture(scope="session")
def driven(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of ``driven.story``, which has a poll journal."""
    return driven_store.story(tmp_path_factory.mktemp("driven") / "store")


class FinishedReport(NamedTuple):
    """A report that was run."""

    folder: Path
    summary: dict[str, Any]

    def table(self, name: str) -> list[dict[str, Any]]:
        """The rows of one of its tables, without their broker: it is the same in all."""
        rows: list[dict[str, Any]] = json.loads((self.folder / f"{name}.json").read_text())
        assert {row.pop("broker") for row in rows} <= {"a"}
        return rows


@pytest.fixture(scope="session")
def finished_report(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Callable[..., FinishedReport]:
    """Runs a report on a store, once for equal arguments: ``finished_report("skew", store, topic="orders")``."""
    from spark_jobs.job import BrokerStore, Job
    from spark_jobs.run import run_report

    ready: dict[str, FinishedReport] = {}

    def make(report: str, store: Path, **more: Any) -> FinishedReport:
        key = f"{report} {store} {more}"
        if key not in ready:
            folder = tmp_path_factory.mktemp("made") / report
            ready[key] = FinishedReport(
                folder,
                run_report(
                    Job(report, (BrokerStore("a", store),), folder, **more),
                    lambda _: nullcontext(spark),
                    lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
                    lambda percent, doing, until=0: None,
                ),
            )
        return ready[key]

    return make
