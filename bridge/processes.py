"""Child processes that are restarted when they end, and never outlive their parent.

This module has both ends. In the parent, ``ChildProcess`` starts a program, restarts it when it ends by itself (after
increasing pauses), and stops it. In the child, ``python -m bridge.processes PROGRAM ARGUMENTS...`` runs the program
with a pipe as standard input. The parent has the other end of that pipe and writes nothing. When the parent has ended,
in whatever way, the pipe is closed and the child ends itself. This needs no signal from the kernel, so it works the
same on Linux and macOS. A second pipe leads the other way: the child writes to it when it serves, because a program
that fails before that will probably fail again.
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

from broker_core.tasks import start_task

logger = logging.getLogger(__name__)

SERVING_PIPE = "--serving-pipe="

_PROJECT = Path(__file__).resolve().parent.parent

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
"""For a child that keeps ending before it serves: an engine that dies in recovery finds the same store again."""
LONGEST_PAUSE_AFTER_SERVING_S = 4.0
SETTLED_S = 60.0
"""After a child has run this long, the pauses before a restart begin with the shortest again."""
ORPHAN_GRACE_S = 8.0
"""How long a child may take to stop cleanly after its parent has ended."""


def next_pause(previous_s: float, ran_s: float, first_s: float = FIRST_PAUSE_S, *, served: bool = False) -> float:
    """Seconds to wait before restarting a child that ended by itself after ``ran_s``.

    ``previous_s`` is the pause before that run, 0 if there was none or if the child ended in the other state, where
    the states are serving and not yet serving.
    """
    if previous_s == 0 or ran_s >= SETTLED_S:
        return first_s
    return min(previous_s * 2, LONGEST_PAUSE_AFTER_SERVING_S if served else LONGEST_PAUSE_S)


class ChildProcess:
    """One program, kept running from ``start`` to ``stop``.

    ``program`` is ``-m NAME`` or a Python file, followed by its arguments. The child has its own process group, so
    Ctrl-C in the terminal reaches only the parent, which stops its children in the right order.
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
        """``environment`` contains the variables that differ from this process's.

        If the first run ends with exit code 1, ``on_refusal`` is called instead of a restart. A command ends with
        that code when it cannot start and has printed the reason.
        """
        self.name = name
        self._on_refusal = on_refusal
        self._program = list(program)
        self._environment = {**os.environ, **environment} if environment else None
        self._first_pause_s = first_pause_s
        self._process: Process | None = None
        self._serving_pipe = -1
        self._keeper: asyncio.Task[None] | None = None
        self._stopping = False

    @property
    def pid(self) -> int | None:
        """The running child's process id."""
        return self._process.pid if self._process and self._process.returncode is None else None

    async def start(self) -> None:
        """Start the program, and restart it whenever it ends. OSError if it cannot be started."""
        await self._spawn()
        self._keeper = start_task(self._keep_running(), f"keep {self.name}")

    async def stop(self, grace_s: float) -> None:
        """Ask the child to end (SIGTERM); after ``grace_s`` kill it and the processes it started."""
        self._stopping = True
        self.signal(signal.SIGTERM)
        process = self._process
        if process is not None and process.returncode is None:
            try:
                async with asyncio.timeout(grace_s):
                    await process.wait()
            except TimeoutError:
                logger.warning("%s did not end within %g s; killing it.", self.name, grace_s)
        self.kill()
        if self._keeper is not None:
            self._keeper.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeper
        self._take_served()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the child, if it runs."""
        if self.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the child and all processes it started."""
        self._stopping = True
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def _spawn(self) -> None:
        serving_pipe, child_end = os.pipe()
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "bridge.processes",
                f"{SERVING_PIPE}{child_end}",
                *self._program,
                stdin=PIPE,
                pass_fds=(child_end,),
                start_new_session=True,
                cwd=_PROJECT,
                env=self._environment,
            )
        except BaseException:
            os.close(serving_pipe)
            raise
        finally:
            os.close(child_end)
        os.set_blocking(serving_pipe, False)
        self._serving_pipe = serving_pipe
        if self._stopping:  # stop() was called while the child was being started
            self.kill()

    def _take_served(self) -> bool:
        """Whether the child that has ended served before that."""
        pipe, self._serving_pipe = self._serving_pipe, -1
        try:
            return bool(os.read(pipe, 1))
        except OSError:  # nothing was written, and a process that the child started still has the other end
            return False
        finally:
            if pipe >= 0:
                os.close(pipe)

    async def _keep_running(self) -> None:
        loop = asyncio.get_running_loop()
        pause_s, first_run, served_before = 0.0, True, False
        while not self._stopping and self._process is not None:
            started = loop.time()
            code = await self._process.wait()
            served = self._take_served()
            if self._stopping:
                return
            if first_run and code == 1 and self._on_refusal is not None:
                self._on_refusal()
                return
            if served != served_before:
                pause_s = 0.0
            first_run, served_before = False, served
            pause_s = next_pause(pause_s, loop.time() - started, self._first_pause_s, served=served)
            logger.error("%s ended with code %s; restarting it in %g s.", self.name, code, pause_s)
            await asyncio.sleep(pause_s)
            try:
                await self._spawn()
            except OSError:
                logger.exception("%s cannot be started.", self.name)


_parents_pipe = -1
"""In a child: the pipe for ``report_serving``; -1 if there is none."""


def report_serving() -> None:
    """Report to the parent, if it is a ``ChildProcess``, that this program serves now."""
    if _parents_pipe >= 0:
        with suppress(OSError):  # the parent has ended
            os.write(_parents_pipe, b"s")


def end_with_parent(leash: int) -> None:
    """Wait until the other end of ``leash`` is closed, then end this process: cleanly, or by force if that hangs."""
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
    """Run ``-m MODULE ...`` or ``FILE.py ...`` as ``python`` would, and end it when the parent ends.

    A first argument ``--serving-pipe=N`` is the descriptor for ``report_serving``.
    """
    if arguments[0].startswith(SERVING_PIPE):
        from bridge import processes  # this module is __main__; the program will import it under its name

        processes._parents_pipe = int(arguments[0].removeprefix(SERVING_PIPE))
        arguments = arguments[1:]
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
