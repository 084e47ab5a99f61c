"""The sentence for people about a job that failed, and whether another try may succeed. The log has the rest."""

import re

from spark_jobs.errors import NoSparkError, PassingError, ReportError

LONGEST = 1000
_OURS = re.compile(r"^spark_jobs\.errors\.(\w+): (.+)$", re.MULTILINE)
"""An error of ours that was raised in a task."""
_FULL = "No space left on device"
_OTHER_PYTHON = re.compile(r"\[PYTHON_VERSION_MISMATCH\]|Python in worker has different version")
_REFUSED = re.compile(r"StatusCode\.(UNAUTHENTICATED|PERMISSION_DENIED)")
_AWAY = "StatusCode.UNAVAILABLE"
_S3_PASSING = re.compile(
    r"AWS Error (NETWORK_CONNECTION|SLOW_DOWN|SERVICE_UNAVAILABLE|INTERNAL_FAILURE|REQUEST_TIMEOUT|THROTTLING)\b"
    r"|Generic S3 error: .*(error sending request|error decoding response body|response: 5\d\d|timed out)",
    re.DOTALL,
)
"""An S3 that does not answer, or is busy, as pyarrow and delta-rs say it; both have tried several times."""
_TRACEBACK = "Traceback (most recent call last)"
_RAISED = re.compile(r"^(?:: )?((?:\w+\.)*\w+(?:Error|Exception)\b(?:: .+)?)$", re.MULTILINE)
"""A line that names an exception, of a Python traceback or, after a colon, of Java."""


def sentence(error: BaseException) -> str:
    """Why a job failed, in at most LONGEST letters."""
    if isinstance(error, ReportError):
        return str(error)[:LONGEST]
    text = text_of(error)
    in_task = _OURS.search(text)
    if in_task is not None:
        return in_task[2][:LONGEST]
    if _FULL in text:
        return "There is no space left on the disk; nothing of the result was kept. Free some space, then try again."
    if _OTHER_PYTHON.search(text):
        return (
            "The cluster's Python is of another version than this machine's: set PYSPARK_PYTHON to one of the same "
            "minor version that all of its machines have."
        )
    if _REFUSED.search(text):
        return (
            "The Spark server refuses the token, or requires one. Set it with the parameter token of "
            "GLASSMQ_SPARK_MASTER, or with SPARK_CONNECT_AUTHENTICATE_TOKEN."
        )
    if _AWAY in text:
        return (
            "The Spark server does not answer. With use_ssl=true, or with a token and another host than localhost, "
            "it has to speak TLS."
        )
    if isinstance(error, ConnectionError):
        return f"Spark's Java has ended or does not answer: {error.strerror or text}."
    raised, first_line = _RAISED.findall(text), text.partition("\n")[0]
    what = raised[-1] if raised else f"{type(error).__name__}: {first_line}"
    return f"{what[:400]} (the run's log has the rest)"


def was_interrupted(error: BaseException) -> bool:
    """Whether Ctrl-C led to this error. pyspark may replace KeyboardInterrupt by the error of the cancelled job."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, KeyboardInterrupt):
        seen = seen.__context__
    return seen is not None


def is_passing(error: Exception) -> bool:
    """Whether another try may succeed.

    It may after an error of Spark, its machines or an S3, not after one of our code. If a run found that packages
    are being installed, its next try waits for them.
    """
    text = text_of(error)
    if _S3_PASSING.search(text):
        return True
    in_task = _OURS.search(text)
    if in_task is not None or isinstance(error, ReportError):
        name = in_task[1] if in_task else type(error).__name__
        return name in (PassingError.__name__, NoSparkError.__name__)
    if _FULL in text or _TRACEBACK in text or _OTHER_PYTHON.search(text) or _REFUSED.search(text):
        return False
    return isinstance(error, ConnectionError) or type(error).__module__.startswith(("py4j.", "pyspark."))


def text_of(error: BaseException) -> str:
    """What an error says; of one that a Connect server has sent also its status, such as StatusCode.UNAVAILABLE."""
    text = str(error).strip() or repr(error)
    status = getattr(error, "getGrpcStatusCode", None)
    return text if status is None else f"{text}\n{status()}"
