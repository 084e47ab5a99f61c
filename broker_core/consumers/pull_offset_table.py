"""The last pull from each queue: its client, its time and its next offset."""

from collections.abc import Collection, Mapping

import msgspec

from broker_core.commands import Protocol

MAX_QUEUES = 200_000


class LastPull(msgspec.Struct, gc=False):
    """``pull_offset`` is the offset of the next pull; ``mono_ns`` is when this one was answered or held.

    A client that pulls over the ``protocol`` http has no connection that stays open.
    """

    client_id: str
    mono_ns: int
    pull_offset: int
    protocol: Protocol = "remoting"


class PullOffsetTable:
    """The pullOffsetTable of RocketMQ's ConsumerOffsetManager: group -> (topic, queue id) -> its last pull.

    In memory only, and bounded: when it is full, the oldest group is removed.
    """

    def __init__(self, max_queues: int = MAX_QUEUES) -> None:
        self._max_queues = max_queues
        self._count = 0
        self._table: dict[str, dict[tuple[str, int], LastPull]] = {}

    def __len__(self) -> int:
        return self._count

    def note(self, group: str, topic: str, queue_id: int, pull: LastPull) -> LastPull | None:
        """Store the newest pull of a group from a queue. Returns the previous one."""
        queues = self._table.get(group)
        before = queues.get((topic, queue_id)) if queues else None
        if before is None:
            if self._count >= self._max_queues:
                self._count -= len(self._table.pop(next(iter(self._table))))
            self._count += 1
            queues = self._table.setdefault(group, {})
        assert queues is not None
        queues[topic, queue_id] = pull
        return before

    def answered(self, group: str, topic: str, queue_id: int, client_id: str, pull_offset: int, mono_ns: int) -> None:
        """A hold was answered: store its client's next offset, unless another client has pulled meanwhile."""
        queues = self._table.get(group)
        last = queues.get((topic, queue_id)) if queues else None
        if last is not None and last.client_id == client_id:
            last.pull_offset = pull_offset
            last.mono_ns = mono_ns

    def remove_group(self, group: str) -> None:
        """Forget a group's pulls."""
        self._count -= len(self._table.pop(group, ()))

    def groups(self) -> Collection[str]:
        """All groups with pulls."""
        return self._table.keys()

    def queues(self, group: str) -> Mapping[tuple[str, int], LastPull]:
        """(topic, queue id) -> last pull of one group; empty without pulls."""
        return self._table.get(group, {})
