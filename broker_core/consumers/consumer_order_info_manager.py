"""Which queues are handed out in order: one queue of a group goes to one member at a time.

    infos    (topic, group, queue id)   -> OrderInfo, the last pop in order from that queue
    queues   (topic, group)             -> queue ids, the least recently popped first
    leases   (topic, group, queue id)   -> when the last invisible time of its messages ends

The group's offset stays at the first message that is not acknowledged. Callers pass it as ``committed``: messages
before it count as acknowledged, whoever moved it. So a queue whose offset was reset to elsewhere is free.
"""

from collections.abc import Callable, Collection
from typing import Any

import msgspec

from broker_core.clock import Now
from broker_core.consumers.leases import Leases

MAX_QUEUES = 10_000
"""Queues of all groups that a pop in order got messages from, as long as some of them are not acknowledged."""
Key = tuple[str, str, int]
"""Topic, group, queue id."""
NoteReturned = Callable[[str, str, int], None]
"""Arguments: group, topic, messages."""


class OrderInfo(msgspec.Struct, frozen=True, gc=False):
    """RocketMQ's ConsumerOrderInfoManager.OrderInfo: what one pop in order got from one queue.

    ``offsets`` are ascending. Message number ``i`` is acknowledged if bit ``i`` is set, and invisible until the
    monotonic time ``ends_ns[i]``. ``changed_ms`` is the same as wall time, by offset, for messages whose invisible time
    was changed. ``counts``: how often messages were popped before, by offset. ``pop_time`` is wall time, ms. With
    ``is_counted`` its messages count as invisible, until the invisible times of all of them are over.
    """

    pop_time: int
    invisible_ms: int
    offsets: tuple[int, ...]
    ends_ns: tuple[int, ...]
    attempt_id: str = ""
    client_id: str = ""
    acknowledged: int = 0
    counts: dict[int, int] = {}
    changed_ms: dict[int, int] = {}
    is_counted: bool = True

    @property
    def counted(self) -> int:
        """How many of its messages count as invisible."""
        return len(self.offsets) - self.acknowledged.bit_count() if self.is_counted else 0

    def waiting(self, committed: int) -> list[int]:
        """The offsets that are not acknowledged; empty if the group's offset is outside this pop."""
        if not self.offsets[0] <= committed <= self.offsets[-1]:
            return []
        return [
            offset
            for number, offset in enumerate(self.offsets)
            if offset >= committed and not self.acknowledged >> number & 1
        ]

    def is_invisible(self, committed: int, now_ns: int) -> bool:
        """Whether a message that is not acknowledged is invisible. Usually the first one is, so the loop is short."""
        if not self.offsets[0] <= committed <= self.offsets[-1]:
            return False
        for number, offset in enumerate(self.offsets):
            if offset >= committed and self.ends_ns[number] > now_ns and not self.acknowledged >> number & 1:
                return True
        return False

    def end_ns(self, committed: int) -> int:
        """When the last message that is not acknowledged becomes visible, monotonic; 0 if none is left."""
        waiting = set(self.waiting(committed))
        ends = [end for offset, end in zip(self.offsets, self.ends_ns, strict=True) if offset in waiting]
        return max(ends, default=0)

    def as_table(self) -> dict[str, Any]:
        """RocketMQ's members of consumerOrderInfo.json. ``o`` has the first offset and the distances from it."""
        first = self.offsets[0]
        table: dict[str, Any] = {
            "popTime": self.pop_time,
            "i": self.invisible_ms,
            "o": [first, *(offset - first for offset in self.offsets[1:])],
            "l": self.pop_time,
            "cm": self.acknowledged,
        }
        if self.attempt_id:
            table["a"] = self.attempt_id
        if self.counts:
            table["oc"] = self.counts
        if self.changed_ms:
            table["ot"] = self.changed_ms
        return table


class _Stored(msgspec.Struct, gc=False):
    """An OrderInfo as RocketMQ stores it."""

    o: list[int]
    pop_time: int = msgspec.field(default=0, name="popTime")
    i: int | None = None
    a: str | None = None
    cm: int = 0
    oc: dict[int, int] | None = None
    ot: dict[int, int] | None = None


