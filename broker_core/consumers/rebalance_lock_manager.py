"""Locks of queues that are consumed in order: one member at a time, for as long as it renews its lock.

A lock ends 60 s after it was taken or renewed; a client renews every 20 s. If the client's connection closes, the lock
ends 35 s after its last renewal: Java and Go clients stop consuming a queue if they could not renew its lock for 30 s,
counted from the last answer. The lock is not free at once, because a client with a cut connection consumes its messages
for that long, and two members would consume the queue at the same time. A client that unregisters frees its locks at
once. (RocketMQ waits for the 60 s in every case but the unlock request.)
"""

from typing import NamedTuple

from broker_core.consumers.leases import Leases
from broker_core.errors import UnavailableError

LOCK_LIVE_NS = 60 * 1_000_000_000
"""RocketMQ's REBALANCE_LOCK_MAX_LIVE_TIME in the broker."""

GONE_LOCK_LIVE_NS = (30 + 5) * 1_000_000_000
"""RocketMQ's REBALANCE_LOCK_MAX_LIVE_TIME in the clients, and some time for the last answer to arrive."""

MAX_LOCKS = 200_000

LockKey = tuple[str, str, int]
"""(group, topic, queue id)."""


class LockEntry(NamedTuple):
    """RocketMQ's LockEntry. ``renewed_ns`` is monotonic time."""

    client_id: str
    renewed_ns: int


class RebalanceLockManager:
    """RocketMQ's RebalanceLockManager."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[tuple[str, int], LockEntry]] = {}
        self._leases: Leases[LockKey] = Leases()

    def __len__(self) -> int:
        return len(self._leases)

    def owner(self, group: str, topic: str, queue_id: int) -> str | None:
        entry = self._groups.get(group, {}).get((topic, queue_id))
        return entry.client_id if entry else None

    def is_locked(self, group: str) -> bool:
        """Whether any queue of the group is locked."""
        return group in self._groups

    def try_lock(self, group: str, topic: str, queue_id: int, client_id: str, now_ns: int) -> tuple[bool, bool]:
        """Take or renew a lock. Returns (the client has it now, it did not have it before).

        Expired locks must have been removed before. UnavailableError if there are too many locks.
        """
        locks = self._groups.get(group)
        entry = locks.get((topic, queue_id)) if locks else None
        if entry is not None and entry.client_id != client_id:
            return False, False
        if entry is None and len(self) >= MAX_LOCKS:
            raise UnavailableError(f"this broker has {MAX_LOCKS} locks, which is the limit")
        if locks is None:
            locks = self._groups[group] = {}
        locks[topic, queue_id] = LockEntry(client_id, now_ns)
        self._leases.renew((group, topic, queue_id), now_ns + LOCK_LIVE_NS)
        return True, entry is None

    def unlock(self, group: str, topic: str, queue_id: int, client_id: str) -> bool:
        """Release a lock. False if the client does not have it."""
        if self.owner(group, topic, queue_id) != client_id:
            return False
        self._remove(group, topic, queue_id)
        return True

    def unlock_all(self, group: str, client_id: str) -> list[tuple[str, int]]:
        """The client left the group: release its locks. Returns their (topic, queue id)."""
        owned = self._owned(group, client_id)
        for topic, queue_id in owned:
            self._remove(group, topic, queue_id)
        return owned

    def connection_closed(self, group: str, client_id: str) -> None:
        """The client may be gone: its locks end when it would stop relying on them."""
        for topic, queue_id in self._owned(group, client_id):
            renewed_ns = self._groups[group][topic, queue_id].renewed_ns
            self._leases.renew((group, topic, queue_id), renewed_ns + GONE_LOCK_LIVE_NS)

    def _owned(self, group: str, client_id: str) -> list[tuple[str, int]]:
        return [queue for queue, entry in self._groups.get(group, {}).items() if entry.client_id == client_id]

    def take_expired(self, now_ns: int, limit: int) -> list[tuple[LockKey, str]]:
        """Remove and return expired locks with their owners; at most ``limit`` are looked at."""
        return [(key, self._remove(*key)) for key in self._leases.take_due(now_ns, limit)]

    def next_due_ns(self) -> int | None:
        return self._leases.next_due_ns()

    def _remove(self, group: str, topic: str, queue_id: int) -> str:
        locks = self._groups[group]
        entry = locks.pop((topic, queue_id))
        if not locks:
            del self._groups[group]
        self._leases.drop((group, topic, queue_id))
        return entry.client_id
