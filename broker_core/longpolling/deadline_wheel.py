"""Deadlines of held pulls, in ticks of 4 ms.

    tick 1001 -> hold id -> hold          the holds of each tick by their ids
    tick 1002 -> hold id -> hold
    heap      -> 1001, 1002, ...          the next tick

A deadline is rounded up to the next tick. So no hold is answered early, and none later than one tick plus the delay
of the loop. Adding and removing a hold takes the same time with 10 as with 100,000 holds.

A tick whose holds were all removed stays until its time. When too many of them have come together, they are removed: a
client whose pulls may wait for a day, and are woken all the time, leaves 250 of them each second.

The garbage collector looks at every hold in a list. It does not look into a dictionary of numbers and holds.
"""

from heapq import heappop, heappush

from broker_core.longpolling.pull_request import PullRequest

TICK_NS = 4_000_000

SPARE_TICKS = 8192
"""So many ticks may be without holds, and as many as have holds. Holds of 15 s leave half of them."""


class DeadlineWheel:
    """Holds by the tick in which they are due."""

    def __init__(self) -> None:
        self._due: dict[int, dict[int, PullRequest]] = {}
        self._ticks: list[int] = []
        self._ticks_max = SPARE_TICKS

    def add(self, request: PullRequest, deadline_ns: int) -> None:
        tick = -(-deadline_ns // TICK_NS)
        due = self._due.get(tick)
        if due is None:
            if len(self._ticks) >= self._ticks_max:
                self._remove_ticks_without_holds()
            due = self._due[tick] = {}
            heappush(self._ticks, tick)
        request.due_tick = tick
        due[request.hold_id] = request

    def remove(self, request: PullRequest) -> None:
        """Remove a hold; one that is not in the wheel is no error."""
        if request.due_tick >= 0:
            del self._due[request.due_tick][request.hold_id]
            request.due_tick = -1

    def _remove_ticks_without_holds(self) -> None:
        self._due = {tick: due for tick, due in self._due.items() if due}
        self._ticks = sorted(self._due)
        self._ticks_max = 2 * len(self._ticks) + SPARE_TICKS

    def next_deadline_ns(self) -> int | None:
        """When the next hold is due, ns; None without holds."""
        ticks = self._ticks
        while ticks:
            if self._due[ticks[0]]:
                return ticks[0] * TICK_NS
            del self._due[heappop(ticks)]
        return None

    def take_due(self, now_ns: int, limit: int) -> list[PullRequest]:
        """Remove and return up to ``limit`` holds that are due, the earliest first."""
        taken: list[PullRequest] = []
        while len(taken) < limit:
            deadline_ns = self.next_deadline_ns()
            if deadline_ns is None or deadline_ns > now_ns:
                break
            due = self._due[self._ticks[0]]
            while due and len(taken) < limit:
                request = due.popitem()[1]
                request.due_tick = -1
                taken.append(request)
        return taken
