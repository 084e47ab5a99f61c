"""The pullRequestTable: every held pull request, and who of them is to be answered when.

    table          (topic, queue id)        -> the holds of that queue           arrivals look here
    by_id          hold id                  -> the hold                           people look here
    by_connection  connection -> request id -> the hold                           a client that goes looks here
    wheel          tick                     -> holds due then                     time looks here

Nothing here reads the store or answers anybody: every call *returns* the holds to be answered, and has taken
them out of all four places; the caller runs their pulls again.

Why no wake-up can be lost. A pull is read and, when it finds nothing, held in one step of a machine that does one
thing at a time; arrivals enter that machine as steps of their own. So every message of a queue is dispatched either
before that step, and then the read has seen it, or after it, and then its arrival finds the hold in the table. A
hold leaves the table only by a call below, and every one of them hands it to somebody who answers it. Whether an
arrival concerns a hold is decided from the arrival's own offsets and tag hashes, never from a copy that could be
old. ``check`` is the proof by experiment: it asks the store, for every hold, what the arrivals should have told.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from broker_core.longpolling.deadline_wheel import DeadlineWheel
from broker_core.longpolling.pull_request import ManyPullRequest, PullRequest

Key = tuple[str, int]


class Arrival(Protocol):
    """Messages ``from_offset`` up to, not with, ``to_offset`` of a queue, and the code of each one's tag."""

    topic: str
    queue_id: int
    from_offset: int
    to_offset: int

    @property
    def tags_codes(self) -> Sequence[int]: ...


