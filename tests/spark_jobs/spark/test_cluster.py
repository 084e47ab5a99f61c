"""What is said of a cluster; a real one is in test_standalone_cluster."""

import socket
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.errors import ClusterError, PassingError
from spark_jobs.spark import cluster
from spark_jobs.spark.cluster import parallelism, reach_master, require_workers
from spark_jobs.spark.cluster_workers import Worker, look_around
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


def test_a_server_is_reached_and_its_token_kept_a_secret() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert reach_master(f"sc://127.0.0.1:{server.getsockname()[1]}/;token=hush") == "127.0.0.1"
    [nobody] = unused_ports(1)
    with pytest.raises(PassingError, match=rf"The Spark server sc://127\.0\.0\.1:{nobody} .*does not answer") as found:
        reach_master(f"sc://127.0.0.1:{nobody}/;use_ssl=true;token=hush")
    assert "hush" not in str(found.value)


def test_workers_that_do_not_come_in_time_are_said_not_to(spark: "SparkSession") -> None:
    with pytest.raises(PassingError, match=r"master spark://m:7077 .*has not carried out a few small tasks within 0 s"):
        require_workers(spark, "spark://m:7077", 0.0)
    assert spark.range(3).count() == 3


def test_the_workers_are_asked(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(cluster, "what_is_missing", lambda found: asked.append(found) or "They lack pyarrow.")
    with pytest.raises(ClusterError, match=r"They lack pyarrow\."):
        require_workers(spark, "spark://m:7077")
    assert asked == [{Worker.decode(look_around())}]


def test_tasks_run_on_as_many_cores_as_there_are(spark: "SparkSession") -> None:
    assert parallelism(spark) == 2
