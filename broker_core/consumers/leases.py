"""What ends by itself unless it is renewed: memberships, orderly locks."""

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
FEW = 64


class Leases(Generic[Key]):
    """Keys, each with the monotonic time at which it ends.

    Renewing is a dictionary store: a key is looked at when its end at the time of the last look has come, and looked
    at again later if it was renewed meanwhile. Keys must be comparable with each other.
    """

    def __init__(self) -> None:
        self._ends: dict[Key, int] = {}
        self._next_look: dict[Key, int] = {}
        self._looks: list[tuple[int, Key]] = []

    def __len__(self) -> int:
        return len(self._ends)

    def renew(self, key: Key, end_ns: int) -> None:
        """``key`` ends at ``end_ns`` now, be that later or earlier than before."""
        self._ends[key] = end_ns
        look = self._next_look.get(key)
        if look is None or end_ns < look:
            self._next_look[key] = end_ns
            heappush(self._looks, (end_ns, key))
            if len(self._looks) > 2 * len(self._ends) + FEW:
                self._forget_idle_looks()

    def drop(self, key: Key) -> None:
        """It does not end by itself any more: it is gone already."""
        self._ends.pop(key, None)

    def _forget_idle_looks(self) -> None:
        """Most looks are for keys that were dropped: who makes and drops ever new ones must not fill the memory."""
        self._next_look = {key: look for key, look in self._next_look.items() if key in self._ends}
        self._looks = [(look, key) for key, look in self._next_look.items()]
        heapify(self._looks)

    def take_due(self, now_ns: int, limit: int) -> list[Key]:
        """Take out keys whose end has come, after at most ``limit`` looks, in the order of their ends."""
        due: list[Key] = []
        looks = self._looks
        for _ in range(limit):
            if not looks or looks[0][0] > now_ns:
                break
            look_ns, key = heappop(looks)
            if self._next_look.get(key) != look_ns:
                continue  # it was shortened, and looked at earlier
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
        """When ``take_due`` has something to look at; None with nothing to come."""
        return self._looks[0][0] if self._looks else None
