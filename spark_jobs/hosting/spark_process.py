"""The process that has the Spark session, as the report worker sees it.

A session takes seconds to start and a gigabyte to keep, and what runs in it may hang, or take its Java down. So it
lives in a child (``spark_child``), which serves run after run and is ended by policy; whatever becomes of it, the
worker is still there to say so.
"""

import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

from django.utils import timezone

from spark_jobs.hosting.spark_child import MARK

logger = logging.getLogger(__name__)

PROJECT = Path(__file__).resolve().parent.parent.parent
COMMAND = (sys.executable, "-m", "spark_jobs.hosting.spark_child")
LOOK_S = 0.1
"""How often a run is asked whether it is still wanted, and so how long a cancel takes to get through."""
END_GRACE_S = 5.0
LOG_BYTES = 1024 * 1024
"""What is kept of a run's log, from its beginning."""


class Policy(NamedTuple):
    """When a session is ended: after ``idle``, after so many runs, or above so much memory (bytes) after one.

    And when it is killed: ``cancel`` after it was asked to end what it does, and has not answered.
    """

    idle: timedelta = timedelta(minutes=10)
    runs: int = 50
    memory: int = 3 * 1024**3
    cancel: timedelta = timedelta(seconds=3)


class Watcher(Protocol):
    """Whoever wants a job's result."""

    def progress(self, percent: int, doing: str) -> None:
        """How far it is."""

    def is_wanted(self) -> bool:
        """Asked every LOOK_S; the job is cancelled when it is not wanted any more."""


class SparkProcess:
    """The child, started when there is something to do. Threads may share it: one job at a time."""

    def __init__(self, policy: Policy | None = None, command: Sequence[str] = COMMAND) -> None:
        self._policy = policy or Policy()
        self._command = command
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._log: IO[bytes] | None = None
        self._runs = 0
        self._used: datetime = timezone.now()

    @property
    def pid(self) -> int | None:
        """The child's process id, while there is one."""
        return None if self._child is None else self._child.pid

    def run(self, order: dict[str, Any], log: Path, watcher: Watcher) -> dict[str, Any]:
        """Have ``order`` carried out, what is said meanwhile written to ``log``.

        Returns ``spark_child``'s last answer, or ``{"gone": exit code}`` when the child ended without one. OSError
        when it cannot be started.
        """
        with self._lock:
            log.parent.mkdir(parents=True, exist_ok=True)
            with open(log, "ab") as self._log:
                try:
                    self._start()
                    self._send(order)
                    answer = self._follow(watcher)
                finally:
                    self._log = None
            self._settle(answer)
            return answer

    def end_if_idle(self) -> None:
        """End a child that has had nothing to do for too long."""
        if self._lock.acquire(blocking=False):
            try:
                if self._child is not None and timezone.now() - self._used >= self._policy.idle:
                    self._end()
            finally:
                self._lock.release()

    def end(self) -> None:
        """End the child, if there is one."""
        with self._lock:
            self._end()

    def _start(self) -> None:
        if self._child is not None and self._child.poll() is not None:
            self._end()
        if self._child is None:
            self._answers, self._runs = queue.SimpleQueue(), 0
            # A group of its own, so that all of it can be killed; when this process dies, standard input ends it.
            self._child = subprocess.Popen(
                self._command,
                cwd=PROJECT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            threading.Thread(
                target=self._listen, args=(self._child, self._answers), name="spark's words", daemon=True
            ).start()

    def _listen(self, child: "subprocess.Popen[bytes]", answers: "queue.SimpleQueue[dict[str, Any]]") -> None:
        """Take apart what the child says: answers, and words for the log and whoever reads the worker's output."""
        assert child.stdout is not None
        for line in child.stdout:
            words, mark, answer = line.partition(MARK.encode())
            if words:
                self._write_log(words if words.endswith(b"\n") else words + b"\n")
            if mark:
                try:
                    answers.put(json.loads(answer))
                except ValueError:
                    self._write_log(answer)
        answers.put({"gone": child.wait()})

    def _write_log(self, words: bytes) -> None:
        with suppress(OSError, ValueError):  # a log that cannot be written, or was closed a moment ago
            if self._log is not None and self._log.tell() < LOG_BYTES:
                self._log.write(words)
                self._log.flush()
        with suppress(OSError, ValueError):
            sys.stderr.write(words.decode("utf-8", "replace"))

    def _send(self, order: dict[str, Any]) -> None:
        assert self._child is not None
        assert self._child.stdin is not None
        with suppress(OSError):  # a child that has ended says so where answers are taken
            self._child.stdin.write(json.dumps(order).encode() + b"\n")
            self._child.stdin.flush()

    def _follow(self, watcher: Watcher) -> dict[str, Any]:
        """The last answer; the child is asked to stop, then made to, once the result is not wanted any more."""
        asked: datetime | None = None
        while True:
            with suppress(queue.Empty):
                answer = self._answers.get(timeout=LOOK_S)
                if "progress" not in answer:
                    return answer
                watcher.progress(*answer["progress"])
            if asked is None and not watcher.is_wanted():
                asked = timezone.now()
                self._send({"cancel": True})
            elif asked is not None and timezone.now() - asked > self._policy.cancel:
                self._kill()

    def _settle(self, answer: dict[str, Any]) -> None:
        """Keep the child for the next run, or not."""
        self._runs += 1
        self._used = timezone.now()
        if (
            "gone" in answer
            or answer.get("passing")
            or self._runs >= self._policy.runs
            or answer.get("memory", 0) > self._policy.memory
        ):
            self._end()

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        assert child.stdin is not None
        with suppress(OSError):
            child.stdin.close()
        try:
            child.wait(END_GRACE_S)
        except subprocess.TimeoutExpired:
            logger.warning("Spark's process did not end within %g s and is killed.", END_GRACE_S)
        _kill_group(child)

    def _kill(self) -> None:
        if self._child is not None:
            _kill_group(self._child)


def _kill_group(child: "subprocess.Popen[bytes]") -> None:
    """End the child and its Java, at once."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
