"""Leases: memberships and locks that end unless they are renewed."""

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
FEW = 64


class Leases(Generic[Key]):
    """Keys, each with the monotonic time at which it ends.

    Renewing only stores the new end. A key is checked when the end that it had at its last check has passed. If it was
    renewed meanwhile, it is put back. Keys must be comparable with each other.
    """

    def __init__(self) -> None:
        self._ends: dict[Key, int] = {}
        self._next_check: dict[Key, int] = {}
        self._checks: list[tuple[int, Key]] = []

    def __len__(self) -> int:
        return len(self._ends)

    def renew(self, key: Key, end_ns: int) -> None:
        """Set the end of ``key`` to ``end_ns``, later or earlier than before."""
        self._ends[key] = end_ns
        check_ns = self._next_check.get(key)
        if check_ns is None or end_ns < check_ns:
            self._next_check[key] = end_ns
            heappush(self._checks, (end_ns, key))
            if len(self._checks) > 2 * len(self._ends) + FEW:
                self._forget_dropped_keys()

    def drop(self, key: Key) -> None:
        """Remove a key before its end."""
        self._ends.pop(key, None)

    def _forget_dropped_keys(self) -> None:
        """Forget dropped keys when they are most of the entries, so that they cannot fill the memory."""
        self._next_check = {key: check_ns for key, check_ns in self._next_check.items() if key in self._ends}
        self._checks = [(check_ns, key) for key, check_ns in self._next_check.items()]
        heapify(self._checks)

    def take_due(self, now_ns: int, limit: int) -> list[Key]:
        """Remove and return keys that have ended, in the order of their ends; at most ``limit`` are checked."""
        due: list[Key] = []
        checks = self._checks
        for _ in range(limit):
            if not checks or checks[0][0] > now_ns:
                break
            check_ns, key = heappop(checks)
            if self._next_check.get(key) != check_ns:
                continue  # its end was made earlier, and it was checked then
            del self._next_check[key]
            end_ns = self._ends.get(key)
            if end_ns is None:
                continue
            if end_ns <= now_ns:
                del self._ends[key]
                due.append(key)
            else:
                self.renew(key, end_ns)
        return due

    def next_due_ns(self) -> int | None:
        """When ``take_due`` must be called next; None without keys."""
        return self._checks[0][0] if self._checks else None
