"""The live page in a real browser under 10,000 held pulls, and what open dashboards cost the engine.

    python -m benchmarks.dashboard page [--holds 10000] [--wakeups 500] [--seconds 20]
    python -m benchmarks.dashboard engine [--dashboards 10] [--rounds 6] [--seconds 4]

``page`` holds pulls over RocketMQ's protocol, wakes so many of them a second, and measures the live page in Chromium,
which draws in software here. Goals: 60 frames a second, with at most one core for the renderer's process, and less than
150 MB. A frame is an interval of requestAnimationFrame. On a busy machine frames come late because others have the
processor; so the processor time of the page's main thread is printed too (Chromium's own figures, by thread time), and
the longest tasks. Memory is the JavaScript heap after a garbage collection, and the renderer's share of the machine's
memory (PSS), the most of the run and after a collection. The renderer's own memory, drawn tiles included, is printed
apart from that of files. The files are Chromium's program, fonts and ICU data. All its processes share them, so another
Chromium on the machine makes this figure smaller.

``engine`` sends as fast as one connection can, in turn without dashboards and with so many. A dashboard here reads the
live page's WebSocket and sends the page's periodic requests. Goal: less than 5 % of the send throughput. The engine's
processor time for each message says the same and hardly depends on other work.
"""

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from playwright.sync_api import CDPSession, Page, sync_playwright
from websockets.asyncio.client import connect

from benchmarks.common import percentile, title
from broker_core.codes import RequestCode, ResponseCode
from broker_core.remoting.frame_decoder import FrameDecoder
from tests.compat.glassmq_broker import GlassMQ
from tests.fakes.browser import launch
from tests.fakes.remoting import PULL, SEND_V2, java
from tests.torture.proof import port_of, running

TOPICS, QUEUES = 100, 4
CONNECTIONS = 50
HELD_MS = "600000"
BODY = bytes(128)
FRAME_MS = 1000 / 60
LATE_FRAME_MS = 20
PAGE_MB = 150
WARM_UP_S = 8
UNANSWERED = 64
"""Sends that one connection has under way."""
POLLS = {"/readyz": 3, "/api/v1/alerts": 15, "/api/v1/history?range=1h": 10}
"""The live page's requests, and their periods in seconds."""

RECORD_FRAMES = """() => {
  const record = { at: [], long: [] };
  window.recordedFrames = record;
  new PerformanceObserver((list) => record.long.push(...list.getEntries().map((entry) => entry.duration)))
    .observe({ entryTypes: ["longtask"] });
  const next = (at) => { record.at.push(at); requestAnimationFrame(next); };
  requestAnimationFrame(next);
}"""
TASKS = ("TaskDuration", "ScriptDuration", "LayoutDuration", "RecalcStyleDuration")


# --- The load ------------------------------------------------------------------------------------------------------


class Holder:
    """A connection that holds pulls of several groups and pulls again after each answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.woken = 0
        self._reader, self._writer = reader, writer
        self._pulls: dict[int, dict[str, str]] = {}

    def pull(self, opaque: int, topic: str, queue_id: int, group: str) -> None:
        fields = {"topic": topic, "queueId": str(queue_id), "consumerGroup": group, "suspendTimeoutMillis": HELD_MS}
        self._pulls[opaque] = PULL | fields | {"sysFlag": "6", "subscription": "*", "queueOffset": "0"}
        self._writer.write(java(RequestCode.PULL_MESSAGE, self._pulls[opaque], opaque=opaque))

    async def run(self) -> None:
        decoder = FrameDecoder()
        while data := await self._reader.read(1 << 16):
            for answer in decoder.feed(data):
                if answer.code != ResponseCode.SUCCESS:
                    raise RuntimeError(f"a pull was answered {answer.code}: {answer.remark}")
                self.woken += 1
                fields = self._pulls[answer.opaque]
                fields["queueOffset"] = answer.ext_fields["nextBeginOffset"]
                self._writer.write(java(RequestCode.PULL_MESSAGE, fields, opaque=answer.opaque))


async def load(port: int, holds: int, wakeups: int) -> None:
    """Hold pulls, spread evenly over all queues, and wake so many a second, until the input ends."""
    opened = [Holder(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(CONNECTIONS)]
    for number in range(holds):
        group, queue = divmod(number, TOPICS * QUEUES)
        opened[number % CONNECTIONS].pull(number, f"topic-{queue // QUEUES:03}", queue % QUEUES, f"group-{group:03}")
    tasks = [asyncio.create_task(holder.run()) for holder in opened]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    tasks.append(asyncio.create_task(discard(reader)))
    await asyncio.sleep(1)
    print("ready", flush=True)
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    began, sent, each = time.perf_counter(), 0, max(1, holds // (TOPICS * QUEUES))
    while not ended.done():
        for task in tasks:
            if task.done():
                task.result()
        while sent * each < (time.perf_counter() - began) * wakeups:
            queue = sent * 37 % (TOPICS * QUEUES)
            fields = SEND_V2 | {"b": f"topic-{queue // QUEUES:03}", "e": str(queue % QUEUES)}
            writer.write(java(RequestCode.SEND_MESSAGE_V2, fields, BODY, opaque=sent))
            sent += 1
        await asyncio.sleep(0.01)
    print(json.dumps({"woken_each_s": sum(one.woken for one in opened) / (time.perf_counter() - began)}), flush=True)


async def discard(reader: asyncio.StreamReader) -> None:
    while await reader.read(1 << 16):
        pass


@contextlib.contextmanager
def under_load(broker: GlassMQ, holds: int, wakeups: int) -> Iterator[None]:
    with httpx.Client(base_url=broker.address.web, timeout=60) as client:
        for number in range(TOPICS):
            client.put(f"/api/v1/topics/topic-{number:03}", json={"queues": QUEUES}).raise_for_status()
    words = ["load", "--port", str(port_of(broker.address.broker)), "--holds", str(holds), "--wakeups", str(wakeups)]
    with in_a_process(words) as process:
        yield
        print(f"  the load: {json.loads(process.communicate()[0])['woken_each_s']:,.0f} wake-ups a second", flush=True)


@contextlib.contextmanager
def in_a_process(words: list[str]) -> Iterator["subprocess.Popen[str]"]:
    """This program with other ``words``, once it has printed that it is ready. It ends when its input does."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.dashboard", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise RuntimeError(f"`benchmarks.dashboard {words[0]}` did not begin; its error is above")
        yield process
    finally:
        process.kill()
        process.wait()


