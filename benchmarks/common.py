"""Shared by the benchmarks: an engine in its own folder, a broker in its own process, printing figures."""

import contextlib
import os
import platform
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from broker_core.clock import SystemClock  # noqa: E402
from broker_core.engine import Engine  # noqa: E402
from broker_core.formats.message_id import UniqKeyGenerator  # noqa: E402
from broker_core.options import Options  # noqa: E402
from broker_core.store.files import RealFiles  # noqa: E402


def machine() -> str:
    """The machine and interpreter, in one line."""
    model = "unknown processor"
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return f"{os.cpu_count()} x {model}, {platform.system()} {platform.release()}, Python {platform.python_version()}"


def title(text: str) -> None:
    print(f"\n{text}\n  on {machine()}, load {os.getloadavg()[0]:.1f}", flush=True)


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that is not exceeded by a ``part`` (0 to 1) of all values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def spread(name: str, values: Sequence[float], unit: str) -> None:
    print(
        f"  {name}: p50 {percentile(values, 0.5):,.1f}  p99 {percentile(values, 0.99):,.1f}  "
        f"max {max(values):,.1f} {unit}  ({len(values):,} samples)",
        flush=True,
    )


def median_of(name: str, runs: Sequence[float], unit: str, digits: int = 0) -> float:
    """Print the median of several runs and each run; return the median."""
    middle = statistics.median(runs)
    each = ", ".join(f"{value:,.{digits}f}" for value in runs)
    print(f"  {name}: {middle:,.{digits}f} {unit}  (median of {each})", flush=True)
    return middle


@contextlib.contextmanager
def engine(**options: Any) -> Iterator[Engine]:
    """An engine on the real disk and the real clock, in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="glassmq-bench-") as folder:
        keys = UniqKeyGenerator("127.0.0.1", os.getpid(), random.Random(1))
        opened = Engine.open(Path(folder) / "store", Options(**options), RealFiles(), SystemClock(), keys.next)
        try:
            yield opened
        finally:
            opened.close(SystemClock().now())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def broker(
    *arguments: str, data: Path | None = None, **environment: str
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """``manage.py broker`` in its own process, ready: (port, process)."""
    with contextlib.ExitStack() as stack:
        folder = data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="glassmq-bench-")))
        port = free_port()
        env = (
            os.environ
            | {"GLASSMQ_DATA_DIR": str(folder), "GLASSMQ_WEB_PORT": str(port), "GLASSMQ_BROKER_PORT": str(free_port())}
            | {"GLASSMQ_NAMESRV_PORT": "0"}
            | environment
        )
        log = stack.enter_context((folder / "bench.log").open("wb"))
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "manage.py"), "broker", "--no-schedules", *arguments],
            env=env,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            wait_ready(port, process, folder / "bench.log")
            yield port, process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(20)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def wait_ready(port: int, process: subprocess.Popen[bytes], log: Path, seconds: float = 60) -> float:
    """Seconds until /readyz answers 200. RuntimeError with the log if the process ends first."""
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        if process.poll() is not None:
            raise RuntimeError(f"the broker ended with {process.returncode}:\n{log.read_text()[-4000:]}")
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1):
            return time.perf_counter() - began
        time.sleep(0.02)
    raise RuntimeError(f"the broker was not ready in {seconds} s:\n{log.read_text()[-4000:]}")
