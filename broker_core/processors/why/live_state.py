"""The state of a group in a list: as in its verdicts, from the group's progress alone."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from itertools import islice
from typing import Any, Literal, NamedTuple

from broker_core.clock import Now
from broker_core.commands import GroupQueueView, ReturnedMessages, UnacknowledgedPops
from broker_core.consumers.allocate_message_queue import averagely_owners
from broker_core.consumers.pull_offset_table import LastPull
from broker_core.consumers.subscription_group_manager import SYSTEM_GROUPS, retry_topic
from broker_core.processors.consumer_manage import BROKERS_OWN
from broker_core.processors.context import Context
from broker_core.processors.retry_message import RETRY_PREFIX
from broker_core.verdicts.group_state import PATIENCE_MS, State
from broker_core.verdicts.progress import (
    QueueProgress,
    does_every_message_fail,
    group_progress,
    group_state,
    queue_progress,
    stands_still,
    uncommitted_messages,
)
from broker_core.walk import Steps, pieces_of, sort_names

POLLING_MS = 10_000
"""After the answer to its last pull, a client is assumed to send the next one within this time."""
HTTP_POLLING_MS = 3000
"""The same for a client without an open connection."""
POPS_MS = 120_000
MAX_QUEUES = 2000
NOT_LISTED = BROKERS_OWN.union(SYSTEM_GROUPS)

QueueState = Literal["held", "polling", "busy", "not_polling", "unassigned", "not_known"]

LOOKED_AT = 50
"""Queues of a piece."""
HOLDS_LOOKED_AT = 2000
"""Holds of a piece."""


def polling_ms(last: LastPull, online: Set[str]) -> int:
    """How long after this pull its client is assumed to send the next one, in ms. ``online``: ids with a connection."""
    if last.client_id in online:
        return POLLING_MS
    return HTTP_POLLING_MS if last.protocol == "http" else 0


def is_busy(last: LastPull | None, offset: int | None, online: Set[str], now: Now) -> bool:
    """Whether the client that pulled last has messages, and received or committed some lately.

    Clients do not ask for more while they have many messages (RocketMQ's pullThresholdForQueue). ``offset`` is the
    committed one, ``online`` has the ids of clients with a connection.
    """
    if last is None or not last.handed or last.client_id not in online:
        return False
    progress_ns = max(last.handed_ns, last.taken_ns, last.moved_ns)
    return (offset is None or last.pull_offset > offset) and now.mono_ns - progress_ns <= PATIENCE_MS * 1_000_000


class LastPop(NamedTuple):
    """Who of a group read a topic last by a pop, which was of ``topic``: another one for a retry topic."""

    client_id: str
    ms_ago: int
    topic: str


def last_pop(context: Context, group: str, topic: str, now: Now) -> LastPop | None:
    """None if no pop of the group has read the topic for two minutes. Where members pop, they have no queues."""
    found = context.check_points.reading(group, topic)
    if found is None:
        return None
    source, popping = found
    ms_ago = (now.mono_ns - popping.popped_ns) // 1_000_000
    return LastPop(popping.client_id, max(0, ms_ago), source) if ms_ago < POPS_MS else None


def unacknowledged_pops(context: Context, group: str, topics: Iterable[str], now: Now) -> list[UnacknowledgedPops]:
    """The topics of which the group has popped messages that are neither acknowledged nor visible again."""
    return [
        UnacknowledgedPops(
            topic=topic,
            client_id=popping.client_id,
            messages=popping.unacknowledged,
            still_ms=max(0, now.mono_ns - popping.still_ns) // 1_000_000,
        )
        for topic in dict.fromkeys(topics)
        if (popping := context.check_points.popping(group, topic)) is not None and popping.unacknowledged
    ]


class QueuesOfGroup(NamedTuple):
    """The ``queues`` of a group's topics that were looked at: all, or more than 2000 of them; ``progress`` is the
    group's progress in each of them."""

    topics: list[str]
    queues: list[GroupQueueView]
    progress: list[QueueProgress]

    @property
    def unknown_queues(self) -> int:
        """The queues whose lag is not known."""
        return sum(one.waiting is None for one in self.progress[:MAX_QUEUES])


class Seen(NamedTuple):
    """What the states of the groups of a page need, looked up once. ``held``: (group, topic, queue id) of their held
    pulls; ``topics``: for each group, the topics of these pulls. ``online``: the ids of clients with an open
    connection. ``retries_counted``: whether the broker knows all messages that wait for another try."""

    held: Set[tuple[str, str, int]]
    topics: Mapping[str, Set[str]]
    online: Set[str]
    retries_counted: bool

    def retrying(self, context: Context, group: str) -> int | None:
        """How many messages wait for the group's next retry; None if the broker does not know all of them yet."""
        return context.retries.noted_for(retry_topic(group), is_all=True).messages if self.retries_counted else None

    def topics_of(self, context: Context, group: str) -> list[str]:
        """The topics in which the group has offsets or pulls, or to which its members subscribe, by name."""
        info = context.consumers.get(group)
        subscribed = info.subscriptions if info is not None else ()
        pulled = (*context.pulls.topics(group), *self.topics.get(group, ()))
        return sorted({*context.offsets.topics(group), *pulled, *subscribed})


def group_names(context: Context, after: str = "", limit: int = 0) -> Steps[list[str]]:
    """The groups behind ``after`` that have members, offsets or pulls, sorted; at most ``limit`` of them unless 0.

    The broker's own groups are left out: they have offsets, and no members that could consume. RocketMQ's groups of
    tools, such as that of ``glassmq tail``, are left out too: they commit nothing, so they would seem to be stopped.
    """
    tables = (context.offsets.groups(), context.pulls.groups(), context.holds.groups(), [*context.consumers])
    names = yield from sort_names(*tables, after=after, limit=limit and limit + len(NOT_LISTED))
    return [name for name in names if name not in NOT_LISTED][: limit or None]


def look_around(context: Context, groups: Collection[str]) -> Steps[Seen]:
    """What is looked up once for all groups of a page."""
    held_queues: set[tuple[str, str, int]] = set()
    topics: dict[str, set[str]] = {group: set() for group in groups if context.holds.count_of_group(group)}
    for hold_ids in pieces_of(context.holds.ids_after(0) if topics else (), HOLDS_LOOKED_AT):
        for held in map(context.holds.get, hold_ids):
            if held is not None and held.group in topics:
                topics[held.group].add(held.many.topic)
                held_queues.add((held.group, held.many.topic, held.many.queue_id))
        yield
    online = {client.client_id for client in context.clients.values()}
    is_counted = yield from context.retries.count()
    return Seen(held_queues, topics, online, is_counted)


def queues_of_group(
    context: Context, group: str, topics: list[str], seen: Seen, now: Now, *, alone: bool
) -> Steps[QueuesOfGroup]:
    """The queues of a group that consumes these topics.

    ``alone``: the members have all their queues here, so the views say to whom each is assigned.
    """
    views = _queues(context, group, topics, seen, now, alone)
    looked_at = QueuesOfGroup(topics, [], [])
    while len(looked_at.queues) <= MAX_QUEUES and (piece := list(islice(views, LOOKED_AT))):
        looked_at.queues.extend(piece)
        looked_at.progress.extend(map(queue_progress, piece))
        yield
    return looked_at


def live_state(context: Context, group: str, looked_at: QueuesOfGroup, seen: Seen, now: Now) -> State:
    """The state of a group by its progress alone. Of more than 2000 queues, it is unknown unless it is bad."""
    topics, queues, of_queues = looked_at
    progress = group_progress(of_queues[:MAX_QUEUES])
    info = context.consumers.get(group)
    refused = next(context.refused_pulls.present(group, context.pulls, now.mono_ns), None) is not None
    returned = returned_messages(context, group, topics, now)
    in_hand = sum(map(uncommitted_messages, queues))
    is_consumed = info is not None or any(queue.state in ("held", "polling") for queue in queues)
    state = group_state(
        progress,
        is_consumed=is_consumed,
        has_committed=any(queue.offset is not None for queue in queues),
        is_failing=refused or does_every_message_fail(returned.delivered, returned.returned, in_hand),
        is_broadcasting=info is not None and info.message_model == "BROADCASTING",
        is_counted=seen.retries_counted and any(not queue.topic.startswith(RETRY_PREFIX) for queue in queues),
    )
    if state == "stopped" and not context.are_members_known:
        state = "unknown"
    if is_consumed and any(map(stands_still, unacknowledged_pops(context, group, topics, now))):
        state = "stalled"
    return "unknown" if state == "ok" and len(queues) > MAX_QUEUES else state


def _queues(
    context: Context, group: str, topics: list[str], seen: Seen, now: Now, alone: bool
) -> Iterator[GroupQueueView]:
    """The queues with what the state and the verdicts need, and without sentences."""
    info = context.consumers.get(group)
    is_shared = alone and info is not None and info.message_model == "CLUSTERING"
    client_ids = context.consumers.client_ids(group) if is_shared else []
    for topic in topics:
        config = context.topics.get(topic)
        rows, popped = context.pulls.topics(group).get(topic, {}), last_pop(context, group, topic, now)
        offsets, may_hold = context.offsets.queues(group, topic), topic in seen.topics.get(group, ())
        is_subscribed = info is not None and topic in info.subscriptions
        owners: list[str] = []
        if client_ids and is_subscribed and popped is None and config is not None:
            owners = averagely_owners(config.read_queue_nums, client_ids)
        for queue_id in range(config.read_queue_nums if config is not None else 0):
            row, offset = rows.get(queue_id), offsets.get(queue_id)
            max_offset = context.store.max_offset(topic, queue_id)
            lag = max(0, max_offset - (offset or 0))
            stored_ms = context.store.store_time(topic, queue_id, offset) if lag and offset is not None else None
            is_held = may_hold and ((group, topic, queue_id) in seen.held or (group, topic, -1) in seen.held)
            is_polled = row is not None and 0 < row.mono_ns > now.mono_ns - polling_ms(row, seen.online) * 1_000_000
            is_polled |= popped is not None and popped.ms_ago < POLLING_MS
            is_pulled = row is not None and row.mono_ns
            yield GroupQueueView(
                topic=topic,
                queue_id=queue_id,
                assigned_to=owners[queue_id] if owners else None,
                polled_by=popped.client_id if popped else row.client_id if row is not None and is_pulled else None,
                polled_ms_ago=popped.ms_ago if popped else _ms_ago(row.mono_ns, now) if row is not None else None,
                state=queue_state(context, is_subscribed, is_held, is_polled, is_busy(row, offset, seen.online, now)),
                offset=offset,
                pull_offset=row.pull_offset if row is not None and is_pulled else None,
                min_offset=context.store.min_offset(topic, queue_id),
                max_offset=max_offset,
                lag=lag,
                lag_ms=_age(stored_ms, now) if lag else None if offset is None else 0,
                locked_by=context.locks.owner(group, topic, queue_id),
                **progress_fields(row, now),
            )


def queue_state(
    context: Context, is_subscribed: bool, is_held: bool, is_polled: bool, is_client_busy: bool
) -> QueueState:
    """The state of a queue, as ``GroupQueueView`` has it."""
    if context.store.follows:
        return "not_known" if is_subscribed else "unassigned"
    if is_held or is_polled:
        return "held" if is_held else "polling"
    if not is_subscribed:
        return "unassigned"
    return "busy" if is_client_busy else "not_polling"


def progress_fields(row: LastPull | None, now: Now) -> dict[str, Any]:
    """What a GroupQueueView has of a group's progress in a queue."""
    if row is None:
        return {}
    return {
        "moved_ms_ago": _ms_ago(row.moved_ns, now),
        "handed": row.handed,
        "handed_ms_ago": _ms_ago(row.handed_ns, now),
        "taken_ms_ago": _ms_ago(row.taken_ns, now),
        "lag_before": row.lag_before if row.lag_before_ns else None,
        "lag_before_ms_ago": _ms_ago(row.lag_before_ns, now),
        "is_growing": row.is_growing,
    }


def _age(stored_ms: int | None, now: Now) -> int | None:
    return None if stored_ms is None else max(0, now.wall_ms - stored_ms)


def _ms_ago(mono_ns: int, now: Now) -> int | None:
    """The age of a monotonic time; None if it is unknown: 0, or UNKNOWN_NS."""
    return max(0, now.mono_ns - mono_ns) // 1_000_000 if mono_ns > 0 else None


def returned_messages(context: Context, group: str, topics: Iterable[str], now: Now) -> ReturnedMessages:
    """Over the shortest of three windows in which messages came back; zeros if none did. ``tries`` is not counted."""
    stats = context.stats
    if not len(stats.send_back):
        return ReturnedMessages(delivered=0, returned=0, window_ms=0)
    keys = [(topic, group) for topic in dict.fromkeys(topics)]
    sent_back = [item for key in keys if (item := stats.send_back.get(key)) is not None]
    for window in range(3):
        returned = window_ms = 0
        for item in sent_back:
            number, ms = item.recent(window, now.mono_ns)
            returned, window_ms = returned + number, max(window_ms, ms)
        if returned:
            received = [item for key in keys if (item := stats.group_get.get(key)) is not None]
            delivered = sum(item.recent(window, now.mono_ns)[0] for item in received)
            uptime_ms = (now.mono_ns - context.started.mono_ns) // 1_000_000  # a slot may begin before the engine did
            return ReturnedMessages(delivered=delivered, returned=returned, window_ms=min(window_ms, uptime_ms))
    return ReturnedMessages(delivered=0, returned=0, window_ms=0)
