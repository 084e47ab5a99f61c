"""What is said of a job that failed, and whether another try may end otherwise. The log has the rest."""

import re

from spark_jobs.errors import PassingError, ReportError
from spark_jobs.spark.connect import grpc_status, is_of_server

LONGEST = 1000
_FULL = "No space left on device"
_OURS = re.compile(r"^spark_jobs\.errors\.(\w+): (.+)$", re.MULTILINE)
_OTHER_PYTHON = re.compile(r"\[PYTHON_VERSION_MISMATCH\]|Python in worker has different version")
REFUSED = ("UNAUTHENTICATED", "PERMISSION_DENIED")
_OF_SERVER = {
    "UNAVAILABLE": "The Spark server (GLASSMQ_SPARK_MASTER) does not answer any more.",
} | dict.fromkeys(
    REFUSED,
    "The Spark server refuses the token that it was given, or wants one: a parameter of "
    "GLASSMQ_SPARK_MASTER, or SPARK_CONNECT_AUTHENTICATE_TOKEN.",
)
_DETAILS = re.compile(r'^\s*details = "(.+)"$', re.MULTILINE)
_TRACEBACK = "Traceback (most recent call last)"
_RAISED = re.compile(r"^((?:\w+\.)*\w+(?:Error|Exception)\b(?:: .+)?)$", re.MULTILINE)


def sentence(error: Exception) -> str:
    """Why it failed, for the reader."""
    text = str(error).strip() or type(error).__name__
    if isinstance(error, ReportError):
        return text[:LONGEST]
    said_in_a_task = _OURS.search(text)
    if said_in_a_task is not None:
        return said_in_a_task[2][:LONGEST]
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
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename or 'the result could not be written'}."
    raised = _RAISED.findall(text) if _TRACEBACK in text else []
    what = raised[-1] if raised else f"{type(error).__name__}: {text.splitlines()[0]}"
    return f"{what[:400]} (the run's log has the rest)"


def is_passing(error: Exception) -> bool:
    """Whether it is worth another try: what Spark and its machines say is, what the job's own code says is not."""
    text = str(error)
    said_in_a_task = _OURS.search(text)
    if isinstance(error, ReportError) or said_in_a_task:
        return isinstance(error, PassingError) or (
            said_in_a_task is not None and said_in_a_task[1] == PassingError.__name__
        )
    if _FULL in text or _TRACEBACK in text or _OTHER_PYTHON.search(text) or grpc_status(error) in REFUSED:
        return False
    return isinstance(error, ConnectionError) or is_sparks(error)


def is_sparks(error: Exception) -> bool:
    """Whether Spark's Java or its server, or the way to it, is where the error comes from."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkRuntimeError
    from pyspark.errors.exceptions.captured import UnknownException

    return isinstance(error, Py4JError | PySparkRuntimeError | UnknownException) or is_of_server(error)
