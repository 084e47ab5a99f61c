"""Reports and the lake at a Spark Connect server, a process of its own, that dies in the middle.

About 30 s on two idle cores.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from spark_jobs.hosting import spark_process
from spark_jobs.hosting.spark_process import COMMAND, SparkProcess, ended
from spark_jobs.output.files import SUMMARY
from tests.fakes.ports import unused_ports
from tests.fakes.spark_cluster import SparkCluster
from tests.spark_jobs.stores import make_store, publish_end
from tests.spark_jobs.watching import Watching

pytestmark = pytest.mark.slow

RECORDS = 600


class Server:
    """A server that may be killed."""

    def __init__(self, folder: Path) -> None:
        self._processes = SparkCluster(folder)
        [self._port] = unused_ports(1)
        self.host = f"sc://localhost:{self._port}"
        self.url = f"{self.host}/;token=hush%3D%3D"

    def start(self) -> None:
        self._processes.start_connect("local[2]", self._port, "hush==")

    def kill(self) -> None:
        self._processes.kill("connect")

    def kill_all(self) -> None:
        self._processes.kill_all()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("connect"))
    try:
        made.start()
        yield made
    finally:
        made.kill_all()


@pytest.fixture(scope="module")
def process() -> Iterator[SparkProcess]:
    """Spark's process, that finds no Java: the server has its own."""
    made = SparkProcess(["env", "JAVA_HOME=/nowhere", *COMMAND])
    yield made
    made.end()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stores") / "store"
    make_store(folder, RECORDS, body=bytes(5000), segment=1 << 18)
    return folder


@pytest.fixture
def do(server: Server, process: SparkProcess, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Has one job done at the server."""

    def do(job: str, watching: Watching | None = None, *, url: str = server.url, **arguments: Any) -> dict[str, Any]:
        if job == "report":
            brokers = (
                "abcdefgh" if watching else "a"
            )  # so much that each store has a task, and the job can be stopped in between
            arguments["stores"] = [(name, str(arguments["store"])) for name in brokers]
            del arguments["store"]
        order = {
            "job": job,
            "master": url,
            "scratch": str(tmp_path / "scratch"),
            "arguments": {name: str(value) if isinstance(value, Path) else value for name, value in arguments.items()},
        }
        try:
            return process.run(order, tmp_path / "log", watching or Watching())
        finally:
            assert "hush" not in (tmp_path / "log").read_text()

    return do


@pytest.mark.torture
def test_a_report_has_the_figures_of_the_store(do: Any, driven: Path, tmp_path: Path) -> None:
    """Of the daily summary, which has a part of each of the others."""
    answer = do("report", report="daily_summary", store=driven, folder=tmp_path / "run")
    assert "done" in answer, answer
    total = json.loads((tmp_path / "run" / SUMMARY).read_text())["total"]
    known = {"messages": 8, "wakeups": 1, "holds": 3, "answers": 5, "lag": 3, "retries": 0, "late_p99_ms": 30}
    assert total | known == total
    assert None not in total.values()


@pytest.mark.parametrize(
    ("url", "said", "passing"),
    [
        ("sc://localhost:{}/;token=hush", "The Spark server refuses the token, or requires one", False),
        ("sc://127.0.0.1:{}/;token=hush%3D%3D", "it has to speak TLS", True),
    ],
    ids=["another token", "TLS"],
)
def test_a_refused_token_gives_the_reason(
    do: Any, server: Server, process: SparkProcess, store: Path, tmp_path: Path, url: str, said: str, passing: bool
) -> None:
    process.end()  # a session that there is would go on
    answer = do(
        "report",
        report="throughput",
        store=store,
        folder=tmp_path / "run",
        url=url.format(server.host.rpartition(":")[2]),
    )
    assert said in answer["failed"]
    assert (answer["passing"], "hush" in answer["failed"]) == (passing, False)


def test_a_lake_is_filled_and_a_report_reads_the_lake_and_the_rest_of_the_log(do: Any, tmp_path: Path) -> None:
    store, lakes = tmp_path / "store", tmp_path / "lakes"
    written = make_store(store, 60)
    publish_end(store, written.records[30][2])
    done = do("lake", stores=[("a", str(store))], lakes=lakes, with_bodies=False, keep_days=0)["done"]
    assert (done["messages"], done["is_all"]) == (30, True)
    assert done["result"]["a"]["ended_by"] == "safe end"
    publish_end(store, written.end)
    answer = do("report", report="throughput", store=store, folder=tmp_path / "run", lakes=lakes, needs_lake=True)
    assert answer["done"]["messages"] == 60
    summary = json.loads((tmp_path / "run" / SUMMARY).read_text())
    assert summary["inputs"][0]["lake"]["messages"] == 30
    assert summary["total"]["messages"] == 60


@pytest.mark.torture
def test_a_cancel_ends_the_job_and_its_session(
    do: Any, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_process, "END_GRACE_S", 60)
    watching = Watching(lambda: watching.give_up())
    answer = do("report", watching, report="throughput", store=store, folder=tmp_path / "run")
    assert watching.is_done
    assert answer == ended(0)
    assert watching.steps == sorted(watching.steps)
    assert not (tmp_path / "run" / SUMMARY).exists()


@pytest.mark.torture
def test_the_error_of_a_task_is_the_error_of_the_run(do: Any, store: Path, tmp_path: Path) -> None:
    mine = copytree(store, tmp_path / "mine")
    watching = Watching(lambda: mine.rename(tmp_path / "gone"))
    answer = do("report", watching, report="throughput", store=mine, folder=tmp_path / "run")
    assert watching.is_done
    assert f"does not see {mine / 'commitlog'}: the machines of a cluster need the store" in answer["failed"]
    assert not answer["passing"]


def test_a_server_that_dies_in_the_middle_is_worth_another_try(
    do: Any, server: Server, store: Path, tmp_path: Path
) -> None:
    watching = Watching(server.kill)
    answer = do("report", watching, report="throughput", store=store, folder=tmp_path / "run")
    assert watching.is_done
    assert answer["passing"]
    assert "The Spark server does not answer." in answer["failed"]
    assert not (tmp_path / "run" / SUMMARY).exists()
    away = do("report", report="throughput", store=store, folder=tmp_path / "run")
    assert away["passing"]
    assert f"Spark did not start on {server.host} (GLASSMQ_SPARK_MASTER): The Spark server does not" in away["failed"]
