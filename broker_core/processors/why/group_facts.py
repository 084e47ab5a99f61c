"""Everything that explains why a group waits: the input of ``broker_core.verdicts``.

Nearly all of it is read when somebody asks, from one group's rows and from the newest 100 messages of its topics.
"""

from collections import Counter
from collections.abc import Collection, Iterable

from msgspec import structs

from broker_core.clock import Now
from broker_core.commands import (
    BrokerCondition,
    ClientWindow,
    ConsumerGroupDetail,
    DelayedMessages,
    Done,
    ExpiredMember,
    GetGroupFacts,
    GroupFacts,
    MemberSubscription,
    RecentMessages,
    RefusedPulls,
    Reply,
    ReportWindows,
    ReturnedMessages,
    SubscriptionData,
    TagCount,
)
from broker_core.consumers.subscription_group_manager import not_exist
from broker_core.errors import RequestError
from broker_core.events import MessageSentBack
from broker_core.filters.filter_factory import TAG, make_client_filter
from broker_core.filters.message_filter import MessageFilter
from broker_core.filters.sql92.sql_filter import SqlFilter
from broker_core.filters.sql92.values import EvaluationError
from broker_core.filters.tags import looks_like_sql92
from broker_core.processors.context import Context, Request
from broker_core.processors.group_view import group_detail, is_known_group
from broker_core.processors.retry_message import RETRY_PREFIX
from broker_core.processors.why.live_state import returned_messages, unacknowledged_pops
from broker_core.store.timer.next_due import first_due_ms
from broker_core.topics import PERM_READ
from broker_core.walk import Steps

MAX_WINDOWS = 100
MAX_TOPICS = 16
"""Topics whose newest messages are looked at."""
MESSAGES = 100
"""How many of the newest messages of a topic are looked at."""
MAX_QUEUES = 25
"""Of how many of its queues."""
MAX_TAGS = 10
MAX_TAG_LENGTH = 100
MAX_MEMBERS = 8
"""Members of a disagreeing group that are named."""


