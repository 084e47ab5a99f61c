"""What is said of a cluster; a real one is in test_standalone_cluster."""

import socket
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs import cluster
from spark_jobs.cluster import Worker, look_around, reach_master, require_workers, what_is_missing
from spark_jobs.errors import ClusterError, PassingError
from tests.fakes.ports import unused_ports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_master_is_reached_at_any_of_its_addresses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        [nobody] = unused_ports(1)
        port = server.getsockname()[1]
        assert reach_master(f"spark://127.0.0.1:{nobody},127.0.0.1:{port}") == "127.0.0.1"
    assert reach_master("yarn") == ""


def test_a_master_that_is_away_is_said_to_be() -> None:
    [nobody] = unused_ports(1)
    with pytest.raises(PassingError, match=rf"spark://127\.0\.0\.1:{nobody} .*does not answer.*Connection refused"):
        reach_master(f"spark://127.0.0.1:{nobody}")
    with pytest.raises(PassingError, match="no-such-host"):
        reach_master("spark://no-such-host.invalid:7077")


def test_a_master_that_gives_no_executor_is_said_to_do_so() -> None:
    status = SimpleNamespace(size=lambda: 1)
    context = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: SimpleNamespace(getExecutorMemoryStatus=lambda: status)))
    with pytest.raises(PassingError, match=r"has given no executor within 0\.4 s"):
        require_workers(SimpleNamespace(sparkContext=context), "spark://m:7077", 0.4)  # type: ignore[arg-type]


def test_what_is_here_is_found() -> None:
    here = look_around()
    assert here.host == socket.gethostname()
    assert set(dict(here.packages)) == set(cluster.PACKAGES)
    assert all(dict(here.packages).values())


def test_workers_that_lack_something_are_named(caplog: pytest.LogCaptureFixture) -> None:
    here = look_around()
    assert what_is_missing([here]) == ""
    bare = Worker("host-b", here.python, tuple((name, "" if name in ("numpy", "pyarrow") else found)
        for name, found in here.packages))
    assert "(host-b: numpy, pyarrow)" in what_is_missing([here, bare, bare])
    older = Worker("host-c", here.python, tuple((name, "1.0") for name, _ in here.packages))
    assert what_is_missing([older]) == ""
    assert "host-c has pyarrow 1.0" in caplog.text


def test_the_workers_are_asked(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(cluster, "what_is_missing", lambda found: asked.append(found) or "They lack pyarrow.")
    status = SimpleNamespace(size=lambda: 2)
    jsc = SimpleNamespace(sc=lambda: SimpleNamespace(getExecutorMemoryStatus=lambda: status))
    context = SimpleNamespace(_jsc=jsc, setJobGroup=spark.sparkContext.setJobGroup, defaultParallelism=2,
        parallelize=spark.sparkContext.parallelize)
    with pytest.raises(ClusterError, match=r"They lack pyarrow\."):
        require_workers(SimpleNamespace(sparkContext=context), "spark://m:7077")  # type: ignore[arg-type]
    assert asked == [{look_around()}]
