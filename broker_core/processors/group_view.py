"""Views of consumer groups, which show why a consumer waits or does not consume.

Clients share the queues among themselves and do not report the result. So a view shows which member should have a queue
by the clients' default strategy, applied only to the queues of this broker, and which client really pulls from it.
"""

import re
from collections import deque
from collections.abc import Iterable, Set

from broker_core.clock import Now
from broker_core.commands import (
    ConsumerGroupDetail,
    GetConsumerGroup,
    GetWaitingRetries,
    GroupQueueView,
    GroupRetries,
    Reply,
    RetriesWaiting,
)
from broker_core.consumers.allocate_message_queue import averagely_owners
from broker_core.consumers.pull_offset_table import UNKNOWN_NS, LastPull
from broker_core.consumers.subscription_group_manager import not_exist, retry_topic
from broker_core.consumers.waiting_retries import BEFORE_ALL, Place
from broker_core.errors import RequestError
from broker_core.longpolling.pull_request import PullRequest
from broker_core.processors.client_view import client_view
from broker_core.processors.consumer_manage import group_queue_offset
from broker_core.processors.context import Context, Request, filter_text
from broker_core.processors.query_message import MAX_BYTES, MAX_MSGS_NUM_BATCH
from broker_core.processors.retry_message import DLQ_PREFIX, RETRY_PREFIX
from broker_core.processors.why.live_state import (
    POLLING_MS,
    LastPop,
    QueueState,
    is_busy,
    last_pop,
    polling_ms,
    progress_fields,
    queue_state,
)
from broker_core.topics import PERM_READ
from broker_core.verdicts.clients import LATE_HEARTBEAT_MS
from broker_core.verdicts.verdict import plural, span
from broker_core.walk import Steps, pieces_of

MAX_QUEUES = 2000

PLACE = re.compile(r"([0-9]{1,19})\.([0-9]{1,19})\.([0-9]{1,19})")
"""The text of a place among waiting messages: due time in ms, level, offset."""

LOOKED_AT = 2000
"""Holds of a piece that are only looked at."""

EXPLAINED = 50
"""Queues of a piece whose state is explained."""


