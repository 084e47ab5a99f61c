"""The program in ``go/``: built once for each state of its sources."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.compat.java_program import fingerprint, forget_old_states
from tests.compat.program import Program
from tests.compat.real_rocketmq import CannotRun, cache_folder, only_one

SOURCES = Path(__file__).resolve().parent / "go"


def program() -> Path:
    """The executable; CannotRun when there is no Go, or it fails."""
    if shutil.which("go") is None:
        raise CannotRun("not on the PATH: go")
    folder = cache_folder() / "compat-go"
    built = folder / fingerprint(SOURCES)
    with only_one(folder.with_suffix(".lock")):
        if not built.exists():
            folder.mkdir(parents=True, exist_ok=True)
            forget_old_states(folder)
            done = subprocess.run(
                ["go", "build", "-o", str(folder / "part"), "."],
                cwd=SOURCES,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            if done.returncode:
                raise CannotRun(f"go build failed:\n{done.stdout[-3000:]}")
            (folder / "part").rename(built)
    return built


def start_program(*arguments: str, seconds: float = 1800) -> Program:
    """The program, running."""
    return Program([str(program()), *arguments], seconds)


def run_cases(namesrv: str, broker: str, *words: str, parallel: int = 12) -> Iterator[dict[str, Any]]:
    """A line for each case whose name has one of the words, or for each. RuntimeError when the program fails."""
    with start_program("cases", "-namesrv", namesrv, "-broker", broker, "-parallel", str(parallel), *words) as running:
        yield from running
