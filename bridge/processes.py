"""Child processes that are restarted while they are wanted and never outlive their parent.

Both ends are here. The parent's: ``ChildProcess`` starts a program, starts it again when it ends by itself (later
and later while it keeps ending), and stops it. The child's: ``python -m bridge.processes PROGRAM ARGUMENTS...`` runs
the program with standard input as a leash. The parent holds the other end of that pipe and writes nothing; when the
parent is gone, however it went, the pipe ends, and the child ends itself. This needs no signal from the kernel, so
it works the same on Linux and macOS.
"""

import asyncio
import logging
import os
import runpy
import signal
import sys
import threading
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from broker_core.server.tasks import start_task

logger = logging.getLogger(__name__)

_PROJECT = Path(__file__).resolve().parent.parent

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
SETTLED_S = 60.0
"""A child that has run this long has started well: if it ends then, the pauses begin anew."""
ORPHAN_GRACE_S = 8.0
"""How long a child whose parent is gone may take to end in order."""


def next_pause(previous_s: float, ran_s: float, first_s: float = FIRST_PAUSE_S) -> float:
    """Seconds to wait before the next start of a child that ended by itself after ``ran_s``; 0 is no pause before."""
    if previous_s == 0 or ran_s >= SETTLED_S:
        return first_s
    return min(previous_s * 2, LONGEST_PAUSE_S)


class ChildProcess:
    """One program, kept running from ``start`` to ``stop``.

    ``program`` is a module as ``-m NAME`` or a Python file, then its arguments. The child leads a process group of
    its own: a Ctrl-C in the terminal reaches the parent alone, which stops its children in its own order.
    """

    def __init__(
        self,
        name: str,
        program: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        first_pause_s: float = FIRST_PAUSE_S,
        on_refusal: Callable[[], None] | None = None,
    ) -> None:
        """``environment`` is what differs from this process's. ``on_refusal``: called, instead of another start, when
        the very first run ends with exit code 1. That is how a command ends that cannot start and has said why.
        """
        self.name = name
        self._on_refusal = on_refusal
        self._program = list(program)
        self._environment = {**os.environ, **environment} if environment else None
        self._first_pause_s = first_pause_s
        self._process: Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._stopping = False

    @property
    def pid(self) -> int | None:
        """The running child's process id."""
        return self._process.pid if self._process and self._process.returncode is None else None

    async def start(self) -> None:
        """Start the program and, from now on, start it again when it ends. OSError when it cannot be started."""
        await self._spawn()
        self._keeper = start_task(self._keep(), f"keep {self.name}")

    async def stop(self, grace_s: float) -> None:
        """Ask the child to end (SIGTERM); after ``grace_s`` end it and what it started."""
        self._stopping = True
        self.signal(signal.SIGTERM)
        process = self._process
        if process is not None and process.returncode is None:
            try:
                async with asyncio.timeout(grace_s):
                    await process.wait()
            except TimeoutError:
                logger.warning("%s did not end within %g s and is killed.", self.name, grace_s)
        self.kill()
        if self._keeper is not None:
            self._keeper.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeper

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the child, if it runs."""
        if self.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End the child and everything it started, at once."""
        self._stopping = True
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def _spawn(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "bridge.processes",
            *self._program,
            stdin=PIPE,
            start_new_session=True,
            cwd=_PROJECT,
            env=self._environment,
        )
        if self._stopping:  # stop() came while the child was being started
            self.kill()

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        pause_s = 0.0
        while not self._stopping and self._process is not None:
            started = loop.time()
            code = await self._process.wait()
            if self._stopping:
                return
            if pause_s == 0 and code == 1 and self._on_refusal is not None:
                self._on_refusal()
                return
            pause_s = next_pause(pause_s, loop.time() - started, self._first_pause_s)
            logger.error("%s ended with code %s and is started again in %g s.", self.name, code, pause_s)
            await asyncio.sleep(pause_s)
            try:
                await self._spawn()
            except OSError:
                logger.exception("%s cannot be started.", self.name)


def end_with_parent(leash: int) -> None:
    """Wait until the other end of ``leash`` is closed, then end this process: in order, or else at once."""
    while True:
        try:
            if not os.read(leash, 1):
                break
        except OSError:
            break
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(ORPHAN_GRACE_S)
    os.killpg(os.getpgid(0), signal.SIGKILL)


def run_program(arguments: Sequence[str]) -> None:
    """Run ``-m MODULE ...`` or ``FILE.py ...`` as ``python`` itself would, on a leash."""
    threading.Thread(target=end_with_parent, args=(sys.stdin.fileno(),), name="leash", daemon=True).start()
    if arguments[0] == "-m":
        sys.argv = list(arguments[1:])
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(arguments)
        runpy.run_path(arguments[0], run_name="__main__")


def main() -> NoReturn:
    """The child's end."""
    if len(sys.argv) < 2:
        sys.exit("usage: python -m bridge.processes (-m MODULE | FILE.py) [ARGUMENTS...]")
    run_program(sys.argv[1:])
    sys.exit(0)


if __name__ == "__main__":
    main()
