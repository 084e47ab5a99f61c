"""The client in Python beside the stock Java client, at the same broker.

    python benchmarks/client.py [--compare] [rounds=3] [seconds=5] [warmup=5] [messages=500000]

128 bytes, 4 queues. With ``--compare`` Apache RocketMQ is measured too. Each figure has its own process.
"""

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

from stock_clients import Broker, brokers, headline, in_turn, number

PROGRAM = Path(__file__).with_name("python_client.py")
PYTHON, JAVA, CPU = "Python", "Java", "Python, each second of processor time"

WAYS: dict[str, tuple[tuple[str, ...], tuple[str, ...], float]] = {
    "send, 1 task beside 1 thread": (("sync", "--tasks", "1"), ("--mode", "sync", "--threads", "1"), 0.8),
    "send, 64 tasks beside 8 threads": (("sync", "--tasks", "64"), ("--mode", "sync", "--threads", "8"), 0.8),
    "push consumer": (("push",), ("--mode", "push"), 0),
}
"""Python's arguments, Java's, and the ratio that is wanted."""
PUSH_WANTED = 40_000
WAKEUP_WANTED_US, IDLE_WANTED_PERCENT = 300, 5
WAKEUPS, IDLE_SECONDS = 2000, 30


def python(broker: Broker, *words: str) -> dict[str, Any]:
    command = [sys.executable, str(PROGRAM), *words, "--namesrv", broker.namesrv]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=3600)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def main() -> None:
    headline("The client in Python beside the stock Java client")
    figures: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    arguments = [
        word
        for name, value in (("seconds", 5), ("warmup", 5), ("messages", 500_000))
        for word in (f"--{name}", str(number(name, value)))
    ]
    with brokers() as found:
        for broker, counts in in_turn(found, number("rounds", 3)):
            for way, (ours, theirs, _) in WAYS.items():
                for client in (PYTHON, JAVA):
                    with broker.awake():
                        result = (
                            python(broker, *ours, *arguments)
                            if client == PYTHON
                            else broker.run("throughput", *theirs, *arguments)
                        )
                    if counts and client == PYTHON:
                        figures[broker.name, way, CPU].append(result["messages"] / result["cpu_seconds"])
                    if counts:
                        figures[broker.name, way, client].append(result["messages"] / result["seconds"])
        for broker in found:
            with broker.awake():
                wakeup = python(broker, "wakeup", "--messages", str(WAKEUPS))
                idle = python(broker, "idle", "--seconds", str(IDLE_SECONDS))
            print(
                f"  wake-up added by the client, {broker.name}: p50 {wakeup['p50']:.0f} us, p99 {wakeup['p99']:.0f} us"
            )
            print(f"    wanted: p50 {WAKEUP_WANTED_US} us or less")
            print(f"  {idle['queues']} idle queues, {broker.name}: {idle['percent']:.1f} % of a core")
            print(f"    wanted: under {IDLE_WANTED_PERCENT} %", flush=True)
    for broker in found:
        for way, (_, _, wanted) in WAYS.items():
            ours_rate, java_rate, by_cpu = (median(figures[broker.name, way, what]) for what in (PYTHON, JAVA, CPU))
            print(f"  {way}, {broker.name}: Python {ours_rate:,.0f}, Java {java_rate:,.0f} messages/s")
            print(f"    Python takes a second of processor time for {by_cpu:,.0f}")
            goal = f"{wanted} or more" if wanted else f"{PUSH_WANTED:,} messages/s or more from Python"
            print(f"    ratio {ours_rate / java_rate:.2f}; wanted: {goal}", flush=True)


main()
