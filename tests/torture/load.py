"""A broker under load for as long as one likes: ``python -m tests.torture.load --hours 1`` (``make soak HOURS=1``).

Publishers over HTTP and over RocketMQ's protocol, long polls over HTTP and over RocketMQ's protocol, a WebSocket member
of a group and a page's WebSocket. All of them reconnect now and then. A short calibration measures how much the machine
can do at this moment, and the soak is half of that. Every message has its queue's number and its own, so whoever
consumes sees at once what is lost, doubled or out of order.

Memory, descriptors, threads and tasks must be flat: after a warm-up (the first fifth), the medians of the first and the
last third are compared.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from broker_core.formats.commit_log_record import decode_all
from tests.broker_core.server.test_broker_over_tcp import Client
from tests.compat.glassmq_broker import GlassMQ
from tests.torture.proof import SLACK, Proof, broker_state, http_client, metrics, parser, port_of, running

TOPIC, HTTP_QUEUES, REMOTING_QUEUE = "soak", 4, 4
BATCH, PADDING = 8, "x" * 128
ACKED_TOGETHER = 16
CALLS_PER_CONNECTION = 500
"""After so many calls a client connects anew: what a connection leaves behind shows as a leak."""


class Load:
    """Clients of one broker. ``counts`` are messages by what happened to them; ``problems`` is empty when all is well.

    ``pause`` is the time from one call of a publisher to the next one, in seconds; 0: as fast as they are answered.
    """

    def __init__(self, broker: GlassMQ) -> None:
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self.pause: dict[str, float] = {"http": 0.0, "remoting": 0.0}
        self.ending = False
        self._broker = broker
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Create the topic and start the clients."""
        async with http_client(self._broker) as client:
            answer = await client.put(f"/api/v1/topics/{TOPIC}", json={"queues": HTTP_QUEUES + 1})
            answer.raise_for_status()
        publishers: list[Callable[[], Awaitable[None]]] = [self._publish_over_remoting]
        publishers += [lambda queue=queue: self._publish(queue) for queue in range(HTTP_QUEUES)]  # type: ignore[misc]
        consumers: list[Callable[[], Awaitable[None]]] = [self._pull_over_remoting, self._consume_as_member]
        consumers += [lambda queue=queue: self._poll(queue) for queue in range(HTTP_QUEUES)]  # type: ignore[misc]
        consumers += [self._watch]
        self._tasks = [asyncio.create_task(self._guarded(work)) for work in (*consumers, *publishers)]

    async def stop(self) -> None:
        """Let the publishers end, and then the consumers, once they have everything."""
        self.ending = True
        publishers = self._tasks[-HTTP_QUEUES - 1 :]
        await asyncio.gather(*publishers)
        with suppress(TimeoutError):
            async with asyncio.timeout(0 if self.problems else 60):
                while self.counts["polled"] + self.counts["pulled"] < self.published:
                    await asyncio.sleep(0.1)
                while self.counts["delivered"] < self.published:
                    await asyncio.sleep(0.1)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def published(self) -> int:
        return self.counts["http"] + self.counts["remoting"]

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:
            self.problems.append(f"a client failed: {error!r}")

    async def _paced(self, kind: str, call: Callable[[int], Awaitable[int]]) -> None:
        """Call until the end with the number of the first message; it returns how many were stored."""
        number, due = 0, time.monotonic()
        while not self.ending:
            stored = await call(number)
            self.counts[kind] += stored
            number += stored
            due = max(due + self.pause[kind], time.monotonic() - 1)  # what was missed for long is not made up for
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _publish(self, queue: int) -> None:
        client = http_client(self._broker)

        async def call(number: int) -> int:
            nonlocal client
            if number // BATCH % CALLS_PER_CONNECTION == CALLS_PER_CONNECTION - 1:
                await client.aclose()
                client = http_client(self._broker)
            texts = [{"body": text(queue, number + n), "queue_id": queue} for n in range(BATCH)]
            answer = await client.post(f"/api/v1/topics/{TOPIC}/messages", json={"messages": texts})
            if answer.status_code == httpx.codes.TOO_MANY_REQUESTS:  # busy: nothing was stored
                self.counts["refused"] += BATCH
                await asyncio.sleep(0.05)
                return 0
            answer.raise_for_status()
            return BATCH

        await self._paced("http", call)
        await client.aclose()

    async def _connect(self) -> Client:
        return Client(*await asyncio.open_connection("127.0.0.1", port_of(self._broker.address.broker)))

    async def _publish_over_remoting(self) -> None:
        client = await self._connect()
        calls = 0

        async def call(number: int) -> int:
            nonlocal client, calls
            calls += 1
            if calls % CALLS_PER_CONNECTION == 0:
                await client.close()
                client = await self._connect()
            body = text(REMOTING_QUEUE, number).encode()
            answer = await client.ask(310, send_fields(), body)
            if answer.code == 2:  # SYSTEM_BUSY: nothing was stored
                self.counts["refused"] += 1
                await asyncio.sleep(0.05)
                return 0
            if answer.code:
                raise RuntimeError(answer.remark)
            return 1

        await self._paced("remoting", call)
        await client.close()

    async def _pull_over_remoting(self) -> None:
        client, offset, calls = await self._connect(), 0, 0
        while True:
            calls += 1
            if calls % CALLS_PER_CONNECTION == 0:
                await client.close()
                client = await self._connect()
            answer = await client.pull(offset, topic=TOPIC, queueId=str(REMOTING_QUEUE), consumerGroup="soak-remoting")
            for record in decode_all(answer.body) if answer.code == 0 else ():
                self._take("pulled", REMOTING_QUEUE, offset, record.body.decode())
                offset += 1

    async def _poll(self, queue: int) -> None:
        offset = 0
        while True:
            async with http_client(self._broker) as client:
                for _ in range(CALLS_PER_CONNECTION):
                    path = f"/api/v1/topics/{TOPIC}/queues/{queue}/messages"
                    answer = await client.get(path, params={"offset": offset, "limit": 256})
                    if answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
                        await asyncio.sleep(0.05)
                        continue
                    answer.raise_for_status()
                    for message in answer.json()["messages"]:
                        self._take("polled", queue, offset, message["body"])
                        offset += 1

    async def _consume_as_member(self) -> None:
        """A member consumes what was not acknowledged a second time after it has connected anew: that is no problem."""
        expected: Counter[int] = Counter()
        while True:
            async with self._websocket("consumer") as socket:
                await socket.send('{"type":"hello","client_id":"soak-member"}')
                await socket.send(
                    json.dumps({"type": "subscribe", "id": 1, "topic": TOPIC, "group": "soak", "from": "first"})
                )
                await socket.send('{"type":"permit","id":1,"n":1000}')
                taken, done = 0, []
                while taken < 100 * CALLS_PER_CONNECTION:
                    frame = json.loads(await socket.recv())
                    if frame["type"] == "problem" and frame["status"] < 500:
                        raise RuntimeError(frame)
                    if frame["type"] != "message":
                        continue
                    taken += 1
                    queue, offset = frame["queue_id"], frame["queue_offset"]
                    if offset == expected[queue]:
                        self._take("delivered", queue, offset, frame["body"])
                        expected[queue] += 1
                    elif offset > expected[queue]:
                        raise RuntimeError(f"queue {queue}: offset {offset} was delivered instead of {expected[queue]}")
                    done.append({"queue_id": queue, "offset": offset})
                    if len(done) == ACKED_TOGETHER:
                        await socket.send(json.dumps({"type": "ack", "id": 1, "offsets": done}))
                        done.clear()
                    if taken % 500 == 0:
                        await socket.send('{"type":"permit","id":1,"n":500}')

    async def _watch(self) -> None:
        """A page: it is closed and opened again every minute."""
        while True:
            with suppress(TimeoutError, ConnectionClosed):
                async with asyncio.timeout(60), self._websocket("events") as socket:
                    async for _ in socket:
                        self.counts["page_frames"] += 1

    def _websocket(self, name: str) -> connect:
        return connect(
            f"{self._broker.address.web.replace('http', 'ws')}/ws/v1/{name}",
            subprotocols=[Subprotocol("rmq.v1.json")] if name == "consumer" else None,
            max_size=None,
            compression=None,
        )

    def _take(self, kind: str, queue: int, number: int, body: str) -> None:
        self.counts[kind] += 1
        if body != text(queue, number) and len(self.problems) < 100:
            self.problems.append(f"{kind}: queue {queue} has {body[:30]!r} at offset {number}")


