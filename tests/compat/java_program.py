"""The programs in ``java/``: built once for each state of their sources, run with the jars of the real RocketMQ."""

import functools
import hashlib
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.compat.program import Program
from tests.compat.real_rocketmq import VERSION, cache_folder, jars, maven, only_one

SOURCES = Path(__file__).resolve().parent / "java"
KEPT_STATES = 5
MEASURED = ("wakeup", "race", "throughput", "pop-throughput", "transaction-throughput")
"""Programs of the benchmarks. To compile well what the others do takes longer than to do it."""
QUICK_START = "-XX:TieredStopAtLevel=1"
HEAP = ("-Xms64m", "-Xmx400m", "-XX:+UseSerialGC")


def fingerprint(folder: Path) -> str:
    """Changes when a file of the folder changes."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "target" not in path.relative_to(folder).parts:
            digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def forget_old_states(folder: Path) -> None:
    """Keep the latest of what was built there; they may be running."""
    states = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime) if folder.is_dir() else []
    for path in states[:-KEPT_STATES]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@functools.cache
def classes() -> Path:
    """The folder of compiled classes, for all of a process; CannotRun when there is no JDK or Maven, or they fail."""
    jars()
    state = fingerprint(SOURCES)
    folder = cache_folder() / "compat-java"
    with only_one(folder.with_suffix(".lock")):
        if not (folder / state).is_dir():
            shutil.rmtree(folder / "part", ignore_errors=True)
            forget_old_states(folder)
            maven("compile", f"-Dbuild.folder={folder / 'part'}", folder=SOURCES)
            (folder / "part" / "classes").rename(folder / state)
    return folder / state


def command(
    program: str, *arguments: str, home: str = "{home}", options: Iterable[str] = (), version: str = VERSION
) -> list[str]:
    """What to execute. ``options`` are the JVM's; logs and local offsets go below ``home``.

    With another ``version`` the classes that were compiled for RocketMQ 5.4.0 run with the jars of that release. A case
    that uses what the release lacks fails.
    """
    return [
        "java",
        *HEAP,
        *(() if program in MEASURED else (QUICK_START,)),
        *options,
        f"-Duser.home={home}",
        "-cp",
        f"{classes()}:{jars(version)}/*",
        "glassmq.compat.Main",
        program,
        *arguments,
    ]


def start_program(
    program: str, *arguments: str, options: Iterable[str] = (), seconds: float = 1800, version: str = VERSION
) -> Program:
    """One that runs."""
    return Program(command(program, *arguments, options=options, version=version), seconds)


def run(
    program: str, *arguments: str, options: Iterable[str] = (), seconds: float = 1800, version: str = VERSION
) -> Iterator[dict[str, Any]]:
    """The JSON lines that a program prints, as they come; RuntimeError with its last words when it fails."""
    with start_program(program, *arguments, options=options, seconds=seconds, version=version) as running:
        yield from running
