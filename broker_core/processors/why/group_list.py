"""The list of groups, each with its state and with what is wrong beside its progress.

The problems are verdicts from the facts that the state needs anyway. Messages are read only where a group with a filter
has received none, so that 10,000 groups cost little.
"""

from msgspec import structs

from broker_core.clock import Now
from broker_core.commands import (
    BrokerCondition,
    ConsumerGroupDetail,
    ConsumerGroups,
    ConsumerGroupView,
    GetConsumerGroups,
    GroupRetries,
    Reply,
)
from broker_core.errors import RequestError
from broker_core.processors.client_view import client_view
from broker_core.processors.context import Context, Request
from broker_core.processors.group_view import dead_letters, missing_topics
from broker_core.processors.retry_message import DLQ_PREFIX
from broker_core.processors.why.group_facts import condition, facts_about, recent_messages
from broker_core.processors.why.live_state import LiveState, Seen, group_names, live_state, look_around
from broker_core.verdicts.judge import judge
from broker_core.verdicts.progress import uncommitted_messages
from broker_core.verdicts.verdict import Verdicts
from broker_core.walk import Steps, pieces_of

MAX_TOPICS = 200_000
"""Topics of all groups in one answer; one that several groups have counts for each."""

MAX_JUDGED = 500
"""Queues of a group that are judged one by one. A queue takes some 4 us, and a group is judged in one piece."""


def get_consumer_groups(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: GetConsumerGroups = request.command
    assert isinstance(command, GetConsumerGroups)
    seq = context.events.seq
    page = yield from group_names(context, command.after, command.limit and command.limit + 1)
    more = bool(command.limit) and len(page) > command.limit
    page = page[: command.limit or None]
    seen = yield from look_around(context, page)
    broker = _well(condition(context, now))
    groups: list[ConsumerGroupView] = []
    names = 0
    for group in page:
        lag, oldest_ms = yield from _known_lag(context, group, now)
        info, of_group = context.consumers.get(group), seen.topics_of(context, group)
        names += len(of_group)
        if names > MAX_TOPICS:
            raise RequestError(f"the groups have more than {MAX_TOPICS} topics together; ask for one group at a time")
        live = yield from live_state(context, group, of_group, seen, now, alone=command.alone)
        judged = yield from _judge(context, group, live, seen, broker, now, alone=command.alone)
        problems = [(one.severity, one.id) for one in judged.verdicts if one.severity in ("error", "warning")]
        groups.append(
            ConsumerGroupView(
                broker=context.options.broker_name,
                group=group,
                lag=lag,
                holds=None if context.store.follows else context.holds.count_of_group(group),
                topics=of_group,
                members=len(context.consumers.members(group)),
                message_model=info.message_model if info else "",
                state=judged.state,
                unknown_queues=live.unknown_queues,
                oldest_ms=oldest_ms,
                consume_tps=sum(context.stats.group_get.tps((topic, group), now.mono_ns) for topic in of_group),
                retrying=seen.retrying(context, group),
                dead_letters=dead_letters(context, group),
                severity=problems[0][0] if problems else None,
                problems=list(dict.fromkeys(name for _, name in problems)),
            )
        )
        yield
    return ConsumerGroups(seq=seq, groups=groups, next=page[-1] if more else None)


def _known_lag(context: Context, group: str, now: Now) -> Steps[tuple[int | None, int | None]]:
    """The messages between the committed offsets and the queues' ends, and the age of the oldest one, ms.

    The lag is None without an offset in an existing topic.
    """
    lag: int | None = None
    oldest: int | None = None
    store = context.store
    for topic in list(context.offsets.topics(group)):
        if context.topics.get(topic) is None:
            continue
        for queues in pieces_of(list(context.offsets.topics(group).get(topic, {}).items())):
            lag = lag or 0
            for queue_id, offset in queues:
                behind = store.max_offset(topic, queue_id) - offset
                if behind > 0:
                    lag += behind
                    stored = store.store_time(topic, queue_id, offset)
                    oldest = stored if oldest is None or (stored is not None and stored < oldest) else oldest
            yield
    return lag, None if oldest is None else max(0, now.wall_ms - oldest)


def _well(broker: BrokerCondition) -> BrokerCondition:
    """The broker without the problems that it causes for all its groups alike: a list would repeat them in each row."""
    return structs.replace(
        broker, draining=False, problem="", holds=0, max_holds=1, undispatched_bytes=0, late_ms=None, slave_timeouts=0
    )


def _judge(
    context: Context, group: str, live: LiveState, seen: Seen, broker: BrokerCondition, now: Now, *, alone: bool
) -> Steps[Verdicts]:
    """The verdicts on the group, without those about delayed messages, which are no problem.

    Of a group with very many queues or members, the state is that of its progress, and verdicts on its queues, members
    and filters are left out.
    """
    info, members = context.consumers.get(group), context.consumers.members(group)
    is_large = max(len(live.queues), len(members)) > MAX_JUDGED
    subscriptions = dict(info.subscriptions) if info is not None else {}
    retrying = seen.retrying(context, group)
    detail = ConsumerGroupDetail(
        seq=0,
        broker=context.options.broker_name,
        group=group,
        consume_type=info.consume_type if info is not None else "",
        message_model=info.message_model if info is not None else "",
        consume_from_where=info.consume_from_where if info is not None else "",
        members=[] if is_large else [client_view(context, client) for client in members.values()],
        subscriptions=[subscriptions[topic] for topic in sorted(subscriptions)],
        queues=[] if is_large else live.queues,
        queues_total=len(live.queues),
        missing_topics=missing_topics(context, subscriptions) if alone else [],
        retries=GroupRetries(
            broker=context.options.broker_name,
            waiting=retrying or 0,
            next_due_ms=None,
            counted=retrying is not None,
            dead_letter_topic=DLQ_PREFIX + group,
            dead_letters=0,
            dead_letters_from=0,
        ),
    )
    recent = (yield from recent_messages(context, detail, undelivered=True)) if alone else []
    topics = dict.fromkeys(queue.topic for queue in live.queues)
    facts = facts_about(context, detail, topics, broker, recent, [], now)
    if not is_large:
        return judge([facts])
    tried = facts.returned.delivered - sum(map(uncommitted_messages, live.queues))
    facts = structs.replace(facts, returned=structs.replace(facts.returned, delivered=tried))
    return structs.replace(judge([facts]), state=live.state)
