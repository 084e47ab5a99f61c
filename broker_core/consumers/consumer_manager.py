"""Consumer groups with members: the members, how they consume, and their subscriptions.

A group has one subscription for each topic, so all members must subscribe to the same. Topics that the newest heartbeat
does not name are dropped. An expression is replaced only by one with a larger version, so a heartbeat that was
overtaken by another changes nothing.
"""

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from broker_core.commands import ConsumerData, ConsumerWindow, ConsumeType, MessageModel, SubscriptionData
from broker_core.consumers.client_channel_info import ClientChannelInfo
from broker_core.consumers.memberships import Memberships, Registered
from broker_core.errors import UnavailableError

MAX_SUBSCRIPTIONS = 100_000
"""Topics of all groups together."""

MAX_EXPIRED = 1000
"""Groups whose last member is remembered after it expired."""

MAX_DIFFERING = 100
"""Members of a group whose own subscriptions are stored, and that a change of the group's is compared with. The others
are compared at their next heartbeat."""

MAX_DIFFERING_TOPICS = 16
"""Topics that are stored of each of them."""

NANOSECONDS_BEGIN = 10**16
"""Java clients count ``sub_version`` in ms since 1970, Go clients in ns: ms reach this number in 300,000 years."""


def version_ns(sub_version: int) -> int:
    """A subscription's version, comparable between clients."""
    return sub_version if sub_version >= NANOSECONDS_BEGIN else sub_version * 1_000_000


class ConsumerGroupInfo:
    """RocketMQ's ConsumerGroupInfo without the members, from the newest heartbeat.

    ``differing``: the members whose own heartbeat differs from ``subscriptions``: client id -> topic -> expression, ""
    for a topic to which the member does not subscribe. Members above ``MAX_DIFFERING`` are without topics.
    ``windows``: what WebSocket consumers accept, and when they reported it, wall time. ``changed_ns``: when a member
    joined or left last.
    """

    __slots__ = (
        "changed_ns",
        "consume_from_where",
        "consume_type",
        "differing",
        "message_model",
        "subscriptions",
        "windows",
    )

    def __init__(self) -> None:
        self.consume_type: ConsumeType = "CONSUME_PASSIVELY"
        self.message_model: MessageModel = "CLUSTERING"
        self.consume_from_where = ""
        self.subscriptions: dict[str, SubscriptionData] = {}
        self.differing: dict[str, dict[str, str]] = {}
        self.windows: dict[str, tuple[int, list[ConsumerWindow]]] = {}
        self.changed_ns = 0


class SubscriptionUpdate(NamedTuple):
    """One topic of a group: its new and its previous expression. "" means not subscribed."""

    topic: str
    expression: str
    previous: str


class Registration(NamedTuple):
    """The changes of a heartbeat to a group."""

    member: Registered
    updates: list[SubscriptionUpdate]

    @property
    def topics_changed(self) -> bool:
        return any(not update.expression or not update.previous for update in self.updates)


