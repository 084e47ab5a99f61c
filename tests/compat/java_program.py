"""The programs in ``java/``: built once for each state of their sources, run with the jars of the real RocketMQ."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.compat.real_rocketmq import cache_folder, jars, maven, only_one

SOURCES = Path(__file__).resolve().parent / "java"
HEAP = ("-Xms64m", "-Xmx400m", "-XX:+UseSerialGC")


def fingerprint(folder: Path) -> str:
    """Changes when a file of the folder changes."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "target" not in path.relative_to(folder).parts:
            digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def classes() -> Path:
    """The folder of compiled classes; CannotRun when there is no JDK or Maven, or they fail."""
    jars()
    state = fingerprint(SOURCES)
    folder = cache_folder() / "compat-java"
    with only_one(folder.with_suffix(".lock")):
        if not (folder / state).is_dir():
            shutil.rmtree(folder, ignore_errors=True)  # other states are of no use any more
            maven("compile", f"-Dbuild.folder={folder / 'part'}", folder=SOURCES)
            (folder / "part" / "classes").rename(folder / state)
    return folder / state


def command(program: str, *arguments: str, home: str, options: Iterable[str] = ()) -> list[str]:
    """What to execute. ``options`` are the JVM's; logs and local offsets go below ``home``."""
    return ["java", *HEAP, *options, f"-Duser.home={home}", "-cp", f"{classes()}:{jars()}/*", "glassmq.compat.Main",
            program, *arguments]


def run(program: str, *arguments: str, options: Iterable[str] = (), given: str = "", seconds: float = 900,
        ) -> Iterator[dict[str, Any]]:
    """The JSON lines that a program prints, as they come; RuntimeError with its last words when it fails.

    ``given`` is its standard input. After ``seconds`` it is ended, which counts as failure.
    """
    with tempfile.TemporaryDirectory(prefix="glassmq-compat-java-", ignore_cleanup_errors=True) as home, \
            tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command(program, *arguments, home=home, options=options), cwd=home, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                                   start_new_session=True)
        assert process.stdin is not None and process.stdout is not None
        limit = threading.Timer(seconds, os.killpg, (process.pid, signal.SIGKILL))
        limit.start()
        try:
            process.stdin.write(given)
            process.stdin.close()
            for line in process.stdout:
                yield json.loads(line)
            if process.wait():
                errors.seek(0)
                raise RuntimeError(f"{program} ended with {process.returncode}:\n{errors.read()[-4000:]}")
        finally:
            limit.cancel()
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            process.stdout.close()
