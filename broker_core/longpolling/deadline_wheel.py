"""Deadlines of held pulls, in ticks of 4 ms.

    tick 1001 -> [hold, hold, ...]        a bucket for each tick with holds, by its number
    tick 1002 -> [hold]
    heap      -> 1001, 1002, ...          the next tick

A deadline is rounded up to the next tick. So no hold is answered early, and none later than one tick plus the delay
of the loop. Adding and removing a hold takes the same time with 10 as with 100,000 holds.
"""

from heapq import heappop, heappush

from broker_core.longpolling.pull_request import Bucket, PullRequest

TICK_NS = 4_000_000


class DeadlineWheel:
    """Buckets of holds by the tick in which they are due."""

    def __init__(self) -> None:
        self._buckets: dict[int, Bucket] = {}
        self._ticks: list[int] = []

    def add(self, request: PullRequest, deadline_ns: int) -> None:
        tick = -(-deadline_ns // TICK_NS)
        bucket = self._buckets.get(tick)
        if bucket is None:
            bucket = self._buckets[tick] = Bucket(tick)
            heappush(self._ticks, tick)
        request.bucket = bucket
        request.bucket_index = len(bucket.requests)
        bucket.requests.append(request)

    def remove(self, request: PullRequest) -> None:
        """Remove a hold from its bucket; the bucket's last hold takes its place."""
        if request.bucket is None:
            return
        requests = request.bucket.requests
        request.bucket = None
        last = requests.pop()
        if last is not request:
            requests[request.bucket_index] = last
            last.bucket_index = request.bucket_index

    def next_deadline_ns(self) -> int | None:
        """When the next hold is due, ns; None without holds."""
        ticks = self._ticks
        while ticks:
            if self._buckets[ticks[0]].requests:
                return ticks[0] * TICK_NS
            del self._buckets[heappop(ticks)]
        return None

    def take_due(self, now_ns: int, limit: int) -> list[PullRequest]:
        """Remove and return up to ``limit`` holds that are due, the earliest first."""
        taken: list[PullRequest] = []
        while len(taken) < limit:
            deadline_ns = self.next_deadline_ns()
            if deadline_ns is None or deadline_ns > now_ns:
                break
            requests = self._buckets[self._ticks[0]].requests
            room = limit - len(taken)
            due, requests[-room:] = requests[-room:], []
            for request in due:
                request.bucket = None
            taken += due
        return taken
