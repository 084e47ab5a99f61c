"""The engine's end of a bridge, scripted: a transport that records what it is sent and answers by a function."""

import asyncio
from collections.abc import Callable

from bridge import wire
from bridge.limits import Limits
from bridge.port import Delta, EventBatch
from broker_core.commands import AnyReply, Command, Done, Histogram, Reply

QUICK = Limits(alive_ms=20, away_alive_ms=5, start_wait_ms=30_000, reconnect_first_ms=1, reconnect_most_ms=50)
"""Limits for tests: no wait is long, and no silence is noticed by accident."""


class FakeEngine:
    """A Transport with an engine behind it. ``answer`` returns the reply to a command, or None to leave it open.

    While ``gate`` is cleared, sends wait. Each send raises ``error``, if it is set.
    """

    def __init__(
        self, answer: Callable[[Command], Reply | None] = lambda command: Done(), *, alive: bool = True
    ) -> None:
        self.reply_to = "here"
        self.answer = answer
        self.alive = alive
        self.batches: list[wire.Requests] = []
        self.alives: list[wire.Alive] = []
        self.byes = 0
        self.epoch = 1
        self.first = 1
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: Exception | None = None
        self.changed = asyncio.Event()
        self.on_lost: Callable[[str], None] = lambda reason: None
        self.on_message: Callable[[bytes], None] = lambda data: None

    async def start(self, on_message: Callable[[bytes], None], on_lost: Callable[[str], None]) -> None:
        self.on_message, self.on_lost = on_message, on_lost

    async def stop(self) -> None:
        pass

    async def send(self, data: bytes) -> None:
        message, _ = wire.decode_to_engine(data, 1 << 30)
        if isinstance(message, wire.Alive):
            self.alives.append(message)
            if self.alive:
                self.say()
        elif isinstance(message, wire.Bye):
            self.byes += 1
        else:
            await self._receive(message)
        self.changed.set()

    async def _receive(self, batch: wire.Requests) -> None:
        self.batches.append(batch)
        self.changed.set()
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        replies = [
            (connection, request_id, reply)
            for connection, request_id, _, command in batch.requests
            if request_id and (reply := self.answer(command)) is not None
        ]
        if replies:
            self.say(*replies)

    def say(
        self,
        *replies: tuple[int, int, Reply],
        deltas: tuple[Delta, ...] = (),
        events: tuple[EventBatch, ...] = (),
        leaving: bool = False,
    ) -> None:
        """Send something to the web process."""
        known: list[tuple[int, int, AnyReply]] = list(replies)  # type: ignore[arg-type]
        self.on_message(
            wire.encode_to_web(
                wire.Replies("broker-a", self.epoch, self.first, leaving, known, list(deltas), list(events))
            )
        )

    @property
    def commands(self) -> list[Command]:
        """All commands received, in order."""
        return [command for batch in self.batches for _, _, _, command in batch.requests]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a send makes ``condition`` true."""
        async with asyncio.timeout(60):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


def delta(seq_from: int, seq_to: int, *, epoch: int = 1) -> Delta:
    """A delta without content."""
    nothing = Histogram(bounds=[], counts=[0])
    return Delta(
        broker="broker-a",
        epoch=epoch,
        seq_from=seq_from,
        seq_to=seq_to,
        wall_ms=0,
        holds_added=[],
        holds_removed=[],
        holds_total=0,
        queues=[],
        queues_removed=[],
        wakeups=[],
        client_events=[],
        counters={},
        wakeup_us=nothing,
        held_ms=nothing,
        long_polling_enable=True,
        problem="",
        dropped=0,
    )


class NotingWatcher:
    """Records what it receives."""

    def __init__(self) -> None:
        self.deltas: list[Delta] = []
        self.events: list[EventBatch] = []
        self.lost: list[str] = []
        self.changed = asyncio.Event()

    def on_delta(self, delta: Delta) -> None:
        self.deltas.append(delta)
        self.changed.set()

    def on_events(self, batch: EventBatch) -> None:
        self.events.append(batch)
        self.changed.set()

    def on_lost(self, reason: str) -> None:
        self.lost.append(reason)
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                self.changed.clear()
                await self.changed.wait()
