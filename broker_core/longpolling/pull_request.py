"""One held pull request.

It must be small, because 100,000 of them are held at once: it shares strings, has no dictionary, and does not refer to
the command from which it was made.
"""

from typing import Any

import msgspec

from broker_core.commands import Protocol
from broker_core.filters.message_filter import MessageFilter


class Bucket:
    """Holds that are due in one tick of the deadline wheel."""

    __slots__ = ("requests", "tick")

    def __init__(self, tick: int) -> None:
        self.tick = tick
        self.requests: list[PullRequest] = []


class PullRequest(msgspec.Struct, eq=False, gc=False):
    """RocketMQ's PullRequest (org.apache.rocketmq.broker.longpolling): what is needed to run the pull again.

    ``suspended_ns`` is monotonic time. ``short`` is True if longPollingEnable was off when the pull was held, or when
    a message arrived for it. ManyPullRequest uses ``index``; the deadline wheel uses ``bucket`` and ``bucket_index``.
    """

    hold_id: int
    connection: Any
    request_id: int
    many: "ManyPullRequest"
    pull_from_offset: int
    max_msg_nums: int
    max_msg_bytes: int
    group: str
    client_id: str
    protocol: Protocol
    message_filter: MessageFilter | None
    suspended_ns: int
    suspend_timeout_ms: int
    short: bool
    bucket: Any = None
    bucket_index: int = 0
    index: int = 0


class ManyPullRequest:
    """RocketMQ's ManyPullRequest: the holds of one queue, and the queue's end by its last arrival."""

    __slots__ = ("max_offset", "queue_id", "requests", "topic")

    def __init__(self, topic: str, queue_id: int, max_offset: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.max_offset = max_offset
        self.requests: list[PullRequest] = []

    def add(self, request: PullRequest) -> None:
        request.index = len(self.requests)
        self.requests.append(request)

    def remove(self, request: PullRequest) -> None:
        """Remove a hold; the last hold takes its place."""
        last = self.requests.pop()
        if last is not request:
            self.requests[request.index] = last
            last.index = request.index
