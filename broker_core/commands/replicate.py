"""Commands of the follower of another broker's commit log. Only an engine that follows one accepts those that write."""

from typing import Any, Literal

import msgspec

from broker_core.commands.base import Command, Reply, Shape
from broker_core.commands.clients import ConsumerData

FollowState = Literal["connecting", "following", "waiting", "stopped"]
"""``waiting``: it tries again soon. ``stopped``: it does not, because copy and master differ or cannot be joined."""


class AppendToCommitLog(Command, frozen=True):
    """Append whole, checked records of the followed log, which belong at ``offset``. -> AppendedToCommitLog

    ``store_timestamp`` is that of the last record, ms; 0 if there is none.
    """

    offset: int
    data: bytes
    store_timestamp: int


class AppendedToCommitLog(Reply, frozen=True):
    """``end`` is the physical offset after the last record."""

    end: int


class GetLogEnd(Command, frozen=True):
    """Where the copy ends, and its last messages, to compare them with the followed log. -> LogEnd"""


class LogEnd(Reply, frozen=True):
    """Physical offsets. ``end`` is None while the copy is empty; ``records`` are (offset, bytes), newest first."""

    end: int | None
    segment_size: int
    records: list[tuple[int, bytes]]


class ReplicatedOffsets(Shape, frozen=True):
    """Committed offsets of one group in one topic, by queue id."""

    group: str
    topic: str
    offsets: dict[int, int]


class TopicEnds(Shape, frozen=True):
    """Max offsets of a topic, by queue id."""

    topic: str
    offsets: dict[int, int]


class ReplicateTables(Command, frozen=True):
    """A part of the followed broker's tables. -> Done

    ``ends`` are those of queues of which the copy may have no message.
    ``topics`` and ``groups`` are entries of topics.json and subscriptionGroup.json. A round of them begins with
    ``begin_topics`` or ``begin_groups``; at its ``end_topics`` or ``end_groups``, what was not in it is removed.
    """

    topics: list[dict[str, Any]] = msgspec.field(default_factory=list)
    begin_topics: bool = False
    end_topics: bool = False
    groups: list[dict[str, Any]] = msgspec.field(default_factory=list)
    begin_groups: bool = False
    end_groups: bool = False
    offsets: list[ReplicatedOffsets] = msgspec.field(default_factory=list)
    delay_offsets: dict[int, int] = msgspec.field(default_factory=dict)
    ends: list[TopicEnds] = msgspec.field(default_factory=list)


class ReplicateMember(Command, frozen=True):
    """This connection stands for a client of the followed broker, in one group. -> Done"""

    client_id: str
    remote: str
    language: str
    version: int
    consumer: ConsumerData


class ReportFollowing(Command, frozen=True):
    """How the follower is doing. -> Done. Offsets are physical, times ms since 1970; None: not known.

    ``source`` is the address that is followed. ``received`` is the offset after the last byte that arrived, and
    ``master_end`` the end of the source's log. ``tables_ms`` and ``members_ms``: when they were fetched.
    """

    source: str
    state: FollowState
    received: int | None = None
    master_end: int | None = None
    bytes_per_second: int | None = None
    tables_ms: int | None = None
    members_ms: int | None = None
    problem: str = ""


class GetAttached(Command, frozen=True):
    """-> Attached; Failed QUERY_NOT_FOUND if the broker follows none"""


class Attached(Reply, frozen=True):
    """A followed broker. Offsets are physical, times ms since 1970; None: not known.

    ``received`` is the offset after the last byte that arrived, ``confirmed`` the end of the last whole, checked
    record, which is the end of the copy, and ``min`` its beginning, whose record was stored at ``min_ms``.
    ``lag_bytes`` is what the copy lacks, ``lag_ms`` how long ago its last record was stored while it lacks something, 0
    if it lacks nothing.
    """

    broker: str
    cluster: str
    source: str
    state: FollowState
    since_ms: int
    min: int
    min_ms: int | None
    received: int | None
    confirmed: int
    confirmed_ms: int | None
    lag_bytes: int | None
    lag_ms: int | None
    bytes_per_second: int | None
    tables_ms: int | None
    members_ms: int | None
    problem: str
    unindexed: int


ReplicateCommand = AppendToCommitLog | GetLogEnd | ReplicateTables | ReplicateMember | ReportFollowing | GetAttached
ReplicateReply = AppendedToCommitLog | LogEnd | Attached