# --- Processes -----------------------------------------------------------------------------------------------------


def used_s(pid: int) -> float:
    """Processor seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Memory(NamedTuple):
    """A process's share of the machine's memory (PSS) in MB."""

    own: float
    files: float


def memory_of(pid: int) -> Memory:
    """Each kind of PSS of a process, by the kernel's ``smaps_rollup``, which counts in KiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    mb = {name: int(size) * 1024 / 1e6 for name, size, *_ in (line.split() for line in lines)}
    return Memory(mb["Pss_Anon:"] + mb["Pss_Shmem:"], mb["Pss_File:"])


def words_of(pid: int) -> list[str]:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return []


def renderer_pids() -> set[int]:
    pids = (int(entry.name) for entry in Path("/proc").glob("[0-9]*"))
    return {pid for pid in pids if any("--type=renderer" in word for word in words_of(pid))}


# --- The page ------------------------------------------------------------------------------------------------------


def thread_times(session: CDPSession) -> dict[str, float]:
    """Chromium's figures of the page; durations are the main thread's processor time in seconds."""
    return {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}


def measure_page(arguments: argparse.Namespace) -> None:
    title(f"The live page with {arguments.holds:,} held pulls and {arguments.wakeups} wake-ups a second")
    with (
        running() as (broker, _),
        under_load(broker, arguments.holds, arguments.wakeups),
        sync_playwright() as playwright,
    ):
        others = renderer_pids()
        browser = launch(playwright)
        page = browser.new_page(viewport={"width": 1440, "height": 1000})
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.goto(broker.address.web)
        page.wait_for_selector("body[data-live=live]")
        page.wait_for_timeout(WARM_UP_S * 1000)
        pid = max(renderer_pids() - others, key=used_s)
        show_page(page, session, pid, arguments.seconds)
        browser.close()


def show_page(page: Page, session: CDPSession, pid: int, seconds: float) -> None:
    page.evaluate(RECORD_FRAMES)
    before, used, began = thread_times(session), used_s(pid), time.perf_counter()
    most = memory_of(pid)
    while time.perf_counter() - began < seconds:
        page.wait_for_timeout(1000)
        most = max(most, memory_of(pid))
    after, took, share = thread_times(session), time.perf_counter() - began, used_s(pid) - used
    record = page.evaluate("window.recordedFrames")
    frames = [later - at for at, later in zip(record["at"], record["at"][1:], strict=False)]
    late = sum(frame > LATE_FRAME_MS for frame in frames) / len(frames)
    spent = {name: (after[name] - before[name]) * 1000 for name in TASKS}
    print(f"  {page.locator('[data-panel=holds] [data-part=count]').inner_text()}", flush=True)
    print(
        f"  frames: {1000 * (len(frames)) / sum(frames):.1f} a second; interval p50 {percentile(frames, 0.5):.1f} ms, "
        f"p99 {percentile(frames, 0.99):.1f} ms; {100 * late:.1f} % longer than {LATE_FRAME_MS} ms  (goal: 60 a second)"
    )
    each = ", ".join(f"{name.removesuffix('Duration')} {spent[name] / len(frames):.2f}" for name in TASKS)
    print(f"  main thread's processor time, ms of each frame's {FRAME_MS:.1f}: {each}")
    print(f"  main thread: {spent['TaskDuration'] / took / 10:.0f} % of a core")
    longest = max(record["long"], default=0)
    print(f"  tasks of more than 50 ms: {len(record['long'])}, the longest {longest:.0f} ms")
    print(f"  renderer's process: {100 * share / took:.0f} % of a core  (goal: 100 %)")
    session.send("HeapProfiler.collectGarbage")
    heap, settled = thread_times(session)["JSHeapUsedSize"] / 1e6, memory_of(pid)
    print(
        f"  memory: the renderer's own {most.own:.0f} MB at most, {settled.own:.0f} MB after a garbage collection  "
        f"(goal: {PAGE_MB} MB); JavaScript heap {heap:.1f} MB"
    )
    print(
        f"  files of Chromium: {most.files:.0f} MB; with them {sum(most):.0f} MB at most, {sum(settled):.0f} MB after"
    )


