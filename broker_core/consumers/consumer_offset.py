"""How far each group has consumed each queue.

Source: RocketMQ's ConsumerOffsetManager; the table behind ``config/consumerOffset.json``:
``{"offsetTable": {"topic@group": {queueId: offset}}}``.
"""

from typing import Any

SEPARATOR = "@"


class ConsumerOffsetManager:
    """RocketMQ's ConsumerOffsetManager. ``dirty`` says that there is something the disk does not know yet."""

    def __init__(self, loaded: dict[str, Any] | None) -> None:
        self._rest = dict(loaded or {})
        self._table: dict[str, dict[str, dict[int, int]]] = {}
        self._resets: dict[str, dict[tuple[str, int], int]] = {}
        self.dirty = False
        for key, offsets in (self._rest.pop("offsetTable", None) or {}).items():
            topic, _, group = key.rpartition(SEPARATOR)
            if topic and group:
                self._table.setdefault(group, {})[topic] = {int(q): int(o) for q, o in offsets.items()}

    def __len__(self) -> int:
        """Groups that offsets are kept of."""
        return len(self._table)

    def query(self, group: str, topic: str, queue_id: int) -> int | None:
        """The next offset the group will consume; None when it never committed one."""
        return self._table.get(group, {}).get(topic, {}).get(queue_id)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> int | None:
        """Store an offset, also backwards; the offset before."""
        queues = self._table.setdefault(group, {}).setdefault(topic, {})
        previous = queues.get(queue_id)
        if previous != offset:
            queues[queue_id] = offset
            self.dirty = True
        return previous

    def remove_group(self, group: str) -> None:
        """Forget every offset of a group."""
        self._resets.pop(group, None)
        if self._table.pop(group, None) is not None:
            self.dirty = True

    # --- Offsets that members are still to be told of: RocketMQ's resetOffsetTable, in memory only ---

    def assign_reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """The next pull of a member from this queue is to be answered that it goes on at ``offset``."""
        self._resets.setdefault(group, {})[topic, queue_id] = offset

    def pending_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        return self._resets.get(group, {}).get((topic, queue_id)) if self._resets else None

    def erase_reset(self, group: str, topic: str, queue_id: int) -> None:
        """A member was told."""
        resets = self._resets.get(group, {})
        resets.pop((topic, queue_id), None)
        if not resets:
            self._resets.pop(group, None)

    def erase_resets(self, group: str) -> None:
        """Nobody is in the group any more who would have to be told."""
        self._resets.pop(group, None)

    def groups(self) -> list[str]:
        return sorted(self._table)

    def topics(self, group: str) -> dict[str, dict[int, int]]:
        """Topic -> queue -> offset of one group; empty when the group is unknown."""
        return self._table.get(group, {})

    def remove_topic(self, topic: str) -> None:
        for topics in self._table.values():
            if topics.pop(topic, None) is not None:
                self.dirty = True
        for group, resets in list(self._resets.items()):
            for key in [key for key in resets if key[0] == topic]:
                self.erase_reset(group, *key)

    def as_table(self) -> dict[str, Any]:
        """The content of consumerOffset.json; what a newer RocketMQ put beside the table is kept."""
        return self._rest | {
            "offsetTable": {
                f"{topic}{SEPARATOR}{group}": dict(offsets)
                for group, topics in self._table.items()
                for topic, offsets in topics.items()
            }
        }
