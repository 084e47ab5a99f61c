"""The list of groups, each with its state and with what is wrong beside its progress.

The problems are verdicts from the facts that the state needs anyway.
"""

from broker_core.clock import Now
from broker_core.commands import (
    ConsumerGroups,
    ConsumerGroupView,
    GetConsumerGroups,
    Reply,
)
from broker_core.errors import RequestError
from broker_core.processors.context import Context, Request
from broker_core.processors.group_view import dead_letters
from broker_core.processors.why.group_facts import condition
from broker_core.processors.why.judged import broker_without_problems, judge_live, problems_of
from broker_core.processors.why.live_state import group_names, look_around, queues_of_group
from broker_core.walk import Steps, pieces_of

MAX_TOPICS = 200_000
"""Topics of all groups in one answer; one that several groups have counts for each."""


def get_consumer_groups(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: GetConsumerGroups = request.command
    assert isinstance(command, GetConsumerGroups)
    seq = context.events.seq
    page = yield from group_names(context, command.after, command.limit and command.limit + 1)
    more = bool(command.limit) and len(page) > command.limit
    page = page[: command.limit or None]
    seen = yield from look_around(context, page)
    broker = broker_without_problems(condition(context, now))
    groups: list[ConsumerGroupView] = []
    names = 0
    for group in page:
        lag, oldest_ms = yield from _known_lag(context, group, now)
        info, of_group = context.consumers.get(group), seen.topics_of(context, group)
        names += len(of_group)
        if names > MAX_TOPICS:
            raise RequestError(f"the groups have more than {MAX_TOPICS} topics together; ask for one group at a time")
        looked_at = yield from queues_of_group(context, group, of_group, seen, now, alone=command.alone)
        judged = yield from judge_live(context, group, looked_at, seen, broker, now, alone=command.alone)
        problems = problems_of(judged)
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
                unknown_queues=looked_at.unknown_queues,
                oldest_ms=oldest_ms,
                consume_tps=sum(context.stats.group_get.tps((topic, group), now.mono_ns) for topic in of_group),
                retrying=seen.retrying(context, group),
                dead_letters=dead_letters(context, group),
                severity=problems[0][0] if problems else None,
                problems=list(dict.fromkeys(one.id for _, one in problems)),
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
