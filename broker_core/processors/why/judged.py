"""The verdicts on each of many groups, for the list of groups, the metrics and alerts.

The facts are those that the state needs anyway. Messages are read only if a group with a filter has received none, so
that 10,000 groups cost little.
"""

from typing import Literal

from msgspec import structs

from broker_core.clock import Now
from broker_core.commands import MAX_SENTENCE, BrokerCondition, ConsumerGroupDetail, GroupRetries, VerdictLine
from broker_core.processors.client_view import client_view
from broker_core.processors.context import Context
from broker_core.processors.group_view import missing_topics
from broker_core.processors.retry_message import DLQ_PREFIX
from broker_core.processors.why.group_facts import facts_about, recent_messages
from broker_core.processors.why.live_state import QueuesOfGroup, Seen, live_state
from broker_core.verdicts.judge import judge
from broker_core.verdicts.progress import uncommitted_messages
from broker_core.verdicts.verdict import Verdict, Verdicts
from broker_core.walk import Steps

MAX_JUDGED = 500
"""Queues of a group that are judged one by one. A queue takes some 4 us, and a group is judged in one piece."""


def problems_of(judged: Verdicts) -> list[tuple[Literal["error", "warning"], Verdict]]:
    """The errors and warnings among the verdicts, each with its severity, the worst first."""
    return [(one.severity, one) for one in judged.verdicts if one.severity == "error" or one.severity == "warning"]


def lines_of(judged: Verdicts, *, sentences: bool) -> list[VerdictLine]:
    """The errors and warnings, the worst first and each id once; without any, the first verdict."""
    chosen = [one for _, one in problems_of(judged)] or judged.verdicts[:1]
    first: dict[str, Verdict] = {}
    for one in chosen:
        first.setdefault(one.id, one)
    return [
        VerdictLine(id=one.id, severity=one.severity, sentence=_cut(one.sentence) if sentences else "")
        for one in first.values()
    ]


def _cut(sentence: str) -> str:
    return sentence if len(sentence) <= MAX_SENTENCE else f"{sentence[: MAX_SENTENCE - 1]}…"


def broker_without_problems(broker: BrokerCondition) -> BrokerCondition:
    """The broker without the problems that affect all its groups alike. A list would repeat them in each row."""
    return structs.replace(
        broker, draining=False, problem="", holds=0, max_holds=1, undispatched_bytes=0, late_ms=None, slave_timeouts=0
    )


def judge_live(
    context: Context,
    group: str,
    looked_at: QueuesOfGroup,
    seen: Seen,
    broker: BrokerCondition,
    now: Now,
    *,
    alone: bool,
) -> Steps[Verdicts]:
    """The verdicts on the group, without those about delayed messages, which are no problem.

    Of a group with very many queues or members, the state is that of its progress, and verdicts on its queues, members
    and filters are left out.
    """
    info, members = context.consumers.get(group), context.consumers.members(group)
    is_large = max(len(looked_at.queues), len(members)) > MAX_JUDGED
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
        queues=[] if is_large else looked_at.queues,
        queues_total=len(looked_at.queues),
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
    topics = dict.fromkeys(queue.topic for queue in looked_at.queues)
    facts = facts_about(context, detail, topics, broker, recent, [], now)
    if not is_large:
        return judge([facts], progress=looked_at.progress)
    tried = facts.returned.delivered - sum(map(uncommitted_messages, looked_at.queues))
    facts = structs.replace(facts, returned=structs.replace(facts.returned, delivered=tried))
    judged = judge([facts])
    common = [one for _, one in problems_of(judged) if one.id != "no_member"]  # the members were left out
    return structs.replace(judged, state=live_state(context, group, looked_at, seen, now), verdicts=common)
