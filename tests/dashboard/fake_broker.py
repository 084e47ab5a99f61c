"""A small simulated broker for the pages: topics, holds, wake-ups and their frames.

It implements read or hold, wake-up by arrival, time-outs and filters, enough for a few minutes of a page. Scenarios
can make it fail in ways in which the real broker should not.
"""

import asyncio
import itertools
import random
import time
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from typing import Any

WAKE_BOUNDS = [50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000]
HELD_BOUNDS = [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 30_000]
COUNTERS = [
    "messages_stored",
    "bytes_stored",
    "messages_dispatched",
    "messages_delivered",
    "pulls_received",
    "pulls_read",
    "pulls_answered_at_once",
    "pulls_held",
    "pulls_passed_over",
    "woken_arrival",
    "woken_filter_advanced",
    "woken_missed_arrival",
    "woken_timeout",
    "woken_short_poll",
    "woken_shutdown",
    "released",
    "requests_refused",
    "offsets_committed",
    "holds_now",
    "transactions_pending_now",
    "replies_pushed",
]


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(eq=False)
class Queue:
    topic: str
    queue_id: int
    min_offset: int = 0
    last_store_time_ms: int | None = None
    messages: list[dict[str, Any]] = field(default_factory=list)
    holds: dict[int, "Hold"] = field(default_factory=dict)

    @property
    def max_offset(self) -> int:
        return self.min_offset + len(self.messages)

    def view(self) -> dict[str, Any]:
        return {
            "broker": "broker-a",
            "topic": self.topic,
            "queue_id": self.queue_id,
            "min_offset": self.min_offset,
            "max_offset": self.max_offset,
            "last_store_time_ms": self.last_store_time_ms,
            "holds": len(self.holds),
        }


@dataclass(eq=False)
class Hold:
    id: int
    queue: Queue
    offset: int
    group: str
    client_id: str
    protocol: str
    filter: str
    suspended_at_ms: int
    deadline_ms: int
    max_offset: int
    ended: asyncio.Future[dict[str, Any]]

    def view(self) -> dict[str, Any]:
        return {
            "broker": "broker-a",
            "id": self.id,
            "topic": self.queue.topic,
            "queue_id": self.queue.queue_id,
            "group": self.group,
            "client_id": self.client_id,
            "protocol": self.protocol,
            "pull_from_offset": self.offset,
            "queue_max_offset": self.max_offset,
            "suspended_at_ms": self.suspended_at_ms,
            "deadline_ms": self.deadline_ms,
            "filter": self.filter,
        }


def accepts(expression: str, tag: str) -> bool:
    return expression == "*" or tag in [part.strip() for part in expression.split("||")]


