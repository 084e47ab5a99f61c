"""Demo traffic over the public WebSocket API: a producer, and five groups that consume what it publishes.

    producer           publishes records at the chosen rate, tag = section, key = package
    search-index       healthy: two members share the queues and acknowledge each message
    slow-scanner       slow: takes four times as long as the producer for each message, so it falls behind
    stuck-mirror       stuck: takes messages and never acknowledges one, as if its listener were blocked
    failing-importer   sends every message back; the third time to the dead letter queue
    mixed-alerts       mixed: its two members subscribe to different tags, so each misses messages

The group page has the verdict on each. A lost connection is reported once and tried again every second; clients
continue where they were.
"""

import asyncio
import itertools
import json
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.typing import Subprotocol

from bridge.port import start_task

PACKAGES = Path(__file__).resolve().parent / "demo_packages.jsonl"
"""Descriptions of 400 Debian packages, one JSON object a line."""
SUBPROTOCOL = "rmq.v1.json"
RETRY_SECONDS = 1.0
TOKEN_MISSING = 4401
"""The close code of a broker that requires an access token."""
SLOWNESS = 4
"""So many messages are published while a slow member handles one."""
TRIES = 3
"""After so many failures a message is sent to the dead letter queue, so that retries do not pile up."""
COPIES = 2 * (TRIES - 1) + 1
"""The number of copies that failing-importer leaves of each message: two for each further try, of which one waits and
one is delivered, and the dead letter."""
NOT_OPEN = "QUERY_NOT_FOUND"
"""The problem that answers a message sent back after its queue has moved to another member."""
TO_DEAD_LETTERS, BY_TRIES = -1, 0
"""Delay levels of a message that is sent back: below 0 it is dead, 0 is the broker's default for its tries."""


class DemoError(Exception):
    """The demo cannot continue; the message is a sentence with the reason."""


class Group(NamedTuple):
    """A group of the demo: the filter of each member, what members do with a message, and the most of them in hand."""

    name: str
    filters: tuple[str, ...]
    handling: Literal["acknowledge", "acknowledge slowly", "keep", "send back"] = "acknowledge"
    permits: int = 200


GROUPS = (
    Group("search-index", ("*", "*")),
    Group("slow-scanner", ("*",), "acknowledge slowly", permits=8),
    Group("stuck-mirror", ("*",), "keep"),
    Group("failing-importer", ("*",), "send back"),
    Group("mixed-alerts", ("games || graphics", "libs || perl")),
)


def records(file: Path | None) -> list[dict[str, Any]]:
    """JSON objects, one a line: those of ``file``, or the Debian packages that come with the demo.

    Raises DemoError naming the file and line.
    """
    file = file or PACKAGES
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DemoError(f"{file} cannot be read: {error}") from error
    parsed = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise DemoError(f"{file} line {number} is not JSON: {error}") from error
        if not isinstance(record, dict):
            raise DemoError(f"{file} line {number} is not a JSON object")
        parsed.append(record)
    if not parsed:
        raise DemoError(f"{file} has no records")
    return parsed


def message(record: dict[str, Any]) -> dict[str, Any]:
    """A record as a publish frame's message: its section is the tag, its package name the key."""
    entry: dict[str, Any] = {"body": record, "body_encoding": "json"}
    section = record.get("Section") or record.get("tag")
    if isinstance(section, str) and section and "|" not in section:
        entry["tag"] = section
    package = record.get("Package") or record.get("key")
    if isinstance(package, str) and package and " " not in package:
        entry["keys"] = [package]
    return entry