class ConsumerManager:
    """RocketMQ's ConsumerManager."""

    def __init__(self) -> None:
        self.memberships = Memberships()
        self._groups: dict[str, ConsumerGroupInfo] = {}
        self._expired: dict[str, tuple[str, int]] = {}
        self._subscriptions = 0

    def __iter__(self) -> Iterator[str]:
        """Groups that have members."""
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def get(self, group: str) -> ConsumerGroupInfo | None:
        """None if the group has no members."""
        return self._groups.get(group)

    def members(self, group: str) -> Mapping[str, ClientChannelInfo]:
        return self.memberships.members(group)

    def last_expired(self, group: str) -> tuple[str, int] | None:
        """The last member of a group that has none now, and when it expired, monotonic; None if it did not expire."""
        return self._expired.get(group)

    def client_ids(self, group: str) -> list[str]:
        """The ids of its members, in the order in which they share queues."""
        return sorted(self.memberships.members(group))

    def is_member(self, group: str, connection: Any) -> bool:
        return self.memberships.is_member(group, connection)

    def require_room(self, client_id: str, consumers: Collection[ConsumerData], *, without_sub: bool) -> None:
        """UnavailableError if a heartbeat would exceed the limit of members or of subscriptions."""
        self.memberships.require_room([data.group for data in consumers], client_id)
        more = (
            0
            if without_sub
            else sum(max(0, len(data.subscriptions) - self._subscribed(data.group)) for data in consumers)
        )
        if more and self._subscriptions + more > MAX_SUBSCRIPTIONS:
            raise UnavailableError(
                f"the groups of this broker subscribe to {self._subscriptions} topics; with {more} more they "
                f"would exceed the limit of {MAX_SUBSCRIPTIONS}"
            )

    def _subscribed(self, group: str) -> int:
        info = self._groups.get(group)
        return len(info.subscriptions) if info is not None else 0

    def register(
        self, client: ClientChannelInfo, data: ConsumerData, now_ns: int, *, without_sub: bool
    ) -> Registration:
        """Make ``client`` a member of ``data.group``. Call ``require_room`` first."""
        info = self._groups.get(data.group)
        before = self._subscribed(data.group)
        member = self.memberships.register(data.group, client, now_ns)
        if member == "outdated":
            return Registration(member, [])
        if info is None:
            info = self._groups[data.group] = ConsumerGroupInfo()
            self._expired.pop(data.group, None)
        info.consume_type, info.message_model = data.consume_type, data.message_model
        info.consume_from_where = data.consume_from_where
        updates = [] if without_sub else _subscribe(info, data.subscriptions)
        if member != "renewed":
            info.changed_ns = now_ns
        if updates:
            _note_others(info, updates, self.memberships.members(data.group), client.client_id)
        if not without_sub:
            _note_own(info, data.subscriptions, client.client_id)
        self._subscriptions += len(info.subscriptions) - before
        return Registration(member, updates)

    def leave(self, group: str, client_id: str, number: int) -> bool:
        """The client leaves, by a request over connection ``number``. False if that changes nothing."""
        left = self.memberships.leave(group, client_id, number)
        self._forget_member(group, client_id if left else "")
        return left

    def leave_all(self, client: ClientChannelInfo) -> list[str]:
        """The connection has closed. Returns its groups."""
        groups = self.memberships.leave_all(client)
        for group in groups:
            self._forget_member(group, client.client_id)
        return groups

    def take_expired(self, now_ns: int, limit: int) -> list[tuple[str, str]]:
        """Remove and return (group, client id) of expired members; at most ``limit`` are looked at."""
        expired = self.memberships.take_expired(now_ns, limit)
        for group, client_id in expired:
            self._forget_member(group, client_id)
            if group not in self._groups:
                if len(self._expired) >= MAX_EXPIRED:
                    del self._expired[next(iter(self._expired))]
                self._expired[group] = client_id, now_ns
        return expired

    def _forget_member(self, group: str, client_id: str) -> None:
        """A member has left, or none if the id is empty; forget a group without members."""
        info = self._groups.get(group)
        if info is not None:
            info.differing.pop(client_id, None)
            info.windows.pop(client_id, None)
        if not self.memberships.members(group):
            info = self._groups.pop(group, None)
            self._subscriptions -= len(info.subscriptions) if info is not None else 0


def _note_own(info: ConsumerGroupInfo, wanted: list[SubscriptionData], client_id: str) -> None:
    """Note where a member's heartbeat differs from the group's subscription: its expression is not the newest."""
    table = info.subscriptions
    if all((present := table.get(own.topic)) is own or _is_same(own, present) for own in wanted):
        info.differing.pop(client_id, None)
        return
    is_stored = info.differing.get(client_id) or len(info.differing) < MAX_DIFFERING
    different = (own for own in wanted if not _is_same(own, table.get(own.topic)))
    info.differing[client_id] = {
        own.topic: own.sub_string or "*" for own in islice(different, MAX_DIFFERING_TOPICS if is_stored else 0)
    }


def _note_others(
    info: ConsumerGroupInfo, updates: list[SubscriptionUpdate], members: Mapping[str, Any], client_id: str
) -> None:
    """A heartbeat of this client changed the group's subscription. The other members had the previous one."""
    for other in islice((member for member in members if member != client_id), MAX_DIFFERING):
        topics = info.differing.get(other)
        if topics is None:
            topics = info.differing[other] = {}
            if len(info.differing) > MAX_DIFFERING:
                continue
        elif not topics:  # its topics are not stored: only its own heartbeat can show that it agrees again
            continue
        for update in updates:
            present = topics.get(update.topic, update.previous)
            if present == update.expression:
                topics.pop(update.topic, None)
            elif update.topic in topics or len(topics) < MAX_DIFFERING_TOPICS:
                topics[update.topic] = present
        if not topics:
            del info.differing[other]


def _is_same(own: SubscriptionData, present: SubscriptionData | None) -> bool:
    return present is not None and (own.sub_string or "*", own.expression_type) == (
        present.sub_string or "*",
        present.expression_type,
    )


def _subscribe(info: ConsumerGroupInfo, wanted: list[SubscriptionData]) -> list[SubscriptionUpdate]:
    table = info.subscriptions
    updates = []
    for new in wanted:
        old = table.get(new.topic)
        if old is None or version_ns(new.sub_version) > version_ns(old.sub_version):
            table[new.topic] = new
            previous = "" if old is None else old.sub_string or "*"
            if old is None or (new.sub_string, new.expression_type) != (old.sub_string, old.expression_type):
                updates.append(SubscriptionUpdate(new.topic, new.sub_string or "*", previous))
    dropped = sorted(table.keys() - {new.topic for new in wanted})
    return updates + [SubscriptionUpdate(topic, "", table.pop(topic).sub_string or "*") for topic in dropped]
