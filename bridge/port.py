"""The one seam between the web and the engine: what ``api`` and ``dashboard`` may see of the broker.

A port carries the commands of ``broker_core.commands`` to an engine, wherever it runs, and brings back the
replies; it turns ``Failed`` into the errors below. Which implementation serves is decided in the settings
(``GLASSMQ_ENGINE``); tests name a fake. The vocabulary is re-exported here, so that nothing above the bridge
imports the engine.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from bridge.message_view import INFLATED_BYTES_MAX, Message, inflate_messages, stored_messages, takes_long
from broker_core import commands as commands  # re-exported: port.commands.PullMessage
from broker_core.clock import Clock, SystemClock
from broker_core.codes import ResponseCode, version_text
from broker_core.commands import Command, Failed, Held, Histogram, HoldView, Notice, QueueView, Reply, WakeUp
from broker_core.consumers.allocate_message_queue import allocate_averagely
from broker_core.errors import BrokerError, ConflictError, NotFoundError, RequestError, UnavailableError
from broker_core.formats.message_properties import encode as encode_properties
from broker_core.options import DESCRIPTIONS as OPTION_DESCRIPTIONS
from broker_core.server.tasks import start_task

__all__ = [
    "INFLATED_BYTES_MAX",
    "OPTION_DESCRIPTIONS",
    "BrokerError",
    "Clock",
    "ConflictError",
    "Delta",
    "EnginePort",
    "EventBatch",
    "Message",
    "NotFoundError",
    "PortConnection",
    "PortTimeout",
    "PortUnavailable",
    "RequestError",
    "ResponseCode",
    "SystemClock",
    "UnavailableError",
    "Watcher",
    "allocate_averagely",
    "commands",
    "encode_properties",
    "inflate_messages",
    "raise_failed",
    "start_task",
    "stored_messages",
    "takes_long",
    "version_text",
]


class PortUnavailable(UnavailableError):
    """The engine cannot be reached, or the way to it is full. Nothing is known to have been stored."""


class PortTimeout(BrokerError):
    """The deadline passed without an answer. What was sent may or may not have been done."""


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """What changed since ``seq_from - 1``, coalesced; at most 10 a second.

    ``queues`` and ``counters`` are absolute values, so a lost delta heals itself there. ``wakeups`` and
    ``client_events`` are the newest of the interval, ``dropped`` counts what a limit left out of any list.

    A snapshot falls into some delta's interval: apply that delta too (``seq_from`` is at most the snapshot's
    ``seq`` + 1, ``seq_to`` above it), and skip those that end at or before the snapshot. A heartbeat, in which
    nothing happened, has ``seq_from`` = ``seq_to`` + 1.
    """

    broker: str
    epoch: int
    seq_from: int
    seq_to: int
    wall_ms: int
    holds_added: list[HoldView]
    holds_removed: list[int]
    holds_total: int
    queues: list[QueueView]
    queues_removed: list[tuple[str, int]]
    wakeups: list[WakeUp]
    client_events: list[dict[str, Any]]
    counters: dict[str, int]
    wakeup_us: Histogram
    held_ms: Histogram
    long_polling_enable: bool
    problem: str
    dropped: int


class EventBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Single events as JSON texts, with their sequence numbers; ``dropped`` counts those that a limit left out."""

    broker: str
    epoch: int
    events: list[tuple[int, str, bytes]]
    dropped: int


class Watcher(Protocol):
    """Gets what one page or stream asked for, on the event loop. Both calls must return at once."""

    def on_delta(self, delta: Delta) -> None: ...

    def on_events(self, batch: EventBatch) -> None: ...

    def on_lost(self, reason: str) -> None:
        """The stream has a gap (the engine went away or restarted): ask for a snapshot."""


class PortConnection(Protocol):
    """One client of the broker: what it holds is released, and it leaves its groups, when it closes.

    ``on_notice`` is handed what the engine says unasked; it must return at once.
    """

    on_notice: Callable[[Notice], None]

    async def call(
        self,
        command: Command,
        *,
        timeout_ms: int | None = None,
        on_held: Callable[[Held], None] | None = None,
        request_id: int | None = None,
    ) -> Reply:
        """Send, await the answer. Raises BrokerError's kinds, PortUnavailable, PortTimeout.

        The default time-out is 10 s, and for a pull its suspend time more. ``request_id`` (from
        ``next_request_id``) lets a later ``CancelPull`` name this call.
        """
        ...

    def next_request_id(self) -> int: ...

    def close(self) -> None:
        """Release everything; outstanding calls end with PortUnavailable. Does not wait."""
        ...


class EnginePort(Protocol):
    """The way to one broker's engine."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def call(self, command: Command, *, timeout_ms: int | None = None) -> Reply:
        """A command that belongs to no client in particular (all but pulls)."""
        ...

    def connection(self) -> PortConnection:
        """A client of its own. Cheap: one per HTTP long poll, one per WebSocket."""
        ...

    def watch(self, watcher: Watcher, *, deltas: bool = False, events: bool = False) -> Callable[[], None]:
        """Start to hand over deltas and / or events; the result, called, ends it."""
        ...


_KINDS: dict[str, type[RequestError]] = {"request": RequestError, "not_found": NotFoundError, "conflict": ConflictError}


def raise_failed(reply: Reply) -> Reply:
    """``reply``, unless it is ``Failed``: then the error it stands for is raised."""
    if not isinstance(reply, Failed):
        return reply
    code = ResponseCode(reply.code)
    if reply.kind == "unavailable":
        raise UnavailableError(reply.remark, code=code, retry_after_ms=reply.retry_after_ms)
    if reply.kind == "store":
        raise BrokerError(reply.remark, code=code)
    raise _KINDS[reply.kind](reply.remark, code=code, pointer=reply.pointer)


_ports: dict[str, EnginePort] = {}


def set_ports(ports: Mapping[str, EnginePort]) -> None:
    """The brokers of this process by name: called once by whoever starts it (or by a test)."""
    global _ports
    _ports = dict(ports)


def set_port(port: EnginePort | None, broker: str = "broker-a") -> None:
    """``set_ports`` where there is one broker, or none."""
    set_ports({} if port is None else {broker: port})


def get_ports() -> Mapping[str, EnginePort]:
    """The brokers of this process by name, in the order in which they were named; PortUnavailable before any is."""
    if not _ports:
        raise PortUnavailable("the broker's engine is not connected to this web process yet; try again in a moment")
    return _ports


def get_port(broker: str = "") -> EnginePort:
    """The port of one broker, of the first one when none is named. NotFoundError for a name that is not there."""
    ports = get_ports()
    if not broker:
        return next(iter(ports.values()))
    if broker not in ports:
        raise NotFoundError(
            f"there is no broker {broker!r} here, but {', '.join(ports)}",
            code=ResponseCode.QUERY_NOT_FOUND,
            pointer="/broker",
        )
    return ports[broker]
