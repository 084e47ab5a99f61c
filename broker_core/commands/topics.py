"""Topics and their queues."""

from typing import Literal

from broker_core.commands.base import Command, Reply, Shape


class TopicView(Shape, frozen=True):
    """``perm``: 4 read, 2 write, 1 inherit, added up."""

    broker: str
    topic: str
    read_queues: int
    write_queues: int
    perm: int
    system: bool
    messages: int


class GetTopics(Command, frozen=True):
    """-> Topics"""

    system: bool = True


class Topics(Reply, frozen=True):
    seq: int
    topics: list[TopicView]


class GetTopic(Command, frozen=True):
    """-> Topics with one; Failed TOPIC_NOT_EXIST"""

    topic: str


class UpdateAndCreateTopic(Command, frozen=True):
    """Create a topic or change it; None leaves as it is (or the default of 4 queues, perm 6). -> Topics with one

    ``order``: a broker that may not be written to refuses its messages. ``filter_type`` and ``sys_flag`` are kept and
    told, and change nothing that this broker does.
    ``attributes`` are changes: ``+name`` sets one, ``-name`` takes one away.
    """

    topic: str
    read_queues: int | None = None
    write_queues: int | None = None
    perm: int | None = None
    order: bool | None = None
    filter_type: Literal["SINGLE_TAG", "MULTI_TAG"] | None = None
    sys_flag: int | None = None
    attributes: dict[str, str] | None = None


class DeleteTopic(Command, frozen=True):
    """Forget a topic, its queues and every group's offsets in it. -> Done; Failed TOPIC_NOT_EXIST

    ``missing_ok``: a tool that asks every broker of a cluster takes it for no error where there is none.
    """

    topic: str
    missing_ok: bool = False


class QueueView(Shape, frozen=True):
    """``last_store_time_ms`` is None for a queue that never had a message, or whose last one is gone."""

    broker: str
    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    last_store_time_ms: int | None
    holds: int


class GetQueues(Command, frozen=True):
    """Queues of a topic, or of all (``topic`` empty). -> Queues"""

    topic: str = ""


class Queues(Reply, frozen=True):
    seq: int
    queues: list[QueueView]


TopicCommand = GetTopics | GetTopic | UpdateAndCreateTopic | DeleteTopic | GetQueues
TopicReply = Topics | Queues