class ConsumerOrderInfoManager:
    """RocketMQ's ConsumerOrderInfoManager: the table behind ``config/consumerOrderInfo.json``. ``dirty``: changes are
    not on the disk yet."""

    def __init__(self, loaded: dict[str, Any] | None, now: Now) -> None:
        """Raises ValueError or a subclass if ``loaded`` does not have RocketMQ's form."""
        self._rest = {"orderedConsumptionLevel": "QUEUE"} | dict(loaded or {})
        self._infos: dict[Key, OrderInfo] = {}
        self._queues: dict[tuple[str, str], dict[int, None]] = {}
        self._leases: Leases[Key] = Leases()
        self._ended: dict[Key, None] = {}
        """The queues whose messages are all visible again: their counts may be forgotten."""
        self.note_returned: NoteReturned = lambda group, topic, messages: None
        """Called with each number of messages that count as invisible no more without an acknowledgement. A number
        below 0: they count again."""
        self.dirty = False
        for name, queues in (self._rest.pop("table", None) or {}).items():
            topic, _, group = name.rpartition("@")
            stored = msgspec.convert(queues, dict[int, _Stored], strict=False)
            for queue_id, info in stored.items():
                if topic and group and 0 < len(info.o) <= 64 and len(self) < MAX_QUEUES:
                    self._put((topic, group, queue_id), _loaded(info, now))

    def __len__(self) -> int:
        """Queues, of all groups."""
        return len(self._infos)

    def find(self, group: str, topic: str, queue_id: int) -> OrderInfo | None:
        """The last pop in order of a group from a queue; None if all of its messages are acknowledged."""
        return self._infos.get((topic, group, queue_id))

    def is_blocked(self, group: str, topic: str, queue_id: int, committed: int, attempt_id: str, now_ns: int) -> bool:
        """Whether a queue is handed out to another pop than the one that has this ``attempt_id``."""
        info = self.find(group, topic, queue_id)
        if info is None or (attempt_id and attempt_id == info.attempt_id):
            return False
        return info.is_invisible(committed, now_ns)

    def queues(self, group: str, topic: str) -> Collection[int]:
        """The queues of which messages are not acknowledged, those popped the longest ago first."""
        return self._queues.get((topic, group), ())

    @property
    def room(self) -> int:
        """How many more queues may be handed out."""
        return MAX_QUEUES - len(self) + len(self._ended)

    def hand_out(
        self,
        place: Key,
        offsets: list[int],
        pop_time: int,
        invisible_ms: int,
        attempt_id: str,
        client_id: str,
        now_ns: int,
    ) -> OrderInfo:
        """Note that a pop in order got these messages of a queue. Returns what is noted.

        The messages' ``counts`` grow, unless this pop repeats the last one.
        """
        topic, group, queue_id = place
        old, counts = self.find(group, topic, queue_id), dict[int, int]()
        if old is not None:
            self.note_returned(group, topic, old.counted)
            is_repeated = bool(attempt_id) and attempt_id == old.attempt_id
            again = old.counts if is_repeated else {offset: old.counts.get(offset, 0) + 1 for offset in old.offsets}
            counts = {offset: again[offset] for offset in offsets if again.get(offset, 0) > 0}
        elif len(self) >= MAX_QUEUES:
            self._remove(next(iter(self._ended)))
        info = OrderInfo(
            pop_time=pop_time,
            invisible_ms=invisible_ms,
            offsets=tuple(offsets),
            ends_ns=(now_ns + invisible_ms * 1_000_000,) * len(offsets),
            attempt_id=attempt_id,
            client_id=client_id,
            counts=counts,
        )
        self._put(place, info)
        self.dirty = True
        return info

    def acknowledge(self, place: Key, offsets: list[int], committed: int) -> None:
        """Note that messages of the last pop from this queue are consumed. ``committed`` is the group's new offset."""
        info = self._infos[place]
        bits = sum(1 << info.offsets.index(offset) for offset in offsets)
        changed = msgspec.structs.replace(info, acknowledged=info.acknowledged | bits)
        self.dirty = True
        self._change(place, changed, committed)
        if not changed.waiting(committed):
            self._remove(place)

    def change_invisible_time(
        self, place: Key, offset: int, invisible_ms: int, committed: int, now: Now, *, unseen: bool = False
    ) -> None:
        """Make a message of the last pop from this queue visible after this time. ``unseen``: this pop does not count
        for it, because no consumer got it."""
        topic, group, _ = place
        info = self._infos[place]
        number = info.offsets.index(offset)
        end_ns = now.mono_ns + invisible_ms * 1_000_000
        changed = msgspec.structs.replace(
            info,
            ends_ns=(*info.ends_ns[:number], end_ns, *info.ends_ns[number + 1 :]),
            changed_ms=info.changed_ms | {offset: now.wall_ms + invisible_ms},
            counts=info.counts | {offset: info.counts.get(offset, 0) - 1} if unseen else info.counts,
            is_counted=True,
        )
        self.note_returned(group, topic, info.counted - changed.counted)
        self.dirty = True
        self._change(place, changed, committed)

    def clear(self, group: str, topic: str, queue_id: int) -> None:
        """Forget the last pop from a queue, because the group's offset was reset. RocketMQ's clearBlock."""
        if self.find(group, topic, queue_id) is not None:
            self._remove((topic, group, queue_id))
            self.dirty = True

    def remove_where(self, is_gone: Callable[[str, str], bool]) -> None:
        """Forget the queues of the (topic, group) pairs for which this is True."""
        for topic, group in [key for key in self._queues if is_gone(*key)]:
            for queue_id in list(self._queues[topic, group]):
                self._remove((topic, group, queue_id))
            self.dirty = True

    def keep_existing(self, max_offset: Callable[[str, int], int]) -> None:
        """At a start: forget pops of messages that are not in the log, because a power cut took them."""
        for place, info in list(self._infos.items()):
            if info.offsets[-1] >= max_offset(place[0], place[2]):
                self._remove(place)

    # --- time -----------------------------------------------------------------------------------------------------

    def take_due(self, now_ns: int, limit: int) -> list[Key]:
        """Up to ``limit`` queues whose messages may all have become visible."""
        due = self._leases.take_due(now_ns, limit)
        self._ended.update(dict.fromkeys(due))
        for place in due:
            info = self._infos[place]
            if info.is_counted:
                self.note_returned(place[1], place[0], info.counted)
                self._infos[place] = msgspec.structs.replace(info, is_counted=False)
        return due

    def next_due_ns(self) -> int | None:
        """When to call ``take_due``, monotonic; None without queues."""
        return self._leases.next_due_ns()

    # --- the file -------------------------------------------------------------------------------------------------

    def copy_table(self) -> Callable[[], dict[str, Any]]:
        """A function that returns the content of consumerOrderInfo.json as it is now. Any thread may call it."""
        infos = self._infos.copy()

        def as_table() -> dict[str, Any]:
            table: dict[str, dict[int, Any]] = {}
            for (topic, group, queue_id), info in infos.items():
                table.setdefault(f"{topic}@{group}", {})[queue_id] = info.as_table()
            return self._rest | {"table": table}

        return as_table

    # --- parts ----------------------------------------------------------------------------------------------------

    def _put(self, place: Key, info: OrderInfo) -> None:
        """Store the newest pop of a queue, behind those of the other queues."""
        topic, group, queue_id = place
        queues = self._queues.setdefault((topic, group), {})
        queues.pop(queue_id, None)
        queues[queue_id] = None
        self._infos[place] = info
        self._ended.pop(place, None)
        self._leases.renew(place, max(info.ends_ns))

    def _change(self, place: Key, info: OrderInfo, committed: int) -> None:
        self._infos[place] = info
        self._ended.pop(place, None)
        self._leases.renew(place, info.end_ns(committed))

    def _remove(self, place: Key) -> None:
        topic, group, queue_id = place
        queues = self._queues[topic, group]
        del queues[queue_id]
        if not queues:
            del self._queues[topic, group]
        self.note_returned(group, topic, self._infos.pop(place).counted)
        self._ended.pop(place, None)
        self._leases.drop(place)


def _loaded(stored: _Stored, now: Now) -> OrderInfo:
    """A stored pop. If the clock was set back meanwhile, no message is hidden for longer than its invisible time."""
    first, *distances = stored.o
    offsets = (first, *(first + distance for distance in distances))
    invisible_ms, changed = stored.i or 0, stored.ot or {}

    def end_ns(offset: int) -> int:
        left_ms = changed.get(offset, stored.pop_time + invisible_ms) - now.wall_ms
        longest_ms = invisible_ms if offset not in changed else max(invisible_ms, changed[offset] - stored.pop_time)
        return now.mono_ns + max(0, min(left_ms, longest_ms)) * 1_000_000

    return OrderInfo(
        pop_time=stored.pop_time,
        invisible_ms=invisible_ms,
        offsets=offsets,
        ends_ns=tuple(map(end_ns, offsets)),
        attempt_id=stored.a or "",
        acknowledged=stored.cm,
        counts=stored.oc or {},
        changed_ms=changed,
        is_counted=False,
    )
