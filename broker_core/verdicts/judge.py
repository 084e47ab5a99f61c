"""Why is my consumer waiting? All verdicts on a group, from the facts of its brokers."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from broker_core.commands import GroupFacts
from broker_core.verdicts.brokers import broker_verdicts
from broker_core.verdicts.catalogue import CATALOGUE, RANKS
from broker_core.verdicts.clients import client_verdicts
from broker_core.verdicts.group import Group, places
from broker_core.verdicts.group_state import PATIENCE_MS, State
from broker_core.verdicts.messages import message_verdicts
from broker_core.verdicts.progress import QueueProgress, group_state
from broker_core.verdicts.verdict import SEVERITIES, Verdict, Verdicts, joined, plural, span

MAX_VERDICTS = 100
_STILL_CONSUMING = {"broker_away", "subscriptions_disagree"}
"""Errors that do not stop the group."""


def judge(
    facts: Sequence[GroupFacts],
    *,
    unavailable: Sequence[str] = (),
    patience_ms: int = PATIENCE_MS,
    progress: Iterable[QueueProgress] | None = None,
) -> Verdicts:
    """The verdicts on one group, the worst first, at most 100.

    ``facts`` are those of each broker that has the group, at least one; ``unavailable`` brokers did not answer.
    Messages may wait for ``patience_ms`` without progress. ``progress`` is that of each queue of the facts, with the
    same patience, if the caller has computed it.
    """
    group = Group(facts, unavailable, patience_ms, progress)
    verdicts = [*broker_verdicts(group), *client_verdicts(group), *message_verdicts(group)]
    state = _state(group, verdicts)
    verdicts += _progress_verdicts(group, state, verdicts)
    verdicts.sort(key=lambda verdict: (SEVERITIES.index(verdict.severity), RANKS[verdict.id]))
    return Verdicts(group=group.name, state=state, verdicts=verdicts[:MAX_VERDICTS])


def _state(group: Group, verdicts: list[Verdict]) -> State:
    """The state by the group's progress. What cannot be seen is unknown, and an error with messages is a stall."""
    is_consumed = bool(group.members or group.pullers)
    state = group_state(
        group.progress,
        is_consumed=is_consumed,
        has_committed=group.has_committed,
        is_failing=group.is_failing,
        is_broadcasting=group.is_broadcasting,
        is_counted=group.are_retries_counted and bool(group.own_queues),
        patience_ms=group.patience_ms,
    )
    if state == "stopped" and not group.unavailable and group.are_members_known:
        return state
    errors = {verdict.id for verdict in verdicts if verdict.severity == "error"} - _STILL_CONSUMING
    waits = group.progress.waiting or group.progress.unknown or errors & {"pulls_refused", "not_acknowledged"}
    if is_consumed and errors and waits:
        return "stalled"
    return "unknown" if state in ("ok", "stopped") and not group.is_whole else state


def _progress_verdicts(group: Group, state: State, verdicts: list[Verdict]) -> Iterator[Verdict]:
    """What the group's progress adds to the other verdicts; at least one if there are none."""
    progress = group.progress
    evidence = {"waiting": progress.waiting, "unknown_queues": progress.unknown, "oldest_ms": progress.oldest_ms}
    if group.is_broadcasting:
        yield CATALOGUE["broadcasting"].verdict(
            f"{group.name} consumes by broadcasting: {plural(len(group.members), 'member')} "
            f"{'receives' if len(group.members) == 1 else 'receive'} every message and "
            f"{'keeps' if len(group.members) == 1 else 'keep'} the offsets. The lag is unknown here.",
            {"members": len(group.members)},
        )
    else:
        yield from _unknown(group, state)
    if state == "stalled":
        yield from _stands_still(group, verdicts)
    elif state == "falling behind":
        yield CATALOGUE["falling_behind"].verdict(
            f"{group.name} falls behind: {_waiting(group)}, {progress.growth:,} more than at an earlier commit.",
            evidence | {"growth": progress.growth},
        )
    elif state == "catching up":
        yield _catching_up(group, evidence)
    elif state == "ok" and not any(verdict.severity in ("error", "warning") for verdict in verdicts):
        yield _well(group, evidence)


def _unknown(group: Group, state: State) -> Iterator[Verdict]:
    """What is not known: the lag of some queues, and, if this makes the state unknown, what is not counted."""
    situation = CATALOGUE["lag_unknown"]
    unknown = places(queue for queue in group.queues if queue.progress.waiting is None)
    if unknown:
        yield situation.verdict(
            f"The lag of {plural(len(unknown), 'queue')} is unknown: {group.name} has committed no offset in "
            f"{joined(unknown)}.",
            {"queues": unknown[:100]},
        )
    if state != "unknown":
        return
    shown, total = len(group.queues), sum(max(one.detail.queues_total, len(one.detail.queues)) for one in group.facts)
    if shown < total:
        yield situation.verdict(
            f"{group.name} has {total:,} queues, and only {shown:,} of them were looked at; the others are unknown.",
            {"shown": shown, "total": total},
            advice="Use several groups with fewer topics each, or look at the lag in each topic.",
        )
    if not group.own_queues:
        yield situation.verdict(
            f"{group.name} has no queue: no topic exists to which its members subscribe, or in which it has an offset.",
            {"shown": shown, "total": total},
            advice="Look at the subscriptions of its members.",
        )
    if not group.are_retries_counted:
        yield situation.verdict(
            f"The retries of {group.name} are not counted yet, so more messages may wait for another try.",
            {"brokers": [one.broker.broker for one in group.facts if not one.detail.retries.counted]},
            advice="Ask again: each request counts some of them.",
        )


