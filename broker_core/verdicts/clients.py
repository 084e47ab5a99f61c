"""Situations of the group's clients: refused, blocked, without permits, not pulling, gone."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from shlex import quote

from broker_core.codes import ResponseCode
from broker_core.commands import ClientWindow, RefusedPulls
from broker_core.verdicts.catalogue import CATALOGUE
from broker_core.verdicts.group import REBALANCES_MS, Group, Queue, places, waiting_in
from broker_core.verdicts.progress import stands_still
from broker_core.verdicts.verdict import Verdict, clock, joined, plural, span

LATE_HEARTBEAT_MS = 45_000

_ADVICE: dict[int, str] = {
    ResponseCode.NO_PERMISSION: "Allow it: the group's consumeEnable, the topic's perm, the group's forbidden topics, "
    "or brokerPermission.",
    ResponseCode.SUBSCRIPTION_NOT_EXIST: "Give all members of the group the same topics; a topic that the newest "
    "heartbeat does not name is dropped for all.",
    ResponseCode.SUBSCRIPTION_NOT_LATEST: "Wait for the client's next heartbeat (30 s). If it stays, members "
    "subscribe differently.",
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: "Correct the filter.",
    ResponseCode.FILTER_DATA_NOT_EXIST: "Correct the SQL92 expression of the group's members.",
    ResponseCode.SYSTEM_ERROR: "Use a tag filter, or switch enablePropertyFilter on, which allows SQL92.",
    ResponseCode.TOPIC_NOT_EXIST: "Correct the topic's name, or create the topic.",
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: "Create the group, or switch autoCreateSubscriptionGroup on.",
    ResponseCode.FLOW_CONTROL: "Let fewer pulls wait at the same time, or raise maxHolds or maxHoldsPerConnection.",
    ResponseCode.SERVICE_NOT_AVAILABLE: "Wait until the broker is back.",
}


def client_verdicts(group: Group) -> Iterator[Verdict]:
    """Why clients do not consume. A queue is explained once, by the first situation that fits."""
    explained: set[str] = set()
    yield from _refused(group, explained)
    yield from _may_not_consume(group, explained)
    yield from _popped(group)
    if not group.members:
        if group.are_members_known:
            yield from _without_members(group)
        return
    if not group.is_broadcasting:
        yield from _late_heartbeats(group, explained)
        yield from _handed(group, explained)
        yield from _locked(group, explained)
    yield from _not_pulling(group, explained)
    yield from _pulled_by_another(group)
    yield from _idle_members(group)


# --- Refused -------------------------------------------------------------------------------------------------------


def _refused(group: Group, explained: set[str]) -> Iterator[Verdict]:
    by_reason: defaultdict[tuple[int, str], list[RefusedPulls]] = defaultdict(list)
    for one in group.facts:
        for refused in one.refused:
            by_reason[refused.code, refused.reason].append(refused)
    for (code, reason), entries in by_reason.items():
        count, since = sum(entry.count for entry in entries), min(entry.since_ms for entry in entries)
        last = max(entry.last_ms for entry in entries)
        counted = all(entry.counted for entry in entries)
        clients = sorted({entry.client_id or "a client" for entry in entries})
        topics = sorted({entry.topic for entry in entries})
        refused_ids = {entry.client_id for entry in entries}
        explained.update(
            queue.place
            for queue in group.queues
            if queue.view.topic in topics and queue.view.assigned_to in refused_ids
        )
        yield CATALOGUE["pulls_refused"].verdict(
            f"The pulls of {joined(clients)} from {joined(topics)} are refused since {clock(since)}, "
            f"{'' if counted else 'at least '}{plural(count, 'time')}, last at {clock(last)}: {reason}.",
            {
                "code": code,
                "reason": reason,
                "count": count,
                "counted": counted,
                "since_ms": since,
                "last_ms": last,
                "client_ids": clients,
                "topics": topics,
            },
            advice=_ADVICE.get(code, ""),
        )


def _may_not_consume(group: Group, explained: set[str]) -> Iterator[Verdict]:
    situation = CATALOGUE["may_not_consume"]
    for one in group.facts:
        if not one.consume_enable:
            explained.update(places(group.queues))
            yield situation.verdict(
                f"Group {group.name} may not consume at broker {one.broker.broker}: its consumeEnable is off.",
                {"broker": one.broker.broker},
            )
        if one.unreadable_topics:
            explained.update(queue.place for queue in group.queues if queue.view.topic in one.unreadable_topics)
            yield situation.verdict(
                f"{joined(one.unreadable_topics)} may not be read at broker {one.broker.broker}: the perm does not "
                "contain 4 (read).",
                {"broker": one.broker.broker, "topics": one.unreadable_topics},
            )


# --- No members ----------------------------------------------------------------------------------------------------


def _without_members(group: Group) -> Iterator[Verdict]:
    if group.pullers:
        yield CATALOGUE["pulled_by_non_members"].verdict(
            f"No member is online, but {joined(group.pullers)} {'pulls' if len(group.pullers) == 1 else 'pull'} in the "
            "group's name.",
            {"client_ids": group.pullers},
        )
        return
    waiting, unknown = group.progress.waiting, group.progress.unknown
    retrying = sum(one.detail.retries.waiting for one in group.facts)
    what = f"{plural(waiting, 'message waits', 'messages wait')}" if waiting else ""
    if retrying and not waiting:
        what = f"{plural(retrying, 'message waits', 'messages wait')} for another try"
    if unknown:
        what += f"{' and' if what else ''} the lag of {plural(unknown, 'queue')} is unknown"
    expired = group.expired
    yield CATALOGUE["no_member"].verdict(
        f"No member of {group.name} is online, and no client pulls for it"
        + (f"; {what.strip()}." if what else ". Nothing waits.")
        + (
            f" {expired.client_id} was removed at {clock(expired.at_ms)}, because it sent no heartbeat for 2 min."
            if expired
            else ""
        ),
        {
            "expired": expired.client_id if expired else None,
            "expired_ms": expired.at_ms if expired else None,
            "waiting": waiting,
            "unknown_queues": unknown,
            "retrying": retrying,
            "oldest_ms": group.progress.oldest_ms,
        },
        severity=None if waiting or retrying or (unknown and group.has_committed) else "info",
        advice=CATALOGUE["heartbeat_late"].advice if expired else "",
    )


# --- Members that hold messages ------------------------------------------------------------------------------------


def _late_heartbeats(group: Group, explained: set[str]) -> Iterator[Verdict]:
    late = [
        (client_id, group.now_ms - member.last_heartbeat_ms)
        for client_id, member in sorted(group.members.items())
        if member.last_heartbeat_ms is not None and group.now_ms - member.last_heartbeat_ms > LATE_HEARTBEAT_MS
    ]
    by_owner = dict(_by_client(group.queues, lambda queue: queue.view.assigned_to)) if late else {}
    for client_id, since in late:
        own = by_owner.get(client_id, [])
        explained.update(places(own))
        yield CATALOGUE["heartbeat_late"].verdict(
            f"{client_id} has sent no heartbeat for {span(since)}; its process is frozen or its network is cut. "
            f"It has {plural(len(own), 'queue')}.",
            {"client_id": client_id, "last_heartbeat_ms": group.now_ms - since, "queues": places(own)},
            severity=None if group.progress.waiting or group.progress.unknown else "warning",
        )


def _by_client(queues: Iterable[Queue], owner: Callable[[Queue], str | None]) -> Iterator[tuple[str, list[Queue]]]:
    found: defaultdict[str, list[Queue]] = defaultdict(list)
    for queue in queues:
        client_id = owner(queue)
        if client_id:
            found[client_id].append(queue)
    yield from sorted(found.items())


def _windows(group: Group, client_id: str) -> list[ClientWindow]:
    """The client's windows that let nothing through, from one broker: each is told the same.

    Other windows are not reported when they change, so their numbers are old.
    """
    found = ([own for own in one.windows if own.client_id == client_id] for one in group.facts)
    windows = next((own for own in found if own), [])
    return [one for one in windows if one.window.is_full or not one.window.permits]


def _handed(group: Group, explained: set[str]) -> Iterator[Verdict]:
    """Messages were handed to a member long ago, and it has committed nothing since."""
    still = (
        queue
        for queue in group.queues
        if queue.still_ms > group.patience_ms and queue.view.polled_by in group.members and queue.place not in explained
    )
    for client_id, queues in _by_client(still, lambda queue: queue.view.polled_by):
        explained.update(places(queues))
        if group.members[client_id].protocol == "websocket":
            yield _not_acknowledged(group, client_id, queues)
        else:
            yield _listener_blocked(group, client_id, queues)


def _listener_blocked(group: Group, client_id: str, queues: list[Queue]) -> Verdict:
    messages, still_ms = sum(queue.uncommitted for queue in queues), max(queue.still_ms for queue in queues)
    locked = [queue for queue in queues if queue.view.locked_by == client_id]
    is_alive = group.seen_alive_ms(client_id, still_ms) >= group.patience_ms
    blocked = "its listener is " + (
        "probably blocked" if is_alive else "blocked, or its process or its network stood still"
    )
    sentence = (
        f"{group.name} stands still: {plural(messages, 'message')} handed to {client_id}, nothing committed for "
        f"{span(still_ms)}; {blocked}"
    )
    if locked:
        sentence += f" (orderly, {joined(places(locked))} suspended)"
    return CATALOGUE["listener_blocked"].verdict(
        sentence + ".",
        {
            "client_id": client_id,
            "messages": messages,
            "stands_still_ms": still_ms,
            "since_ms": group.now_ms - still_ms,
            "queues": places(queues),
            "is_alive": is_alive,
            "orderly": bool(locked),
            "suspended": places(locked),
        },
        advice=CATALOGUE["listener_blocked"].advice.replace(
            "-g GROUP -i CLIENT", f"-g {quote(group.name)} -i {quote(client_id)}"
        ),
    )


def _not_acknowledged(group: Group, client_id: str, queues: list[Queue]) -> Verdict:
    messages, still_ms = sum(queue.uncommitted for queue in queues), max(queue.still_ms for queue in queues)
    windows = _windows(group, client_id)
    permits = sum(one.window.permits for one in windows) if windows else None
    unacknowledged = sum(one.window.unacknowledged for one in windows)
    messages = min(messages, unacknowledged or messages)  # the server may have pulled more than the permits let through
    sentence = (
        f"{group.name} stands still: {plural(messages, 'message')} sent to {client_id}, none acknowledged for "
        f"{span(still_ms)}"
    )
    is_full = any(one.window.is_full for one in windows)
    if permits == 0:
        sentence += "; its permits are used up, so it gets no more"
    elif is_full:
        sentence += "; too many are not acknowledged, so it gets no more"
    return CATALOGUE["not_acknowledged"].verdict(
        sentence + ".",
        {
            "client_id": client_id,
            "messages": messages,
            "permits": permits,
            "unacknowledged": unacknowledged if windows else None,
            "is_full": is_full,
            "stands_still_ms": still_ms,
            "since_ms": group.now_ms - still_ms,
            "queues": places(queues),
        },
    )


def _popped(group: Group) -> Iterator[Verdict]:
    """Messages were popped, or received with a lease, and none of them is acknowledged."""
    for one in group.facts:
        for pops in one.unacknowledged:
            if not stands_still(pops, group.patience_ms):
                continue
            client_id = pops.client_id or "a client"
            yield CATALOGUE["not_acknowledged"].verdict(
                f"{group.name} stands still: {client_id} received messages of {pops.topic} and has acknowledged none "
                f"for {span(pops.still_ms)}; {plural(pops.messages, 'message is', 'messages are')} hidden until the "
                "lease is over.",
                {
                    "client_id": client_id,
                    "topic": pops.topic,
                    "messages": pops.messages,
                    "stands_still_ms": pops.still_ms,
                    "since_ms": group.now_ms - pops.still_ms,
                },
            )


def _locked(group: Group, explained: set[str]) -> Iterator[Verdict]:
    for queue in group.own_queues:
        view = queue.view
        if (
            view.state != "not_polling"
            or view.assigned_to is None
            or view.locked_by in (None, view.assigned_to)
            or queue.place in explained
        ):
            continue
        explained.add(queue.place)
        yield CATALOGUE["locked_by_another"].verdict(
            f"{view.locked_by} has the lock of {queue.place}; {view.assigned_to}, which has the queue, waits for it.",
            {"queue": queue.place, "locked_by": view.locked_by, "assigned_to": view.assigned_to},
        )


# --- Members that do not ask ---------------------------------------------------------------------------------------


def _not_pulling(group: Group, explained: set[str]) -> Iterator[Verdict]:
    quiet = [
        queue
        for queue in group.own_queues
        if queue.view.state == "not_polling" and queue.view.assigned_to and queue.place not in explained
    ]
    for client_id, queues in _by_client(quiet, lambda queue: queue.view.assigned_to):
        windows = _windows(group, client_id)
        if windows and all(one.window.permits == 0 for one in windows):
            yield _without_permits(group, client_id, queues, windows)
        elif _is_rebalancing(group, queues, client_id):
            yield CATALOGUE["rebalancing"].verdict(
                f"The members changed {span(group.changed_ms_ago or 0)} ago: {client_id} gets {joined(places(queues))} "
                "and has not pulled yet.",
                {"client_id": client_id, "queues": places(queues), "changed_ms_ago": group.changed_ms_ago},
            )
        else:
            yield _quiet(group, client_id, queues)


def _without_permits(group: Group, client_id: str, queues: list[Queue], windows: list[ClientWindow]) -> Verdict:
    unacknowledged = sum(one.window.unacknowledged for one in windows)
    evidence = {
        "client_id": client_id,
        "permits": 0,
        "unacknowledged": unacknowledged,
        "queues": places(queues),
        "waiting": waiting_in(queues),
        "reported_ms": max(one.reported_ms for one in windows),
    }
    if unacknowledged:
        return CATALOGUE["not_acknowledged"].verdict(
            f"{joined(places(queues))} {_be(queues)} assigned to {client_id}, which does not ask for messages: its "
            f"permits are used up, and it has not acknowledged {plural(unacknowledged, 'message')}.",
            evidence,
        )
    return CATALOGUE["no_permits"].verdict(
        f"{joined(places(queues))} {_be(queues)} assigned to {client_id}, which does not ask for messages: "
        "it has given no permits.",
        evidence,
        severity=None if any(queue.waits for queue in queues) else "warning",
    )


def _is_rebalancing(group: Group, queues: list[Queue], client_id: str) -> bool:
    changed = group.changed_ms_ago
    return (
        changed is not None
        and changed <= REBALANCES_MS
        and all(queue.view.polled_by != client_id or (queue.view.polled_ms_ago or 0) > changed for queue in queues)
    )


def _quiet(group: Group, client_id: str, queues: list[Queue]) -> Verdict:
    own = [queue.view.polled_ms_ago for queue in queues if queue.view.polled_by == client_id]
    ages = [age for age in own if age is not None]
    others = sorted({other for queue in queues if (other := queue.view.polled_by) and other != client_id})
    if len(ages) == len(queues):
        text = f"which has not asked for {span(min(ages))}: it is suspended, frozen, cut off, or busy with its messages"
    elif others and not ages:
        text = f"but the last pull came from {joined(others)}"
    else:
        text = "which has not asked for messages yet" if not ages else "which does not ask for messages"
    return CATALOGUE["not_pulling"].verdict(
        f"{joined(places(queues))} {_be(queues)} assigned to {client_id}, {text}.",
        {
            "client_id": client_id,
            "queues": places(queues),
            "waiting": waiting_in(queues),
            "last_pull_ms_ago": min(ages) if len(ages) == len(queues) else None,
            "others": others if not ages else [],
            "has_pulled": bool(ages),
        },
        severity=None if any(queue.waits for queue in queues) else "warning",
    )


def _be(queues: list[Queue]) -> str:
    return "is" if len(queues) == 1 else "are"


# --- Who has what --------------------------------------------------------------------------------------------------


def _pulled_by_another(group: Group) -> Iterator[Verdict]:
    for queue in group.own_queues:
        view = queue.view
        if (
            view.polled_by
            and view.assigned_to
            and view.polled_by != view.assigned_to
            and view.polled_ms_ago is not None
            and view.polled_ms_ago < REBALANCES_MS
            and (group.changed_ms_ago is None or group.changed_ms_ago > REBALANCES_MS)
            and view.state in ("held", "polling")
        ):
            is_member = view.polled_by in group.members
            reason = "the members allocate queues differently" if is_member else f"{view.polled_by} is not a member"
            yield CATALOGUE["pulled_by_another"].verdict(
                f"{queue.place} is assigned to {view.assigned_to}, but {view.polled_by} pulls from it: {reason}.",
                {
                    "queue": queue.place,
                    "assigned_to": view.assigned_to,
                    "polled_by": view.polled_by,
                    "is_member": is_member,
                },
            )


def _idle_members(group: Group) -> Iterator[Verdict]:
    own = [queue.view.assigned_to for queue in group.own_queues if queue.view.assigned_to]
    idle = sorted(group.members.keys() - set(own))
    if own and idle and not group.is_broadcasting and group.is_whole:
        yield CATALOGUE["more_members_than_queues"].verdict(
            f"{plural(len(group.members), 'member')} for {plural(len(own), 'queue')}: {joined(idle)} "
            f"{'has' if len(idle) == 1 else 'have'} no queue.",
            {"members": len(group.members), "queues": len(own), "client_ids": idle[:100]},
        )
