"""Consumed offsets of groups, and the offsets of queues."""

from typing import Literal

import msgspec

from broker_core.commands.base import Command, Reply, Shape


class QueueOffset(Shape, frozen=True):
    topic: str
    queue_id: int
    offset: int


class QueryConsumerOffset(Command, frozen=True):
    """Consumed offsets of a group, of one topic or of all. -> ConsumerOffsets; Failed when the group is unknown"""

    group: str
    topic: str = ""


class GroupQueueOffset(Shape, frozen=True):
    """``offset`` is the next offset the group will consume; ``lag_ms`` is the age of that message, None
    when it is not known; ``lag`` is in messages."""

    topic: str
    queue_id: int
    offset: int
    min_offset: int
    max_offset: int
    lag: int
    lag_ms: int | None


class ConsumerOffsets(Reply, frozen=True):
    group: str
    offsets: list[GroupQueueOffset]


class UpdateConsumerOffset(Command, frozen=True):
    """Commit offsets; they may go backwards. All of them or, with an error, none. -> Done"""

    group: str
    offsets: list[QueueOffset]
    client_id: str = ""


class ResetConsumerOffset(Command, frozen=True):
    """Move a group in a topic: to ``min``, ``max`` or a store time in ms (decimal text). -> OffsetsReset

    ``queue_id`` below 0 is every queue of the topic; ``offset`` is an exact one and overrules ``to``. ``dry_run`` only
    says what would change. Members that consume at this moment go on from there with their next pull, which is
    answered OFFSET_RESET; held pulls are answered so at once.
    """

    group: str
    topic: str
    to: str
    dry_run: bool = False
    queue_id: int = -1
    offset: int | None = None


class OffsetChange(Shape, frozen=True):
    """``before`` is None where the group had no offset yet."""

    topic: str
    queue_id: int
    before: int | None
    after: int


class OffsetsReset(Reply, frozen=True):
    """``offsets`` are where the group is now, in each queue that was asked for; ``changes`` those that are new."""

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
    """QUERY_CONSUMER_OFFSET: where the group goes on in one queue. -> FoundOffset; Failed QUERY_NOT_FOUND

    ``set_zero_if_not_found`` False keeps from answering 0 for a group that is new to a young queue.
    """

    group: str
    topic: str
    queue_id: int
    set_zero_if_not_found: bool = True


class GetMaxOffset(Command, frozen=True):
    """GET_MAX_OFFSET. -> FoundOffset, one behind the last message"""

    topic: str
    queue_id: int


class GetMinOffset(Command, frozen=True):
    """GET_MIN_OFFSET. -> FoundOffset"""

    topic: str
    queue_id: int


class GetEarliestMsgStoreTime(Command, frozen=True):
    """GET_EARLIEST_MSG_STORETIME. -> StoreTime, -1 when the queue has no message"""

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
OffsetReply = ConsumerOffsets | OffsetsReset | FoundOffset | StoreTime
