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
        self.dirty = False
        for key, offsets in (self._rest.pop("offsetTable", None) or {}).items():
            topic, _, group = key.rpartition(SEPARATOR)
            if topic and group:
                self._table.setdefault(group, {})[topic] = {int(q): int(o) for q, o in offsets.items()}

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

    def groups(self) -> list[str]:
        return sorted(self._table)

    def topics(self, group: str) -> dict[str, dict[int, int]]:
        """Topic -> queue -> offset of one group; empty when the group is unknown."""
        return self._table.get(group, {})

    def remove_topic(self, topic: str) -> None:
        for topics in self._table.values():
            if topics.pop(topic, None) is not None:
                self.dirty = True

    def as_table(self) -> dict[str, Any]:
        """The content of consumerOffset.json; what a newer RocketMQ put beside the table is kept."""
        return self._rest | {"offsetTable": {
            f"{topic}{SEPARATOR}{group}": dict(offsets)
            for group, topics in self._table.items() for topic, offsets in topics.items()}}
