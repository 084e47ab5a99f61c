"""The consumed offset of each group in each queue.

Source: RocketMQ's ConsumerOffsetManager; the table behind ``config/consumerOffset.json``:
``{"offsetTable": {"topic@group": {queueId: offset}}}``.
"""

from collections.abc import Generator, Mapping
from typing import Any

from broker_core.consumers.queue_offsets import STEP, QueueOffsets
from broker_core.walk import finish

SEPARATOR = "@"


class ConsumerOffsetManager:
    """RocketMQ's ConsumerOffsetManager. ``dirty``: changes are not on the disk yet; ``urgent``: answers wait for it."""

    def __init__(self, loaded: dict[str, Any] | None) -> None:
        self._rest = dict(loaded or {})
        self._table = QueueOffsets()
        self._resets = QueueOffsets()
        self._copying: Generator[int, None, dict[str, Any]] | None = None
        self._copy: dict[str, Any] | None = None
        self.dirty = self.urgent = False
        for key, offsets in (self._rest.pop("offsetTable", None) or {}).items():
            topic, _, group = key.rpartition(SEPARATOR)
            if topic and group:
                self._table.add(group, topic, {int(q): int(o) for q, o in offsets.items()})

    def __len__(self) -> int:
        """Groups with offsets."""
        return len(self._table)

    def query(self, group: str, topic: str, queue_id: int) -> int | None:
        """The next offset that the group will consume; None if it has committed none."""
        return self._table.query(group, topic, queue_id)

    def queues(self, group: str, topic: str) -> Mapping[int, int]:
        """Queue id -> offset of a group in a topic, for callers that need many queues. It may lack later changes."""
        return self._table.queues(group, topic)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> int | None:
        """Store an offset, which may move backwards. Returns the previous offset."""
        previous = self._table.put(group, topic, queue_id, offset)
        self.dirty |= previous != offset
        return previous

    def restore(self, group: str, topic: str, queue_id: int, offset: int | None) -> None:
        """At a start: the offset that was committed before a pop that is undone; None if none was."""
        self.dirty = True
        if offset is None:
            self._table.remove(group, topic, queue_id)
        else:
            self._table.put(group, topic, queue_id, offset)

    def remove_group(self, group: str) -> None:
        """Forget every offset of a group."""
        self._resets.remove_group(group)
        self.dirty |= self._table.remove_group(group)

    def remove_topic(self, topic: str) -> None:
        """Forget every offset in a deleted topic. After a kill, they would be those of a new topic with its name."""
        self.dirty = self.urgent = True
        self._table.remove_topic(topic)
        self._resets.remove_topic(topic)

    # --- Long work, in parts ---

    def begin_copy(self) -> None:
        """Begin a copy for consumerOffset.json. A change from now on may be missing in it, and sets ``dirty`` again."""
        self.dirty = self.urgent = False
        self._copy, self._copying = None, self.copy_table()

    def take_copy(self) -> dict[str, Any] | None:
        """The copy, if it is complete and was not taken yet."""
        copy, self._copy = self._copy, None
        return copy

    @property
    def has_work(self) -> bool:
        """Whether offsets are left to be copied, or removed ones to be freed."""
        return self._copying is not None or self._table.has_work or self._resets.has_work

    def work(self, limit: int) -> None:
        """Copy or free about ``limit`` offsets. There may be millions, and other requests wait meanwhile."""
        limit = self._resets.work(self._table.work(limit))
        try:
            while self._copying is not None and limit > 0:
                limit -= next(self._copying) + STEP
        except StopIteration as end:
            self._copy, self._copying = end.value, None

    # --- Resets that members do not know yet: RocketMQ's resetOffsetTable, in memory only ---

    def assign_reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Have the answer to a member's next pull from this queue move it to ``offset``."""
        self._resets.put(group, topic, queue_id, offset)

    @property
    def has_resets(self) -> bool:
        """Whether any offset was reset and no member has fetched it yet."""
        return len(self._resets) > 0

    def pending_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        return self._resets.query(group, topic, queue_id) if self._resets else None

    def erase_reset(self, group: str, topic: str, queue_id: int) -> None:
        """A member was moved."""
        self._resets.remove(group, topic, queue_id)

    def erase_resets(self, group: str) -> None:
        """The group has no members left to be moved."""
        self._resets.remove_group(group)

    # --- Reading ---

    def groups(self) -> list[str]:
        """The groups with offsets."""
        return list(self._table)

    def topics(self, group: str) -> dict[str, dict[int, int]]:
        """Topic -> queue -> offset of one group; empty if the group is unknown."""
        return self._table.topics(group)

    def groups_of(self, topic: str) -> list[str]:
        """The groups with offsets in a topic, and perhaps some that were removed just now."""
        return self._table.groups(topic)

    def as_table(self) -> dict[str, Any]:
        """The content of consumerOffset.json, with the unknown members that a newer RocketMQ wrote."""
        return finish(self.copy_table())

    def copy_table(self) -> Generator[int, None, dict[str, Any]]:
        """``as_table`` in steps, one for each topic of each group. Each yields the number of offsets copied."""
        table: dict[str, dict[int, int]] = {}
        for group in self._table:
            for topic in list(self._table.topics(group)):
                if offsets := self._table.queues(group, topic):
                    table[f"{topic}{SEPARATOR}{group}"] = offsets.copy()
                    yield len(offsets)
        return self._rest | {"offsetTable": table}
