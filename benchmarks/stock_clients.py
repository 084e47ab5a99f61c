"""Shared by the benchmarks with stock Java clients: GlassMQ and, for comparison, Apache RocketMQ 5.4.0.

With ``--compare`` both are started at the beginning, but only one runs at a time. The other one is stopped (SIGSTOP),
so that it stays warm and uses no processor time. They alternate, and each is first in every other round. The first
round is for warming up and does not count. Both have their default options; the clients are the same program, in a new
JVM each time.
"""

import contextlib
import os
import signal
import statistics
import sys
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
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
    """A broker that is measured, or stopped while another one is. ``groups`` are its process groups."""

    def __init__(self, name: str, namesrv: str, web: str, groups: Sequence[int]) -> None:
        self.name = name
        self.namesrv = namesrv
        self.web = web
        self._groups = groups

    def send_signal(self, number: signal.Signals) -> None:
        for group in self._groups:
            os.killpg(group, number)

    def processor_seconds(self) -> float:
        """The processor time that its processes have used so far, in seconds."""
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):  # a process that ends now
                fields = stat.read_text().rpartition(")")[2].split()
                if int(fields[2]) in self._groups:
                    ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        """Let it run until the end of the ``with`` block."""
        self.send_signal(signal.SIGCONT)
        try:
            self._settle()
            yield
        finally:
            self.send_signal(signal.SIGSTOP)

    def _settle(self) -> None:
        """Wait until the name server has the broker's route, and still has it a moment later: it removes a broker that
        was stopped for two minutes, which must then register again."""
        port = int(self.namesrv.rpartition(":")[2])
        known, until = 0.0, time.monotonic() + ROUTE_SECONDS
        while not known or time.monotonic() - known < SETTLED_SECONDS:
            if not brokers_of(port, "TBW102"):
                known = 0.0
            elif not known:
                known = time.monotonic()
            if time.monotonic() > until:
                raise RuntimeError(f"after {ROUTE_SECONDS} s the name server of {self.name} has no route to its broker")
            time.sleep(0.1)

    def run(self, program: str, *arguments: str) -> dict[str, Any]:
        """Run a Java program to its end; returns the one line that it prints, as JSON."""
        (result,) = java_program.run(program, "--namesrv", self.namesrv, *arguments, options=CLIENT_HEAP, seconds=3600)
        return result

    def metric(self, name: str, label: str) -> float:
        """The value of a sample of GlassMQ's /metrics."""
        with urllib.request.urlopen(f"{self.web}/metrics", timeout=30) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(name + "{") and label in line:
                    return float(line.rpartition(" ")[2])
        raise LookupError(name)


def ours(running: GlassMQ) -> Broker:
    return Broker(GLASSMQ, running.address.namesrv, running.address.web, running.groups)


def rocketmq_broker(running: RealRocketMQ) -> Broker:
    return Broker(ROCKETMQ, running.namesrv.address, "", [running.namesrv.pid, running.broker.pid])


@contextlib.contextmanager
def brokers() -> Iterator[list[Broker]]:
    """GlassMQ, and before it RocketMQ with ``--compare``. Each is stopped unless it is ``awake``."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # otherwise stopped processes would stay for ever
    with contextlib.ExitStack() as stack:
        found = []
        if "--compare" in sys.argv[1:]:
            found.append(rocketmq_broker(stack.enter_context(real_rocketmq(stock=True))))
        found.append(ours(stack.enter_context(glassmq())))
        for broker in found:
            broker.send_signal(signal.SIGSTOP)
            stack.callback(broker.send_signal, signal.SIGCONT)
        yield found


def in_turn(found: list[Broker], rounds: int) -> Iterator[tuple[Broker, bool]]:
    """(broker, whether the round counts): each broker once a round. The first round does not count."""
    for turn in range(rounds + 1):
        for broker in found if turn % 2 else reversed(found):
            yield broker, turn > 0


def throughput(program: str, ways: Mapping[str, Sequence[str]], wanted: float = 0) -> None:
    """Measure a Java program that prints messages and seconds, with the arguments of each of ``ways``.

    If it prints ``all`` too, the messages of its whole run, the broker's processor time of each is printed.
    ``rounds=`` on the command line is how often each runs. ``wanted``: the ratio that is the goal.
    """
    figures: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    costs: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with brokers() as found:
        for broker, counts in in_turn(found, number("rounds", 3)):
            for way, words in ways.items():
                with broker.awake():
                    began = broker.processor_seconds()
                    result = broker.run(program, *words)
                    used = broker.processor_seconds() - began
                if result["refused"]:
                    print(f"  {broker.name} refused {result['refused']:,} calls: {way}", flush=True)
                if counts:
                    figures[way][broker.name].append(result["messages"] / result["seconds"])
                if counts and "all" in result:
                    costs[way][broker.name].append(used / result["all"] * 1e6)
    for way, by_broker in figures.items():
        compare(way, by_broker, "messages/s")
        if wanted and "--compare" in sys.argv[1:]:
            print(f"    wanted: {wanted} or more", flush=True)
        if way in costs:
            compare(f"processor time of the broker, {way}", costs[way], "us a message")


def number(name: str, otherwise: int) -> int:
    """``NAME=VALUE`` of the command line, or ``otherwise``."""
    for word in sys.argv[1:]:
        if word.startswith(f"{name}="):
            return int(word.partition("=")[2])
    return otherwise


def headline(text: str) -> None:
    title(text)
    if "--compare" not in sys.argv[1:]:
        print("  --compare measures Apache RocketMQ 5.4.0 too, alternating with GlassMQ")


def compare(what: str, figures: dict[str, list[float]], unit: str, digits: int = 0) -> None:
    """Print the median of each broker's rounds, and the ratio of GlassMQ's median to RocketMQ's."""
    medians = {}
    for name, rounds in figures.items():
        medians[name] = statistics.median(rounds)
        each = ", ".join(f"{value:,.{digits}f}" for value in rounds)
        print(f"  {what}, {name}: {medians[name]:,.{digits}f} {unit}  (median of {each})", flush=True)
    if ROCKETMQ in medians:
        print(f"  {what}, ratio: {medians[GLASSMQ] / medians[ROCKETMQ]:.2f}", flush=True)
