"""bridge/processes.py with real children."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bridge.processes import FIRST_PAUSE_S, LONGEST_PAUSE_S, SETTLED_S, ChildProcess, next_pause
from tests.conftest import PROJECT

SAY_AND_WAIT = """
import os, sys, time
with open(sys.argv[1], "a") as file:
    file.write(f"{os.getpid()}\\n")
time.sleep(60)
"""
STUBBORN = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SAY_AND_WAIT
PARENT = """
import asyncio, sys
from bridge.processes import ChildProcess
async def main():
    await ChildProcess("child", sys.argv[1:]).start()
    await asyncio.sleep(60)
asyncio.run(main())
"""


class Program:
    """A Python file that writes its process id to another file, one line for each start."""

    def __init__(self, folder: Path, text: str = SAY_AND_WAIT) -> None:
        self._script = folder / "program.py"
        self._script.write_text(text)
        self._pids = folder / "pids"
        self._pids.touch()
        self.command = [str(self._script), str(self._pids)]

    def pids(self) -> list[int]:
        return [int(line) for line in self._pids.read_text().splitlines()]

    async def started(self, times: int) -> list[int]:
        """Wait until the program has been started this many times."""
        async with asyncio.timeout(60):
            while len(self.pids()) < times:
                await asyncio.sleep(0.01)
        return self.pids()


async def until_ended(pid: int) -> None:
    """Wait until there is no such process (a zombie is none)."""
    async with asyncio.timeout(60):
        while runs(pid):
            await asyncio.sleep(0.01)


def runs(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")


def test_pauses_double_up_to_a_limit_and_start_over_after_a_good_run() -> None:
    assert next_pause(0, ran_s=0) == FIRST_PAUSE_S
    assert next_pause(FIRST_PAUSE_S, ran_s=1) == 2 * FIRST_PAUSE_S
    assert next_pause(LONGEST_PAUSE_S, ran_s=1) == LONGEST_PAUSE_S
    assert next_pause(LONGEST_PAUSE_S, ran_s=SETTLED_S) == FIRST_PAUSE_S
    assert next_pause(0, ran_s=0, first_s=0.5) == 0.5


def test_pauses_of_a_child_that_served_stay_short() -> None:
    """An engine that dies in recovery meets the same store again; one that served does not."""
    pause, pauses = 0.0, []
    for _ in range(6):
        pause = next_pause(pause, ran_s=1, served=True)
        pauses.append(pause)
    assert pauses == [1, 2, 4, 4, 4, 4]


async def test_pauses_start_over_when_a_child_ends_for_another_cause(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It fails twice before it serves, then twice while it serves."""
    program = Program(
        tmp_path,
        "from bridge.processes import report_serving\n"
        + SAY_AND_WAIT.replace(
            "time.sleep(60)",
            "starts = len(open(sys.argv[1]).readlines())\n"
            "if starts > 2: report_serving()\n"
            "if starts > 4: time.sleep(60)\n"
            "sys.exit(3)",
        ),
    )
    child = ChildProcess("The child", program.command, first_pause_s=0.001)
    await child.start()
    await program.started(5)
    await child.stop(grace_s=30)
    pauses = [float(record.getMessage().split(" in ")[1].split(" s.")[0]) for record in caplog.records]
    assert pauses == [0.001, 0.002, 0.001, 0.002]


async def test_a_child_that_ends_with_code_1_later_is_restarted(tmp_path: Path) -> None:
    """Only the first run can be a refusal, also when the pauses start over."""
    program = Program(
        tmp_path,
        "from bridge.processes import report_serving\n"
        + SAY_AND_WAIT.replace(
            "time.sleep(60)",
            "starts = len(open(sys.argv[1]).readlines())\n"
            "if starts == 1: report_serving(); sys.exit(3)\n"
            "if starts > 2: time.sleep(60)\n"
            "sys.exit(1)",
        ),
    )
    child = ChildProcess("child", program.command, first_pause_s=0.001, on_refusal=lambda: pytest.fail("refused"))
    await child.start()
    await program.started(3)
    await child.stop(grace_s=30)


async def test_a_child_runs_until_it_is_stopped(tmp_path: Path) -> None:
    program = Program(tmp_path)
    child = ChildProcess("child", program.command)
    await child.start()
    [pid] = await program.started(1)
    assert child.pid == pid
    await child.stop(grace_s=30)
    assert child.pid is None
    assert not runs(pid)
    assert program.pids() == [pid]


async def test_a_child_that_ends_by_itself_is_restarted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    program = Program(tmp_path)
    child = ChildProcess("The child", program.command, first_pause_s=0.01)
    await child.start()
    [first] = await program.started(1)
    os.kill(first, signal.SIGKILL)
    second = (await program.started(2))[1]
    await child.stop(grace_s=30)
    assert not runs(second)
    assert "The child ended with code -9" in caplog.text


async def test_a_child_that_does_not_end_is_killed_with_its_children(tmp_path: Path) -> None:
    grandchild = "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    inner = Program(tmp_path, STUBBORN.replace("import os", grandchild + "import os", 1))
    child = ChildProcess("child", inner.command)
    await child.start()
    [pid] = await inner.started(1)
    [below] = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=True).stdout.split()
    await child.stop(grace_s=0.05)
    await until_ended(pid)
    await until_ended(int(below))


async def test_a_child_that_refuses_to_start_is_not_restarted(tmp_path: Path) -> None:
    program = Program(tmp_path, SAY_AND_WAIT.replace("time.sleep(60)", "sys.exit(1)"))
    refused = asyncio.Event()
    child = ChildProcess("child", program.command, first_pause_s=0, on_refusal=refused.set)
    await child.start()
    async with asyncio.timeout(60):
        await refused.wait()
    await child.stop(grace_s=1)
    assert len(program.pids()) == 1


async def test_stop_before_start_does_nothing() -> None:
    child = ChildProcess("child", ["nothing.py"])
    await child.stop(grace_s=1)
    assert child.pid is None


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_child_ends_with_its_parent(tmp_path: Path, number: signal.Signals) -> None:
    program = Program(tmp_path)
    parent = subprocess.Popen([sys.executable, "-c", PARENT, *program.command], cwd=PROJECT)
    [pid] = await program.started(1)
    parent.send_signal(number)
    parent.wait()
    await until_ended(pid)


def test_a_module_runs_as_with_python(tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text('{"a": 1}')
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "bridge.processes",
            "-m",
            "json.tool",
            "--compact",
            str(tmp_path / "in.json"),
            str(tmp_path / "out.json"),
        ],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
    ) as process:
        assert process.wait(timeout=30) == 0
    assert (tmp_path / "out.json").read_text().strip() == '{"a":1}'


def test_without_a_program_the_usage_is_printed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bridge.processes"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 1
    assert "usage" in done.stderr