def text(queue: int, number: int) -> str:
    """The body of a message; its number is its queue offset."""
    return f"{queue}:{number}:{PADDING}"


def send_fields() -> dict[str, str]:
    """SEND_MESSAGE_V2 to the queue that is published to over RocketMQ's protocol."""
    fields = {"a": "soak", "b": TOPIC, "c": "TBW102", "d": "4", "e": str(REMOTING_QUEUE), "f": "0", "g": "0", "h": "0"}
    return fields | {"i": "", "j": "0", "k": "false", "m": "false"}


async def calibrate(load: Load, seconds: float) -> dict[str, float]:
    """Publish as fast as possible, half of the time to warm up; returns messages/s by kind, and sets half of them."""
    await asyncio.sleep(seconds / 2)
    before, began = load.counts.copy(), time.monotonic()
    await asyncio.sleep(seconds / 2)
    took = time.monotonic() - began
    rates = {kind: (load.counts[kind] - before[kind]) / took for kind in ("http", "remoting")}
    load.pause["http"] = 2 * HTTP_QUEUES * BATCH / max(rates["http"], 1)
    load.pause["remoting"] = 2 / max(rates["remoting"], 1)
    return rates


async def soak(
    proof: Proof, broker: GlassMQ, folder: Path, *, seconds: float, calibration: float, every: float
) -> None:
    """Half of the load that the calibration finds, for so many seconds; a sample ``every`` so many."""
    load, pids = Load(broker), broker.processes
    await load.start()
    rates = await calibrate(load, calibration)
    before, began = load.counts.copy(), time.monotonic()
    samples: list[dict[str, float]] = []
    while time.monotonic() - began < seconds and not load.problems:
        await asyncio.sleep(every)
        samples.append(await asyncio.to_thread(sample, broker, folder) | {"published": load.published})
        print(json.dumps(samples[-1]), file=sys.stderr, flush=True)
    took = time.monotonic() - began
    published = load.published - sum(before[kind] for kind in ("http", "remoting"))
    await load.stop()
    proof.check(broker.processes == pids, "a process of the broker ended and was started again")
    proof.check_log(broker)
    for problem in load.problems:
        proof.check(False, problem)
    if load.problems:
        return
    proof.check(load.counts["polled"] + load.counts["pulled"] == load.published, "pulls did not get every message")
    proof.check(load.counts["delivered"] == load.published, "the member did not get every message")
    proof.figures["most_messages_per_second"] = round(sum(rates.values()))
    proof.figures["messages_per_second"] = round(published / took)
    proof.figures["counts"] = dict(load.counts)
    proof.check_flat(samples, SLACK | {"web_tasks": 16})
    proof.figures["missed_arrival"] = samples[-1]["missed_arrival"]
    proof.check(samples[-1]["missed_arrival"] == 0, "an arrival was missed")


def sample(broker: GlassMQ, folder: Path) -> dict[str, float]:
    """What the broker uses now, and the arrivals that it missed."""
    values = metrics(broker)
    missed = sum(value for name, value in values.items() if 'cause="missed_arrival"' in name)
    state = broker_state(broker, folder)._asdict()
    return {**state, "web_tasks": values["glassmq_web_tasks"], "missed_arrival": missed}


def main() -> int:
    arguments = parser(__doc__ or "", hours=1.0, calibration=40.0, every=10.0).parse_args()
    proof = Proof("load", arguments)
    with running() as (broker, folder):
        times = {"seconds": arguments.hours * 3600, "calibration": arguments.calibration, "every": arguments.every}
        asyncio.run(soak(proof, broker, folder, **times))
    return proof.finish()


if __name__ == "__main__":
    sys.exit(main())
