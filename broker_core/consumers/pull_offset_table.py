"""The last pull of each group from each queue, and the group's progress there since the broker started."""

from collections.abc import Collection, Mapping

import msgspec

from broker_core.commands import Protocol
from broker_core.verdicts.group_state import is_beyond_noise

MAX_QUEUES = 200_000
FREED_A_TURN = 10_000
"""Rows of removed groups that are freed in one turn: about a millisecond."""
UNKNOWN_NS = -1
TREND_NS = 10 * 1_000_000_000
"""Time between two notes of the lag."""


class LastPull(msgspec.Struct, gc=False):
    """``pull_offset`` is the offset of the next pull; ``mono_ns`` is when this one was answered or held, 0 without a
    pull, ``UNKNOWN_NS`` if the client of a followed broker did not say. A client that pulls over the ``protocol`` http
    has no connection that stays open.

    ``first_offset``: the oldest offset from which the group pulled. ``handed`` messages were sent to this client since
    the committed offset last reached ``pull_offset``; a pull from an earlier offset begins to count again.
    ``handed_ns``: when the first message after that commit was sent to any client; pulling the same messages again does
    not change it. ``taken_ns``: when this client took the queue over from another, or first pulled from it.
    ``moved_ns``: when the committed offset last moved forwards. Times are monotonic, 0 if unknown.

    The trend of the lag, noted at commits: ``lag_ns`` is the last note. ``is_growing``: the lag rose by more than
    noise since its lowest value, and has not fallen by as much since its highest one. This trend began at
    ``lag_before_ns`` with ``lag_before``; ``extreme``, at ``extreme_ns``, is the highest lag since, or the lowest.
    A row has about 400 bytes with its numbers.
    """

    client_id: str
    mono_ns: int
    pull_offset: int
    protocol: Protocol = "remoting"
    first_offset: int = 0
    handed: int = 0
    handed_ns: int = 0
    taken_ns: int = 0
    moved_ns: int = 0
    lag_ns: int = 0
    lag_before_ns: int = 0
    lag_before: int = 0
    extreme_ns: int = 0
    extreme: int = 0
    is_growing: bool = False

    def note_lag(self, lag: int, now_ns: int) -> None:
        """Follow the trend of the lag; it turns only when the lag moves by more than noise against it."""
        is_first, self.lag_ns = not self.lag_ns, now_ns
        against = self.extreme - lag if self.is_growing else lag - self.extreme
        if is_first or not lag:
            self.is_growing = False
            self.lag_before_ns, self.lag_before = now_ns, lag
        elif is_beyond_noise(against, self.extreme):
            self.is_growing = not self.is_growing
            self.lag_before_ns, self.lag_before = self.extreme_ns, self.extreme
        elif against > 0:
            return
        self.extreme_ns, self.extreme = now_ns, lag


Topics = dict[str, dict[int, LastPull]]