def get_consumer_group(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: GetConsumerGroup = request.command
    group, seq = command.group, context.events.seq
    held: set[str] = set()
    for hold_ids in pieces_of(context.holds.ids_after(0), LOOKED_AT):
        for hold in map(context.holds.get, hold_ids):
            if hold is not None and hold.group == group:
                held.add(hold.many.topic)
        yield
    if not (held or is_known_group(context, group)):
        raise not_exist(group)
    return (yield from group_detail(context, group, held, seq, now))


def get_waiting_retries(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: GetWaitingRetries = request.command
    group = command.group
    if not is_known_group(context, group):
        raise not_exist(group)
    if command.max_num < 1:
        raise RequestError("max_num must be 1 or more", pointer="/limit")
    after = _place_of_text(command.after) if command.after else BEFORE_ALL
    is_all = yield from context.retries.count()
    retries = _retries(context, group, is_all=is_all)
    found: list[tuple[bytes, Place]] = []
    most, size = min(command.max_num, MAX_MSGS_NUM_BATCH), 0
    left = deque(context.retries.first_for(retry_topic(group), most + 1, after))
    for _ in range(min(most, len(left))):
        if size >= MAX_BYTES:
            break
        after = left.popleft()
        record = context.store.delayed.message_at(*after[1:]).record
        data = None if record is None else context.store.look_message_by_offset(record.physical_offset)
        if data is not None:
            size += len(data)
            found.append((bytes(data), after))
        yield
    return RetriesWaiting(
        retries=retries,
        records=b"".join(data for data, _ in found),
        due_ms=[place[0] for _, place in found],
        places=[_text_of_place(place) for _, place in found],
        next=_text_of_place(after) if left else None,
    )


def _text_of_place(place: Place) -> str:
    return ".".join(map(str, place))


def _place_of_text(text: str) -> Place:
    match = PLACE.fullmatch(text)
    if match is None:
        raise RequestError(f"{text[:200]!r} is not the `next` of a page of waiting messages", pointer="/after")
    due_ms, level, offset = map(int, match.groups())
    return due_ms, level, offset


def is_known_group(context: Context, group: str) -> bool:
    """Whether the group has members, offsets, pulls or a configuration."""
    return bool(
        context.consumers.get(group)
        or context.offsets.topics(group)
        or context.pulls.topics(group)
        or group in context.subscription_groups
    )


def group_detail(context: Context, group: str, held: Set[str], seq: int, now: Now) -> Steps[ConsumerGroupDetail]:
    """One group in full. ``held`` are topics of held pulls, which are nearly always among its pulls."""
    info, offsets, pulls = context.consumers.get(group), context.offsets.topics(group), context.pulls.topics(group)
    subscriptions = dict(info.subscriptions) if info else {}
    topics = [
        topic for topic in sorted({*subscriptions, *offsets, *held, *pulls}) if context.topics.get(topic) is not None
    ]
    online = {client.client_id for client in context.clients.values()}
    are_retries_counted = yield from context.retries.count()
    yield
    queues: list[GroupQueueView] = []
    for topic in topics:
        if context.topics.get(topic) is not None and len(queues) < MAX_QUEUES:
            queues += yield from _queues(context, group, topic, MAX_QUEUES - len(queues), online, now)
    return ConsumerGroupDetail(
        seq=seq,
        broker=context.options.broker_name,
        group=group,
        consume_type=info.consume_type if info else "",
        message_model=info.message_model if info else "",
        consume_from_where=info.consume_from_where if info else "",
        members=[client_view(context, client) for client in context.consumers.members(group).values()],
        subscriptions=[subscriptions[topic] for topic in sorted(subscriptions)],
        queues=queues,
        queues_total=sum(config.read_queue_nums for config in map(context.topics.get, topics) if config is not None),
        missing_topics=missing_topics(context, subscriptions),
        retries=_retries(context, group, is_all=are_retries_counted),
    )


def missing_topics(context: Context, subscriptions: Iterable[str]) -> list[str]:
    """The subscribed topics that this broker does not have, by name."""
    return [
        topic
        for topic in sorted(subscriptions)
        if context.topics.get(topic) is None and not topic.startswith(RETRY_PREFIX)
    ]


def dead_letters(context: Context, group: str) -> int:
    dead, store = DLQ_PREFIX + group, context.store
    config = context.topics.get(dead)
    queues = range(config.read_queue_nums if config else 0)
    return sum(store.max_offset(dead, queue_id) - store.min_offset(dead, queue_id) for queue_id in queues)


def _retries(context: Context, group: str, *, is_all: bool) -> GroupRetries:
    """Messages that the group could not consume."""
    waiting, dead = context.retries.noted_for(retry_topic(group), is_all=is_all), DLQ_PREFIX + group
    return GroupRetries(
        broker=context.options.broker_name,
        waiting=waiting.messages,
        next_due_ms=waiting.next_due_ms,
        counted=waiting.is_all,
        dead_letter_topic=dead,
        dead_letters_from=context.store.min_offset(dead, 0),
        dead_letters=dead_letters(context, group),
    )


def _queues(
    context: Context, group: str, topic: str, limit: int, online: Set[str], now: Now
) -> Steps[list[GroupQueueView]]:
    """Up to ``limit`` queues of a topic from the group's side. ``online`` are the ids of clients with an open
    connection."""
    config, info = context.topics.require(topic), context.consumers.get(group)
    subscribed = info is not None and topic in info.subscriptions
    owners: list[str] = []
    pops = last_pop(context, group, topic, now) is not None
    if info is not None and subscribed and info.message_model == "CLUSTERING" and not pops:
        owners = averagely_owners(config.read_queue_nums, context.consumers.client_ids(group))
    views: list[GroupQueueView] = []
    for queue_ids in pieces_of(range(min(config.read_queue_nums, limit)), EXPLAINED):
        if context.topics.get(topic) is None:  # it was deleted between two pieces
            break
        for queue_id in queue_ids:
            owner = owners[queue_id] if owners else None
            views.append(_queue(context, group, topic, queue_id, owner, subscribed, online, now))
        yield
    return views


def _queue(
    context: Context,
    group: str,
    topic: str,
    queue_id: int,
    owner: str | None,
    subscribed: bool,
    online: Set[str],
    now: Now,
) -> GroupQueueView:
    held = next((held for held in context.holds.requests_of_queue(topic, queue_id) if held.group == group), None)
    popped = last_pop(context, group, topic, now)
    if popped is not None and popped.topic != topic:  # every held pop of a topic waits for its retry topic, too
        held = held or context.holds.first_pop(popped.topic, group, -1)
    else:
        held = held or context.holds.first_pop(topic, group, queue_id)
    row = context.pulls.row(group, topic, queue_id)
    last = context.pulls.last_pull(group, topic, queue_id)
    ago_ms = max(0, now.mono_ns - last.mono_ns) // 1_000_000 if last and last.mono_ns != UNKNOWN_NS else None
    is_polled = popped is not None and popped.ms_ago < POLLING_MS
    is_polled |= last is not None and ago_ms is not None and ago_ms < polling_ms(last, online)
    offset = context.offsets.query(group, topic, queue_id)
    state = queue_state(context, subscribed, held is not None, is_polled, is_busy(last, offset, online, now))
    at = group_queue_offset(context, topic, queue_id, offset or 0, now)
    lag, lag_ms = (at.lag, at.lag_ms) if offset is not None else (None, None)
    if at.max_offset == at.min_offset:  # an empty queue has no lag
        lag, lag_ms = 0, 0
    return GroupQueueView(
        topic=topic,
        queue_id=queue_id,
        assigned_to=owner,
        polled_by=popped.client_id if popped else last.client_id if last else None,
        polled_ms_ago=popped.ms_ago if popped else ago_ms,
        state=state,
        offset=offset,
        pull_offset=last.pull_offset if last else None,
        min_offset=at.min_offset,
        max_offset=at.max_offset,
        lag=lag,
        lag_ms=lag_ms,
        locked_by=context.locks.owner(group, topic, queue_id),
        why=_why(context, group, topic, queue_id, state, owner, held, last, popped, online, now),
        reset_to=context.offsets.pending_reset(group, topic, queue_id),
        **progress_fields(row, now),
    )


def _describe_last_pull(last: LastPull, since_s: int) -> str:
    """A sentence about the last pull of a client without a known open connection."""
    who = last.client_id or "a client"
    if last.protocol == "http":
        return f"{who} pulled {since_s} s ago; it is not a member, so it may or may not pull again"
    return f"{who}'s connection is closed; it pulled {since_s} s ago"


def _why(
    context: Context,
    group: str,
    topic: str,
    queue_id: int,
    state: QueueState,
    owner: str | None,
    held: PullRequest | None,
    last: LastPull | None,
    popped: LastPop | None,
    online: Set[str],
    now: Now,
) -> str:
    """A sentence: why the queue is in this state."""
    config, topic_config = context.subscription_groups.get(group), context.topics.require(topic)
    who, lock = owner or "a member", context.locks.owner(group, topic, queue_id)
    if state == "not_known":
        return "not known for an attached broker: RocketMQ does not report which pulls it holds"
    if config is not None and not config.consume_enable:
        return "the group may not consume: its consumeEnable is off"
    if not topic_config.perm & PERM_READ:
        return "the topic may not be read: its perm does not contain 4 (read)"
    if popped is not None:
        return _why_of_pops(context, group, topic, queue_id, held, popped)
    if held is not None:
        waits = f"{held.client_id or 'a client'} waits at offset {held.pull_from_offset}"
        newer = context.store.max_offset(topic, queue_id) - held.pull_from_offset
        if newer:
            return f"{waits}; its filter accepts none of {newer} newer messages"
        accepts = filter_text(held.message_filter)
        return f"{waits}, the queue's end{'' if accepts == '*' else f', for a message that {accepts} accepts'}"
    reset = context.offsets.pending_reset(group, topic, queue_id)
    if reset is not None:
        return f"the answer to the next pull of {who} will move it to offset {reset}"
    nobody = "the group has no member" if context.consumers.get(group) is None else "no member subscribes to the topic"
    if lock is not None and owner is not None and lock != owner and state == "not_polling":
        return f"{lock} has it locked; {owner} waits for the lock"
    late = _late_heartbeat(context, group, owner, now) if state == "not_polling" else ""
    return late or _why_not_held(state, owner, nobody, last, online, _is_without_permits(context, group, last), now)


def _why_of_pops(
    context: Context, group: str, topic: str, queue_id: int, held: PullRequest | None, popped: LastPop
) -> str:
    """The same for a group that pops."""
    invisible = context.check_points.in_flight(group, topic, queue_id)
    rest = f"; {plural(invisible, 'popped message is', 'popped messages are')} not acknowledged" if invisible else ""
    if held is not None:
        where = "any queue" if held.many.queue_id < 0 else "this queue"
        return f"{held.client_id or 'a client'} waits to pop from {where}{rest}"
    return f"{popped.client_id or 'a client'} popped {popped.ms_ago // 1000} s ago{rest}"


def _is_without_permits(context: Context, group: str, last: LastPull | None) -> bool:
    """Whether the WebSocket client that pulled last has used up its permits in every subscription of the group."""
    info = context.consumers.get(group)
    if info is None or last is None:
        return False
    _, windows = info.windows.get(last.client_id, (0, []))
    return bool(windows) and not any(window.permits for window in windows)


def _late_heartbeat(context: Context, group: str, owner: str | None, now: Now) -> str:
    """What the verdict says of an owner that is frozen; empty if its heartbeats come."""
    member = context.consumers.members(group).get(owner or "")
    if member is None or member.last_heartbeat_ms is None:
        return ""
    since_ms = now.wall_ms - member.last_heartbeat_ms
    if since_ms <= LATE_HEARTBEAT_MS:
        return ""
    return f"{owner} has sent no heartbeat for {span(since_ms)}: its process is frozen or its network is cut"


def _why_not_held(
    state: QueueState,
    owner: str | None,
    nobody: str,
    last: LastPull | None,
    online: Set[str],
    is_without_permits: bool,
    now: Now,
) -> str:
    """The same for a queue without a held pull."""
    since_s = max(0, now.mono_ns - last.mono_ns) // 1_000_000_000 if last is not None else 0
    is_gone = last is not None and last.client_id not in online
    is_timed = last is not None and last.mono_ns != UNKNOWN_NS
    if last is not None and is_timed and is_gone and (owner is None or state == "polling"):
        return _describe_last_pull(last, since_s)
    if state == "unassigned":
        return nobody
    if last is None or is_gone:
        return f"{owner or 'a member'} has not pulled from it yet"
    who = last.client_id or "a client"
    if is_without_permits:
        return f"{who} pulled {since_s} s ago; its permits are used up, so it does not pull now"
    if state == "polling":
        return f"{who} pulled a moment ago and will pull again"
    if state == "busy":
        return f"{who} pulled {since_s} s ago; it may be busy with the messages that it has"
    since = f"{who} pulled {since_s} s ago and has not pulled since"
    return f"{since}: it is suspended, frozen, cut off, or busy with its messages"
