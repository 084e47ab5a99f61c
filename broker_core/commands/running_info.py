"""What the clients of a followed broker are doing now. They are asked when a person asks, and never by a timer."""

from broker_core.commands.base import Command, Reply, Shape


class GetConsumerRunningInfo(Command, frozen=True):
    """Ask the followed broker about a group's members and their queues, and the members about themselves, or one of
    them. -> ConsumerRunningInfos; Failed QUERY_NOT_FOUND for a client that is no member; Failed if the broker is not
    followed, cannot be asked, or is being asked too much.

    ``stacks``: also the stacks of the client's threads, only of one client.
    """

    group: str
    client_id: str = ""
    stacks: bool = False


class ProcessQueueInfo(Shape, frozen=True):
    """RocketMQ's ProcessQueueInfo: what a client has of one queue of this broker. None: it did not say.

    ``cached`` messages were pulled and are not consumed. ``offset`` is the one that it commits. ``pulled_ms``: its last
    pull; ``consumed_ms``: when it last finished with messages, or got the queue. Wall times of the client, ms.
    """

    topic: str
    queue_id: int
    offset: int | None
    cached: int | None
    pulled_ms: int | None
    consumed_ms: int | None
    locked: bool


class ConsumerRunningInfo(Shape, frozen=True):
    """RocketMQ's ConsumerRunningInfo of one client; ``problem`` says why there is none, and is else empty.

    ``properties`` are those that RocketMQ calls PROP_…. ``stacks`` is a text for people, None unless it was given.
    """

    client_id: str
    problem: str
    properties: dict[str, str]
    queues: list[ProcessQueueInfo]
    stacks: str | None = None


class PulledQueue(Shape, frozen=True):
    """A queue as the followed broker knows it: the group's committed offset, and that of its next pull, None if the
    broker does not know them; the messages between the two were handed to a client."""

    topic: str
    queue_id: int
    offset: int | None
    pull_offset: int | None
    max_offset: int


class ConsumerRunningInfos(Reply, frozen=True):
    """The answer of the broker at ``source``, ``asked_ms`` wall time. ``clients`` are at most 50 of ``members``, and
    ``queues`` at most 2000 of ``queues_total``."""

    broker: str
    group: str
    source: str
    asked_ms: int
    members: int
    clients: list[ConsumerRunningInfo]
    queues: list[PulledQueue]
    queues_total: int


class ReplicatedPull(Shape, frozen=True):
    """What a member has of a queue: ``handed`` messages up to ``pull_offset``, the first one at least ``handed_ms_ago``
    ago. It pulled ``polled_ms_ago``, None if that is not known."""

    topic: str
    queue_id: int
    client_id: str
    pull_offset: int
    handed: int
    handed_ms_ago: int
    polled_ms_ago: int | None


class ReplicatePulls(Command, frozen=True):
    """What members of the followed broker answered about their queues. -> Done"""

    group: str
    pulls: list[ReplicatedPull]


RunningInfoCommand = GetConsumerRunningInfo | ReplicatePulls
RunningInfoReply = ConsumerRunningInfos
