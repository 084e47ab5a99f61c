"""A stock client's program as a process of its own: lines of JSON come out, lines of text go in."""

import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any


class Program:
    """Iterate over the lines that it prints, as they come. It is ended with the ``with``, or after ``seconds``.

    ``command`` is executed in a folder of its own, which goes away and stands where it says ``{home}``.
    """

    def __init__(self, command: list[str], seconds: float) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="glassmq-compat-", ignore_cleanup_errors=True)
        home = self._home.name
        self._errors = (Path(home) / "errors").open("w+")
        self._name = Path(command[0]).name
        self._process = subprocess.Popen(
            [word.replace("{home}", home) for word in command],
            cwd=home,
            env=os.environ | {"HOME": home},
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._limit = threading.Timer(seconds, self._kill)
        self._limit.start()

    def _kill(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    def __enter__(self) -> "Program":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._limit.cancel()
        self._kill()
        self._process.communicate()
        self._errors.close()
        self._home.cleanup()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """RuntimeError with its last words when it fails, which its end by ``seconds`` is too."""
        for line in self._output:
            yield json.loads(line)
        if self._process.wait():
            raise self._failure()

    def line(self) -> dict[str, Any]:
        """The next line; RuntimeError when it ends instead."""
        for line in self:
            return line
        raise self._failure()

    def write_line(self, line: str) -> None:
        """Write a line to its standard input."""
        self._input.write(line + "\n")
        self._input.flush()

    def _failure(self) -> RuntimeError:
        self._process.wait()
        self._errors.seek(0)
        return RuntimeError(f"{self._name} ended with {self._process.returncode}:\n{self._errors.read()[-4000:]}")


@contextmanager
def running_client(command: list[str], home: str) -> Iterator[None]:
    """A stock client that consumes until the end."""
    process = subprocess.Popen(
        command, cwd=home, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    assert process.stdin is not None
    try:
        yield
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
