"""The only interface between the web and the engine: ``api`` and ``dashboard`` may use nothing else of the broker.

A port sends the commands of ``broker_core.commands`` to an engine, wherever it runs, and returns the replies;
``Failed`` becomes an exception. ``GLASSMQ_ENGINE`` chooses the implementation; tests use a fake. This module
re-exports the commands, so that nothing above the bridge imports the engine.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from bridge.history.history import History
from bridge.history.history_file import Series
from bridge.history.rollup import BROKER, GROUP, TIERS, TOPIC, Kind
from bridge.message_view import (
    INFLATED_BYTES_MAX,
    Message,
    inflate_messages,
    iter_messages,
    stored_messages,
    takes_long,
)
from bridge.security_headers import security_headers
from bridge.what_if import Totals, compare_polling, decode_pulls, waits_of
from broker_core import commands as commands  # re-exported: port.commands.PullMessage
from broker_core.clock import Clock, SystemClock
from broker_core.codes import ResponseCode, version_text
from broker_core.commands import Command, Failed, Held, Histogram, HoldView, Notice, QueueView, Reply, WakeUp
from broker_core.consumers.allocate_message_queue import allocate_averagely
from broker_core.errors import (
    BrokerError,
    ConflictError,
    NotFoundError,
    OverloadedError,
    RequestError,
    TooLargeError,
    UnavailableError,
)
from broker_core.events import event_types
from broker_core.formats.message_properties import encode as encode_properties
from broker_core.formats.pop_check_point import NORMAL, POP_ORDER_REVIVE_QUEUE, ExtraInfo, kind_of, popped_topic
from broker_core.formats.recall_handle import decode as decode_recall_handle
from broker_core.options import DESCRIPTIONS as OPTION_DESCRIPTIONS
from broker_core.tasks import start_task
from broker_core.verdicts.catalogue import PROBLEMS
from broker_core.verdicts.group_state import PATIENCE_MS, State
from broker_core.verdicts.judge import judge
from broker_core.verdicts.verdict import Verdicts

__all__ = [
    "BROKER",
    "GROUP",
    "INFLATED_BYTES_MAX",
    "NORMAL",
    "OPTION_DESCRIPTIONS",
    "PATIENCE_MS",
    "POP_ORDER_REVIVE_QUEUE",
    "PROBLEMS",
    "TIERS",
    "TOPIC",
    "BrokerError",
    "Clock",
    "ConflictError",
    "Delta",
    "EnginePort",
    "EventBatch",
    "ExtraInfo",
    "History",
    "Kind",
    "Message",
    "NotFoundError",
    "OverloadedError",
    "PortConnection",
    "PortTimeout",
    "PortUnavailable",
    "RequestError",
    "ResponseCode",
    "Series",
    "State",
    "SystemClock",
    "TooLargeError",
    "Totals",
    "UnavailableError",
    "Verdicts",
    "Watcher",
    "allocate_averagely",
    "commands",
    "compare_polling",
    "decode_pulls",
    "decode_recall_handle",
    "encode_properties",
    "event_types",
    "inflate_messages",
    "iter_messages",
    "judge",
    "kind_of",
    "popped_topic",
    "raise_failed",
    "security_headers",
    "start_task",
    "stored_messages",
    "takes_long",
    "version_text",
    "waits_of",
]


class PortUnavailable(UnavailableError):
    """The engine cannot be reached, or too much waits for it. As far as is known, nothing was stored."""


class PortTimeout(BrokerError):
    """The deadline passed without an answer. The command may or may not have been executed."""


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """The changes since ``seq_from - 1``, coalesced; at most 10 deltas a second.

    ``queues`` and ``counters`` are absolute values, so they become correct again after a lost delta. ``wakeups`` and
    ``client_events`` are the newest of the interval. ``dropped`` counts entries left out of any list by a limit.

    A snapshot falls into the interval of some delta. Apply that delta too: its ``seq_from`` is at most the snapshot's
    ``seq`` + 1, and its ``seq_to`` is greater than ``seq``. Skip deltas that end at or before the snapshot. A
    heartbeat, a delta without any event, has ``seq_from`` = ``seq_to`` + 1.
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
    """Single events as JSON texts, with their sequence numbers; ``dropped`` counts events left out by a limit."""

    broker: str
    epoch: int
    events: list[tuple[int, str, bytes]]
    dropped: int


