"""The programs in ``grpc_clients/``: stock gRPC clients, with packages of their own in the cache folder."""

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.compat.java_program import HEAP, QUICK_START, forget_old_states
from tests.compat.program import Program
from tests.compat.real_rocketmq import GRPC_CLIENT, CannotRun, cache_folder, jars, only_one

CASES = Path(__file__).resolve().parent / "grpc_clients" / "cases.py"
JAVA_CASES = CASES.with_name("JavaCases.java")
REQUIREMENTS = CASES.with_name("requirements.txt")


def _run(*command: str) -> None:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise CannotRun(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}")


def python() -> str:
    """A Python that has the packages of ``REQUIREMENTS``; CannotRun when they cannot be had."""
    state = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()[:16]
    folder = cache_folder() / "compat-grpc"
    executable = folder / state / "bin" / "python"
    complete = folder / state / "complete"
    with only_one(folder.with_suffix(".lock")):
        if not complete.exists():  # an environment cannot be renamed, so its last file says that it is whole
            forget_old_states(folder)
            _run(sys.executable, "-m", "venv", "--clear", str(folder / state))
            pip = (str(executable), "-m", "pip", "--disable-pip-version-check", "install", "--no-input")
            _run(*pip, "--require-hashes", "-r", str(REQUIREMENTS))
            complete.touch()
    return str(executable)


def start_program(*arguments: str, seconds: float = 1800) -> Program:
    """The Python program, running."""
    return Program([python(), str(CASES), *arguments], seconds)


def lines(*arguments: str) -> Iterator[dict[str, Any]]:
    """The lines that it prints, as they come; RuntimeError with its last words when it fails."""
    with start_program(*arguments) as running:
        yield from running


def java_lines(endpoints: str, seconds: float = 1800) -> Iterator[dict[str, Any]]:
    """The same of the Java program, which is compiled as it starts."""
    java = ["java", *HEAP, QUICK_START, "-Duser.home={home}", "-cp", f"{jars(GRPC_CLIENT)}/*"]
    with Program([*java, str(JAVA_CASES), endpoints], seconds) as running:
        yield from running
