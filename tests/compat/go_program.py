"""The program in ``go/``: built once for each state of its sources."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.compat.java_program import fingerprint
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
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            done = subprocess.run(["go", "build", "-o", str(folder / "part"), "."], cwd=SOURCES,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode:
                raise CannotRun(f"go build failed:\n{done.stdout[-3000:]}")
            (folder / "part").rename(built)
    return built


def run_cases(namesrv: str, broker: str, *words: str, parallel: int = 12, seconds: float = 600,
              ) -> Iterator[dict[str, Any]]:
    """A line for each case whose name has one of the words, or for each. RuntimeError when the program fails."""
    with tempfile.TemporaryDirectory(prefix="glassmq-compat-go-", ignore_cleanup_errors=True) as home, \
            tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [str(program()), "cases", "-namesrv", namesrv, "-broker", broker, "-parallel", str(parallel), *words],
            cwd=home, env=os.environ | {"HOME": home}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
            text=True, start_new_session=True)
        assert process.stdout is not None
        limit = threading.Timer(seconds, os.killpg, (process.pid, signal.SIGKILL))
        limit.start()
        try:
            for line in process.stdout:
                yield json.loads(line)
            if process.wait():
                errors.seek(0)
                raise RuntimeError(f"the Go program ended with {process.returncode}:\n{errors.read()[-4000:]}")
        finally:
            limit.cancel()
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            process.stdout.close()
