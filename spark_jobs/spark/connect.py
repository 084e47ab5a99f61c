"""A Spark Connect server (``sc://…``): a Spark that runs elsewhere, for many, and is spoken to without a Java here."""

import atexit
import threading
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEME = "sc://"
PORT = 15002
PACKAGES = ("grpc", "grpc_status")
"""What speaking to a server takes beside pyspark."""
RETRIES = 4
"""How often a call is tried again when the server's machine refuses it: for 5 s in all. Left alone, pyspark goes on for
minutes."""
CLOSE_S = 4.0
"""How long a server may take to hear that a session is over."""
_ERRORS = "pyspark.errors.exceptions.connect"
_PASSING = ("SparkConnectException", "SparkConnectGrpcException", "SparkException", "UnknownException")

_open: list["SparkSession"] = []
"""This process's session, if there is one. pyspark keeps its own by thread, and goes on to do so when it has ended."""


def is_connect(master: str) -> bool:
    """Whether ``master`` is the URL of such a server."""
    return master.startswith(SCHEME)


def is_of_connect(spark: "SparkSession") -> bool:
    """Whether the session is one at such a server: it then has DataFrames and nothing beside them."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def without_parameters(url: str) -> str:
    """The URL as it may be shown: among its parameters, as in ``sc://host:443/;token=…``, may be a secret."""
    return SCHEME + url.removeprefix(SCHEME).partition("/")[0]


def address(url: str) -> tuple[str, int]:
    """(host, port) of the server."""
    parts = urlsplit(without_parameters(url))
    return parts.hostname or "", parts.port or PORT


def open_session(url: str) -> "SparkSession":
    """A session at the server. It is made there by the first thing that is asked of it."""
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client.retries import DefaultPolicy

    session = SparkSession.builder.remote(url).getOrCreate()
    _open.append(session)
    atexit.register(leave)
    cast("Any", session).client.set_retry_policies([DefaultPolicy(max_retries=RETRIES)])
    return session


def current_session() -> "SparkSession | None":
    """This process's session, if there is one that the server still has; forgets one that it has not."""
    if not _open:
        return None
    try:
        _open[0].conf.get("spark.sql.session.timeZone")
    except Exception:
        cast("Any", _open[0]).release_session_on_close = False  # nobody answers
        close_session()
        return None
    return _open[0]


def close_session() -> None:
    """End this process's session, if there is one, and what the server does for it."""
    while _open:
        _open.pop().stop()


def leave() -> None:
    """The same, for a process that ends: a server that does not answer in time is not waited for."""
    closing = threading.Thread(target=close_session, name="close the session", daemon=True)
    closing.start()
    closing.join(CLOSE_S)


def grpc_status(error: Exception) -> str:
    """The name of the status that an answer of the server has, or the lack of one; "" for other errors."""
    status = getattr(error, "getGrpcStatusCode", None)
    return "" if status is None else str(status().name)


def is_of_server(error: Exception) -> bool:
    """Whether it is an error of the server's, or of the way to it, rather than of what it was asked for."""
    return type(error).__module__ == _ERRORS and type(error).__name__ in _PASSING