class FakeBroker:
    def __init__(self) -> None:
        self.epoch = 0
        self.ids = itertools.count(1)  # never restarted: a client may still end a hold of an earlier epoch
        self.watchers: set[asyncio.Queue[dict[str, Any] | None]] = set()
        self.reset()

    def reset(self) -> None:
        """Restarts empty, with the next epoch."""
        self.epoch += 1
        self.seq = 0
        self.told_seq = 0
        self.started_at_ms = wall_ms() - 8_000
        self.long_polling_enable = True
        self.refuse_config = False
        self.problem = ""
        self.quiet = False
        self.queues: dict[tuple[str, int], Queue] = {}
        self.holds: dict[int, Hold] = {}
        self.counters = dict.fromkeys(COUNTERS, 0)
        self.wake_counts = [0] * (len(WAKE_BOUNDS) + 1)
        self.held_counts = [0] * (len(HELD_BOUNDS) + 1)
        self.wakeups: deque[dict[str, Any]] = deque(maxlen=200)
        self.client_events: list[dict[str, Any]] = []
        self.robin = itertools.count()
        self._forget_changes()

    def _forget_changes(self) -> None:
        self.added: dict[int, Hold] = {}
        self.removed: list[int] = []
        self.changed: dict[tuple[str, int], Queue] = {}
        self.new_wakeups: list[dict[str, Any]] = []
        self.new_client_events: list[dict[str, Any]] = []
        self.told_at = time.monotonic()

    # --- Requests of clients ----------------------------------------------------------------------------------

    def create_topic(self, topic: str, queues: int, *, begin: int = 0) -> None:
        for queue_id in range(queues):
            queue = self.queues.setdefault((topic, queue_id), Queue(topic, queue_id, begin))
            self.changed[topic, queue_id] = queue
        self.seq += 1

    def topic_queues(self, topic: str) -> list[Queue]:
        return [queue for (name, _), queue in self.queues.items() if name == topic]

    def publish(
        self, topic: str, body: str, *, tag: str = "", keys: tuple[str, ...] = (), queue_id: int | None = None
    ) -> dict[str, Any]:
        if not self.topic_queues(topic):
            self.create_topic(topic, 4)
        queues = self.topic_queues(topic)
        queue = queues[next(self.robin) % len(queues)] if queue_id is None else self.queues[topic, queue_id]
        now = wall_ms()
        message = {
            "broker": "broker-a",
            "message_id": f"7F0000010000{next(self.ids):020X}",
            "topic": topic,
            "queue_id": queue.queue_id,
            "queue_offset": queue.max_offset,
            "physical_offset": self.seq * 200,
            "tag": tag,
            "keys": list(keys),
            "properties": {},
            "body": body,
            "body_encoding": "utf8",
            "store_time_ms": now,
        }
        queue.messages.append(message)
        queue.last_store_time_ms = now
        self.changed[topic, queue.queue_id] = queue
        self._count("messages_stored", "messages_dispatched")
        self.counters["bytes_stored"] += len(body) + 120
        for hold in list(queue.holds.values()):
            if accepts(hold.filter, tag):
                self.end(hold, "arrival", wake_us=int(random.lognormvariate(4.9, 0.45)))
            else:
                self._count("pulls_passed_over")
        return message

    def happen(self, event: dict[str, Any]) -> None:
        """Adds an event of a client or a group."""
        self.seq += 1
        event = {"seq": self.seq, "wall_ms": wall_ms(), "mono_ns": 1} | event
        self.client_events = [*self.client_events, event]
        self.new_client_events.append(event)

    def pull(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        *,
        wait_ms: int,
        group: str,
        client_id: str,
        protocol: str = "websocket",
        expression: str = "*",
    ) -> tuple[Hold | None, dict[str, Any] | None]:
        """(hold, None) if the pull is held, otherwise (None, answer)."""
        queue = self.queues[topic, queue_id]
        self._count("pulls_received", "pulls_read")
        if offset != queue.max_offset or wait_ms == 0:
            self._count("pulls_answered_at_once")
            return None, self.read(queue, offset, expression)
        now = wall_ms()
        wait = wait_ms if self.long_polling_enable else 1000
        hold = Hold(
            next(self.ids),
            queue,
            offset,
            group,
            client_id,
            protocol,
            expression,
            now,
            now + wait,
            queue.max_offset,
            asyncio.get_running_loop().create_future(),
        )
        self.holds[hold.id] = queue.holds[hold.id] = self.added[hold.id] = hold
        self.changed[topic, queue_id] = queue
        self._count("pulls_held")
        return hold, None

    def read(self, queue: Queue, offset: int, expression: str) -> dict[str, Any]:
        answer: dict[str, Any] = {
            "messages": [],
            "next_offset": str(offset),
            "min_offset": str(queue.min_offset),
            "max_offset": str(queue.max_offset),
            "hold": None,
        }
        if not queue.min_offset <= offset <= queue.max_offset:
            return answer | {"status": "offset_moved", "next_offset": str(queue.max_offset)}
        if offset == queue.max_offset:
            return answer | {"status": "no_new"}
        new = queue.messages[offset - queue.min_offset :]
        found = [message for message in new if accepts(expression, message["tag"])]
        self.counters["messages_delivered"] += len(found)
        return answer | {
            "status": "found" if found else "no_match",
            "messages": found,
            "next_offset": str(queue.max_offset),
        }

    def end(self, hold: Hold, cause: str, *, wake_us: int = 0) -> None:
        """Ends a hold with an answer, or releases it if its client is gone."""
        if self.holds.pop(hold.id, None) is None:
            return
        hold.queue.holds.pop(hold.id, None)
        if self.added.pop(hold.id, None) is None:
            self.removed.append(hold.id)
        self.changed[hold.queue.topic, hold.queue.queue_id] = hold.queue
        held_ms = wall_ms() - hold.suspended_at_ms
        answer = self.read(hold.queue, hold.offset, hold.filter)
        released = cause in ("channel_gone", "cancelled", "refused")
        self._count("released" if released else f"woken_{cause}")
        self.held_counts[bisect_right(HELD_BOUNDS, held_ms)] += 1
        if wake_us:
            self.wake_counts[bisect_right(WAKE_BOUNDS, wake_us)] += 1
        wakeup = {
            "seq": self.seq,
            "wall_ms": wall_ms(),
            "hold_id": hold.id,
            "topic": hold.queue.topic,
            "queue_id": hold.queue.queue_id,
            "group": hold.group,
            "client_id": hold.client_id,
            "cause": cause,
            "held_us": held_ms * 1000 + 137,
            "wake_us": wake_us,
            "messages": len(answer["messages"]),
        }
        self.wakeups.append(wakeup)
        self.new_wakeups.append(wakeup)
        if not hold.ended.done():
            hold.ended.set_result(answer | {"hold": {"id": hold.id, "held_ms": held_ms, "wake_cause": cause}})

    def _count(self, *names: str) -> None:
        self.seq += 1
        for name in names:
            self.counters[name] += 1
        self.counters["holds_now"] = len(self.holds)

    # --- Frames for the pages ------------------------------------------------------------------------------------

    def absolutes(self) -> dict[str, Any]:
        return {
            "broker": "broker-a",
            "epoch": self.epoch,
            "wall_ms": wall_ms(),
            "long_polling_enable": self.long_polling_enable,
            "problem": self.problem,
            "counters": {**self.counters, "holds_now": len(self.holds)},
            "wakeup_us": {"bounds": WAKE_BOUNDS, "counts": self.wake_counts[:]},
            "held_ms": {"bounds": HELD_BOUNDS, "counts": self.held_counts[:]},
        }

    def snapshot(self) -> dict[str, Any]:
        return self.absolutes() | {
            "type": "snapshot",
            "seq": self.told_seq,
            "short_polling_time_mills": 1000,
            "holds_total": len(self.holds),
            "holds": [hold.view() for hold in list(self.holds.values())[:1000]],
            "queues_total": len(self.queues),
            "queues": [queue.view() for queue in self.queues.values()],
            "wakeups": list(self.wakeups),
            "client_events": self.client_events,
            "positions": {"min": 0, "appended": 0, "flushed": 0, "dispatched": 0},
        }

    def tell(self, *, gap: int = 0) -> None:
        """Sends every page the changes since the last call; at least one frame every 2 s."""
        something = self.seq > self.told_seq or self.changed
        if self.quiet or (not something and not gap and time.monotonic() - self.told_at < 2):
            return
        self.seq += gap
        delta = self.absolutes() | {
            "type": "delta",
            "seq_from": self.told_seq + 1 + gap,
            "seq_to": self.seq,
            "holds": {
                "added": [hold.view() for hold in self.added.values()],
                "removed": self.removed,
                "total": len(self.holds),
            },
            "queues": {"changed": [queue.view() for queue in self.changed.values()], "removed": []},
            "wakeups": self.new_wakeups[-100:],
            "client_events": self.new_client_events,
            "dropped": max(0, len(self.new_wakeups) - 100),
        }
        self.told_seq = self.seq
        self._forget_changes()
        for watcher in self.watchers:
            watcher.put_nowait(delta)

    def say(self, frame: dict[str, Any]) -> None:
        for watcher in self.watchers:
            watcher.put_nowait(frame)

    def tick(self) -> None:
        """Ends holds whose deadline passed, and those whose filter has rejected messages for a minute."""
        now = wall_ms()
        for hold in [hold for hold in self.holds.values() if hold.deadline_ms <= now]:
            self.end(hold, "timeout" if self.long_polling_enable else "short_poll")
        for hold in [
            hold
            for hold in self.holds.values()
            if hold.queue.max_offset > hold.offset and now - (hold.queue.last_store_time_ms or now) > 60_000
        ]:
            self.end(hold, "filter_advanced")
