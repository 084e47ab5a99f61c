"""Events about pulls and pops, held or not."""

from typing import Literal

from broker_core.commands import OrderWait, Protocol, ReleaseCause, WakeCause
from broker_core.events.base import Event

RejectedBy = Literal["tags", "properties", "bitmap"]


class PullReceived(Event, frozen=True):
    topic: str
    queue_id: int
    queue_offset: int
    group: str
    client_id: str
    protocol: Protocol


class PullHeld(Event, frozen=True):
    """A row was added to the pullRequestTable."""

    hold_id: int
    topic: str
    queue_id: int
    group: str
    client_id: str
    protocol: Protocol
    pull_from_offset: int
    queue_max_offset: int
    deadline_ms: int
    filter: str
    waits_for: OrderWait | None = None


class PullPassedOver(Event, frozen=True):
    """Messages arrived in the queue, but the hold's filter rejected all of them: by their tags, by their properties, or
    by the bitmaps that say which SQL92 filters match a message."""

    hold_id: int
    topic: str
    queue_id: int
    from_offset: int
    to_offset: int
    by: RejectedBy


class PullWoken(Event, frozen=True):
    """A hold ended with an answer. ``wake_us`` is from the arrival's turn to the answer, 0 without an arrival."""

    hold_id: int
    topic: str
    queue_id: int
    group: str
    client_id: str
    cause: WakeCause
    held_us: int
    wake_us: int
    messages: int


class PullReleased(Event, frozen=True):
    """A hold ended without an answer, because nobody waits for one. The hold was allowed to last ``granted_ms``."""

    hold_id: int
    topic: str
    queue_id: int
    group: str
    client_id: str
    cause: ReleaseCause
    held_us: int
    protocol: Protocol
    pull_from_offset: int
    queue_max_offset: int
    granted_ms: int


class PullAnswered(Event, frozen=True):
    """``hold_id`` is 0 for a pull answered at once. After a hold, this event follows its PullWoken in the same turn.

    ``granted_ms`` is how long the pull was allowed to wait. ``oldest_store_ms`` is the store time of the first message
    in the answer, -1 without one. The filter rejected ``passed_over`` messages; for ``passed_over_by_bitmap`` of them,
    their bitmaps sufficed.
    """

    topic: str
    queue_id: int
    group: str
    client_id: str
    hold_id: int
    code: int
    status: str
    messages: int
    size: int
    next_begin_offset: int
    protocol: Protocol
    pull_from_offset: int
    queue_max_offset: int
    granted_ms: int
    oldest_store_ms: int
    passed_over: int
    passed_over_by_bitmap: int


class PullRefused(Event, frozen=True):
    """The broker refused a pull. ``code`` is a ResponseCode, ``remark`` the reason."""

    topic: str
    queue_id: int
    group: str
    client_id: str
    code: int
    remark: str
