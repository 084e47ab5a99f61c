"""Topics and their queues."""

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
    """Create a topic or change it; None leaves as it is (or the default of 4 queues, perm 6). -> Topics with one"""

    topic: str
    read_queues: int | None = None
    write_queues: int | None = None
    perm: int | None = None


class DeleteTopic(Command, frozen=True):
    """Forget a topic, its queues and every group's offsets in it. -> Done; Failed TOPIC_NOT_EXIST"""

    topic: str


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
