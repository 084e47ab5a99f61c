"""What the long proofs share: their one line of figures, the state of a broker's processes, and HTTP clients.

A proof is ``python -m tests.torture.NAME``; ``make torture`` runs all of them in full, ``test_proofs.py`` a few seconds
of each. It prints one line of JSON. When something did not hold, its exit code is 1 and it prints how to repeat it.
"""

import argparse
import datetime
import json
import shlex
import signal
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from benchmarks.common import machine
from tests.compat.glassmq_broker import GlassMQ

SHOWN_VIOLATIONS = 20
SLACK = {"anonymous_kib": 8 * 1024, "descriptors": 8, "threads": 4}
"""By how much a broker may grow that does the same all the time."""


class Proof:
    """One run of a proof: its figures, and what did not hold."""

    def __init__(self, name: str, arguments: argparse.Namespace, module: str = "") -> None:
        self.figures: dict[str, Any] = {}
        self.violations: list[str] = []
        self._name = name
        self._module = module or f"tests.torture.{name}"
        self._arguments = vars(arguments)
        self._began = time.monotonic()
        # brokers are in sessions of their own: ended by a signal, the proof would leave them behind
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
        self._date = datetime.datetime.now(datetime.UTC).date().isoformat()

    def check(self, holds: bool, violation: str) -> None:
        """Record a violation unless it ``holds``."""
        if not holds:
            self.violations.append(violation)
            print(f"VIOLATION: {violation}", file=sys.stderr, flush=True)

    def check_log(self, broker: GlassMQ) -> None:
        """The broker's log has no traceback."""
        output = broker.output
        self.check("Traceback" not in output, f"the log has an exception:\n{output[-3000:]}")

    def check_flat(self, samples: Sequence[Mapping[str, float]], slack: Mapping[str, float]) -> None:
        """Compare the medians of the first and the last third of the samples behind a warm-up, their first fifth.

        ``slack`` says by how much each may grow; memory may also grow by a twentieth. Both medians are figures.
        """
        settled = samples[len(samples) // 5 :]
        third = max(1, len(settled) // 3)
        for name, allowed in slack.items():
            first = statistics.median(sample[name] for sample in settled[:third])
            last = statistics.median(sample[name] for sample in settled[-third:])
            self.figures[name] = [first, last]
            if name == "anonymous_kib":
                allowed = max(allowed, first / 20)
            self.check(last - first <= allowed, f"{name} grew from {first} to {last}")
        self.figures["samples"] = len(samples)

    def finish(self) -> int:
        """Print the line of figures; returns the exit code."""
        line = {
            "proof": self._name,
            "holds": not self.violations,
            **{name: value for name, value in self._arguments.items() if not isinstance(value, Path)},
            **self.figures,
            "violations": self.violations[:SHOWN_VIOLATIONS],
            "date": self._date,
            "took_s": round(time.monotonic() - self._began, 1),
            "machine": machine(),
        }
        print(json.dumps(line), flush=True)
        if not self.violations:
            return 0
        words = [word for name, value in self._arguments.items() for word in (f"--{name.replace('_', '-')}", value)]
        again = shlex.join(["python", "-m", self._module, *map(str, words)])
        print(f"{len(self.violations)} violations. Repeat with: {again}", file=sys.stderr)
        return 1


class ProcessState(NamedTuple):
    """What a process uses. ``descriptors`` leaves out the files of the broker's data folder."""

    anonymous_kib: int
    """Memory that is no file's: mapped segments of the log come and go as the system likes."""
    resident_kib: int
    descriptors: int
    threads: int


def process_state(pid: int, data: Path) -> ProcessState:
    """Read it from /proc. OSError when there is no such process."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    descriptors = 0
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            descriptors += not str(link.readlink()).startswith(str(data))
        except FileNotFoundError:  # closed in the meantime
            continue
    return ProcessState(
        anonymous_kib=int(status["RssAnon"].split()[0]),
        resident_kib=int(status["VmRSS"].split()[0]),
        descriptors=descriptors,
        threads=int(status["Threads"]),
    )


def broker_state(broker: GlassMQ, folder: Path) -> ProcessState:
    """The sums of all processes of the broker."""
    states = [process_state(pid, folder / "data") for pid in broker.processes]
    return ProcessState(*map(sum, zip(*states, strict=True)))


def metrics(broker: GlassMQ) -> dict[str, float]:
    """The samples of /metrics, by name and labels as they are written there."""
    with urllib.request.urlopen(f"{broker.address.web}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


@contextmanager
def running(*options: str) -> Iterator[tuple[GlassMQ, Path]]:
    """A broker that serves, and its folder, which goes away. ``options`` are lines of its broker.conf."""
    with tempfile.TemporaryDirectory(prefix="glassmq-torture-", ignore_cleanup_errors=True) as name:
        broker = GlassMQ(Path(name), options=options)
        try:
            broker.start()
            yield broker, Path(name)
        finally:
            broker.stop()


def http_client(broker: GlassMQ) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=broker.address.web,
        timeout=60,
        trust_env=False,
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
    )


def parser(text: str, **defaults: Any) -> argparse.ArgumentParser:
    """Options of a proof with their defaults, ``--seed`` among them."""
    made_of = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in {"seed": 1, **defaults}.items():
        made_of.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    return made_of
