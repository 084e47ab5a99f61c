"""A report on a standalone Spark cluster, whose master and worker are processes that tests kill.

`make test` runs the first two tests, `make torture` all of them. Most of their time is that of starting Javas.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from spark_jobs.hosting.spark_process import COMMAND, SparkProcess, ended
from spark_jobs.job import BrokerStore, Job
from spark_jobs.output.files import SUMMARY
from spark_jobs.run import run_report
from tests.fakes.spark_cluster import SparkCluster
from tests.spark_jobs.stores import make_store
from tests.spark_jobs.watching import Watching, tables_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = 500
BROKERS = "abcdefgh"
"""All have the same store. Together they have more than 16 MiB, so each has a task, and tests can kill in between."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    made = SparkCluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.start_master()
        made.start_worker("one")
        yield made
    finally:
        made.kill_all()


@pytest.fixture(scope="module")
def process(cluster: SparkCluster) -> Iterator[SparkProcess]:
    made = SparkProcess(["env", *(f"{name}={value}" for name, value in cluster.environment.items()), *COMMAND])
    yield made
    made.end()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stores") / "store"
    make_store(folder, RECORDS, body=bytes(5000), segment=1 << 18)
    return folder


@pytest.fixture(scope="module")
def expected(spark: "SparkSession", store: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the same report makes without a cluster."""
    folder = tmp_path_factory.mktemp("local") / "run"
    stores = tuple(BrokerStore(name, store) for name in BROKERS)
    job = Job("throughput", stores, folder)
    run_report(job, lambda _: nullcontext(spark), timezone.now, lambda percent, doing, until=0: None)
    return tables_of(folder)


@pytest.fixture
def run(
    cluster: SparkCluster, process: SparkProcess, store: Path, tmp_path: Path
) -> Callable[[Watching], dict[str, Any]]:
    """Runs the report on the cluster, into ``tmp_path / "run"``."""

    def run(watching: Watching) -> dict[str, Any]:
        order = {
            "job": "report",
            "master": cluster.url,
            "scratch": str(tmp_path / "scratch"),
            "arguments": {
                "report": "throughput",
                "stores": [(name, str(store)) for name in BROKERS],
                "folder": str(tmp_path / "run"),
            },
        }
        return process.run(order, tmp_path / "log", watching)

    return run


@pytest.mark.slow
def test_the_result_is_the_one_without_a_cluster(run: Any, expected: Any, tmp_path: Path) -> None:
    watching = Watching()
    assert run(watching)["done"]["messages"] == RECORDS * len(BROKERS)
    assert tables_of(tmp_path / "run") == expected
    assert watching.steps == sorted(watching.steps)


@pytest.mark.slow
def test_an_executor_that_dies_in_the_middle_changes_nothing(
    run: Any, expected: Any, cluster: SparkCluster, tmp_path: Path
) -> None:
    """The worker starts another one."""
    watching = Watching(lambda: os.kill(cluster.executors("one")[0], signal.SIGKILL))
    answer = run(watching)
    assert watching.is_done
    assert answer["done"]["messages"] == RECORDS * len(BROKERS)
    assert tables_of(tmp_path / "run") == expected


@pytest.mark.torture
def test_a_driver_that_dies_in_the_middle_leaves_nothing_and_the_next_run_is_whole(
    run: Any, expected: Any, process: SparkProcess, tmp_path: Path
) -> None:
    watching = Watching(lambda: os.kill(process.pid or 0, signal.SIGKILL))
    answer = run(watching)
    assert watching.is_done
    assert answer == ended(-signal.SIGKILL)
    assert not (tmp_path / "run" / SUMMARY).exists()
    assert run(Watching())["done"]["messages"] == RECORDS * len(BROKERS)
    assert tables_of(tmp_path / "run") == expected


@pytest.mark.torture
def test_a_machine_that_dies_in_the_middle_changes_nothing(
    run: Any, expected: Any, cluster: SparkCluster, process: SparkProcess, tmp_path: Path
) -> None:
    cluster.start_worker("two")
    process.end()  # the next session has an executor of each
    watching = Watching(lambda: cluster.kill("two"))
    answer = run(watching)
    assert watching.is_done
    assert answer["done"]["messages"] == RECORDS * len(BROKERS)
    assert tables_of(tmp_path / "run") == expected


@pytest.mark.torture
def test_a_cancel_ends_the_driver_in_order(run: Any, process: SparkProcess, tmp_path: Path) -> None:
    watching = Watching(lambda: watching.give_up())
    assert run(watching) == ended(0)  # killed by SIGKILL, it would leave Spark's files behind
    assert watching.is_done
    assert process.pid is None
    assert not (tmp_path / "run" / SUMMARY).exists()
    assert list((tmp_path / "scratch" / "local").glob("*/*")) == []


@pytest.mark.torture
def test_an_unreachable_master_is_a_passing_failure(run: Any, cluster: SparkCluster, process: SparkProcess) -> None:
    cluster.kill("master")
    process.end()  # a session that there is would go on with the workers it has
    answer = run(Watching())
    assert answer["passing"]
    assert f"Spark did not start on {cluster.url} (GLASSMQ_SPARK_MASTER): " in answer["failed"]