def _stands_still(group: Group, verdicts: list[Verdict]) -> Iterator[Verdict]:
    """The queues without progress, unless another verdict explains why they have none."""
    if any(verdict.severity == "error" and verdict.id not in _STILL_CONSUMING for verdict in verdicts):
        return
    topics = {topic for one in verdicts if one.id == "topic_not_subscribed" for topic in one.evidence["topics"]}
    moving = {place for one in verdicts if one.id == "rebalancing" for place in one.evidence["queues"]}
    stuck = [
        queue
        for queue in group.queues
        if queue.progress.move == "stuck" and queue.view.topic not in topics and queue.place not in moving
    ]
    if not stuck:
        return
    waiting = sum(queue.progress.waiting or 0 for queue in stuck)
    moved = [queue.view.moved_ms_ago for queue in stuck if queue.view.moved_ms_ago is not None]
    oldest = max((queue.progress.oldest_ms for queue in stuck if queue.progress.oldest_ms is not None), default=None)
    still_ms = max(moved) if moved else oldest
    text = f"{plural(waiting, 'message waits', 'messages wait')} in {joined(places(stuck))}"
    text += f", the oldest for {span(oldest)}" if oldest is not None else ""
    text += ", and the committed offset has not moved"
    text += f" for {span(max(moved))}" if moved else ""
    taken: list[dict[str, Any]] = [
        {"client_id": queue.view.polled_by, "queue": queue.place, "ms_ago": queue.view.taken_ms_ago}
        for queue in stuck
        if queue.view.polled_by and queue.view.taken_ms_ago is not None and queue.view.taken_ms_ago <= group.patience_ms
    ]
    took = [f"{one['client_id']} took {one['queue']} over {span(one['ms_ago'])} ago" for one in taken]
    text += f"; {joined(took)}" if took else ""
    yield CATALOGUE["stands_still"].verdict(
        f"{group.name} stands still: {text}.",
        {
            "queues": places(stuck)[:100],
            "waiting": waiting,
            "oldest_ms": oldest,
            "since_ms": None if still_ms is None else group.now_ms - still_ms,
            "moved_ms_ago": max(moved, default=None),
            "taken": taken[:100],
        },
    )


def _waiting(group: Group) -> str:
    progress = group.progress
    oldest = f", the oldest for {span(progress.oldest_ms)}" if progress.oldest_ms is not None else ""
    return f"{plural(progress.waiting, 'message waits', 'messages wait')}{oldest}"


def _catching_up(group: Group, evidence: dict[str, int | None]) -> Verdict:
    if not group.progress.moving:
        handed = sum(queue.uncommitted for queue in group.queues)
        what = f"{plural(handed, 'message was', 'messages were')} handed to clients" if handed else _waiting(group)
        return CATALOGUE["consuming"].verdict(
            f"{what}, and {group.name} has committed none of them yet.", evidence | {"handed": handed}
        )
    growth = group.progress.growth
    if growth is not None and growth >= 0:
        trend = f"{growth:,} more than" if growth else "as many as"
        return CATALOGUE["catching_up"].verdict(
            f"{group.name} keeps its distance: {_waiting(group)}, {trend} at an earlier commit.",
            evidence | {"growth": growth},
            advice="Add members (up to one for each queue), or make the listener faster: the lag does not shrink.",
        )
    trend = "" if growth is None else f", {-growth:,} fewer than at an earlier commit"
    return CATALOGUE["catching_up"].verdict(
        f"{group.name} catches up: {_waiting(group)}{trend}.", evidence | {"growth": growth}
    )


def _well(group: Group, evidence: dict[str, int | None]) -> Verdict:
    moved = [queue.view.moved_ms_ago for queue in group.queues if queue.view.moved_ms_ago is not None]
    latest = min(moved, default=None)
    if latest is not None and latest <= group.patience_ms:
        what = _waiting(group) if group.progress.waiting else "nothing waits"
        return CATALOGUE["ok"].verdict(
            f"{group.name} keeps up: its committed offset moved {span(latest)} ago, and {what}.",
            evidence | {"moved_ms_ago": latest},
        )
    held = sum(queue.view.state == "held" for queue in group.own_queues)
    is_empty = not any(queue.view.max_offset > queue.view.min_offset for queue in group.own_queues)
    evidence = evidence | {"is_empty": is_empty}
    what = "its queues are empty" if is_empty else "it has consumed its queues to their ends"
    if group.attached:
        return CATALOGUE["idle"].verdict(
            f"Nothing waits for {group.name}: {what}.",
            evidence | {"held": None, "queues": len(group.own_queues), "moved_ms_ago": latest},
        )
    return CATALOGUE["idle"].verdict(
        f"Nothing waits for {group.name}: {what}. Pulls are held on {held:,} of "
        f"{plural(len(group.own_queues), 'queue')}.",
        evidence | {"held": held, "queues": len(group.own_queues), "moved_ms_ago": latest},
    )