class Demo:
    """The clients of the demo against the broker at ``url`` (http://host:port)."""

    def __init__(
        self, url: str, topic: str, *, rate: float, count: int | None, token: str = "", say: Any = print
    ) -> None:
        self.socket_url = url.replace("http", "ws", 1).rstrip("/") + "/ws/v1/consumer"
        self.topic = topic
        self.rate = rate
        self.count = count
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.say = say
        self.published = 0
        self.consumed: dict[str, int] = {group.name: 0 for group in GROUPS}
        self._name = secrets.token_hex(2)  # two demos are not each other's members
        self._is_away = False

    async def run(self, entries: list[dict[str, Any]]) -> None:
        """Runs until ``count`` messages are published, and half a second longer; without a count, forever."""
        consumers = [
            start_task(
                self._keep_running(self._belong, group, number),
                f"demo consumer of {group.name}",
                expected=(DemoError,),
            )
            for group in GROUPS
            for number in range(len(group.filters))
        ]
        producer = start_task(
            self._keep_running(self._produce, itertools.cycle(entries)), "demo producer", expected=(DemoError,)
        )
        status = start_task(self._report(), "demo report")
        try:
            done, _ = await asyncio.wait([producer, *consumers], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            await asyncio.sleep(0.5)
        finally:
            for task in (producer, status, *consumers):
                task.cancel()
            await asyncio.gather(producer, status, *consumers, return_exceptions=True)

    async def _keep_running(self, client: Any, *arguments: Any) -> None:
        """Runs a client, and again after a lost connection. Only the first client reports the loss."""
        while True:
            try:
                await client(*arguments)
                return
            except (OSError, ConnectionClosed, InvalidHandshake) as error:
                if isinstance(error, ConnectionClosed) and error.rcvd and error.rcvd.code == TOKEN_MISSING:
                    raise DemoError("this broker requires its access token: set GLASSMQ_API_TOKEN to it") from error
                if not self._is_away:
                    self._is_away = True
                    self.say(f"no connection to {self.socket_url} ({error}); trying again each second")
                await asyncio.sleep(RETRY_SECONDS)

    @asynccontextmanager
    async def _socket(self, client_id: str) -> AsyncIterator[ClientConnection]:
        async with connect(
            self.socket_url,
            subprotocols=[Subprotocol(SUBPROTOCOL)],
            additional_headers=self.headers,
            max_size=16 * 1024 * 1024,
        ) as socket:
            await socket.send(json.dumps({"type": "hello", "client_id": client_id}))
            await _frame(socket, "welcome")
            if self._is_away:
                self._is_away = False
                self.say("connected again")
            yield socket

    async def _produce(self, entries: Iterator[dict[str, Any]]) -> None:
        async with self._socket("demo-producer") as socket:
            loop = asyncio.get_running_loop()
            due = loop.time()
            while self.count is None or self.published < self.count:
                burst = max(1, round(self.rate / 50))
                if self.count is not None:
                    burst = min(burst, self.count - self.published)
                frame = {
                    "type": "publish",
                    "id": self.published,
                    "topic": self.topic,
                    "messages": [message(next(entries)) for _ in range(burst)],
                }
                await socket.send(json.dumps(frame))
                await _frame(socket, "published")
                self.published += burst
                due = max(due + burst / self.rate, loop.time() - 1)
                await asyncio.sleep(max(0.0, due - loop.time()))

    async def _belong(self, group: Group, number: int) -> None:
        """Is a member of the group, and handles each message as the group does."""
        async with self._socket(f"{group.name}-{number}-{self._name}") as socket:
            subscribe = json.dumps(
                {
                    "type": "subscribe",
                    "id": 1,
                    "topic": self.topic,
                    "group": group.name,
                    "filter": group.filters[number],
                    "from": "first",
                }
            )
            await socket.send(subscribe)
            await self._joined(socket, subscribe)
            await socket.send(json.dumps({"type": "permit", "id": 1, "n": group.permits}))
            while True:
                frame = json.loads(await socket.recv())
                if frame["type"] == "message":
                    self.consumed[group.name] += 1
                    await self._handle(socket, group, frame)
                elif frame["type"] == "problem" and frame.get("code") != NOT_OPEN:
                    raise _refused(frame)

    async def _handle(self, socket: ClientConnection, group: Group, frame: dict[str, Any]) -> None:
        """Acknowledges a message or sends it back, and permits another one; or does nothing with it."""
        place = {"topic": frame["topic"], "queue_id": frame["queue_id"], "offset": frame["queue_offset"]}
        if group.handling == "keep":
            return
        if group.handling == "acknowledge slowly":
            await asyncio.sleep(SLOWNESS / self.rate)
        if group.handling == "send back":
            level = BY_TRIES if frame["reconsume_times"] + 1 < TRIES else TO_DEAD_LETTERS
            await socket.send(json.dumps({"type": "nack", "id": 1, **place, "delay_level": level}))
        else:
            await socket.send(json.dumps({"type": "ack", "id": 1, "offsets": [place]}))
        await socket.send(json.dumps({"type": "permit", "id": 1, "n": 1}))

    async def _joined(self, socket: ClientConnection, subscribe: str) -> None:
        """Waits for the first queues, and for the topic if it does not exist yet."""
        while (frame := json.loads(await socket.recv()))["type"] != "assigned":
            if frame["type"] == "problem" and frame.get("code") != "TOPIC_NOT_EXIST":
                raise _refused(frame)
            await asyncio.sleep(0.2)
            await socket.send(subscribe)

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(5)
            groups = ", ".join(f"{name} {count}" for name, count in self.consumed.items())
            self.say(f"published {self.published}; received: {groups}")


async def _frame(socket: ClientConnection, kind: str) -> dict[str, Any]:
    """The next frame, which must be of this kind; skips the ``bye`` before a close. Raises DemoError."""
    frame: dict[str, Any] = json.loads(await socket.recv())
    while frame["type"] == "bye":
        frame = json.loads(await socket.recv())
    if frame["type"] == "problem":
        raise _refused(frame)
    if frame["type"] != kind:
        raise DemoError(f"the broker answered {frame['type']} instead of {kind}")
    return frame


def _refused(frame: dict[str, Any]) -> Exception:
    """The exception for a problem frame: ConnectionError, which is retried, for 429 and 5xx; otherwise DemoError."""
    if frame["status"] == 429 or frame["status"] >= 500:
        return ConnectionError(frame["detail"])
    return DemoError(f"the broker refused a request of the demo: {frame['detail']}")