# --- The engine ----------------------------------------------------------------------------------------------------


async def dashboards(web: str, count: int) -> None:
    """Read the live page's WebSocket and send the page's requests, until the input ends."""

    async def watch() -> None:
        async with connect(f"{web.replace('http', 'ws')}/ws/v1/events", max_size=None) as events:
            async for _ in events:
                pass

    async def poll(client: httpx.AsyncClient, path: str, period_s: float) -> None:
        while True:
            await client.get(path)
            await asyncio.sleep(period_s)

    async with httpx.AsyncClient(base_url=web, timeout=60) as client:
        tasks = [asyncio.create_task(watch()) for _ in range(count)]
        tasks += [asyncio.create_task(poll(client, *one)) for _ in range(count) for one in POLLS.items()]
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        for task in tasks:
            if task.done():
                task.result()
            task.cancel()


async def send(port: int, seconds: float) -> int:
    """Messages that one connection had acknowledged in that time, with UNANSWERED under way."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    frames = [
        java(
            RequestCode.SEND_MESSAGE_V2,
            SEND_V2 | {"b": f"topic-{number % TOPICS:03}", "e": str(number % QUEUES)},
            BODY,
            opaque=number,
        )
        for number in range(TOPICS * QUEUES)
    ]
    decoder, done, sent = FrameDecoder(), 0, 0
    end = time.perf_counter() + seconds
    while True:
        while sent - done < UNANSWERED and time.perf_counter() < end:
            writer.write(frames[sent % len(frames)])
            sent += 1
        if done == sent:
            break
        for answer in decoder.feed(await reader.read(1 << 16)):
            if answer.code != ResponseCode.SUCCESS:
                raise RuntimeError(f"a send was answered {answer.code}: {answer.remark}")
            done += 1
    writer.close()
    return done


def measure_engine(arguments: argparse.Namespace) -> None:
    count = arguments.dashboards
    title(f"Sends over one connection without dashboards and with {count}")
    rates: dict[int, list[float]] = {0: [], count: []}
    costs: dict[int, list[float]] = {0: [], count: []}
    with running() as (broker, _):
        with httpx.Client(base_url=broker.address.web, timeout=60) as client:
            for number in range(TOPICS):
                client.put(f"/api/v1/topics/topic-{number:03}", json={"queues": QUEUES}).raise_for_status()
        pid = next(pid for pid in broker.processes if any("runworker" in word for word in words_of(pid)))
        port = port_of(broker.address.broker)
        asyncio.run(send(port, 2))
        for turn in range(2 * arguments.rounds):
            shown = (0, count)[(turn + turn // 2) % 2]  # 0 10 10 0 0 10 10 0: drifts of the machine cancel out
            with open_dashboards(broker, shown):
                time.sleep(0.5)
                used = used_s(pid)
                done = asyncio.run(send(port, arguments.seconds))
                rates[shown].append(done / arguments.seconds)
                costs[shown].append((used_s(pid) - used) / done * 1e6)
    for what, figures, unit in (("sends", rates, "messages/s"), ("engine's processor time", costs, "us a message")):
        without, with_all = (statistics.median(figures[shown]) for shown in (0, count))
        print(
            f"  {what}: {without:,.1f} {unit} without, {with_all:,.1f} with {count}: "
            f"{100 * (with_all / without - 1):+.1f} %  (goal: 5 % at most)",
            flush=True,
        )
        for shown in (0, count):
            print(f"    {shown:2}: " + ", ".join(f"{value:,.1f}" for value in figures[shown]))


@contextlib.contextmanager
def open_dashboards(broker: GlassMQ, count: int) -> Iterator[None]:
    words = ["dashboards", "--web", broker.address.web, "--dashboards", str(count)]
    with in_a_process(words) as process:
        yield
        process.communicate()
        if process.returncode:
            raise RuntimeError("a dashboard failed; its error is above")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["page", "engine", "load", "dashboards"])
    parser.add_argument("--holds", type=int, default=10_000)
    parser.add_argument("--wakeups", type=int, default=500, help="a second")
    parser.add_argument("--dashboards", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=0, help="of each measurement")
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--web", help=argparse.SUPPRESS)
    arguments: Any = parser.parse_args()
    match arguments.what:
        case "page":
            arguments.seconds = arguments.seconds or 20
            measure_page(arguments)
        case "engine":
            arguments.seconds = arguments.seconds or 4
            measure_engine(arguments)
        case "load":
            asyncio.run(load(arguments.port, arguments.holds, arguments.wakeups))
        case "dashboards":
            asyncio.run(dashboards(arguments.web, arguments.dashboards))


if __name__ == "__main__":
    main()
