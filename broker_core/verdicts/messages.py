"""Situations of the group's messages: filters, subscriptions, retries, offsets."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TypedDict

from broker_core.commands import DelayedMessages, RecentMessages
from broker_core.verdicts.catalogue import CATALOGUE
from broker_core.verdicts.group import Group, places
from broker_core.verdicts.verdict import Verdict, clock, joined, plural, shown, span


def message_verdicts(group: Group) -> Iterator[Verdict]:
    """Why messages do not reach the consumers, although these pull."""
    yield from _failing(group)
    yield from _delayed(group)
    yield from _disagreeing(group)
    yield from _filtered(group)
    yield from _topics(group)
    yield from _offsets(group)


def _next_try(group: Group) -> int | None:
    """When the next retry is due, wall time; None without one."""
    due = [one.detail.retries.next_due_ms for one in group.facts]
    return min((ms for ms in due if ms is not None), default=None)


def _in(ms: int) -> str:
    return f"in {span(ms)}" if ms >= 1000 else "now"


def _failing(group: Group) -> Iterator[Verdict]:
    returned = sum(one.returned.returned for one in group.facts)
    delivered = sum(one.returned.delivered for one in group.facts)
    waiting = sum(one.detail.retries.waiting for one in group.facts)
    dead = sum(one.detail.retries.dead_letters for one in group.facts)
    tries = max((one.returned.tries for one in group.facts if one.returned.tries is not None), default=None)
    due = _next_try(group)
    if returned:
        window = max(one.returned.window_ms for one in group.facts)
        tried = delivered - sum(queue.uncommitted for queue in group.queues)
        evidence = {
            "returned": returned,
            "delivered": delivered,
            "tried": max(returned, tried) if tried > 0 else None,
            "window_ms": window,
            "tries": tries,
            "next_due_ms": due,
            "waiting": waiting,
        }
        text = f"{returned:,} of {max(returned, tried):,}" if tried > 0 else plural(returned, "message")
        text += f" came back in the last {span(window)}"
        text += f", try {tries}" if tries is not None else ""
        text += f", next {_in(due - group.now_ms)}" if due is not None else ""
        if group.is_failing:
            yield CATALOGUE["every_message_fails"].verdict(f"Every message fails: {text}.", evidence)
        else:
            yield CATALOGUE["some_messages_fail"].verdict(f"Some messages fail: {text}.", evidence)
    if waiting or dead:
        least = "" if group.are_retries_counted else "At least "
        parts = []
        if waiting:
            when = f", the next at {clock(due)} ({_in(due - group.now_ms)})" if due is not None else ""
            parts.append(f"{least}{plural(waiting, 'message waits', 'messages wait')} for another try{when}")
        if dead:
            parts.append(f"{plural(dead, 'message is', 'messages are')} dead")
        yield CATALOGUE["retries_pending"].verdict(
            "; ".join(parts) + ".",
            {"waiting": waiting, "next_due_ms": due, "dead_letters": dead, "counted": group.are_retries_counted},
        )


def _delayed(group: Group) -> Iterator[Verdict]:
    by_topic: defaultdict[str, list[DelayedMessages]] = defaultdict(list)
    for one in group.facts:
        for delayed in one.delayed:
            by_topic[delayed.topic].append(delayed)
    for topic, entries in sorted(by_topic.items()):
        messages = sum(entry.messages for entry in entries)
        due = min((entry.next_due_ms for entry in entries if entry.next_due_ms is not None), default=None)
        when = f", the next at {clock(due)} ({_in(due - group.now_ms)})" if due is not None else ""
        counted = all(entry.counted for entry in entries)
        yield CATALOGUE["delayed_pending"].verdict(
            f"{'' if counted else 'At least '}{plural(messages, 'delayed message')} of {topic} "
            f"{'is' if messages == 1 else 'are'} not due yet{when}.",
            {"topic": topic, "messages": messages, "next_due_ms": due, "counted": counted},
        )


def _disagreeing(group: Group) -> Iterator[Verdict]:
    by_topic: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for one in group.facts:
        for entry in one.disagreements:
            by_topic[entry.topic][entry.client_id] = entry.expression
    for topic, expressions in sorted(by_topic.items()):
        takes = [
            f"{client_id} takes {shown(expression) if expression else 'nothing'}"
            for client_id, expression in sorted(expressions.items())
        ]
        unreached = sum(recent.unreached for one in group.facts for recent in one.recent if recent.topic == topic)
        nobody = f" ({unreached:,} reached nobody)" if unreached else ""
        yield CATALOGUE["subscriptions_disagree"].verdict(
            f"The members disagree about {topic}: {joined(takes)}; each message reaches only the owner of its queue"
            f"{nobody}.",
            {"topic": topic, "expressions": expressions, "unreached": unreached},
        )


def _filtered(group: Group) -> Iterator[Verdict]:
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for place, one in enumerate(group.facts):
        for recent in one.recent:
            if recent.messages:
                by_topic[recent.topic].append(place)
    for topic, at in sorted(by_topic.items()):
        entries = [recent for place in at for recent in group.facts[place].recent if recent.topic == topic]
        if any(entry.passed or entry.delivered for entry in entries):
            continue
        tags: defaultdict[str, int] = defaultdict(int)
        for entry in entries:
            for count in entry.tags:
                tags[count.tag] += count.messages
        messages, since = sum(entry.messages for entry in entries), min(entry.since_ms for entry in entries)
        listed = [
            f"{tag or '(no tag)'} {number:,}" for tag, number in sorted(tags.items(), key=lambda item: (-item[1], item))
        ]
        is_sql = entries[0].expression_type == "SQL92"
        outcomes = _outcomes(entries) if is_sql else {}
        because = _outcomes_text(outcomes) if is_sql else f"their tags were {joined(listed)}"
        yield CATALOGUE["filter_rejects_all"].verdict(
            f"{plural(messages, 'message')} of {topic} came since {clock(since)}, none passed "
            f"{shown(entries[0].expression)}; {because}.",
            {
                "topic": topic,
                "expression": entries[0].expression,
                "messages": messages,
                "since_ms": since,
                "tags": dict(tags),
                **outcomes,
            },
        )


class Outcomes(TypedDict, total=False):
    """For how many messages an SQL92 filter is false, unknown or an error, and one of these errors."""

    false: int
    unknown: int
    failed: int
    problem: str


def _outcomes(entries: Sequence[RecentMessages]) -> Outcomes:
    unknown, failed = sum(entry.unknown for entry in entries), sum(entry.failed for entry in entries)
    return Outcomes(
        false=sum(entry.messages for entry in entries) - unknown - failed,
        unknown=unknown,
        failed=failed,
        problem=shown(next((entry.problem for entry in entries if entry.problem), "")),
    )


def _outcomes_text(outcomes: Outcomes) -> str:
    """Why messages did not pass an SQL92 filter."""
    false, unknown, failed = outcomes["false"], outcomes["unknown"], outcomes["failed"]
    return joined(
        [
            *([f"it is false for {false:,}"] if false else []),
            *([f"unknown for {unknown:,} (for example because a property is missing)"] if unknown else []),
            *([f"an error for {failed:,}, such as: {outcomes['problem']}"] if failed else []),
        ]
    )


def _topics(group: Group) -> Iterator[Verdict]:
    missing = set(group.facts[0].detail.missing_topics).intersection(
        *(one.detail.missing_topics for one in group.facts)
    )
    if missing and not group.unavailable:
        names = sorted(missing)
        yield CATALOGUE["topic_missing"].verdict(
            f"{group.name} subscribes to {joined(names)}, but "
            f"{'this topic does' if len(names) == 1 else 'these topics do'} not exist.",
            {"topics": names},
        )
    if not group.members or group.is_broadcasting:
        return
    subscribed = {entry.topic for one in group.facts for entry in one.detail.subscriptions}
    left = [
        queue
        for queue in group.own_queues
        if queue.view.state == "unassigned" and queue.progress.waiting and queue.view.topic not in subscribed
    ]
    if left:
        topics = sorted({queue.view.topic for queue in left})
        waiting = sum(queue.progress.waiting or 0 for queue in left)
        yield CATALOGUE["topic_not_subscribed"].verdict(
            f"No member subscribes to {joined(topics)}, where {plural(waiting, 'message waits', 'messages wait')}.",
            {"topics": topics, "waiting": waiting},
        )


def _offsets(group: Group) -> Iterator[Verdict]:
    for queue in group.queues:
        view, offset = queue.view, queue.view.offset
        if view.reset_to is not None:
            yield CATALOGUE["reset_pending"].verdict(
                f"The answer to the next pull from {queue.place} moves {group.name} to offset {view.reset_to:,}.",
                {"queue": queue.place, "offset": view.reset_to},
            )
        if offset is None:
            continue
        if offset < view.min_offset:
            yield CATALOGUE["offset_deleted"].verdict(
                f"{plural(view.min_offset - offset, 'message')} of {queue.place} were deleted before {group.name} "
                f"consumed them: its offset is {offset:,}, and the queue begins at {view.min_offset:,}.",
                {"queue": queue.place, "offset": offset, "min_offset": view.min_offset},
            )
        elif offset > view.max_offset:
            yield CATALOGUE["offset_beyond_end"].verdict(
                f"The offset of {group.name} in {queue.place} is {offset:,}, but the queue ends at "
                f"{view.max_offset:,}.",
                {"queue": queue.place, "offset": offset, "max_offset": view.max_offset},
            )
    yield from _new_group(group)


def _new_group(group: Group) -> Iterator[Verdict]:
    """The group pulls at the end of queues in which it has committed nothing and received nothing."""
    starts_last = any(one.detail.consume_from_where == "CONSUME_FROM_LAST_OFFSET" for one in group.facts)
    skipped = [
        queue
        for queue in (group.own_queues if starts_last else ())
        if queue.view.offset is None
        and not queue.view.handed
        and queue.view.pull_offset is not None
        and queue.view.pull_offset > queue.view.min_offset
        and queue.progress.waiting == 0
    ]
    if skipped:
        messages = sum((queue.view.pull_offset or 0) - queue.view.min_offset for queue in skipped)
        yield CATALOGUE["started_at_end"].verdict(
            f"{group.name} is new and started at the end of {joined(places(skipped))}: "
            f"it does not receive {plural(messages, 'older message')}.",
            {"queues": places(skipped)[:100], "older_messages": messages},
        )
