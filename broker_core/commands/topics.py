"""Topics and their queues."""

from typing import Literal

from broker_core.commands.base import Command, Reply, Shape


class TopicView(Shape, frozen=True):
    """``perm`` is the sum of 4 (read), 2 (write) and 1 (inherit). ``put_tps``: messages stored per second in the last
    minute, as RocketMQ counts it.
    """

    broker: str
    topic: str
    read_queues: int
    write_queues: int
    perm: int
    system: bool
    messages: int
    put_tps: float = 0.0


class GetTopics(Command, frozen=True):
    """Topics with names above ``after``, by name; all of them with ``limit`` 0. -> Topics"""

    system: bool = True
    after: str = ""
    limit: int = 0


class Topics(Reply, frozen=True):
    """``next`` is the ``after`` of the next page, None on the last one."""

    seq: int
    topics: list[TopicView]
    next: str | None = None


class GetTopic(Command, frozen=True):
    """-> Topics with one topic; Failed TOPIC_NOT_EXIST"""

    topic: str


class UpdateAndCreateTopic(Command, frozen=True):
    """Create or change a topic. -> Topics with one topic

    None leaves a value unchanged; the defaults of a new topic are 4 queues and perm 6. ``order``: messages to the topic
    are refused while brokerPermission does not allow writing. ``filter_type`` and ``sys_flag`` are stored and returned,
    but do not affect this broker.
    ``attributes`` are changes: ``+name`` sets an attribute, ``-name`` removes it.
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
    """Delete a topic, its queues and all groups' offsets in it. -> Done; Failed TOPIC_NOT_EXIST

    ``missing_ok``: a missing topic is no error, for tools that send this to every broker of a cluster.
    """

    topic: str
    missing_ok: bool = False


class QueueView(Shape, frozen=True):
    """``last_store_time_ms`` is None if the queue never had a message, or its last message was deleted. ``holds`` is
    None at an attached broker."""

    broker: str
    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    last_store_time_ms: int | None
    holds: int | None


class GetQueues(Command, frozen=True):
    """Queues of a topic, or of all topics if ``topic`` is empty, in the order of topic and queue id. -> Queues

    At most ``limit`` queues (5000 if it is higher) that follow the queue ``after``, a text such as ``topic@3``.
    """

    topic: str = ""
    after: str = ""
    limit: int = 5000


class Queues(Reply, frozen=True):
    """``next`` is the ``after`` of the next page, None on the last one."""

    seq: int
    queues: list[QueueView]
    next: str | None = None


TopicCommand = GetTopics | GetTopic | UpdateAndCreateTopic | DeleteTopic | GetQueues
TopicReply = Topics | Queues
