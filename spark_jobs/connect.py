"""A Spark Connect server (``sc://…``): a Spark that runs elsewhere, for many, and is spoken to without a Java here."""

from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEME = "sc://"
PORT = 15002
PACKAGES = ("grpc", "grpc_status")
"""What speaking to a server takes beside pyspark."""
RETRIES = 4
"""How often a call is tried again while the server is away: for 5 s in all. Left alone, pyspark goes on for minutes."""
_ERRORS = "pyspark.errors.exceptions.connect"
_PASSING = ("SparkConnectException", "SparkConnectGrpcException", "SparkException", "UnknownException")


def is_connect(master: str) -> bool:
    """Whether ``master`` is the URL of such a server."""
    return master.startswith(SCHEME)


def is_of_connect(spark: "SparkSession") -> bool:
    """Whether the session is one at such a server: it then has DataFrames and nothing beside them."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def without_parameters(url: str) -> str:
    """The URL as it may be shown: among its parameters, as in ``sc://host:443/;token=…``, may be a secret."""
    return url.partition("/;")[0]


def address(url: str) -> tuple[str, int]:
    """(host, port) of the server."""
    parts = urlsplit(without_parameters(url))
    return parts.hostname or "", parts.port or PORT


def open_session(url: str) -> "SparkSession":
    """A session at the server. It is made there by the first thing that is asked of it."""
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client.retries import DefaultPolicy

    session = SparkSession.builder.remote(url).getOrCreate()
    cast("Any", session).client.set_retry_policies([DefaultPolicy(max_retries=RETRIES)])
    return session


def current_session() -> "SparkSession | None":
    """This thread's session, if there is one that the server still has; forgets one that it has not."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        return None
    try:
        session.conf.get("spark.sql.session.timeZone")
    except Exception:
        cast("Any", session).release_session_on_close = False  # there is nobody to be told
        session.stop()
        return None
    return session


def grpc_status(error: Exception) -> str:
    """The name of the status that an answer of the server has, or the lack of one; "" for other errors."""
    return str(cast("Any", error).getGrpcStatusCode().name) if type(error).__module__ == _ERRORS and hasattr(
        error, "getGrpcStatusCode") else ""


def is_of_server(error: Exception) -> bool:
    """Whether it is an error of the server's, or of the way to it, rather than of what it was asked for."""
    return type(error).__module__ == _ERRORS and type(error).__name__ in _PASSING