class Watcher(Protocol):
    """Receives deltas and events for one page or stream, on the event loop. Its methods must return at once."""

    def on_delta(self, delta: Delta) -> None: ...

    def on_events(self, batch: EventBatch) -> None: ...

    def on_lost(self, reason: str) -> None:
        """The stream has a gap, because the engine was away or restarted: request a new snapshot."""


class PortConnection(Protocol):
    """One client of the broker. When it closes, its holds are released and it leaves its groups.

    ``on_notice`` is called with the engine's notices; it must return at once.
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
        """Send a command and await the answer. Raises BrokerError and its subclasses, PortUnavailable, PortTimeout.

        The default time-out is 10 s; for a pull or a pop, the time of its hold is added. With a ``request_id`` from
        ``next_request_id``, a later ``CancelPull`` can cancel this call.
        """
        ...

    def next_request_id(self) -> int: ...

    def close(self) -> None:
        """Release everything, without waiting. Outstanding calls end with PortUnavailable."""
        ...


class EnginePort(Protocol):
    """Access to one broker's engine."""

    @property
    def answered_ms(self) -> int | None:
        """When the engine answered last, in wall-clock ms; None if it has not answered this process yet."""
        ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def call(self, command: Command, *, timeout_ms: int | None = None) -> Reply:
        """Send a command that belongs to no particular client (any command except a pull or a pop)."""
        ...

    def connection(self) -> PortConnection:
        """A new client of the broker. It is cheap: use one for each HTTP long poll and each WebSocket."""
        ...

    def watch(self, watcher: Watcher, *, deltas: bool = False, events: bool = False) -> Callable[[], None]:
        """Begin to deliver deltas, events or both to ``watcher``; the returned function ends it."""
        ...


_KINDS: dict[str, type[RequestError]] = {
    "request": RequestError,
    "not_found": NotFoundError,
    "conflict": ConflictError,
    "too_large": TooLargeError,
}


def raise_failed(reply: Reply) -> Reply:
    """Return ``reply``, or raise the corresponding error if it is ``Failed``."""
    if not isinstance(reply, Failed):
        return reply
    code = ResponseCode(reply.code)
    if reply.kind == "overload":
        raise OverloadedError(reply.remark, code=code, retry_after_ms=reply.retry_after_ms)
    if reply.kind in ("unavailable", "no_room"):
        raise UnavailableError(reply.remark, code=code, retry_after_ms=reply.retry_after_ms)
    if reply.kind == "store":
        raise BrokerError(reply.remark, code=code)
    raise _KINDS[reply.kind](reply.remark, code=code, pointer=reply.pointer)


_ports: dict[str, EnginePort] = {}


def set_ports(ports: Mapping[str, EnginePort]) -> None:
    """Set the brokers of this process by name: called once at the start, or by a test."""
    global _ports
    _ports = dict(ports)


def set_port(port: EnginePort | None, broker: str = "broker-a") -> None:
    """``set_ports`` for one broker, or none."""
    set_ports({} if port is None else {broker: port})


def get_ports() -> Mapping[str, EnginePort]:
    """The brokers of this process by name, in the order given to ``set_ports``; PortUnavailable before that."""
    if not _ports:
        raise PortUnavailable("the broker's engine is not connected to this web process yet; try again in a moment")
    return _ports


def get_port(broker: str = "") -> EnginePort:
    """The port of one broker, by default of the first. NotFoundError for an unknown name."""
    ports = get_ports()
    if not broker:
        return next(iter(ports.values()))
    if broker not in ports:
        raise NotFoundError(
            f"there is no broker {broker!r}; this process serves {', '.join(ports)}",
            code=ResponseCode.QUERY_NOT_FOUND,
            pointer="/broker",
        )
    return ports[broker]


_histories: dict[str, History] = {}


def set_histories(histories: Mapping[str, History]) -> None:
    """Set the histories of this process's brokers by name."""
    global _histories
    _histories = dict(histories)


def get_history(broker: str) -> History | None:
    """The history of one broker; None if this process does not have it."""
    return _histories.get(broker)