class PullRequestHold:
    """RocketMQ's PullRequestHoldService, without the loop, the reading and the replying."""

    def __init__(self) -> None:
        self._table: dict[Key, ManyPullRequest] = {}
        self._by_id: dict[int, PullRequest] = {}
        self._by_connection: dict[Any, dict[int, PullRequest]] = {}
        self._wheel = DeadlineWheel()
        self._last_id = 0
        self._to_check: list[int] = []

    def __len__(self) -> int:
        return len(self._by_id)

    def count_of(self, connection: Any) -> int:
        return len(self._by_connection.get(connection, ()))

    def is_held(self, connection: Any, request_id: int) -> bool:
        return request_id in self._by_connection.get(connection, ())

    def count_on(self, topic: str, queue_id: int) -> int:
        many = self._table.get((topic, queue_id))
        return len(many.requests) if many else 0

    def on(self, topic: str, queue_id: int) -> list[PullRequest]:
        """The holds of a queue."""
        many = self._table.get((topic, queue_id))
        return list(many.requests) if many else []

    def get(self, hold_id: int) -> PullRequest | None:
        return self._by_id.get(hold_id)

    def __iter__(self) -> Iterator[PullRequest]:
        """All holds, the oldest first."""
        return iter(self._by_id.values())

    # --- in -----------------------------------------------------------------------------------------------

    def many(self, topic: str, queue_id: int, max_offset: int) -> ManyPullRequest:
        """The row of a queue to hold on; made when it is not there."""
        many = self._table.get((topic, queue_id))
        if many is None:
            many = self._table[topic, queue_id] = ManyPullRequest(topic, queue_id, max_offset)
        return many

    def next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def hold(self, request: PullRequest) -> None:
        """Put a pull that found nothing into the table."""
        request.many.add(request)
        self._by_id[request.hold_id] = request
        self._by_connection.setdefault(request.connection, {})[request.request_id] = request
        self._wheel.add(request, request.suspended_ns + request.suspend_timeout_ms * 1_000_000)

    # --- out ----------------------------------------------------------------------------------------------

    def arrive(self, arrival: Arrival, *, wake: bool = True) -> tuple[list[PullRequest], list[PullRequest]]:
        """Messages were dispatched: (holds that one of them may match, those that none does).

        The first are taken out. With ``wake`` False (longPollingEnable off) nobody is woken: the end moves, and whom
        it concerns is left to short polling, also when longPollingEnable is on again before its turn comes.
        """
        many = self._table.get((arrival.topic, arrival.queue_id))
        if many is None:
            return [], []
        many.max_offset = to_offset = arrival.to_offset
        if not wake:
            for request in many.requests:
                request.short |= request.pull_from_offset < to_offset
            return [], []
        woken: list[PullRequest] = []
        passed: list[PullRequest] = []
        codes: Sequence[int] | None = None
        for request in many.requests:
            start = request.pull_from_offset
            if start >= to_offset:
                continue
            wanted = request.message_filter
            if wanted is None:
                woken.append(request)
                continue
            codes = arrival.tags_codes if codes is None else codes
            new = codes if start <= arrival.from_offset else codes[start - arrival.from_offset :]
            if any(map(wanted.matches_tags_code, new)):
                woken.append(request)
            else:
                passed.append(request)
        if woken:
            self._take_woken(many, woken)
        return woken, passed

    def _take_woken(self, many: ManyPullRequest, woken: list[PullRequest]) -> None:
        """Take holds of one queue out: as a rule, all that it has."""
        if len(woken) < len(many.requests):
            self._take(woken)
            return
        many.requests = []
        del self._table[many.topic, many.queue_id]
        for request in woken:
            self._forget(request)

    def take_due(self, now_ns: int, limit: int) -> list[PullRequest]:
        """Take out holds whose deadline has come, at most ``limit``."""
        due = self._wheel.take_due(now_ns, limit)
        for request in due:
            self._remove(request)
        return due

    def next_deadline_ns(self) -> int | None:
        return self._wheel.next_deadline_ns()

    def take(self, connection: Any, request_id: int) -> PullRequest | None:
        """Take out the hold of one request; None when it is not held (any more)."""
        request = self._by_connection.get(connection, {}).get(request_id)
        if request is not None:
            self._remove(request)
        return request

    def take_connection(self, connection: Any) -> list[PullRequest]:
        """The client went away: take out all its holds."""
        return self._take(list(self._by_connection.get(connection, {}).values()))

    def take_topic(self, topic: str) -> list[PullRequest]:
        return self._take(
            [request for key, many in self._table.items() if key[0] == topic for request in many.requests]
        )

    def take_all(self) -> list[PullRequest]:
        return self._take(list(self._by_id.values()))

    def _take(self, requests: list[PullRequest]) -> list[PullRequest]:
        for request in requests:
            self._remove(request)
        return requests

    def _remove(self, request: PullRequest) -> None:
        many = request.many
        many.remove(request)
        if not many.requests:
            del self._table[many.topic, many.queue_id]
        self._forget(request)

    def _forget(self, request: PullRequest) -> None:
        """Take a hold out of the three other places."""
        del self._by_id[request.hold_id]
        held = self._by_connection[request.connection]
        del held[request.request_id]
        if not held:
            del self._by_connection[request.connection]
        self._wheel.remove(request)

    # --- the periodic check -----------------------------------------------------------------------------------

    def start_check(self, *, afresh: bool = False) -> None:
        """Begin the check over all holds; an unfinished one goes on instead, unless ``afresh``."""
        if afresh or not self._to_check:
            self._to_check = list(self._by_id)[::-1]

    @property
    def checking(self) -> bool:
        return bool(self._to_check)

    def check(self, max_offset_of: Callable[[str, int], int], limit: int) -> list[PullRequest]:
        """Look at the next ``limit`` holds: those whose queue, as the store knows it, has gone past them.

        They are taken out. Each is a hold that no arrival has woken: since its filter rejects what came, or, which
        must never be, since the arrival was missed.
        """
        found: list[PullRequest] = []
        for _ in range(min(limit, len(self._to_check))):
            request = self._by_id.get(self._to_check.pop())
            if request and max_offset_of(request.many.topic, request.many.queue_id) > request.pull_from_offset:
                self._remove(request)
                found.append(request)
        return found
