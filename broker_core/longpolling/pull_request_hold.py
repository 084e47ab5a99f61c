"""The pullRequestTable: every held pull request, and which of them must be answered when.

    table          topic -> queue id        -> the holds of that queue           for arrivals
    by_id          hold id                  -> the hold                           for people who look at one hold
    by_connection  connection -> request id -> the hold                           for a client that disconnects
    wheel          tick                     -> holds due then                     for deadlines
    by_group       group                    -> how many holds                     for people who look at a group
    pops           topic -> group -> queue  -> how many held pops                 for arrivals; their rows in the
                                                                                  table have the key (group, queue id)

This module neither reads the store nor answers a pull. Every call removes the holds to be answered from all of
these and *returns* them; the caller runs their pulls again.

Why no wake-up can be lost. The engine does one thing at a time. Reading a pull, and holding it if there is no message,
are one step; each arrival is another step. So every message of a queue is dispatched either before that step, and the
read finds it, or after it, and its arrival finds the hold in the table. A hold leaves the table only by a call below,
and the caller of each must answer it. Whether an arrival matches a hold is decided from the offsets, tag hashes and
bitmaps in the arrival and the records themselves, never from a copy that could be outdated. ``check`` tests this at run
time: for every held pull, it compares the queue's end in the store with what the arrivals reported.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Protocol

from broker_core.commands import ReleaseCause
from broker_core.filters.consumer_filter_data import ConsumerFilterData
from broker_core.filters.message_filter import SEARCH_BYTES, MessageFilter
from broker_core.formats.pop_check_point import pop_retry_topics
from broker_core.longpolling.deadline_wheel import DeadlineWheel
from broker_core.longpolling.pull_request import ManyPullRequest, PullRequest

EVALUATED_BYTES_MAX = 1 << 20
"""Bytes that evaluating the filters of holds may read in one turn. After that, each hold whose filter reads properties
is woken, and its pull evaluates the filter."""

BITMAP_BYTES = 64
"""Testing a bitmap takes as long as reading so many bytes for a filter."""

PropertiesOf = Callable[[int], bytes]
"""Returns the property string of the record at a physical offset."""


class Arrival(Protocol):
    """Messages of a queue from ``from_offset`` up to, but not including, ``to_offset``, with their tagsCodes and
    physical offsets, and, if groups filter the topic by SQL92, their bitmaps."""

    topic: str
    queue_id: int
    from_offset: int
    to_offset: int

    @property
    def tags_codes(self) -> Sequence[int]: ...

    @property
    def physical_offsets(self) -> Sequence[int]: ...

    @property
    def bitmaps(self) -> Sequence[int] | None: ...


LeaveCause = ReleaseCause | Literal["shutdown"]


class PullRequestHold:
    """RocketMQ's PullRequestHoldService, without the loop, the reading and the replying."""

    def __init__(self) -> None:
        self._table: dict[str, dict[Any, ManyPullRequest]] = {}
        self._pops: dict[str, dict[str, dict[int, int]]] = {}
        self._of_retries: dict[str, set[tuple[str, str]]] = {}
        self._by_id: dict[int, PullRequest] = {}
        self._by_connection: dict[Any, dict[int, PullRequest]] = {}
        self._by_group: dict[str, int] = {}
        self._wheel = DeadlineWheel()
        self._last_id = 0
        self._is_unsorted = False
        self._to_check: list[int] = []
        self._leaving: deque[tuple[LeaveCause, list[int]]] = deque()
        self._deleted: deque[dict[Any, ManyPullRequest]] = deque()
        self.work_left = EVALUATED_BYTES_MAX
        """Bytes that may still be read for filters in this turn."""
        self._turn_ns = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def count_of_connection(self, connection: Any) -> int:
        return len(self._by_connection.get(connection, ()))

    def is_held(self, connection: Any, request_id: int) -> bool:
        return request_id in self._by_connection.get(connection, ())

    def count_of_queue(self, topic: str, queue_id: int) -> int:
        many = self._table.get(topic, {}).get(queue_id)
        return many.count if many else 0

    def count_of_group(self, group: str) -> int:
        return self._by_group.get(group, 0)

    def groups(self) -> list[str]:
        """The groups that have holds."""
        return list(self._by_group)

    def requests_of_queue(self, topic: str, queue_id: int) -> list[PullRequest]:
        """The held requests of a queue."""
        many = self._table.get(topic, {}).get(queue_id)
        return list(many) if many else []

    def get(self, hold_id: int) -> PullRequest | None:
        return self._by_id.get(hold_id)

    def ids_after(self, hold_id: int) -> list[int]:
        """The ids of the holds with an id above ``hold_id``, the lowest first."""
        if self._is_unsorted:
            self._by_id = dict(sorted(self._by_id.items()))
            self._is_unsorted = False
        ids = list(self._by_id)
        return ids[bisect_right(ids, hold_id) :]

    def __iter__(self) -> Iterator[PullRequest]:
        """All holds, the oldest first."""
        return iter(self._by_id.values())

    # --- holding ------------------------------------------------------------------------------------------

    def get_or_create_many(self, topic: str, queue_id: int, max_offset: int) -> ManyPullRequest:
        """The holds of a queue, created if the queue has none."""
        queues = self._table.get(topic)
        if queues is None:
            queues = self._table[topic] = {}
        many = queues.get(queue_id)
        if many is None:
            many = queues[queue_id] = ManyPullRequest(topic, queue_id, max_offset)
        return many

    def next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def hold(self, request: PullRequest) -> None:
        """Put a pull that found no message into the table."""
        request.many.add(request)
        self._by_id[request.hold_id] = request
        self._by_connection.setdefault(request.connection, {})[request.request_id] = request
        if request.group:
            self._by_group[request.group] = self._by_group.get(request.group, 0) + 1
        self._wheel.add(request, request.suspended_ns + request.suspend_timeout_ms * 1_000_000)
        if request.many.group:
            queues = self._pops.setdefault(request.many.topic, {}).setdefault(request.group, {})
            queues[request.many.queue_id] = queues.get(request.many.queue_id, 0) + 1
            for retry in pop_retry_topics(request.many.topic, request.group):
                self._of_retries.setdefault(retry, set()).add((request.many.topic, request.group))

    def hold_again(self, request: PullRequest) -> None:
        """Put a hold back that was woken in vain. Its deadline and its number stay."""
        self._is_unsorted = True
        self.hold(request)

    # --- pops -----------------------------------------------------------------------------------------------

    @property
    def has_pops(self) -> bool:
        return bool(self._pops)

    def has_pops_of(self, topic: str, group: str) -> bool:
        """Whether a group has held pops for messages of the topic."""
        return group in self._pops.get(topic, ())

    def get_or_create_pops(self, topic: str, group: str, queue_id: int) -> ManyPullRequest:
        """The held pops of a group for a queue, or for all (-1), created if there are none."""
        queues = self._table.setdefault(topic, {})
        many = queues.get((group, queue_id))
        if many is None:
            many = queues[group, queue_id] = ManyPullRequest(topic, queue_id, -1, group)
        return many

    def first_pop(self, topic: str, group: str, queue_id: int) -> PullRequest | None:
        """The oldest held pop of a group that waits for messages of this queue. All pops wait for those of the retry
        topic, which is asked for by a queue below 0: one that waits for all queues or, if there is none, any."""
        held = self._pops.get(topic, {}).get(group)
        if held is None:
            return None
        if queue_id < 0 and -1 not in held:
            queue_id = next(iter(held))
        queues = self._table.get(topic, {})
        found = [many.first for number in {queue_id, -1} if (many := queues.get((group, number))) and many.first]
        return min(found, key=lambda request: request.hold_id, default=None)

    def count_of_pops(self, topic: str, group: str, queue_id: int) -> int:
        many = self._table.get(topic, {}).get((group, queue_id))
        return many.count if many else 0

    def take_pop(self, topic: str, group: str, queue_id: int) -> PullRequest | None:
        """Remove and return ``first_pop``."""
        request = self.first_pop(topic, group, queue_id)
        if request is not None:
            self._remove(request)
        return request

    def arrive_pops(self, topic: str, queue_id: int) -> list[PullRequest]:
        """Messages were dispatched: remove and return one held pop of each group that they concern."""
        places = [(topic, group, queue_id) for group in self._pops.get(topic, ())]
        places += [(*place, -1) for place in self._of_retries.get(topic, ())]
        return [pop for place in places if (pop := self.take_pop(*place)) is not None]

    def _forget_pop(self, topic: str, group: str, queue_id: int) -> None:
        groups = self._pops[topic]
        queues = groups[group]
        queues[queue_id] -= 1
        if not queues[queue_id]:
            del queues[queue_id]
        if not queues:
            del groups[group]
            for retry in pop_retry_topics(topic, group):
                self._of_retries[retry].discard((topic, group))  # other names may give the same retry topic
                if not self._of_retries[retry]:
                    del self._of_retries[retry]
            if not groups:
                del self._pops[topic]

    # --- removing -----------------------------------------------------------------------------------------

    def arrive(
        self, arrival: Arrival, properties_of: PropertiesOf, *, wake: bool = True
    ) -> tuple[list[PullRequest], list[PullRequest], list[PullRequest]]:
        """Messages were dispatched. Returns three lists of holds: those whose filter may match one of the messages;
        those whose filter matches none; and those whose filter matches none by the bitmaps alone.

        The first ones are removed from the table. With ``wake`` False (longPollingEnable off) no hold is woken. Only
        the queue's end moves, and holds with new messages are marked ``short``: short polling answers them, even if
        longPollingEnable is turned on before their time.
        """
        queues = self._table.get(arrival.topic)
        many = queues.get(arrival.queue_id) if queues is not None else None
        if many is None:
            return [], [], []
        many.max_offset = to_offset = arrival.to_offset
        if not wake:
            many.mark_short()
            return [], [], []
        woken: list[PullRequest] = []
        passed: list[PullRequest] = []
        by_bitmap: list[PullRequest] = []
        codes: Sequence[int] | None = None
        answers: dict[tuple[int, int], list[PullRequest]] = {}
        following = many.first
        while following is not None:
            request, following = following, following.next
            start = request.pull_from_offset
            if start >= to_offset:
                continue
            wanted = request.message_filter
            if wanted is None:
                woken.append(request)
                continue
            if wanted.reads_properties:
                key = id(wanted), max(start - arrival.from_offset, 0)
                if key not in answers:
                    places = self._not_ruled_out(wanted, arrival, key[1])
                    may_match = places and self._may_match(wanted, places, properties_of)
                    answers[key] = woken if may_match else passed if places else by_bitmap
                answers[key].append(request)
                continue
            codes = arrival.tags_codes if codes is None else codes
            begin = start - arrival.from_offset
            new = codes if begin <= 0 or len(codes) < to_offset - arrival.from_offset else codes[begin:]
            if any(map(wanted.matches_tags_code, new)):
                woken.append(request)
            else:
                passed.append(request)
        if woken:
            self._take_woken(many, woken)
        return woken, passed, by_bitmap

    def start_turn(self, now_ns: int) -> None:
        """Allow the filters of holds their work again, if this is the time of another turn."""
        if now_ns != self._turn_ns:
            self._turn_ns, self.work_left = now_ns, EVALUATED_BYTES_MAX

    def _not_ruled_out(self, wanted: MessageFilter, arrival: Arrival, begin: int) -> Sequence[int]:
        """The physical offsets of the messages from number ``begin`` on that their bitmaps do not rule out."""
        places, bitmaps = arrival.physical_offsets, arrival.bitmaps
        if begin and len(places) == arrival.to_offset - arrival.from_offset:  # else some records have several messages
            places = places[begin:]
        if bitmaps is None or self.work_left <= 0 or not isinstance(wanted, ConsumerFilterData):
            return places
        self.work_left -= BITMAP_BYTES * len(places)
        bits, bitmaps_from = wanted.bits, wanted.bitmaps_from
        return [
            place
            for place, bitmap in zip(places, bitmaps[begin:], strict=True)
            if bitmap & bits == bits or place < bitmaps_from
        ]

    def _may_match(self, wanted: MessageFilter, places: Sequence[int], properties_of: PropertiesOf) -> bool:
        """Whether a filter matches one of these records, or there is no time left to find out."""
        for place in places:
            if self.work_left <= 0:
                return True
            properties = properties_of(place)
            self.work_left -= wanted.work * (len(properties) + SEARCH_BYTES)
            if wanted.matches_record(properties):
                return True
        return False

    def _take_woken(self, many: ManyPullRequest, woken: list[PullRequest]) -> None:
        """Remove holds of one queue, which are usually all of its holds."""
        if len(woken) < many.count:
            for request in woken:
                self._remove(request)
            return
        many.first = many.last = None
        many.count = 0
        self._remove_queue(many)
        for request in woken:
            request.previous = request.next = None
            self._forget(request)

    def take_due(self, now_ns: int, limit: int) -> list[PullRequest]:
        """Remove and return up to ``limit`` holds that are due."""
        due = self._wheel.take_due(now_ns, limit)
        for request in due:
            self._remove(request)
        return due

    def next_deadline_ns(self) -> int | None:
        return self._wheel.next_deadline_ns()

    def take_request(self, connection: Any, request_id: int) -> PullRequest | None:
        """Remove and return the hold of one request; None if it is not held (any more)."""
        request = self._by_connection.get(connection, {}).get(request_id)
        if request is not None:
            self._remove(request)
        return request

    def leave_connection(self, connection: Any) -> int:
        """Have ``take_leaving`` return all holds of a client that disconnected; returns their number."""
        held = self._by_connection.get(connection, {})
        if held:
            self._leaving.append(("channel_gone", [request.hold_id for request in held.values()][::-1]))
        return len(held)

    def leave_topic(self, topic: str) -> None:
        """Have ``take_leaving`` return all holds of a deleted topic.

        They are out of the table at once, so that a new topic of this name begins without holds.
        """
        queues = self._table.pop(topic, None)
        if queues:
            self._deleted.append(queues)

    def leave_all(self) -> None:
        """Have ``take_leaving`` return all holds, with the cause ``shutdown``."""
        if self._by_id:
            self._leaving.append(("shutdown", list(self._by_id)[::-1]))

    @property
    def leaving(self) -> bool:
        return bool(self._leaving or self._deleted)

    def take_leaving(self, limit: int) -> list[tuple[PullRequest, LeaveCause]]:
        """Look at up to ``limit`` leaving holds; remove and return those that were not removed otherwise."""
        taken: list[tuple[PullRequest, LeaveCause]] = []
        while self._deleted and limit:
            many = next(iter(self._deleted[0].values()), None)
            if many is None:
                self._deleted.popleft()
            elif many.first is None:
                del self._deleted[0][many.key]
            else:
                taken.append((many.first, "cancelled"))
                self._remove(many.first)
                limit -= 1
        while self._leaving and limit:
            cause, ids = self._leaving[0]
            for _ in range(min(limit, len(ids))):
                request = self._by_id.get(ids.pop())
                limit -= 1
                if request is not None:
                    self._remove(request)
                    taken.append((request, cause))
            if not ids:
                self._leaving.popleft()
        return taken

    def _remove(self, request: PullRequest) -> None:
        many = request.many
        many.remove(request)
        if not many.count:
            self._remove_queue(many)
        self._forget(request)

    def _remove_queue(self, many: ManyPullRequest) -> None:
        """Remove a queue without holds from the table. Those of a deleted topic are not in it."""
        queues = self._table.get(many.topic)
        if queues is not None and queues.get(many.key) is many:
            del queues[many.key]
            if not queues:
                del self._table[many.topic]

    def _forget(self, request: PullRequest) -> None:
        """Remove a hold from the places other than the table."""
        del self._by_id[request.hold_id]
        held = self._by_connection[request.connection]
        del held[request.request_id]
        if not held:
            del self._by_connection[request.connection]
        self._wheel.remove(request)
        if request.many.group:
            self._forget_pop(request.many.topic, request.group, request.many.queue_id)
        if request.group:
            left = self._by_group[request.group] - 1
            if left:
                self._by_group[request.group] = left
            else:
                del self._by_group[request.group]

    # --- the periodic check -----------------------------------------------------------------------------------

    def start_check(self, *, afresh: bool = False) -> None:
        """Begin to check all holds; an unfinished check continues instead, unless ``afresh``."""
        if afresh or not self._to_check:
            self._to_check = list(self._by_id)[::-1]

    @property
    def checking(self) -> bool:
        return bool(self._to_check)

    def check(self, max_offset_of: Callable[[str, int], int], limit: int) -> list[PullRequest]:
        """Check the next ``limit`` holds; remove and return those for which the store has a message.

        No arrival woke these holds: either their filter rejects the messages, or an arrival was missed, which must
        never happen. The holds of a deleted topic are passed over: a new topic with its name is not theirs.
        """
        passed: list[PullRequest] = []
        for _ in range(min(limit, len(self._to_check))):
            request = self._by_id.get(self._to_check.pop())
            if request is None:
                continue
            many = request.many
            if many.group or self._table.get(many.topic, {}).get(many.queue_id) is not many:
                continue
            if max_offset_of(many.topic, many.queue_id) > request.pull_from_offset:
                self._remove(request)
                passed.append(request)
        return passed
