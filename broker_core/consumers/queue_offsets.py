"""Numbers by group, topic and queue, which a deleted topic or group gives up at once."""

from collections.abc import Iterator

Queues = dict[int, int]

STEP = 25
"""Looking at one topic of one group takes as much time as copying or freeing this many offsets."""


class QueueOffsets:
    """group -> topic -> queue id -> offset.

    Removing a group or a topic takes as long with 20,000 topics or groups as with one, because other requests wait
    meanwhile. What is removed is gone for every reader at once; ``work`` frees it later.

        table          group -> topic -> queue id -> offset
        groups         topic -> its groups               may name a removed group until ``work`` has freed its offsets
        deleted        topic -> groups                   that still have offsets from before the topic's deletion
        removed        (group, its topics)               removed groups with offsets that are not freed
    """

    def __init__(self) -> None:
        self._table: dict[str, dict[str, Queues]] = {}
        self._groups: dict[str, dict[str, None]] = {}
        self._deleted: dict[str, dict[str, None]] = {}
        self._removed: list[tuple[str, dict[str, Queues]]] = []

    def __len__(self) -> int:
        """Groups with offsets; some may have only offsets of deleted topics that are not freed."""
        return len(self._table)

    def __iter__(self) -> Iterator[str]:
        """The groups with offsets."""
        return iter(list(self._table))

    def query(self, group: str, topic: str, queue_id: int) -> int | None:
        """None if there is no offset."""
        return self.queues(group, topic).get(queue_id)

    def queues(self, group: str, topic: str) -> Queues:
        """Queue id -> offset of a group's topic; empty without offsets."""
        if self._is_deleted(group, topic):
            return {}
        return self._table.get(group, {}).get(topic, {})

    def topics(self, group: str) -> dict[str, Queues]:
        """Topic -> queue id -> offset of one group; empty without offsets."""
        for topic in [topic for topic, groups in self._deleted.items() if group in groups]:
            self._forget(topic, group)
        return self._table.get(group, {})

    def groups(self, topic: str) -> list[str]:
        """The groups with offsets in a topic, and perhaps some that were removed just now."""
        return list(self._groups.get(topic, ()))

    def put(self, group: str, topic: str, queue_id: int, offset: int) -> int | None:
        """Store an offset. Returns the previous one."""
        if self._is_deleted(group, topic):
            self._forget(topic, group)
        topics = self._table.get(group)
        queues = topics.get(topic) if topics is not None else None
        if queues is None:
            queues = {}
            self.add(group, topic, queues)
        previous = queues.get(queue_id)
        queues[queue_id] = offset
        return previous

    def add(self, group: str, topic: str, queues: Queues) -> None:
        """Store the offsets of a group in a topic in which it has none."""
        self._table.setdefault(group, {})[topic] = queues
        self._groups.setdefault(topic, {})[group] = None

    def remove(self, group: str, topic: str, queue_id: int) -> None:
        """Forget one offset, if there is one."""
        queues = self.queues(group, topic)
        if queues.pop(queue_id, None) is not None and not queues:
            self._drop(group, topic)
            self._forget_group_of(topic, group)

    def remove_group(self, group: str) -> bool:
        """Forget the offsets of a group. Returns whether it had any."""
        topics = self._table.pop(group, None)
        if topics is not None:
            self._removed.append((group, topics))
        return topics is not None

    def remove_topic(self, topic: str) -> None:
        """Forget the offsets of all groups in a topic."""
        groups = self._groups.pop(topic, None)
        if groups:
            groups |= self._deleted.get(topic, {})
            self._deleted[topic] = groups

    # --- Freeing ---

    @property
    def has_work(self) -> bool:
        """Whether removed offsets are left to be freed."""
        return bool(self._removed or self._deleted)

    def work(self, limit: int) -> int:
        """Free about ``limit`` offsets. Returns what is left of the limit."""
        while self._deleted and limit > 0:
            topic, groups = next(iter(self._deleted.items()))
            limit -= self._drop(groups.popitem()[0], topic) + STEP
            if not groups:
                del self._deleted[topic]
        while self._removed and limit > 0:
            group, topics = self._removed[-1]
            if not topics:
                self._removed.pop()
                continue
            topic, queues = topics.popitem()
            limit -= len(queues) + STEP
            if topic not in self._table.get(group, {}):
                self._forget_group_of(topic, group)
        return limit

    def _is_deleted(self, group: str, topic: str) -> bool:
        """Whether the group's offsets in this topic are from before its deletion."""
        return bool(self._deleted) and group in self._deleted.get(topic, ())

    def _forget(self, topic: str, group: str) -> None:
        """Free a group's offsets from before a topic's deletion."""
        groups = self._deleted[topic]
        del groups[group]
        if not groups:
            del self._deleted[topic]
        self._drop(group, topic)

    def _drop(self, group: str, topic: str) -> int:
        """Remove a topic of a group, and a group without topics. Returns the number of offsets."""
        topics = self._table.get(group)
        if topics is None:  # it was removed meanwhile
            return 0
        queues = topics.pop(topic, None)
        if not topics:
            del self._table[group]
        return len(queues or ())

    def _forget_group_of(self, topic: str, group: str) -> None:
        groups = self._groups.get(topic)
        if groups is not None:
            groups.pop(group, None)
            if not groups:
                del self._groups[topic]
