"""What the benchmarks with stock Java clients share: GlassMQ and, beside it, Apache RocketMQ 5.4.0.

With ``--compare`` both are there from the beginning, and one of them runs at a time: the other one is stopped meanwhile
(SIGSTOP), so it stays as warm as it is and takes nothing from the one that is measured. They alternate, each goes first
in turn, and the first round warms them up and is not counted. Both have their default options, and the clients are one
program in a new JVM each time.
"""

import contextlib
import os
import signal
import statistics
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any

from common import title

from tests.compat import java_program
from tests.compat.glassmq_broker import GlassMQ, glassmq
from tests.compat.real_rocketmq import RealRocketMQ, brokers_of, real_rocketmq

GLASSMQ, ROCKETMQ = "GlassMQ", "RocketMQ 5.4.0"
CLIENT_HEAP = ("-Xms512m", "-Xmx512m")
ROUTE_SECONDS = 60
SETTLED_SECONDS = 3.0


class Broker:
    """One that is being measured, or is stopped while another one is. ``groups`` are those of its processes."""

    def __init__(self, name: str, namesrv: str, web: str, groups: Sequence[int]) -> None:
        self.name = name
        self.namesrv = namesrv
        self.web = web
        self._groups = groups

    def send_signal(self, number: signal.Signals) -> None:
        for group in self._groups:
            os.killpg(group, number)

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        """It runs until the end of the ``with``."""
        self.send_signal(signal.SIGCONT)
        try:
            self._settle()
            yield
        finally:
            self.send_signal(signal.SIGSTOP)

    def _settle(self) -> None:
        """Wait until the name server knows the broker, and still does a little later: it forgets one that was stopped
        for two minutes, and learns of it when the broker registers again."""
        port = int(self.namesrv.rpartition(":")[2])
        known, until = 0.0, time.monotonic() + ROUTE_SECONDS
        while not known or time.monotonic() - known < SETTLED_SECONDS:
            if not brokers_of(port, "TBW102"):
                known = 0.0
            elif not known:
                known = time.monotonic()
            if time.monotonic() > until:
                raise RuntimeError(f"the name server of {self.name} does not know its broker after {ROUTE_SECONDS} s")
            time.sleep(0.1)

    def run(self, program: str, *arguments: str) -> dict[str, Any]:
        """The one line that a Java program prints. It has ended then, and its clients have gone."""
        (told,) = java_program.run(program, "--namesrv", self.namesrv, *arguments, options=CLIENT_HEAP, seconds=3600)
        return told

    def metric(self, name: str, label: str) -> float:
        """The value of a sample of GlassMQ's /metrics."""
        with urllib.request.urlopen(f"{self.web}/metrics", timeout=30) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(name + "{") and label in line:
                    return float(line.rpartition(" ")[2])
        raise LookupError(name)


def ours(running: GlassMQ) -> Broker:
    return Broker(GLASSMQ, running.address.namesrv, running.address.web, running.groups)


def theirs(running: RealRocketMQ) -> Broker:
    return Broker(ROCKETMQ, running.namesrv.address, "", [running.namesrv.pid, running.broker.pid])


@contextlib.contextmanager
def brokers() -> Iterator[list[Broker]]:
    """GlassMQ; before it RocketMQ when the command line has ``--compare``. All are stopped until they are awoken."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what is stopped would stay for ever
    with contextlib.ExitStack() as stack:
        found = []
        if "--compare" in sys.argv[1:]:
            found.append(theirs(stack.enter_context(real_rocketmq(stock=True))))
        found.append(ours(stack.enter_context(glassmq())))
        for broker in found:
            broker.send_signal(signal.SIGSTOP)
            stack.callback(broker.send_signal, signal.SIGCONT)
        yield found


def in_turn(found: list[Broker], rounds: int) -> Iterator[tuple[Broker, bool]]:
    """Each broker once in every round, and whether the round counts: the first one does not, ``rounds`` after it do."""
    for turn in range(rounds + 1):
        for broker in found if turn % 2 else reversed(found):
            yield broker, turn > 0


def number(name: str, otherwise: int) -> int:
    """``NAME=VALUE`` of the command line, or ``otherwise``."""
    for word in sys.argv[1:]:
        if word.startswith(f"{name}="):
            return int(word.partition("=")[2])
    return otherwise


def headline(text: str) -> None:
    title(text)
    if "--compare" not in sys.argv[1:]:
        print("  --compare measures Apache RocketMQ 5.4.0 in turn with it")


def compare(what: str, figures: dict[str, list[float]], unit: str, digits: int = 0) -> None:
    """Print the median of each broker's rounds, and the ratio of GlassMQ's to RocketMQ's."""
    medians = {}
    for name, rounds in figures.items():
        medians[name] = statistics.median(rounds)
        each = ", ".join(f"{value:,.{digits}f}" for value in rounds)
        print(f"  {what}, {name}: {medians[name]:,.{digits}f} {unit}  (median of {each})", flush=True)
    if ROCKETMQ in medians:
        print(f"  {what}, ratio: {medians[GLASSMQ] / medians[ROCKETMQ]:.2f}", flush=True)
