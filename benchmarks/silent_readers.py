"""Clients that ask for much and never read: what others notice of one, and how much memory is held for it.

    python -m benchmarks.silent_readers [--rounds 5] [--seconds 10]

One silent client at each door in turn: RocketMQ's protocol, HTTP, the consumers' WebSocket, the pages' WebSocket and
the stream of events. Meanwhile others publish and pull over a WebSocket, and publish over RocketMQ's protocol. Runs
with and without the silent client alternate. A page and a stream of events cost something even if they are read, so
there a reading client takes the place of the silent one in the runs without it. The goal: a silent client changes the
others' p99 by less than a tenth, and the broker's processes hold at most 4 MiB for it. A p99 of a busy machine says
little; ``quiet`` says how far the runs without a silent client differ among themselves (largest p99 divided by the
smallest).
"""

import asyncio
import json
import socket
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from benchmarks.common import percentile
from tests.broker_core.server.test_broker_over_tcp import Client
from tests.compat.glassmq_broker import GlassMQ
from tests.fakes.remoting import PULL, java
from tests.torture.proof import Proof, broker_state, http_client, parser, port_of, running

LARGE, LARGE_MESSAGES, LARGE_BYTES = "large", 256, 60_000
PAUSE_SECONDS = 0.005
MOST_HELD_KIB = 4 * 1024
MOST_CHANGE = 1.10
REQUESTS = 5000
SMALL_BUFFER = 16 * 1024
Door = Callable[[GlassMQ], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def silent(port: int, data: bytes) -> AsyncIterator[None]:
    """A connection that writes ``data``, as far as the broker takes it, and reads nothing."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
    raw.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(raw, ("127.0.0.1", port))
    writing = asyncio.create_task(loop.sock_sendall(raw, data))
    try:
        yield
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        raw.close()


def remoting(broker: GlassMQ) -> AbstractAsyncContextManager[None]:
    fields = PULL | {"topic": LARGE, "queueId": "0", "queueOffset": "0", "sysFlag": "6", "subscription": "*"}
    pulls = b"".join(java(11, fields, opaque=number) for number in range(REQUESTS))
    return silent(port_of(broker.address.broker), pulls)


def http(broker: GlassMQ) -> AbstractAsyncContextManager[None]:
    host = broker.address.web.removeprefix("http://")
    request = f"GET /api/v1/topics/{LARGE}/queues/0/messages?offset=0 HTTP/1.1\r\nHost: {host}\r\n\r\n"
    return silent(port_of(host), request.encode() * REQUESTS)


def events(broker: GlassMQ) -> AbstractAsyncContextManager[None]:
    host = broker.address.web.removeprefix("http://")
    return silent(port_of(host), f"GET /api/v1/events HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())


@asynccontextmanager
async def consumer(broker: GlassMQ) -> AsyncIterator[None]:
    async with websocket(broker, "consumer", max_queue=1) as opened:
        writing = asyncio.create_task(send_pulls(opened))
        try:
            yield
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            opened.transport.abort()


async def send_pulls(opened: ClientConnection) -> None:
    for number in range(REQUESTS):
        pull = {"type": "pull", "id": number, "topic": LARGE, "queue_id": 0, "offset": 0}
        await opened.send(json.dumps(pull))


@asynccontextmanager
async def page(broker: GlassMQ) -> AsyncIterator[None]:
    async with websocket(broker, "events", max_queue=1) as opened:
        for _ in range(100):
            await opened.send('{"type":"snapshot"}')
        yield
        opened.transport.abort()


def websocket(broker: GlassMQ, name: str, *, max_queue: int = 16) -> connect:
    return connect(
        f"{broker.address.web.replace('http', 'ws')}/ws/v1/{name}",
        subprotocols=[Subprotocol("rmq.v1.json")] if name == "consumer" else None,
        max_size=None,
        max_queue=max_queue,
        compression=None,
        ping_interval=None,
        close_timeout=1,
    )


@asynccontextmanager
async def nobody(broker: GlassMQ) -> AsyncIterator[None]:
    yield


@asynccontextmanager
async def reading_page(broker: GlassMQ) -> AsyncIterator[None]:
    async with websocket(broker, "events") as opened:
        reading = asyncio.create_task(read_frames(opened))
        try:
            yield
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


async def read_frames(opened: ClientConnection) -> None:
    async for _ in opened:
        pass


@asynccontextmanager
async def reading_events(broker: GlassMQ) -> AsyncIterator[None]:
    host = broker.address.web.removeprefix("http://")
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(host))
    writer.write(f"GET /api/v1/events HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    reading = asyncio.create_task(read_bytes(reader))
    try:
        yield
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        writer.close()


async def read_bytes(reader: asyncio.StreamReader) -> None:
    while await reader.read(1 << 16):
        pass


DOORS: dict[str, tuple[Door, Door]] = {
    "remoting": (remoting, nobody),
    "http": (http, nobody),
    "consumer_websocket": (consumer, nobody),
    "page_websocket": (page, reading_page),
    "event_stream": (events, reading_events),
}
"""The silent client of each door, and who is there in the runs without it."""


class Others:
    """Clients whose calls are measured."""

    def __init__(self, broker: GlassMQ, folder: Path) -> None:
        self._broker, self._folder = broker, folder
        self._offset = 0

    async def run(self, seconds: float) -> tuple[float, int]:
        """p99 of all calls, in ms, and the most memory that the broker had, in KiB."""
        taken: list[float] = []
        end = time.monotonic() + seconds
        memory = [0]
        await asyncio.gather(self._wake(end, taken), self._send(end, taken), self._sample(end, memory))
        return percentile(taken, 0.99) * 1000, max(memory)

    async def _wake(self, end: float, taken: list[float]) -> None:
        """Publish and be woken by it, over a WebSocket."""
        async with websocket(self._broker, "consumer") as opened:
            while not taken or time.monotonic() < end:
                pull = {"type": "pull", "id": 1, "topic": "others", "queue_id": 0, "offset": self._offset}
                await opened.send(json.dumps(pull))
                await wait_for(opened, "held")
                began = time.perf_counter()
                await opened.send('{"type":"publish","id":2,"topic":"others","body":"x","queue_id":0}')
                await wait_for(opened, "pulled")
                taken.append(time.perf_counter() - began)
                self._offset += 1
                await asyncio.sleep(PAUSE_SECONDS)

    async def _send(self, end: float, taken: list[float]) -> None:
        """Publish over RocketMQ's protocol."""
        client = Client(*await asyncio.open_connection("127.0.0.1", port_of(self._broker.address.broker)))
        while time.monotonic() < end:
            began = time.perf_counter()
            await client.send(b"x", b="others", e="1")
            taken.append(time.perf_counter() - began)
            await asyncio.sleep(PAUSE_SECONDS)
        await client.close()

    async def _sample(self, end: float, memory: list[int]) -> None:
        while time.monotonic() < end:
            memory.append(broker_state(self._broker, self._folder).anonymous_kib)
            await asyncio.sleep(0.2)


async def wait_for(opened: ClientConnection, kind: str) -> None:
    while (frame := json.loads(await opened.recv()))["type"] != kind:
        if frame["type"] == "problem":
            raise RuntimeError(frame)


async def measure(proof: Proof, broker: GlassMQ, folder: Path, *, rounds: int, seconds: float) -> None:
    """All doors, one after the other."""
    async with http_client(broker) as client:
        for topic in (LARGE, "others"):
            (await client.put(f"/api/v1/topics/{topic}", json={"queues": 2})).raise_for_status()
        message = {"body": "x" * LARGE_BYTES, "queue_id": 0}
        for _ in range(LARGE_MESSAGES // 32):
            answer = await client.post(f"/api/v1/topics/{LARGE}/messages", json={"messages": [message] * 32})
            answer.raise_for_status()
    others = Others(broker, folder)
    await others.run(seconds)  # to warm up
    for name, (silent_client, baseline) in DOORS.items():
        await measure_door(
            proof,
            others,
            name,
            lambda enter=silent_client: enter(broker),
            lambda enter=baseline: enter(broker),
            rounds,
            seconds,
        )
    proof.check_log(broker)


async def measure_door(
    proof: Proof,
    others: Others,
    name: str,
    enter: Callable[[], AbstractAsyncContextManager[None]],
    enter_baseline: Callable[[], AbstractAsyncContextManager[None]],
    rounds: int,
    seconds: float,
) -> None:
    """Alternate runs with the baseline and with the silent client; its figures go into the proof."""
    without, beside, held = [], [], []
    async with enter():  # memory that the first use of a door takes is not held for a client
        await others.run(seconds)
    for _ in range(rounds):
        async with enter_baseline():
            p99, memory = await others.run(seconds)
        without.append(p99)
        async with enter():
            p99, memory_beside = await others.run(seconds)
        beside.append(p99)
        held.append(memory_beside - memory)
    change = statistics.median(beside) / statistics.median(without)
    proof.figures[name] = {
        "p99_ms": round(statistics.median(without), 2),
        "p99_beside_it_ms": round(statistics.median(beside), 2),
        "change": round(change, 2),
        "quiet": round(max(without) / min(without), 2),
        "held_kib": max(held),
    }
    print(name, proof.figures[name], file=sys.stderr, flush=True)
    proof.check(max(held) <= MOST_HELD_KIB, f"{name}: {max(held)} KiB are held for a client that never reads")
    proof.check(change <= MOST_CHANGE, f"{name}: the others' p99 is {change:.2f} times as long")


def main() -> int:
    arguments = parser(__doc__ or "", rounds=5, seconds=10.0).parse_args()
    proof = Proof("silent_readers", arguments, module="benchmarks.silent_readers")
    with running() as (broker, folder):
        asyncio.run(measure(proof, broker, folder, rounds=arguments.rounds, seconds=arguments.seconds))
    return proof.finish()


if __name__ == "__main__":
    sys.exit(main())
