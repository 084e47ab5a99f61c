"""Leases: memberships and locks that end unless they are renewed."""

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
FEW = 64


class Leases(Generic[Key]):
    """Keys, each with the monotonic time at which it ends.

    Renewing only stores the new end. A key is looked at when the end that it had at the last look has passed. If it was
    renewed meanwhile, it is put back. Keys must be comparable with each other.
    """

    def __init__(self) -> None:
        self._ends: dict[Key, int] = {}
        self._next_look: dict[Key, int] = {}
        self._looks: list[tuple[int, Key]] = []

    def __len__(self) -> int:
        return len(self._ends)

    def renew(self, key: Key, end_ns: int) -> None:
        """Set the end of ``key`` to ``end_ns``, later or earlier than before."""
        self._ends[key] = end_ns
        look = self._next_look.get(key)
        if look is None or end_ns < look:
            self._next_look[key] = end_ns
            heappush(self._looks, (end_ns, key))
            if len(self._looks) > 2 * len(self._ends) + FEW:
                self._forget_idle_looks()

    def drop(self, key: Key) -> None:
        """Remove a key before its end."""
        self._ends.pop(key, None)

    def _forget_idle_looks(self) -> None:
        """Forget dropped keys when they are most of the entries, so that they cannot fill the memory."""
        self._next_look = {key: look for key, look in self._next_look.items() if key in self._ends}
        self._looks = [(look, key) for key, look in self._next_look.items()]
        heapify(self._looks)

    def take_due(self, now_ns: int, limit: int) -> list[Key]:
        """Remove and return keys that have ended, in the order of their ends; at most ``limit`` are looked at."""
        due: list[Key] = []
        looks = self._looks
        for _ in range(limit):
            if not looks or looks[0][0] > now_ns:
                break
            look_ns, key = heappop(looks)
            if self._next_look.get(key) != look_ns:
                continue  # its end was made earlier, and it was looked at then
            del self._next_look[key]
            end_ns = self._ends.get(key)
            if end_ns is None:
                continue
            if end_ns <= now_ns:
                del self._ends[key]
                due.append(key)
            else:
                self.renew(key, end_ns)
        return due

    def next_look_ns(self) -> int | None:
        """When ``take_due`` has something to look at; None without keys."""
        return self._looks[0][0] if self._looks else None
