"""What a client does, as events: for metrics, traces and logs of the program that uses it.

def listener(event):
    match event:
        case PullAnswered(status="FOUND", messages=count):
            ...

instance = MQClientInstance("127.0.0.1:9876", event_listener=listener)
consumer = DefaultMQPushConsumer("my-consumers", instance=instance)

The words are those of the broker's events. Durations are in ns. Without a listener no event is built.
"""

import logging
from collections.abc import Callable, Sequence

import msgspec

from broker_core.client.message import MessageExt
from broker_core.commands import MessageQueue

log = logging.getLogger(__name__)


class ClientEvent(msgspec.Struct, frozen=True, gc=False):
    """Base of all events. ``mono_ns`` is the client's monotonic clock; ``group`` that of the producer or consumer."""

    mono_ns: int
    group: str


class MessageSent(ClientEvent, frozen=True):
    """A send has ended, after ``attempts``. ``send_status`` is empty if it failed with ``error``.

    A ``send_oneway`` has no such event.

    ``properties`` are as they were stored: a trace context that the program has put there is among them. Of a batch
    they are those of the whole, and its ids are joined by commas. ``queue`` is None, and ``offset_msg_id`` empty, if it
    was not stored.
    """

    topic: str
    queue: MessageQueue | None
    msg_id: str
    offset_msg_id: str
    send_status: str
    error: str
    attempts: int
    size: int
    duration_ns: int
    properties: str


class PullSent(ClientEvent, frozen=True):
    """A pull is on its way. Its ``commit_offset`` is committed by the broker if it is above 0."""

    queue: MessageQueue
    pull_from_offset: int
    commit_offset: int


class PullAnswered(ClientEvent, frozen=True):
    """A pull was answered; ``status`` is empty if it failed, or if its queue was given up meanwhile.

    There is one for each PullSent. The time that the broker held the pull is in the duration.
    """

    queue: MessageQueue
    pull_from_offset: int
    status: str
    error: str
    messages: int
    next_begin_offset: int
    duration_ns: int


class MessagesPut(ClientEvent, frozen=True):
    """Messages are in the process queue, or wait for ``poll``, which now has ``waiting`` of this queue."""

    queue: MessageQueue
    messages: Sequence[MessageExt]
    waiting: int


class MessagesConsumed(ClientEvent, frozen=True):
    """The listener has returned. ``consumed`` of the messages, counted from the first, were consumed."""

    queue: MessageQueue
    messages: Sequence[MessageExt]
    consumed: int
    duration_ns: int


class OffsetCommitted(ClientEvent, frozen=True):
    """The broker has stored the group's offset. (Pulls commit, too: see PullSent.)"""

    queue: MessageQueue
    offset: int


EventListener = Callable[[ClientEvent], None]
"""It is called on the event loop, and must not wait for anything."""


class EventHook:
    """Passes events to the listener of a client. One that raises is dropped, so that it never stops the client."""

    def __init__(self, listener: EventListener | None) -> None:
        self.listener = listener

    def emit(self, event: ClientEvent) -> None:
        """Pass an event on. To build none for nobody, callers look whether there is a ``listener`` first."""
        if self.listener is None:
            return
        try:
            self.listener(event)
        except Exception:
            log.exception("the event listener failed at %s and is called no more", type(event).__name__)
            self.listener = None
