"""One web process, as the engine's side of the bridge knows it."""

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING

from msgspec import Raw

from bridge import wire
from bridge.pump import Pump
from bridge.transport import Link, TransportFull
from broker_core.codes import ResponseCode
from broker_core.commands import Failed, Pulled, Records, Reply
from broker_core.server.engine_runner import MAX_ASIDE, Connection

if TYPE_CHECKING:
    from bridge.engine_host import EngineHost

log = logging.getLogger(__name__)
SEEN_BATCHES = 256  # a layer may deliver a batch twice after a failure, soon after the first time


class WebProcess:
    """Its connections, what waits to be sent to it, and how long ago it was heard."""

    def __init__(self, host: "EngineHost", name: str, link: Link, reply_to: str, first: int) -> None:
        self.name = name
        self.link = link
        self.reply_to = reply_to
        self.first = first
        self.deltas = False
        self.events = False
        self.leaving = False
        self.gone = False
        self.heard_ns = 0
        self.connections: dict[int, Connection] = {}
        self._host = host
        self._limits = host.limits
        self._seen: deque[int] = deque(maxlen=SEEN_BATCHES)
        self._replies: deque[tuple[int, int, Raw]] = deque()
        self._reply_bytes = 0
        self._deltas: deque[Raw] = deque(maxlen=self._limits.delta_backlog)
        self._events: deque[Raw] = deque(maxlen=self._limits.delta_backlog)
        self._told = False
        self._snapshots: set[tuple[int, int]] = set()
        """(connection, request id) of those asked for and not answered yet."""
        self.pump = Pump(self._send_next)
        self.sink = self._on_replies  # one object, so that the runner sees one sink

    def is_repeated(self, number: int) -> bool:
        """Whether this batch was here before; from now on it was."""
        if number in self._seen:
            return True
        self._seen.append(number)
        return False

    def connection(self, number: int) -> Connection:
        connection = self.connections.get(number)
        if connection is None:
            # All that a web process asks for nobody in particular comes on one connection; it is not one client's.
            questions = self._limits.waiting_count if number == wire.PROCESS else MAX_ASIDE
            connection = self.connections[number] = Connection(self.sink, number, questions)
        return connection

    # --- Snapshots ---

    def snapshot_asked(self, connection: int, request_id: int) -> None:
        """It is to be given one; with request id 0 it throws it away."""
        if request_id and (connection, request_id) not in self._snapshots:
            self._snapshots.add((connection, request_id))
            self._host.fanout.snapshot_asked()

    def _snapshot_answered(self, asked: tuple[int, int]) -> None:
        """By whatever reply, or there will be none."""
        self._snapshots.discard(asked)
        self._host.fanout.snapshot_answered()

    def forget_snapshots(self, connection: int | None = None) -> None:
        """Nobody is left to answer on this connection, or on any."""
        for asked in [asked for asked in self._snapshots if connection in (None, asked[0])]:
            self._snapshot_answered(asked)

    # --- What is sent ---

    def _on_replies(self, replies: list[tuple[Connection, int, Reply]]) -> None:
        """The replies of one turn, and notices. Request id 0 is what nobody waits for."""
        for connection, request_id, reply in replies:
            if request_id:
                self.put(connection.key, request_id, reply)

    def put(self, connection: int, request_id: int, reply: Reply) -> None:
        """One reply, to be sent with the next batch."""
        if self._snapshots and (connection, request_id) in self._snapshots:
            self._snapshot_answered((connection, request_id))
        if self.gone:
            return
        try:
            raw = wire.encode_reply(reply)
        except Exception as error:  # text that is not Unicode, somewhere in a store written by others
            log.warning("a reply cannot be encoded: %s", error)
            raw = wire.encode_reply(
                Failed(
                    code=ResponseCode.SYSTEM_ERROR,
                    kind="store",
                    remark=f"the broker's answer cannot be written down: {error}",
                )
            )
        if len(raw) > self._limits.message_bytes // 2:
            raw = wire.encode_reply(
                Failed(
                    code=ResponseCode.SYSTEM_ERROR,
                    kind="request",
                    remark=f"the answer takes {len(raw)} bytes, more than can be sent in one piece; "
                    "ask for less at once",
                )
            )
        elif self._reply_bytes + len(raw) > self._limits.reply_bytes and isinstance(reply, Pulled | Records):
            raw = wire.encode_reply(
                Failed(
                    code=ResponseCode.SYSTEM_BUSY,
                    kind="unavailable",
                    retry_after_ms=100,
                    remark="the way back from the broker's engine is full; ask again in a moment",
                )
            )
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

    def tell_alive(self) -> None:
        """Send something, be it nothing but the head."""
        self._told = False
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
        if self.gone or (self._told and not replies and not deltas and not events):
            return False
        self._told = True
        self._deltas.clear()
        self._events.clear()
        engine = self._host.runner.engine
        leaving = self.leaving and not self._replies
        data = wire.encode_to_web(
            wire.EncodedReplies(engine.options.broker_name, engine.epoch, self.first, leaving, replies, deltas, events)
        )
        if not await self._deliver(data):
            self._host.batches_dropped += 1
            self._host.replies_dropped += len(replies)
        return True

    async def _deliver(self, data: bytes) -> bool:
        """Hand over one batch; try again for a bounded time. False: it is given up, time-outs will tell."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + self._limits.reply_retry_ms / 1000
        pause = 0.01
        while not self.gone:
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