class PullOffsetTable:
    """The pullOffsetTable of RocketMQ's ConsumerOffsetManager: group -> topic -> queue id -> its last pull.

    In memory only, and bounded: when it is full, the oldest group is removed. The rows of removed groups are freed a
    few at a time, so that nobody waits for it.
    """

    def __init__(self, max_queues: int = MAX_QUEUES) -> None:
        self._max_queues = max_queues
        self._count = 0
        self._table: dict[str, Topics] = {}
        self._removed: list[Topics] = []

    def __len__(self) -> int:
        return self._count

    def _add(self, group: str, topic: str, queue_id: int, pull: LastPull) -> LastPull:
        if self._count >= self._max_queues:
            self.remove_group(next(iter(self._table)))
        self._count += 1
        self._table.setdefault(group, {}).setdefault(topic, {})[queue_id] = pull
        return pull

    def note(
        self,
        group: str,
        topic: str,
        queue_id: int,
        client_id: str,
        protocol: Protocol,
        next_offset: int,
        now_ns: int,
        from_offset: int,
        messages: int,
    ) -> str | None:
        """Note a pull that was held, or answered with ``messages``. Returns the client of the previous one, or None."""
        row = self.row(group, topic, queue_id)
        previous: str | None = None
        if row is None:
            row = self._add(group, topic, queue_id, LastPull(client_id, 0, next_offset, protocol, from_offset))
        elif row.mono_ns:
            previous = row.client_id
        if previous != client_id or from_offset < row.pull_offset:
            if previous != client_id:
                row.taken_ns = now_ns
            row.client_id, row.protocol = client_id, protocol
            row.handed = 0
            if from_offset < row.first_offset:
                row.first_offset = from_offset
        row.mono_ns = now_ns
        row.pull_offset = next_offset
        if messages:
            row.handed += messages
            if not row.handed_ns:
                row.handed_ns = now_ns
        return previous

    def answered(
        self, group: str, topic: str, queue_id: int, client_id: str, pull_offset: int, messages: int, now_ns: int
    ) -> None:
        """A hold was answered: store its client's next offset, unless another client has pulled meanwhile."""
        try:
            row = self._table[group][topic][queue_id]
        except KeyError:
            return
        if row.client_id == client_id:
            row.pull_offset = pull_offset
            row.mono_ns = now_ns
            if messages:
                row.handed += messages
                if not row.handed_ns:
                    row.handed_ns = now_ns

    def replicate(
        self,
        group: str,
        topic: str,
        queue_id: int,
        client_id: str,
        pull_offset: int,
        handed: int,
        now_ns: int,
        handed_ms_ago: int,
        polled_ms_ago: int | None,
    ) -> None:
        """Note what a member has by its own words. The pulls of a followed broker are not known."""
        row = self.row(group, topic, queue_id)
        if row is None:
            row = self._add(group, topic, queue_id, LastPull("", 0, 0, "remoting", max(0, pull_offset - handed)))
        row.client_id, row.protocol, row.pull_offset, row.handed = client_id, "remoting", pull_offset, handed
        row.mono_ns = UNKNOWN_NS if polled_ms_ago is None else max(1, now_ns - polled_ms_ago * 1_000_000)
        row.handed_ns = max(1, now_ns - handed_ms_ago * 1_000_000) if handed else 0

    def moved(self, group: str, topic: str, queue_id: int, offset: int, end: int, now_ns: int) -> None:
        """The committed offset moved forwards to ``offset``, in a queue that ends at ``end``."""
        try:
            row = self._table[group][topic][queue_id]
        except KeyError:
            row = self._add(group, topic, queue_id, LastPull("", 0, offset, "http", offset))
        row.moved_ns = now_ns
        if offset >= row.pull_offset:
            row.handed = row.handed_ns = 0
        if now_ns - row.lag_ns >= TREND_NS or not row.lag_ns:
            row.note_lag(end - offset, now_ns)

    def was_reset(self, group: str, topic: str, queue_id: int) -> None:
        """The committed offset was set by an operator, which is no progress of the group."""
        row = self.row(group, topic, queue_id)
        if row is not None:
            row.handed = row.handed_ns = row.moved_ns = row.lag_ns = row.lag_before_ns = 0
            row.is_growing = False

    def remove_group(self, group: str) -> None:
        """Forget a group's pulls."""
        topics = self._table.pop(group, None)
        if topics is not None:
            self._count -= sum(map(len, topics.values()))
            self._removed.append(topics)

    @property
    def has_work(self) -> bool:
        """Whether rows of removed groups are left to be freed."""
        return bool(self._removed)

    def work(self, limit: int = FREED_A_TURN) -> None:
        """Free about ``limit`` of these rows."""
        while self._removed and limit > 0:
            topics = self._removed[-1]
            if topics:
                limit -= len(topics.popitem()[1])
            else:
                self._removed.pop()

    def groups(self) -> Collection[str]:
        """All groups with pulls or commits."""
        return self._table.keys()

    def topics(self, group: str) -> Mapping[str, Mapping[int, LastPull]]:
        """Topic -> queue id -> last pull of one group; empty without pulls and commits."""
        return self._table.get(group, {})

    def row(self, group: str, topic: str, queue_id: int) -> LastPull | None:
        """None if the group has neither pulled from the queue nor committed an offset."""
        topics = self._table.get(group)
        queues = topics.get(topic) if topics is not None else None
        return queues.get(queue_id) if queues is not None else None

    def last_pull(self, group: str, topic: str, queue_id: int) -> LastPull | None:
        """None if the group has not pulled from the queue."""
        row = self.row(group, topic, queue_id)
        return row if row is not None and row.mono_ns else None
