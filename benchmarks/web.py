"""A running broker measured by its clients: wake-ups over a WebSocket, deadlines, publishing over HTTP.

    python benchmarks/web.py [wakeup] [deadlines] [publish] [held] [redis]      without arguments: all

Goals: wake-up p50 under 5 ms with 1,000 other holds, under 15 ms with the engine behind Redis; deadlines met within
20 ms (p99) when idle; 2,000 single publishes a second and 20,000 messages a second in batches of 32; 5,000 held
WebSocket pulls in one process.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import ROOT, broker, free_port, median_of, spread, title
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol


async def socket(port: int) -> ClientConnection:
    opened = await connect(
        f"ws://127.0.0.1:{port}/ws/v1/consumer",
        subprotocols=[Subprotocol("rmq.v1.json")],
        max_size=None,
        compression=None,
        ping_interval=None,
    )
    await opened.send('{"type":"hello"}')
    await opened.recv()
    return opened


async def ask(opened: ClientConnection, frame: dict[str, Any], kind: str) -> dict[str, Any]:
    await opened.send(json.dumps(frame))
    return await wait_for(opened, kind)


async def wait_for(opened: ClientConnection, kind: str) -> dict[str, Any]:
    while True:
        frame: dict[str, Any] = json.loads(await opened.recv())
        if frame["type"] == kind:
            return frame
        if frame["type"] == "problem":
            raise RuntimeError(frame)


def pull(number: int, topic: str, offset: int, wait_ms: int = 30_000, queue_id: int = 0) -> dict[str, Any]:
    return {"type": "pull", "id": number, "topic": topic, "queue_id": queue_id, "offset": offset, "wait_ms": wait_ms}


async def hold_many(port: int, count: int, sockets: int) -> list[ClientConnection]:
    """Hold ``count`` pulls over ``sockets`` sockets on a topic that gets no more messages."""
    opened = [await socket(port) for _ in range(sockets)]
    await ask(opened[0], {"type": "publish", "id": 0, "topic": "quiet", "body": "x", "queue_id": 0}, "published")
    for n in range(count):
        await opened[n % sockets].send(json.dumps(pull(n, "quiet", 1)))
    for n in range(count):
        await wait_for(opened[n % sockets], "held")
    return opened


async def wakeup(port: int, rounds: int = 1000) -> None:
    others = await hold_many(port, 1000, 10)
    consumer, producer = await socket(port), await socket(port)
    sent = await ask(producer, {"type": "publish", "id": 0, "topic": "busy", "body": "x", "queue_id": 0}, "published")
    offset = sent["messages"][0]["queue_offset"] + 1
    taken = []
    for n in range(rounds + 100):
        await ask(consumer, pull(n, "busy", offset), "held")
        began = time.perf_counter()
        await producer.send(json.dumps({"type": "publish", "id": n, "topic": "busy", "body": "x" * 128, "queue_id": 0}))
        await wait_for(consumer, "pulled")
        if n >= 100:
            taken.append((time.perf_counter() - began) * 1000)
        await wait_for(producer, "published")
        offset += 1
    spread("publish to pulled, beside 1,000 holds", taken, "ms")
    for one in (consumer, producer, *others):
        await one.close()


async def deadlines(port: int, count: int = 300) -> None:
    opened = await socket(port)
    await ask(opened, {"type": "publish", "id": 0, "topic": "still", "body": "x", "queue_id": 0}, "published")
    late = []
    for n in range(count):
        began = time.perf_counter()
        await ask(opened, pull(n, "still", 1, wait_ms=50 + n % 50), "pulled")
        late.append((time.perf_counter() - began) * 1000 - (50 + n % 50))
    spread("answered after its deadline by", late, "ms")
    await opened.close()


async def publish(port: int, messages: int, seconds: float, connections: int = 32) -> float:
    """Messages a second over keep-alive HTTP connections. The client is raw, so that the broker is the bottleneck."""
    one = json.dumps({"body": "x" * 128, "tag": "TagA"})
    body = one if messages == 1 else '{"messages":[' + ",".join([one] * messages) + "]}"
    request = (
        f"POST /api/v1/topics/busy/messages HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    ).encode()
    done = 0
    end = time.perf_counter() + seconds

    async def client() -> None:
        nonlocal done
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < end:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 201"):
                raise RuntimeError(head)
            length = next(
                int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
            )
            await reader.readexactly(length)
            done += messages
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(connections)))
    return done / (time.perf_counter() - began)


async def measure_holds(port: int, count: int = 5000) -> None:
    """Hold a pull on each of ``count`` sockets, then wake all of them by one message."""
    began = time.perf_counter()
    opened: list[ClientConnection] = []
    for start in range(0, count, 100):
        opened += await asyncio.gather(*(socket(port) for _ in range(start, start + 100)))
    await ask(opened[0], {"type": "publish", "id": 0, "topic": "crowd", "body": "x", "queue_id": 0}, "published")
    for n, one in enumerate(opened):
        await one.send(json.dumps(pull(n, "crowd", 1)))
    await asyncio.gather(*(wait_for(one, "held") for one in opened))
    print(f"  {count:,} sockets each hold a pull after {time.perf_counter() - began:.1f} s", flush=True)
    producer = await socket(port)
    began = time.perf_counter()
    await producer.send(json.dumps({"type": "publish", "id": 0, "topic": "crowd", "body": "x", "queue_id": 0}))

    async def woken(one: ClientConnection) -> float:
        await wait_for(one, "pulled")
        return (time.perf_counter() - began) * 1000

    spread("woken by one message after", await asyncio.gather(*(woken(one) for one in opened)), "ms")
    await asyncio.gather(*(one.close() for one in opened))


@contextlib.contextmanager
def behind_redis(data: Path) -> Iterator[str]:
    """Redis and an engine in processes of their own; the address of the first."""
    url = f"redis://127.0.0.1:{free_port()}/0"
    env = os.environ | {"GLASSMQ_REDIS_URL": url, "GLASSMQ_DATA_DIR": str(data)}
    env |= {"GLASSMQ_BROKER_PORT": "0", "GLASSMQ_NAMESRV_PORT": "0"}
    with contextlib.ExitStack() as stack:
        redis = ["redis-server", "--port", url.split(":")[2].split("/")[0], "--save", "", "--appendonly", "no"]
        worker = [sys.executable, str(ROOT / "manage.py"), "runworker", "broker-engine"]
        for command in (redis, worker):
            process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=data)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        yield url


def main() -> None:
    wanted = set(sys.argv[1:]) or {"wakeup", "deadlines", "publish", "held", "redis"}
    title("A running broker, as its clients see it (client and broker share the machine)")
    with broker() as (port, _):
        if "wakeup" in wanted:
            asyncio.run(wakeup(port))
        if "deadlines" in wanted:
            asyncio.run(deadlines(port))
        if "publish" in wanted:
            median_of("publish, single messages", [asyncio.run(publish(port, 1, 4)) for _ in range(3)], "requests/s")
            median_of("publish, batches of 32  ", [asyncio.run(publish(port, 32, 4)) for _ in range(3)], "messages/s")
        if "held" in wanted:
            asyncio.run(measure_holds(port))
    if "redis" in wanted:
        print("  the engine behind Redis:")
        with tempfile.TemporaryDirectory(prefix="glassmq-bench-") as folder:
            data = Path(folder)
            with behind_redis(data) as url, broker(data=data, GLASSMQ_REDIS_URL=url) as (port, _):
                asyncio.run(wakeup(port))


if __name__ == "__main__":
    main()
