"""What is said of failures, as Spark words them."""

import errno

import grpc
import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkRuntimeError
from pyspark.errors.exceptions.captured import UnknownException
from pyspark.errors.exceptions.connect import SparkConnectGrpcException

from spark_jobs.errors import LakeError, NotAStoreError, PassingError
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


@pytest.mark.parametrize(
    ("error", "said", "passing"),
    [
        (PassingError("The master is away."), "The master is away.", True),
        (NotAStoreError("No log."), "No log.", False),
        (JavaError(IN_A_TASK.format("NotAStoreError")), "It is said here.", False),
        (JavaError(IN_A_TASK.format("PassingError")), "It is said here.", True),
        (JavaError(TRACEBACK), "ValueError: buffer too small (the run's log has the rest)", False),
        (
            JavaError("Job aborted due to stage failure: ExecutorLostFailure (executor 1 exited)\nmore"),
            "JavaError: Job aborted due to stage failure: ExecutorLostFailure (executor 1 exited) "
            "(the run's log has the rest)",
            True,
        ),
        (
            JavaError(
                "An error occurred while calling None.Session.\n: java.lang.IllegalStateException: Stopped.\n\tat x"
            ),
            "java.lang.IllegalStateException: Stopped. (the run's log has the rest)",
            True,
        ),
        (
            OSError(errno.ENOSPC, "No space left on device", "/data/x"),
            "There is no space left on the disk; nothing of the result was kept.",
            False,
        ),
        (LakeError(f"x cannot be read: {UNREACHABLE}."), f"x cannot be read: {UNREACHABLE}.", True),
        (
            LakeError("x cannot be read: Generic S3 error: no bucket."),
            "x cannot be read: Generic S3 error: no bucket.",
            False,
        ),
        (OSError("AWS Error SLOW_DOWN: wait"), "OSError: AWS Error SLOW_DOWN: wait (the run's log has the rest)", True),
        (OSError("AWS Error ACCESS_DENIED"), "OSError: AWS Error ACCESS_DENIED (the run's log has the rest)", False),
        (
            JavaError(TRACEBACK.replace("buffer too small", "AWS Error NETWORK_CONNECTION during GetObject operation")),
            "ValueError: AWS Error NETWORK_CONNECTION during GetObject operation (the run's log has the rest)",
            True,
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "/data/x"),
            "PermissionError: [Errno 13] Permission denied: '/data/x' (the run's log has the rest)",
            False,
        ),
        (
            RuntimeError("Python in worker has different version: 3.9 than that in driver: 3.11"),
            "The cluster's Python is of another version than this machine's: set PYSPARK_PYTHON to one of the same "
            "minor version that all of its machines have.",
            False,
        ),
        (
            PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={}),
            "PySparkRuntimeError: [JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number. "
            "(the run's log has the rest)",
            True,
        ),
        (
            Py4JNetworkError("Answer from Java side is empty"),
            "Py4JNetworkError: Answer from Java side is empty (the run's log has the rest)",
            True,
        ),
        (
            SparkConnectGrpcException("<_MultiThreadedRendezvous", grpc_status_code=grpc.StatusCode.UNAVAILABLE),
            "The Spark server does not answer. With use_ssl=true, or with a token and another host than localhost, it "
            "has to speak TLS.",
            True,
        ),
        (
            SparkConnectGrpcException("no", grpc_status_code=grpc.StatusCode.UNAUTHENTICATED),
            "The Spark server refuses the token, or requires one. Set it with the parameter token of "
            "GLASSMQ_SPARK_MASTER, or with SPARK_CONNECT_AUTHENTICATE_TOKEN.",
            False,
        ),
        (
            SparkConnectGrpcException("[INVALID_HANDLE.SESSION_NOT_FOUND] gone\nmore"),
            "SparkConnectGrpcException: [INVALID_HANDLE.SESSION_NOT_FOUND] gone (the run's log has the rest)",
            True,
        ),
        (
            ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"),
            "Spark's Java has ended or does not answer: Connection refused.",
            True,
        ),
        (ValueError("first line\nsecond line"), "ValueError: first line (the run's log has the rest)", False),
        (KeyError(), "KeyError: KeyError() (the run's log has the rest)", False),
    ],
)
def test_failures_have_a_sentence_and_may_be_passing(error: Exception, said: str, passing: bool) -> None:
    assert (sentence(error), is_passing(error)) == (said, passing)


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
