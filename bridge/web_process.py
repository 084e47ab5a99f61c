"""One web process, on the engine's side of the bridge."""

import asyncio
import logging
from collections import deque
from typing import Protocol

from msgspec import Raw

from bridge import wire
from bridge.event_fanout import EventFanout
from bridge.limits import Limits
from bridge.pump import Pump
from bridge.transport import Link, TransportFull
from broker_core.codes import ResponseCode
from broker_core.commands import Failed, Popped, Pulled, Records, RelayToConsumer, Reply
from broker_core.server.engine_runner import Connection, EngineRunner

log = logging.getLogger(__name__)
SEEN_BATCHES = 256  # a layer may deliver a batch twice after a failure, soon after the first time
PROCESS_SHARE = 32
"""Commands of all HTTP clients of a web process that are taken in a turn, where a RocketMQ client has one."""


class ProcessHost(Protocol):
    """What a WebProcess needs of the EngineHost."""

    runner: EngineRunner
    limits: Limits
    fanout: EventFanout
    batches_dropped: int
    replies_dropped: int

    def relay(self, process: "WebProcess", connection: int, request_id: int, relay: RelayToConsumer) -> None:
        """Have a client consume a message, and answer with its result."""
        ...

    def cut_off(self, process: "WebProcess", reason: str) -> None:
        """Release everything of this process and close its connection."""
        ...

    def give_back(self, process: "WebProcess", popped: Popped) -> None:
        """Make popped messages visible, because there is no room for the answer."""
        ...


NO_ROOM = Failed(
    code=ResponseCode.SYSTEM_BUSY,
    kind="no_room",
    retry_after_ms=20,
    remark="too many replies of the broker's engine wait to be sent; try again in a moment",
)


