"""What the benchmarks with stock Java clients share: GlassMQ and, beside it, Apache RocketMQ 5.4.0.

With ``--compare`` both run at once, and one of them at a time: the other one is stopped meanwhile (SIGSTOP), so it
stays as warm as it is and takes nothing from the one that is measured. They alternate, RocketMQ first.
"""

import contextlib
import os
import signal
import statistics
import sys
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

from common import title

from tests.compat import java_program
from tests.compat.glassmq_broker import GlassMQ, glassmq
from tests.compat.real_rocketmq import RealRocketMQ, real_rocketmq

GLASSMQ, ROCKETMQ = "GlassMQ", "RocketMQ 5.4.0"


class Broker:
    """One that is being measured, or is stopped while another one is."""

    def __init__(self, name: str, namesrv: str, web: str, process_groups: Callable[[], list[int]]) -> None:
        self.name = name
        self.namesrv = namesrv
        self.web = web
        self._process_groups = process_groups

    def send_signal(self, number: signal.Signals) -> None:
        for group in self._process_groups():
            os.killpg(group, number)

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        """It runs until the end of the ``with``."""
        self.send_signal(signal.SIGCONT)
        try:
            yield
        finally:
            self.send_signal(signal.SIGSTOP)

    def run(self, program: str, *arguments: str) -> dict[str, Any]:
        """The one line that a Java program prints when it is done."""
        with java_program.started(program, "--namesrv", self.namesrv, *arguments, seconds=3600) as running:
            return running.line()

    def metric(self, name: str, label: str) -> float:
        """The value of a sample of GlassMQ's /metrics."""
        with urllib.request.urlopen(f"{self.web}/metrics", timeout=30) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(name + "{") and label in line:
                    return float(line.rpartition(" ")[2])
        raise LookupError(name)


def ours(running: GlassMQ) -> Broker:
    return Broker(GLASSMQ, running.address.namesrv, running.address.web, lambda: [running.pid])


def theirs(running: RealRocketMQ) -> Broker:
    return Broker(ROCKETMQ, running.namesrv.address, "", lambda: [running.broker.pid, running.namesrv.pid])


@contextlib.contextmanager
def brokers() -> Iterator[list[Broker]]:
    """GlassMQ; before it RocketMQ when the command line has ``--compare``. All are stopped until they are awoken."""
    with contextlib.ExitStack() as stack:
        found = []
        if "--compare" in sys.argv[1:]:
            found.append(theirs(stack.enter_context(real_rocketmq(stock=True))))
        found.append(ours(stack.enter_context(glassmq())))
        for broker in found:
            broker.send_signal(signal.SIGSTOP)
            stack.callback(broker.send_signal, signal.SIGCONT)
        yield found


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