def get_group_facts(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: GetGroupFacts = request.command
    group = command.group
    if not is_known_group(context, group) and group not in context.refused_pulls:
        raise not_exist(group)
    detail = yield from group_detail(context, group, frozenset(), context.events.seq, now)
    recent = yield from recent_messages(context, detail)
    delayed = yield from _delayed(context, detail, now)
    topics = dict.fromkeys(queue.topic for queue in detail.queues)
    return facts_about(context, detail, topics, condition(context, now), recent, delayed, now)


def facts_about(
    context: Context,
    detail: ConsumerGroupDetail,
    topics: Collection[str],
    broker: BrokerCondition,
    recent: list[RecentMessages],
    delayed: list[DelayedMessages],
    now: Now,
) -> GroupFacts:
    """The facts of a group: the given ones, and those that need no look at messages. ``topics`` are its queues'."""
    group = detail.group
    info, config = context.consumers.get(group), context.subscription_groups.get(group)
    changed_ns = info.changed_ns if info is not None else 0
    expired = None if context.store.follows else context.consumers.last_expired(group)
    return GroupFacts(
        detail=detail,
        broker=broker,
        now_ms=now.wall_ms,
        consume_enable=config is None or config.consume_enable,
        unreadable_topics=_unreadable_topics(context, detail),
        changed_ms=_wall_ms(changed_ns, now) if changed_ns else None,
        refused=[
            RefusedPulls(
                client_id=refusal.client_id,
                topic=refusal.topic,
                queue_id=refusal.queue_id,
                code=refusal.code,
                reason=refusal.reason,
                count=refusal.count,
                since_ms=refusal.since_ms,
                last_ms=refusal.last_ms,
                counted=refusal.counted,
            )
            for refusal in context.refused_pulls.present(group, context.pulls, now.mono_ns)
        ],
        disagreements=_disagreements(context, group),
        windows=list(_windows(context, group)),
        recent=recent,
        returned=_returned(context, group, topics, now),
        delayed=delayed,
        unacknowledged=unacknowledged_pops(context, group, topics, now),
        expired=expired and ExpiredMember(client_id=expired[0], at_ms=_wall_ms(expired[1], now)),
    )


def _wall_ms(mono_ns: int, now: Now) -> int:
    return now.wall_ms - (now.mono_ns - mono_ns) // 1_000_000


def _delayed(context: Context, detail: ConsumerGroupDetail, now: Now) -> Steps[list[DelayedMessages]]:
    """The messages of subscribed topics that are not due, by topic."""
    if not detail.subscriptions:
        return []
    is_all = yield from context.postponed.count()
    found = []
    timers = context.store.timers
    are_timers_counted = timers.loaded and timers.counts.is_complete and not timers.behind
    for subscription in detail.subscriptions[:MAX_TOPICS]:
        waiting = context.postponed.noted_for(subscription.topic, is_all=is_all)
        timed = max(timers.counts.by_topic.get(subscription.topic, 0), 0)
        if waiting.messages or timed:
            timed_due_ms = (yield from first_due_ms(timers, subscription.topic, now)) if timed else None
            known = [due_ms for due_ms in (waiting.next_due_ms, timed_due_ms) if due_ms is not None]
            found.append(
                DelayedMessages(
                    topic=subscription.topic,
                    messages=waiting.messages + timed,
                    next_due_ms=None if timed and timed_due_ms is None else min(known, default=None),
                    counted=waiting.is_all and are_timers_counted,
                )
            )
    return found


def condition(context: Context, now: Now) -> BrokerCondition:
    store, late = context.store, context.lateness.present(now.mono_ns)
    tables_ms = context.following.report.tables_ms
    return BrokerCondition(
        broker=context.options.broker_name,
        up_ms=(now.mono_ns - context.started.mono_ns) // 1_000_000,
        draining=context.draining,
        problem=context.problem(),
        holds=len(context.holds),
        max_holds=context.options.max_holds,
        undispatched_bytes=max(0, store.appended_offset - store.dispatched_offset),
        late_ms=late.waited_ns // 1_000_000 if late is not None else None,
        refused=late.refused if late is not None else 0,
        attached=store.follows,
        members_known=context.are_members_known,
        tables_age_ms=None if tables_ms is None else max(0, now.wall_ms - tables_ms),
        slave_timeouts=context.ha_service.recent_timeouts(now.mono_ns),
        slaves_needed=context.options.slaves_needed,
        slaves=context.ha_service.slaves,
    )


def _unreadable_topics(context: Context, detail: ConsumerGroupDetail) -> list[str]:
    configs = (context.topics.get(subscription.topic) for subscription in detail.subscriptions)
    return [config.topic_name for config in configs if config is not None and not config.perm & PERM_READ]


# --- Windows -------------------------------------------------------------------------------------------------------


def report_windows(context: Context, request: Request, now: Now) -> Reply:
    """Keep what a WebSocket consumer accepts, until its next report or its leaving."""
    command: ReportWindows = request.command
    if len(command.windows) > MAX_WINDOWS:
        raise RequestError(f"a client has at most {MAX_WINDOWS} windows in a group", pointer="/windows")
    info = context.consumers.get(command.group)
    if info is not None and context.consumers.is_member(command.group, request.connection):
        info.windows[context.client_id_of(request.connection)] = (now.wall_ms, command.windows)
    return Done()


def _windows(context: Context, group: str) -> list[ClientWindow]:
    info = context.consumers.get(group)
    return [
        ClientWindow(client_id=client_id, reported_ms=reported_ms, window=window)
        for client_id, (reported_ms, windows) in (info.windows if info else {}).items()
        for window in windows
    ]


# --- Subscriptions and filters -------------------------------------------------------------------------------------


def _disagreements(context: Context, group: str) -> list[MemberSubscription]:
    """The members that differ from the group's subscription, and some that do not, by topic."""
    info = context.consumers.get(group)
    if info is None or not info.differing:
        return []
    agreeing = [client_id for client_id in context.consumers.client_ids(group) if client_id not in info.differing]
    found: list[MemberSubscription] = []
    for topic in sorted({topic for topics in info.differing.values() for topic in topics})[:MAX_TOPICS]:
        present = info.subscriptions.get(topic)
        expressions = {
            client_id: topics[topic] for client_id, topics in sorted(info.differing.items()) if topic in topics
        }
        others = dict.fromkeys(agreeing[: MAX_MEMBERS // 2], (present.sub_string or "*") if present else "")
        for client_id, expression in list((others | expressions).items())[:MAX_MEMBERS]:
            found.append(MemberSubscription(client_id=client_id, topic=topic, expression=expression))
    return found


def recent_messages(
    context: Context, detail: ConsumerGroupDetail, *, undelivered: bool = False
) -> Steps[list[RecentMessages]]:
    """Of each topic with a filter, what the filter does to its newest messages.

    ``undelivered``: only of topics from which the group received nothing since the broker started.
    """
    info = context.consumers.get(detail.group)
    if info is None:
        return []
    found: list[RecentMessages] = []
    for subscription in detail.subscriptions:
        topic = subscription.topic
        differing = {client_id: topics[topic] for client_id, topics in info.differing.items() if topics.get(topic)}
        if topic.startswith(RETRY_PREFIX) or len(found) >= MAX_TOPICS:
            continue
        if undelivered and context.stats.group_get.get((topic, detail.group)) is not None:
            continue
        recent = _recent(context, detail, subscription, differing)
        if recent is not None:
            found.append(recent)
        yield
    return found


def _recent(
    context: Context, detail: ConsumerGroupDetail, subscription: SubscriptionData, differing: dict[str, str]
) -> RecentMessages | None:
    """None if every message passes, or the filter cannot be read."""
    topic = subscription.topic
    own = _filter(subscription.sub_string, subscription.expression_type)
    others = {
        client_id: "unknown" if looks_like_sql92(expression) else _filter(expression)
        for client_id, expression in list(differing.items())[:MAX_MEMBERS]
    }
    if own == "unknown" or "unknown" in others.values() or (own is None and not others):
        return None
    queues = [queue for queue in detail.queues if queue.topic == topic and queue.pull_offset is not None][:MAX_QUEUES]
    tags: Counter[str] = Counter()
    passed = unreached = unknown = failed = 0
    problem = ""
    oldest_ms: int | None = None
    for queue in queues:
        offered = queue.max_offset if queue.state == "held" else min(queue.max_offset, queue.pull_offset or 0)
        last = context.pulls.last_pull(detail.group, topic, queue.queue_id)
        begin = max(offered - MESSAGES // len(queues), last.first_offset if last is not None else offered)
        client = context.consumers.members(detail.group).get(queue.assigned_to or "")
        owner = others.get(queue.assigned_to or "", own)
        sends_filter = client is not None and client.protocol == "websocket"  # others rely on the group's subscription
        for stored_ms, properties in context.store.recent_properties(topic, queue.queue_id, begin, offered):
            tags[_tag(properties)] += 1
            oldest_ms = stored_ms if oldest_ms is None else min(oldest_ms, stored_ms)
            if isinstance(own, SqlFilter):
                try:
                    unknown += own.evaluate(properties) is None
                except EvaluationError as error:
                    failed, problem = failed + 1, problem or str(error)
            passes = _passes(own, properties)
            passed += passes
            reached = _passes(owner, properties) and (passes or sends_filter)
            unreached += not reached and (passes or any(_passes(one, properties) for one in others.values()))
    return RecentMessages(
        topic=topic,
        expression=subscription.sub_string or "*",
        expression_type=subscription.expression_type or TAG,
        messages=tags.total(),
        passed=passed,
        unreached=unreached,
        since_ms=oldest_ms or 0,
        tags=[TagCount(tag=tag, messages=number) for tag, number in tags.most_common(MAX_TAGS)],
        unknown=unknown,
        failed=failed,
        problem=problem,
        delivered=context.stats.group_get.get((topic, detail.group)) is not None,
    )


def _filter(expression: str, expression_type: str = TAG) -> MessageFilter | str | None:
    """The filter of an expression; None if every message passes, ``unknown`` if it cannot be read."""
    try:
        return make_client_filter(expression or "*", expression_type, property_filter=True)
    except RequestError:
        return "unknown"


def _passes(message_filter: MessageFilter | str | None, properties: bytes) -> bool:
    return message_filter is None or (not isinstance(message_filter, str) and message_filter.matches_record(properties))


def _tag(properties: bytes) -> str:
    for entry in properties.split(b"\x02"):
        if entry.startswith(b"TAGS\x01"):
            return entry[5:].decode("utf-8", "replace")[:MAX_TAG_LENGTH]
    return ""


# --- Messages that came back ---------------------------------------------------------------------------------------


def _returned(context: Context, group: str, topics: Iterable[str], now: Now) -> ReturnedMessages:
    returned = returned_messages(context, group, topics, now)
    return structs.replace(returned, tries=_tries(context, group)) if returned.returned else returned


def _tries(context: Context, group: str) -> int | None:
    """The highest number of tries among the broker's last messages that came back; None if none is the group's."""
    events = (recorded.event() for recorded in context.retried)
    return max(
        (event.reconsume_times for event in events if isinstance(event, MessageSentBack) and event.group == group),
        default=None,
    )
