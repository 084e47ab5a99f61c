"""One held pull request.

It must be small, because 100,000 of them are held at once: it shares strings, has no dictionary, and does not refer to
the command from which it was made. The garbage collector does not see it (``gc=False``), because a full collection
stops the broker for as long as it takes to look at everything that it sees. Holds, their queue and their neighbours in
it refer to each other; these cycles end when a hold is removed.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from broker_core.commands import OrderWait, Protocol
from broker_core.filters.message_filter import MessageFilter


class PullRequest(msgspec.Struct, eq=False, gc=False):
    """RocketMQ's PullRequest (org.apache.rocketmq.broker.longpolling): what is needed to run the pull again.

    ``suspended_ns`` is monotonic time. ``short`` is True if longPollingEnable was off when the pull was held, or when
    a message arrived for it. ``check_group``: the pull is refused if the group may not consume any more.
    ``subscribed``: its filter is that of the group's subscription, which may change while it is held. ``lite``: it is
    refused if litePullMessageEnable was switched off.
    ManyPullRequest uses ``previous`` and ``next``; the deadline wheel uses ``due_tick``.
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
    check_group: bool
    subscribed: bool = False
    lite: bool = False
    due_tick: int = -1
    previous: "PullRequest | None" = None
    next: "PullRequest | None" = None


class Pop(msgspec.Struct, frozen=True, gc=False):
    """What is needed to run a pop, again too. A ``queue_id`` of -1 means all queues.

    With ``notify``, it only reports whether there are messages. It may be held for ``poll_ms``. With ``order``, it
    takes nothing from a queue that is handed out to a pop with another ``attempt_id``.
    """

    topic: str
    group: str
    queue_id: int
    client_id: str
    protocol: Protocol
    message_filter: MessageFilter | None = None
    max_msg_nums: int = 32
    invisible_ms: int = 60_000
    from_max: bool = False
    notify: bool = False
    poll_ms: int = 0
    order: bool = False
    attempt_id: str = ""


class PopRequest(PullRequest, eq=False, gc=False, kw_only=True):
    """RocketMQ's PopRequest. Its ``pull_from_offset`` is -1: the group's offsets say where it reads.

    ``waits_for``: the queue for which a pop in order waited when its hold began.
    """

    pop: Pop
    waits_for: OrderWait | None = None


class ManyPullRequest(msgspec.Struct, eq=False, gc=False):
    """RocketMQ's ManyPullRequest: the holds of one queue, and the queue's end by its last arrival.

    The holds are a linked list, the oldest first. A list object for each queue would be visible to the collector.
    """

    topic: str
    queue_id: int
    max_offset: int
    group: str = ""
    """The group whose held pops these are. Empty for held pulls, which the groups share."""
    first: PullRequest | None = None
    last: PullRequest | None = None
    count: int = 0

    @property
    def key(self) -> Any:
        """Its key in the table of its topic."""
        return (self.group, self.queue_id) if self.group else self.queue_id

    def __iter__(self) -> Iterator[PullRequest]:
        request = self.first
        while request is not None:
            yield request
            request = request.next

    def add(self, request: PullRequest) -> None:
        last = self.last
        if last is None:
            self.first = request
        else:
            last.next, request.previous = request, last
        self.last = request
        self.count += 1

    def mark_short(self) -> None:
        """Messages arrived while longPollingEnable is off: short polling answers the holds that they concern."""
        for request in self:
            request.short |= request.pull_from_offset < self.max_offset

    def remove(self, request: PullRequest) -> None:
        previous, following = request.previous, request.next
        if previous is None:
            self.first = following
        else:
            previous.next = following
        if following is None:
            self.last = previous
        else:
            following.previous = previous
        request.previous = request.next = None  # or removed holds would keep each other in memory
        self.count -= 1