class WebProcess:
    """The connections of a web process, what waits to be sent to it, and the time of its last message."""

    def __init__(self, host: ProcessHost, name: str, link: Link, reply_to: str, first: int) -> None:
        self.name = name
        self.link = link
        self.reply_to = reply_to
        self.first_batch = first
        self.deltas = False
        self.events = False
        self.leaving = False
        self.is_gone = False
        self.heard_ns = 0
        self.connections: dict[int, Connection] = {}
        self._host = host
        self._limits = host.limits
        self._batches_seen: deque[int] = deque(maxlen=SEEN_BATCHES)
        self._replies: deque[tuple[int, int, Raw]] = deque()
        self._reply_bytes = 0
        self._deltas: deque[Raw] = deque(maxlen=self._limits.delta_backlog)
        self._events: deque[Raw] = deque(maxlen=self._limits.delta_backlog)
        self._heartbeat_answered = False
        self._snapshots: set[tuple[int, int]] = set()
        """(connection, request id) of the requests for a snapshot that are not answered yet."""
        self.pump = Pump(self._send_next)
        self.sink = self._on_replies  # one object, so that the runner sees one sink

    def is_repeated(self, number: int) -> bool:
        """Whether this batch was received before. Notes that it is received now."""
        if number in self._batches_seen:
            return True
        self._batches_seen.append(number)
        return False

    def connection(self, number: int) -> Connection:
        connection = self.connections.get(number)
        if connection is None:
            # Commands that belong to no particular client share one connection, so it may ask and send more.
            if number == wire.PROCESS:
                connection = Connection(self.sink, number, self._limits.waiting_count, PROCESS_SHARE)
            else:
                connection = Connection(self.sink, number)
            self.connections[number] = connection
        return connection

    # --- Snapshots ---

    def snapshot_asked(self, connection: int, request_id: int) -> None:
        """Note a request for a snapshot; with request id 0 the process ignores the answer."""
        if request_id and (connection, request_id) not in self._snapshots:
            self._snapshots.add((connection, request_id))
            self._host.fanout.snapshot_asked()

    def _snapshot_answered(self, request: tuple[int, int]) -> None:
        """Note that a request for a snapshot is answered, or will not be."""
        self._snapshots.discard(request)
        self._host.fanout.snapshot_answered()

    def forget_snapshots(self, connection: int | None = None) -> None:
        """Drop the requests for snapshots of one connection, or of all."""
        for request in [request for request in self._snapshots if connection in (None, request[0])]:
            self._snapshot_answered(request)

    # --- Sending ---

    @property
    def is_full(self) -> bool:
        """Whether so many replies wait that it gets no more messages. A pop is not begun then, because its messages
        would have to be given back."""
        return self._reply_bytes >= self._limits.reply_bytes

    def _on_replies(self, replies: list[tuple[Connection, int, Reply]]) -> None:
        """Take the replies and notices of one turn. No client waits for those with request id 0."""
        for connection, request_id, reply in replies:
            if type(reply) is RelayToConsumer:
                self._host.relay(self, connection.key, request_id, reply)
            elif request_id:
                self.put(connection.key, request_id, reply)

    def put(self, connection: int, request_id: int, reply: Reply) -> None:
        """Queue one reply for the next batch."""
        if self._snapshots and (connection, request_id) in self._snapshots:
            self._snapshot_answered((connection, request_id))
        if self.is_gone:
            return
        try:
            raw = wire.encode_reply(reply)
        except Exception as error:  # text that is not Unicode, somewhere in a store written by others
            log.warning("a reply cannot be encoded: %s", error)
            raw = wire.encode_reply(
                Failed(
                    code=ResponseCode.SYSTEM_ERROR,
                    kind="store",
                    remark=f"the broker's answer cannot be encoded: {error}",
                )
            )
        if len(raw) > self._limits.message_bytes // 2:
            raw = wire.encode_reply(
                Failed(
                    code=ResponseCode.SYSTEM_ERROR,
                    kind="request",
                    remark=f"the answer has {len(raw)} bytes, more than one message may have; request less at once",
                )
            )
        elif self._reply_bytes + len(raw) > self._limits.reply_bytes and isinstance(reply, Pulled | Records):
            raw = wire.encode_reply(NO_ROOM)
        elif self._reply_bytes + len(raw) > self._limits.reply_bytes and isinstance(reply, Popped) and reply.queues:
            self._host.give_back(self, reply)
            raw = wire.encode_reply(NO_ROOM)
        self._replies.append((connection, request_id, raw))
        self._reply_bytes += len(raw)
        if len(self._replies) > self._limits.reply_count:
            self._host.cut_off(self, "it does not read its replies")
        else:
            self.pump.wake()

    def put_observed(self, delta: Raw | None, events: Raw | None) -> None:
        if delta is not None and self.deltas:
            self._deltas.append(delta)
            self.pump.wake()
        if events is not None and self.events:
            self._events.append(events)
            self.pump.wake()

    def answer_heartbeat(self) -> None:
        """Send a message, even if there is nothing to put into it."""
        self._heartbeat_answered = False
        self.pump.wake()

    def _take(self) -> list[tuple[int, int, Raw]]:
        taken: list[tuple[int, int, Raw]] = []
        size = 0
        while self._replies and len(taken) < self._limits.batch_count and size < self._limits.batch_bytes:
            entry = self._replies.popleft()
            taken.append(entry)
            size += len(entry[2])
        self._reply_bytes -= size
        return taken

    async def _send_next(self) -> bool:
        replies, deltas, events = self._take(), list(self._deltas), list(self._events)
        if self.is_gone or (self._heartbeat_answered and not replies and not deltas and not events):
            return False
        self._heartbeat_answered = True
        self._deltas.clear()
        self._events.clear()
        engine = self._host.runner.engine
        leaving = self.leaving and not self._replies
        data = wire.encode_to_web(
            wire.EncodedReplies(
                engine.options.broker_name, engine.epoch, self.first_batch, leaving, replies, deltas, events
            )
        )
        count = len(replies)
        del replies, deltas, events  # they are in ``data``, and sending may take long
        if not await self._deliver(data):
            self._host.batches_dropped += 1
            self._host.replies_dropped += count
        return True

    async def _deliver(self, data: bytes) -> bool:
        """Send one batch, trying again for a limited time. Returns False if it is given up; the calls then time out."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + self._limits.reply_retry_ms / 1000
        pause = 0.01
        while not self.is_gone:
            try:
                async with asyncio.timeout_at(give_up):
                    await self.link.send(self.reply_to, data)
                return True
            except ConnectionError as error:
                self._host.cut_off(self, f"its connection ended ({error})")
                return False
            except TimeoutError:
                self.link.cut()
                return False
            except Exception as error:
                if not isinstance(error, TransportFull):
                    log.warning("replies for web process %s were not sent: %s", self.name, error)
                if loop.time() + pause > give_up:
                    return False
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.5)
        return False
