"""One group at one or several brokers, as the situations see it."""

from collections.abc import Iterable, Sequence
from itertools import repeat

import msgspec

from broker_core.commands import ClientView, ExpiredMember, GroupFacts, GroupQueueView
from broker_core.verdicts.progress import (
    GroupProgress,
    QueueProgress,
    does_every_message_fail,
    group_progress,
    queue_progress,
    uncommitted_messages,
)

RETRY_PREFIX = "%RETRY%"
EXPIRES_MS = 120_000
REBALANCES_MS = 20_000
"""Clients rebalance at least this often."""


class Queue(msgspec.Struct, frozen=True, gc=False):
    """A queue of a group; ``place`` names it: ``orders@3``, with its broker if there are several."""

    place: str
    view: GroupQueueView
    progress: QueueProgress

    @property
    def waits(self) -> bool:
        """Whether messages wait, or their number is unknown."""
        return self.progress.waiting != 0

    @property
    def uncommitted(self) -> int:
        """The messages that were handed to a client and are not committed."""
        return uncommitted_messages(self.view)

    @property
    def still_ms(self) -> int:
        """How long the client that pulled last has had messages without a commit; 0 without such messages.

        The time of the client before it does not count.
        """
        view = self.view
        if view.handed_ms_ago is None or not self.uncommitted:
            return 0
        return min(ms for ms in (view.handed_ms_ago, view.moved_ms_ago, view.taken_ms_ago) if ms is not None)


class Group:
    """The facts of all brokers. ``patience_ms``: how long messages may wait without progress.

    ``progress`` is that of each queue, if the caller has computed it. ``own_queues`` are all but those of the retry
    topic.
    """

    def __init__(
        self,
        facts: Sequence[GroupFacts],
        unavailable: Sequence[str],
        patience_ms: int,
        progress: Iterable[QueueProgress] | None = None,
    ) -> None:
        self.facts = facts
        self.unavailable = unavailable
        self.patience_ms = patience_ms
        self.name = facts[0].detail.group
        self.now_ms = max(one.now_ms for one in facts)
        self.message_model = next((one.detail.message_model for one in facts if one.detail.message_model), "")
        self.members: dict[str, ClientView] = {}
        for one in facts:
            for member in one.detail.members:
                known = self.members.get(member.client_id)
                if known is None or (member.last_heartbeat_ms or 0) > (known.last_heartbeat_ms or 0):
                    self.members[member.client_id] = member
        views = [view for one in facts for view in one.detail.queues]
        at = [f" at {one.detail.broker}" for one in facts for _ in one.detail.queues] if len(facts) > 1 else repeat("")
        if progress is None:
            progress = [queue_progress(view, patience_ms) for view in views]
        self.queues = [
            Queue(f"{view.topic}@{view.queue_id}{broker}", view, of_queue)
            for view, of_queue, broker in zip(views, progress, at, strict=False)
        ]
        self.own_queues = [queue for queue in self.queues if not queue.view.topic.startswith(RETRY_PREFIX)]
        self.progress: GroupProgress = group_progress(queue.progress for queue in self.queues)

    @property
    def has_committed(self) -> bool:
        """Whether the group has committed an offset, in any queue."""
        return any(queue.view.offset is not None for queue in self.queues)

    @property
    def are_retries_counted(self) -> bool:
        """Whether no other messages than the known ones wait for another try."""
        return all(one.detail.retries.counted for one in self.facts)

    @property
    def is_whole(self) -> bool:
        """Whether the facts describe all of the group's queues."""
        is_whole = all(one.detail.queues_total <= len(one.detail.queues) for one in self.facts)
        return is_whole and not self.unavailable and self.are_members_known

    @property
    def are_members_known(self) -> bool:
        """Whether the members at every broker are known; at an attached one they are asked for."""
        return all(one.broker.members_known for one in self.facts)

    @property
    def attached(self) -> list[str]:
        """The brokers of which only a copy is here, so that the clients' pulls are not known."""
        return [one.broker.broker for one in self.facts if one.broker.attached]

    @property
    def offsets_age_ms(self) -> int | None:
        """The age of the oldest committed offsets of attached brokers; None before they were fetched."""
        ages = [one.broker.tables_age_ms for one in self.facts if one.broker.attached]
        return None if None in ages else max((age for age in ages if age is not None), default=None)

    @property
    def is_broadcasting(self) -> bool:
        return self.message_model == "BROADCASTING"

    @property
    def pullers(self) -> list[str]:
        """The clients with a held or recent pull."""
        found = (queue.view.polled_by for queue in self.queues if queue.view.state in ("held", "polling"))
        return sorted({client or "a client" for client in found})

    @property
    def changed_ms_ago(self) -> int | None:
        """How long ago a member joined or left."""
        changed = [one.changed_ms for one in self.facts if one.changed_ms is not None]
        return max(0, self.now_ms - max(changed)) if changed else None

    @property
    def expired(self) -> ExpiredMember | None:
        """The member that was removed last because it sent no heartbeat; None if members joined since."""
        found = [one.expired for one in self.facts if one.expired is not None]
        return max(found, key=lambda one: one.at_ms, default=None)

    def seen_alive_ms(self, client_id: str, still_ms: int) -> int:
        """For how much of the last ``still_ms`` the member is known to have run: until it was seen last.

        The time before the last change of the members does not count, because it may have been away.
        """
        seen = [queue.view.polled_ms_ago for queue in self.queues if queue.view.polled_by == client_id]
        beat_ms = self.members[client_id].last_heartbeat_ms
        seen.append(None if beat_ms is None else self.now_ms - beat_ms)
        present_ms = still_ms if self.changed_ms_ago is None else min(still_ms, self.changed_ms_ago)
        return present_ms - min((ms for ms in seen if ms is not None), default=present_ms)

    @property
    def is_failing(self) -> bool:
        """Whether the group sent back each message that it received."""
        returned = sum(one.returned.returned for one in self.facts)
        if not returned:
            return False
        delivered = sum(one.returned.delivered for one in self.facts)
        return does_every_message_fail(delivered, returned, sum(queue.uncommitted for queue in self.queues))


def places(queues: Iterable[Queue]) -> list[str]:
    return [queue.place for queue in queues]


def waiting_in(queues: Iterable[Queue]) -> int | None:
    """The messages that wait in these queues; None if the number is unknown in one of them."""
    counts = [queue.progress.waiting for queue in queues]
    return None if None in counts else sum(count for count in counts if count is not None)
