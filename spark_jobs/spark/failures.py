"""The sentence for people about a job that failed, and whether another try may succeed. The log has the rest."""

import re

from spark_jobs.errors import PassingError, ReportError

LONGEST = 1000
_FULL = "No space left on device"
_OURS = re.compile(r"^spark_jobs\.errors\.(\w+): (.+)$", re.MULTILINE)
_OTHER_PYTHON = re.compile(r"\[PYTHON_VERSION_MISMATCH\]|Python in worker has different version")
REFUSED = ("UNAUTHENTICATED", "PERMISSION_DENIED")
_OF_SERVER = {
    "UNAVAILABLE": "The Spark server does not answer. With use_ssl=true, or with a token and another host than "
    "localhost, it has to speak TLS."
} | dict.fromkeys(
    REFUSED,
    "The Spark server refuses the token that it was given, or wants one: a parameter of "
    "GLASSMQ_SPARK_MASTER, or SPARK_CONNECT_AUTHENTICATE_TOKEN.",
)
_PASSING = ("SparkConnectException", "SparkConnectGrpcException", "SparkException", "UnknownException")
_DETAILS = re.compile(r'^\s*details = "(.+)"$', re.MULTILINE)
_JAVA = re.compile(r"^: (?:\w+\.)*(\w+: .+)$", re.MULTILINE)
"""The error in a Py4JJavaError, whose first line only says that a call failed."""
_S3_PASSING = re.compile(
    r"AWS Error (NETWORK_CONNECTION|SLOW_DOWN|SERVICE_UNAVAILABLE|INTERNAL_FAILURE|REQUEST_TIMEOUT|THROTTLING)\b"
    r"|Generic S3 error: .*(error sending request|error decoding response body|response: 5\d\d|timed out)",
    re.DOTALL,
)
"""An S3 that does not answer, or is busy, as pyarrow and delta-rs say it; both have tried several times."""
_TRACEBACK = "Traceback (most recent call last)"
_RAISED = re.compile(r"^((?:\w+\.)*\w+(?:Error|Exception)\b(?:: .+)?)$", re.MULTILINE)


def sentence(error: BaseException) -> str:
    """Why a job failed, in at most LONGEST letters."""
    text = str(error).strip() or type(error).__name__
    if isinstance(error, ReportError):
        return text[:LONGEST]
    task_error = _OURS.search(text)
    if task_error is not None:
        return task_error[2][:LONGEST]
    if _FULL in text:
        where = f" of {error.filename}" if isinstance(error, OSError) and error.filename else ""
        return f"There is no space left on the disk{where}; nothing of the result was kept."
    if _OTHER_PYTHON.search(text):
        return (
            "The cluster's Python is of another version than this machine's: set PYSPARK_PYTHON to one of the same "
            "minor version that all of its machines have."
        )
    if grpc_status(error) in _OF_SERVER:
        return _OF_SERVER[grpc_status(error)]
    details = _DETAILS.search(text) if is_of_server(error) else None
    if details is not None:
        return f"The Spark server broke off: {details[1][:400]} (the run's log has the rest)"
    if isinstance(error, ConnectionError):
        return f"Spark's Java has ended or does not answer: {error.strerror or text}."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename or 'the result could not be written'}."
    raised = _RAISED.findall(text) if _TRACEBACK in text else _JAVA.findall(text)[:1]
    what = raised[-1] if raised else f"{type(error).__name__}: {text.splitlines()[0]}"
    return f"{what[:400]} (the run's log has the rest)"


def was_interrupted(error: BaseException) -> bool:
    """Whether Ctrl-C led to this error. pyspark may replace KeyboardInterrupt by the error of the cancelled job."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, KeyboardInterrupt):
        seen = seen.__context__
    return seen is not None


def is_passing(error: Exception) -> bool:
    """Whether another try may succeed.

    It may after an error of Spark, its machines or an S3, not after one of our code.
    """
    text = str(error)
    if _S3_PASSING.search(text):
        return True
    task_error = _OURS.search(text)
    if isinstance(error, ReportError) or task_error:
        return isinstance(error, PassingError) or (task_error is not None and task_error[1] == PassingError.__name__)
    if _FULL in text or _TRACEBACK in text or _OTHER_PYTHON.search(text) or grpc_status(error) in REFUSED:
        return False
    return isinstance(error, ConnectionError) or is_sparks(error)


def is_sparks(error: BaseException) -> bool:
    """Whether the error comes from Spark's Java, from its Connect server, or from the connection to one of them."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkRuntimeError
    from pyspark.errors.exceptions.captured import UnknownException

    return isinstance(error, Py4JError | PySparkRuntimeError | UnknownException) or is_of_server(error)


def grpc_status(error: BaseException) -> str:
    """The name of the status in an answer of a Connect server; "" for other errors."""
    status = getattr(error, "getGrpcStatusCode", None)
    return "" if status is None else str(status().name)


def is_of_server(error: BaseException) -> bool:
    """Whether a Connect server or the way to it failed, rather than what it was asked for."""
    return type(error).__module__ == "pyspark.errors.exceptions.connect" and type(error).__name__ in _PASSING
