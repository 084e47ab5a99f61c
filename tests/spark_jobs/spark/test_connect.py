"""The URLs of Spark Connect servers, and their errors; a real server is in test_connect_server."""

import grpc
import pytest
from pyspark.errors import PySparkValueError
from pyspark.errors.exceptions.connect import AnalysisException, SparkConnectException, SparkConnectGrpcException

from spark_jobs.spark.connect import address, grpc_status, is_connect, is_of_connect, is_of_server, without_parameters


@pytest.mark.parametrize(
    ("url", "shown", "found"),
    [
        ("sc://spark", "sc://spark", ("spark", 15002)),
        ("sc://spark.example:443/;use_ssl=true;token=hush", "sc://spark.example:443", ("spark.example", 443)),
        ("sc://[::1]:7/;token=a/;b", "sc://[::1]:7", ("::1", 7)),
        ("sc://spark/", "sc://spark", ("spark", 15002)),
    ],
)
def test_urls(url: str, shown: str, found: tuple[str, int]) -> None:
    assert is_connect(url)
    assert without_parameters(url) == shown
    assert address(url) == found


def test_other_masters_are_no_servers() -> None:
    assert not any(is_connect(master) for master in ("local[*]", "spark://sc:7077", "yarn", "k8s://sc://a"))


def test_a_session_of_its_own_is_none_of_a_servers(spark: object) -> None:
    assert not is_of_connect(spark)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "status", "is_servers"),
    [
        (SparkConnectGrpcException("away", grpc_status_code=grpc.StatusCode.UNAVAILABLE), "UNAVAILABLE", True),
        (SparkConnectException("no session"), "", True),
        (AnalysisException("no such column"), "UNKNOWN", False),
        (PySparkValueError("no"), "", False),
        (ValueError("no"), "", False),
    ],
)
def test_errors(error: Exception, status: str, is_servers: bool) -> None:
    assert (grpc_status(error), is_of_server(error)) == (status, is_servers)
