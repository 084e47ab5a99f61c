"""Consumed offsets of groups, and the offsets of queues."""

from typing import Literal

import msgspec

from broker_core.commands.base import Command, Notice, Reply, Shape


class QueueOffset(Shape, frozen=True):
    topic: str
    queue_id: int
    offset: int


class QueryConsumerOffset(Command, frozen=True):
    """Consumed offsets of a group in one topic or in all, in the order of topic and queue id. -> ConsumerOffsets

    At most ``limit`` queues (5000 if it is higher) that follow the queue ``after``, a text such as ``topic@3``. Failed
    if the group is unknown.
    """

    group: str
    topic: str = ""
    after: str = ""
    limit: int = 5000


class GroupQueueOffset(Shape, frozen=True):
    """``offset`` is the next offset that the group will consume.

    ``lag`` is in messages; ``lag_ms`` is the age of the message at ``offset``, None if it is unknown.
    """

    topic: str
    queue_id: int
    offset: int
    min_offset: int
    max_offset: int
    lag: int
    lag_ms: int | None


class ConsumerOffsets(Reply, frozen=True):
    """``next`` is the ``after`` of the next page, None on the last one."""

    group: str
    offsets: list[GroupQueueOffset]
    next: str | None = None


class UpdateConsumerOffset(Command, frozen=True):
    """Commit offsets, also lower ones than before. After an error, none is committed. -> Done"""

    group: str
    offsets: list[QueueOffset]
    client_id: str = ""


class ResetConsumerOffset(Command, frozen=True):
    """Move a group's offsets in a topic to ``min``, ``max`` or a store time in ms (decimal text). -> OffsetsReset

    A ``queue_id`` below 0 means every queue of the topic. ``offset`` is an exact offset, which takes precedence over
    ``to``. With ``dry_run``, the reply contains the changes, but they are not made. An unknown group is Failed
    SUBSCRIPTION_GROUP_NOT_EXIST. The answer to the next pull of a consuming member is OFFSET_RESET with the new offset;
    held pulls get this answer at once.

    With ``through_members`` and useServerSideResetOffset=false nothing is stored: each member gets a
    ResetConsumerClientOffset and commits the offsets itself. Without ``is_force`` its offsets then move backwards only.
    A group without members is Failed CONSUMER_NOT_ONLINE. A group that has a member with another protocol than
    RocketMQ's is reset as with useServerSideResetOffset=true.
    """

    group: str
    topic: str
    to: str
    dry_run: bool = False
    queue_id: int = -1
    offset: int | None = None
    through_members: bool = False
    is_force: bool = True


class ResetConsumerClientOffset(Notice, frozen=True):
    """RESET_CONSUMER_CLIENT_OFFSET: begin anew at these offsets of a topic."""

    group: str
    topic: str
    broker_name: str
    offsets: list[QueueOffset]


class OffsetChange(Shape, frozen=True):
    """``before`` is None if the group had no offset in the queue."""

    topic: str
    queue_id: int
    before: int | None
    after: int


class OffsetsReset(Reply, frozen=True):
    """``offsets`` are the group's new offsets in all requested queues; ``changes`` has only the changed ones."""

    group: str
    dry_run: bool
    changes: list[OffsetChange]
    offsets: list[QueueOffset] = msgspec.field(default_factory=list)


class SearchOffset(Command, frozen=True):
    """RocketMQ's SEARCH_OFFSET_BY_TIMESTAMP. -> FoundOffset"""

    topic: str
    queue_id: int
    timestamp_ms: int
    boundary: Literal["lower", "upper"] = "lower"


class FoundOffset(Reply, frozen=True):
    offset: int


class QueryOffset(Command, frozen=True):
    """QUERY_CONSUMER_OFFSET: the offset at which a group continues in a queue. -> FoundOffset; Failed QUERY_NOT_FOUND

    If the group has none, and the queue never had a message or its message 0 is recent, the answer is 0, unless
    ``set_zero_if_not_found`` is False.
    """

    group: str
    topic: str
    queue_id: int
    set_zero_if_not_found: bool = True


class GetMaxOffset(Command, frozen=True):
    """GET_MAX_OFFSET. -> FoundOffset, the last message's plus 1"""

    topic: str
    queue_id: int


class GetMinOffset(Command, frozen=True):
    """GET_MIN_OFFSET. -> FoundOffset"""

    topic: str
    queue_id: int


class GetEarliestMsgStoreTime(Command, frozen=True):
    """GET_EARLIEST_MSG_STORETIME. -> StoreTime, -1 if the queue has no message"""

    topic: str
    queue_id: int


class StoreTime(Reply, frozen=True):
    timestamp_ms: int


OffsetCommand = (
    QueryConsumerOffset
    | UpdateConsumerOffset
    | ResetConsumerOffset
    | SearchOffset
    | QueryOffset
    | GetMaxOffset
    | GetMinOffset
    | GetEarliestMsgStoreTime
)
OffsetReply = ConsumerOffsets | OffsetsReset | ResetConsumerClientOffset | FoundOffset | StoreTime
