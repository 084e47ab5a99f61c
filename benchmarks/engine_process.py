"""Wake-ups of an engine in the web process and in its own process, under a busy dashboard.

    python benchmarks/engine_process.py

Busy: three pages read event streams, and two clients request the dashboard's page and the list of holds without pause,
so that Django and the API always work. Rule: if the engine's wake-up p99 in the web process is more than 1.5 times
that in its own process, the engine runs in its own process.
"""

import asyncio
import contextlib
import statistics
import threading
import time
import urllib.request

from common import broker, percentile, title
from web import ask, pull, socket, wait_for
from websockets.asyncio.client import connect

ROUNDS = 400
RUNS = 3


async def watch(port: int) -> None:
    async with connect(f"ws://127.0.0.1:{port}/ws/v1/events", max_size=None) as events:
        async for _ in events:
            pass


def visit(port: int, path: str, enough: threading.Event) -> None:
    while not enough.is_set():
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10).read()


async def wakeups(port: int, busy: bool) -> tuple[list[float], list[float]]:
    """Microseconds: (measured by the client, measured by the engine)."""
    tasks = []
    enough = threading.Event()
    if busy:
        tasks = [asyncio.create_task(watch(port)) for _ in range(3)]
        tasks += [asyncio.create_task(asyncio.to_thread(visit, port, path, enough)) for path in ("/", "/api/v1/holds")]
        await asyncio.sleep(1)
    consumer, producer = await socket(port), await socket(port)
    publish = {"type": "publish", "id": 0, "topic": "busy", "body": "x" * 128, "queue_id": 0}
    offset = (await ask(producer, publish, "published"))["messages"][0]["queue_offset"] + 1
    seen, inside = [], []
    for n in range(ROUNDS):
        await ask(consumer, pull(n, "busy", offset), "held")
        began = time.perf_counter()
        await ask(producer, publish | {"id": n + 1}, "published")
        pulled = await wait_for(consumer, "pulled")
        seen.append((time.perf_counter() - began) * 1e6)
        inside.append(pulled["hold"]["wake_us"])
        offset += 1
    enough.set()
    for task in tasks:
        task.cancel()
    await consumer.close()
    await producer.close()
    return seen, inside


def measure(mode: str, busy: bool) -> dict[str, float]:
    with broker(GLASSMQ_ENGINE=mode) as (port, _):
        seen, inside = asyncio.run(asyncio.wait_for(wakeups(port, busy), 300))
    return {
        "client p50": percentile(seen, 0.5),
        "client p99": percentile(seen, 0.99),
        "engine p50": percentile(inside, 0.5),
        "engine p99": percentile(inside, 0.99),
    }


def main() -> None:
    title("Wake-ups with the engine in the web process and in its own process, us")
    figures: dict[tuple[str, bool], dict[str, float]] = {}
    runs: dict[tuple[str, bool], list[dict[str, float]]] = {}
    for _ in range(RUNS):
        for mode in ("embedded", "child"):
            for busy in (False, True):
                runs.setdefault((mode, busy), []).append(measure(mode, busy))
    for (mode, busy), each in runs.items():
        figures[mode, busy] = {name: statistics.median(run[name] for run in each) for name in each[0]}
        words = "  ".join(f"{name} {value:>9,.0f}" for name, value in figures[mode, busy].items())
        print(f"  {mode:9} {'busy' if busy else 'quiet'}:  {words}", flush=True)
    for name in ("engine p99", "client p99"):
        ratio = figures["embedded", True][name] / figures["child", True][name]
        print(f"  {name}, busy: embedded / child = {ratio:.2f}")


if __name__ == "__main__":
    main()
