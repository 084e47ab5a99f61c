"""The child process that has the Spark session (``spark_child``), as the report worker sees it.

A session takes seconds to start and a gigabyte of memory, and its jobs may hang or lose their Java. So it lives in its
own process group, which carries out one job after the other and which the worker can end at any moment.
"""

import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any

from django.utils import timezone

logger = logging.getLogger(__name__)

PROJECT = Path(__file__).resolve().parent.parent.parent
COMMAND = (sys.executable, "-m", "spark_jobs.hosting.spark_child")
LOOK_S = 0.5
"""The longest time between two calls of a job's ``Watch``."""
END_GRACE_S = 4.5
"""How long Java may take to remove its files, or the session at a Connect server to be closed."""
LOG_BYTES = 1024 * 1024
"""The size of the beginning of a job's log that is kept."""


Watch = Callable[[int, str], bool]
"""Called with a job's progress every LOOK_S or more often. Returns whether the job may go on; if not,
the child is ended."""


class SparkProcess:
    """Starts the child for the first job, and ends it when it has been idle. Carries out one job at a time."""

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self._command = command
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._used: datetime = timezone.now()

    @property
    def pid(self) -> int | None:
        """The child's process id, while there is one."""
        return None if self._child is None else self._child.pid

    def run(self, order: dict[str, Any], log: Path, watch: Watch) -> dict[str, Any]:
        """Have the child carry out a job, and write its output to ``log``.

        Returns the last answer of ``spark_child``, or that of ``ended`` if the child ended without one, for example
        because ``watch`` returned False. OSError if the child cannot be started.
        """
        with self._lock:
            log.parent.mkdir(parents=True, exist_ok=True)
            with open(log, "ab") as self._log:
                try:
                    answer = self._do(order, watch)
                except BaseException:
                    self._end()  # its answer would be taken for that of the next job
                    raise
                finally:
                    self._log = None
            self._used = timezone.now()
            if answer.get("passing"):
                self._end()
            return answer

    def end_if_idle(self, longest: timedelta) -> None:
        """End a child that has been idle for at least that time."""
        if self._lock.acquire(blocking=False):
            try:
                if timezone.now() - self._used >= longest:
                    self._end()
            finally:
                self._lock.release()

    def end(self) -> None:
        """End the child, if there is one."""
        with self._lock:
            self._end()

    def _do(self, order: dict[str, Any], watch: Watch) -> dict[str, Any]:
        if self._child is None or self._child.poll() is not None:
            self._end()
            self._start()
        assert self._child is not None
        child = self._child
        assert child.stdin is not None
        with suppress(OSError):  # the child has ended, as its missing answer says
            os.write(child.stdin.fileno(), json.dumps(order).encode() + b"\n")
        percent, doing = 0, "starting Spark"
        while True:
            with suppress(queue.Empty):
                answer = self._answers.get(timeout=LOOK_S)
                if answer is None:
                    return ended(child.wait())
                if "progress" not in answer:
                    return answer
                percent, doing = answer["progress"]
            if not watch(percent, doing):
                self._end()

    def _start(self) -> None:
        self._answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        child = subprocess.Popen(
            self._command,
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._child = child
        threading.Thread(target=read_answers, args=(child.stdout, self._answers), name="answers", daemon=True).start()
        threading.Thread(target=self._read_log, args=(child.stderr,), name="Spark's log", daemon=True).start()

    def _read_log(self, output: Iterable[bytes]) -> None:
        """Write the child's output to the log of the job under way, and to the worker's own output."""
        for line in output:
            with suppress(OSError, ValueError):  # the log was closed a moment ago, or its disk is full
                log = self._log  # None from the moment at which the job is over
                if log is not None and log.tell() < LOG_BYTES:
                    log.write(line)
                    log.flush()
            with suppress(OSError, ValueError):
                sys.stderr.write(line.decode("utf-8", "replace"))

    def _end(self) -> None:
        """End the child by SIGTERM, so that Spark removes its files, and then kill the rest of its group."""
        child, self._child = self._child, None
        if child is None:
            return
        child.terminate()
        try:
            child.wait(END_GRACE_S)
        except subprocess.TimeoutExpired:
            logger.warning("Spark's process did not end within %g s and is killed.", END_GRACE_S)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def ended(code: int) -> dict[str, Any]:
    """The answer of a child that ended with this exit code and without an answer."""
    return {"failed": f"Spark's process ended in the middle of this run (code {code}).", "passing": True}


def read_answers(output: Iterable[bytes], answers: "queue.SimpleQueue[dict[str, Any] | None]") -> None:
    """Pass on the child's answers, and None when it has ended."""
    for line in output:
        if not line.startswith(b"{"):  # printed by a package of the user's while Python starts
            logger.info("Spark's process printed %r.", line[:200])
        elif line.endswith(b"\n"):  # otherwise the child has ended in the middle of it
            answers.put(json.loads(line))
    answers.put(None)
