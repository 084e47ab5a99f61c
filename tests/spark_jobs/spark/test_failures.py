"""What is said of failures, as Spark words them."""

import errno

import grpc
import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkRuntimeError
from pyspark.errors.exceptions.captured import UnknownException
from pyspark.errors.exceptions.connect import SparkConnectGrpcException

from spark_jobs.errors import LakeError, NoSparkError, NotAStoreError, PassingError
from spark_jobs.spark.failures import is_passing, sentence, was_interrupted

IN_A_TASK = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: Lost task 0.3
Traceback (most recent call last):
  File "worker.py", line 12, in main
spark_jobs.errors.{}: It is said here.

\tat org.apache.spark.api.python.BasePythonRunner.run(PythonRunner.scala:1)
"""
TRACEBACK = """Job aborted due to stage failure
Traceback (most recent call last):
  File "worker.py", line 12, in main
    process()
pyarrow.lib.ArrowInvalid: first
  File "other.py", line 7, in read
ValueError: buffer too small
\tat org.apache.spark.Something
"""


UNREACHABLE = (
    "Generic S3 error: Error performing GET http://b/c in 2s, after 3 retries - HTTP error: error sending request"
)


class JavaError(UnknownException):
    """One of Spark's, made without a Java."""

    __module__ = UnknownException.__module__

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text


LOST = "Job aborted due to stage failure: ExecutorLostFailure (executor 1 exited)"
STOPPED = "An error occurred while calling None.Session.\n: java.lang.IllegalStateException: Stopped.\n\tat x"
NETWORK = "AWS Error NETWORK_CONNECTION during GetObject operation"
OTHER_PYTHON = "Python in worker has different version: 3.9 than that in driver: 3.11"
NO_SESSION = "[INVALID_HANDLE.SESSION_NOT_FOUND] gone"


def refused(text: str, status: grpc.StatusCode) -> SparkConnectGrpcException:
    return SparkConnectGrpcException(text, grpc_status_code=status)


@pytest.mark.parametrize(
    ("error", "said", "passing"),
    [
        (PassingError("The master is away."), "The master is away.", True),
        (NoSparkError("Packages are being installed here."), "Packages are being installed here.", True),
        (NotAStoreError("No log."), "No log.", False),
        (JavaError(IN_A_TASK.format("NotAStoreError")), "It is said here.", False),
        (JavaError(IN_A_TASK.format("PassingError")), "It is said here.", True),
        (LakeError(f"x cannot be read: {UNREACHABLE}."), f"x cannot be read: {UNREACHABLE}.", True),
        (LakeError("x: Generic S3 error: no bucket."), "x: Generic S3 error: no bucket.", False),
        (
            OSError(errno.ENOSPC, "No space left on device", "/data/x"),
            "There is no space left on the disk; nothing of the result was kept. Free some space, then try again.",
            False,
        ),
        (
            RuntimeError(OTHER_PYTHON),
            "The cluster's Python is of another version than this machine's: set PYSPARK_PYTHON to one of the same "
            "minor version that all of its machines have.",
            False,
        ),
        (
            refused("<_MultiThreadedRendezvous", grpc.StatusCode.UNAVAILABLE),
            "The Spark server does not answer. With use_ssl=true, or with a token and another host than localhost, it "
            "has to speak TLS.",
            True,
        ),
        (
            refused("no", grpc.StatusCode.UNAUTHENTICATED),
            "The Spark server refuses the token, or requires one. Set it with the parameter token of "
            "GLASSMQ_SPARK_MASTER, or with SPARK_CONNECT_AUTHENTICATE_TOKEN.",
            False,
        ),
        (
            ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"),
            "Spark's Java has ended or does not answer: Connection refused.",
            True,
        ),
    ],
)
def test_failures_have_a_sentence_and_may_be_passing(error: Exception, said: str, passing: bool) -> None:
    assert (sentence(error), is_passing(error)) == (said, passing)


@pytest.mark.parametrize(
    ("error", "what", "passing"),
    [
        (JavaError(TRACEBACK), "ValueError: buffer too small", False),
        (JavaError(TRACEBACK.replace("buffer too small", NETWORK)), f"ValueError: {NETWORK}", True),
        (JavaError(f"{LOST}\nmore"), f"JavaError: {LOST}", True),
        (JavaError(STOPPED), "java.lang.IllegalStateException: Stopped.", True),
        (OSError("AWS Error SLOW_DOWN: wait"), "OSError: AWS Error SLOW_DOWN: wait", True),
        (OSError("AWS Error ACCESS_DENIED"), "OSError: AWS Error ACCESS_DENIED", False),
        (
            PermissionError(errno.EACCES, "Permission denied", "/data/x"),
            "PermissionError: [Errno 13] Permission denied: '/data/x'",
            False,
        ),
        (
            PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={}),
            "PySparkRuntimeError: [JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.",
            True,
        ),
        (Py4JNetworkError("Java's answer is empty"), "Py4JNetworkError: Java's answer is empty", True),
        (SparkConnectGrpcException(f"{NO_SESSION}\nmore"), f"SparkConnectGrpcException: {NO_SESSION}", True),
        (ValueError("first line\nsecond line"), "ValueError: first line", False),
        (KeyError(), "KeyError: KeyError()", False),
    ],
)
def test_other_failures_are_named(error: Exception, what: str, passing: bool) -> None:
    assert (sentence(error), is_passing(error)) == (f"{what} (the run's log has the rest)", passing)


def test_an_error_of_spark_after_ctrl_c_is_an_interruption() -> None:
    """pyspark asks for a job's result in a ``finally``. It raises the error of the cancelled job without its cause."""

    def cancel(interrupted: BaseException) -> None:
        try:
            raise interrupted
        finally:
            try:
                raise Py4JNetworkError("the job was cancelled")
            except Py4JNetworkError:
                raise PySparkRuntimeError("Exception thrown in awaitResult") from None

    for first, expected in ((KeyboardInterrupt(), True), (ValueError(), False)):
        with pytest.raises(PySparkRuntimeError) as raised:
            cancel(first)
        assert was_interrupted(raised.value) is expected
    assert was_interrupted(KeyboardInterrupt())
