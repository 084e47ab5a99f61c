"""The engine's events for watchers: coalesced to deltas at most ten times a second, and as raw events.

While there is no watcher, it does not listen to events. For deltas, a dispatched message costs a dictionary look-up and
a few assignments; only events of holds, topics and clients are built. Views of holds, queues and wake-ups are made when
a delta is due, limited in number by the constants below. Deltas that cost much are made less often.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from heapq import merge
from operator import attrgetter, itemgetter
from time import thread_time

import msgspec

from bridge.limits import Limits
from bridge.port import Delta, EventBatch
from broker_core.clock import Clock
from broker_core.commands import HoldView
from broker_core.engine import Engine
from broker_core.event_log import Note, build_event
from broker_core.events import (
    CLIENT_EVENTS,
    RETRY_EVENTS,
    Event,
    MessagesDispatched,
    PullHeld,
    PullReleased,
    PullWoken,
    SegmentDeleted,
    TopicChanged,
)
from broker_core.processors.observe import wake_up

MAX_HOLDS = 500
MAX_WAKEUPS = 200
MAX_QUEUES = 500
MAX_EVENTS = 1000
MAX_CLIENT_EVENTS = 200
MAX_RETRY_EVENTS = 100
MOST_OF_CORE = 0.02
"""The share of a processor that deltas may take; heartbeats may take more."""
Queue = tuple[str, int]
_DISPATCHED_QUEUE = itemgetter(
    *(MessagesDispatched.__struct_fields__.index(name) - len(Event.__struct_fields__) for name in ("topic", "queue_id"))
)
"""The queue among the fields of a note. They are those after the fields that all events have."""
_encode_json = msgspec.json.Encoder().encode


class EventFanout:
    """Collects the events of one engine. ``deliver`` is called on the loop with the delta, the event batch, or both."""

    def __init__(
        self, engine: Engine, clock: Clock, limits: Limits, deliver: Callable[[Delta | None, EventBatch | None], None]
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._limits = limits
        self._deliver = deliver
        self._deltas = False
        self._events = False
        self._timer: asyncio.TimerHandle | None = None
        self._snapshots = 0  # requested and not answered yet
        self._reports_all_removals = False  # whether a page's snapshot falls into this interval
        self._reset(engine.events.seq)
        self._raw_events: list[Event] = []
        self._raw_events_dropped = 0
        self._handlers: dict[type[Event], Callable[[Event], None]] = {
            PullHeld: self._add_hold,
            PullWoken: self._remove_hold,
            PullReleased: self._remove_hold,
            TopicChanged: self._mark_topic,
            SegmentDeleted: self._mark_all_queues,
            **dict.fromkeys(CLIENT_EVENTS, self._add_client_event),
            **dict.fromkeys(RETRY_EVENTS, self._add_retry_event),
        }

    def _reset(self, seq: int) -> None:
        """Begin a new interval after event ``seq``."""
        self._seq_from = seq + 1
        self._seq = seq
        self._sent_ns = self._clock.mono_ns()
        self._dropped = 0
        self._added: dict[int, PullHeld] = {}
        self._removed: list[int] = []
        self._changed_queues: dict[Queue, None] = {}
        self._removed_queues: dict[Queue, None] = {}
        self._wakeups: deque[PullWoken | PullReleased] = deque(maxlen=MAX_WAKEUPS)
        self._client_events: deque[Event] = deque(maxlen=MAX_CLIENT_EVENTS)
        self._retry_events: deque[Event] = deque(maxlen=MAX_RETRY_EVENTS)
        self._reports_all_removals = self._snapshots > 0

    # --- Watchers ---

    def watch(self, *, deltas: bool, events: bool) -> None:
        """Set what at least one watcher watches from now on."""
        log = self._engine.events
        if deltas and not self._deltas:
            self._reset(log.seq)
            log.record_to(self._on_notes)
        elif self._deltas and not deltas:
            log.unlisten(self._on_notes)
        if events and not self._events:
            log.listen(self._on_events)
        elif self._events and not events:
            log.unlisten(self._on_events)
            self._raw_events, self._raw_events_dropped = [], 0
        self._deltas, self._events = deltas, events
        if not (deltas or events):
            self.stop()
        elif self._timer is None:
            self._wait(self._limits.delta_ms / 1000)

    def stop(self) -> None:
        """Stop listening, because there is no watcher any more."""
        self._deltas = self._events = False
        self._engine.events.unlisten(self._on_notes)
        self._engine.events.unlisten(self._on_events)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def snapshot_asked(self) -> None:
        """Note that a snapshot was requested, which will be taken in this interval or a later one.

        A delta normally leaves out a hold that begins and ends within its interval. The snapshot may contain such a
        hold, so every removal is reported until the end of the interval in which the snapshot is taken.
        """
        self._snapshots += 1
        self._reports_all_removals = True

    def snapshot_answered(self) -> None:
        self._snapshots = max(0, self._snapshots - 1)

    # --- Collecting ---

    def _on_notes(self, turn: Sequence[Note]) -> None:
        self._seq = self._engine.events.seq
        handlers = self._handlers
        for seq, note in enumerate(turn, self._seq - len(turn) + 1):
            kind = note.kind
            if kind is MessagesDispatched:
                self._mark_queue(*_DISPATCHED_QUEUE(note.fields))
            elif handler := handlers.get(kind):
                handler(build_event(note, seq))

    def _on_events(self, events: Sequence[Event]) -> None:
        room = MAX_EVENTS - len(self._raw_events)
        self._raw_events += events[:room]
        self._raw_events_dropped += max(0, len(events) - room)

    def _add_hold(self, event: Event) -> None:
        assert isinstance(event, PullHeld)
        if len(self._added) < MAX_HOLDS:
            self._added[event.hold_id] = event
        else:
            self._dropped += 1
        self._mark_queue(event.topic, event.queue_id)

    def _remove_hold(self, event: Event) -> None:
        assert isinstance(event, PullWoken | PullReleased)
        was_added = self._added.pop(event.hold_id, None) is not None
        if not was_added or self._reports_all_removals:
            if len(self._removed) < MAX_HOLDS:
                self._removed.append(event.hold_id)
            else:
                self._dropped += 1
        if len(self._wakeups) == MAX_WAKEUPS:
            self._dropped += 1
        self._wakeups.append(event)
        self._mark_queue(event.topic, event.queue_id)

    def _add_client_event(self, event: Event) -> None:
        if len(self._client_events) == MAX_CLIENT_EVENTS:
            self._dropped += 1
        self._client_events.append(event)

    def _add_retry_event(self, event: Event) -> None:
        """Retries have their own list, so that many of them do not displace client events."""
        if len(self._retry_events) == MAX_RETRY_EVENTS:
            self._dropped += 1
        self._retry_events.append(event)

    def _mark_topic(self, event: Event) -> None:
        assert isinstance(event, TopicChanged)
        queues = [(event.topic, queue_id) for queue_id in range(max(event.read_queues, event.write_queues))]
        if event.action != "deleted":
            self._mark_queues(queues)
            return
        for queue in queues:
            self._changed_queues.pop(queue, None)
            self._removed_queues[queue] = None

    def _mark_all_queues(self, event: Event) -> None:
        """Mark every queue, because its min offset may have changed."""
        self._mark_queues(self._engine.queues())

    def _mark_queues(self, queues: Sequence[Queue]) -> None:
        """Mark many queues. Those that find no room are only counted."""
        for number, (topic, queue_id) in enumerate(queues):
            if len(self._changed_queues) == MAX_QUEUES and not self._removed_queues:
                self._dropped += len(queues) - number
                break
            self._mark_queue(topic, queue_id)

    def _mark_queue(self, topic: str, queue_id: int) -> None:
        key = (topic, queue_id)
        if queue_id < 0:  # a pop waits for any queue
            return
        if key not in self._changed_queues:
            if len(self._changed_queues) < MAX_QUEUES:
                self._changed_queues[key] = None
            else:
                self._dropped += 1
        self._removed_queues.pop(key, None)

    # --- Delivering ---

    def _wait(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._on_timer)

    def _on_timer(self) -> None:
        self._wait(self._limits.delta_ms / 1000)
        began = thread_time()
        silent_ms = (self._clock.mono_ns() - self._sent_ns) // 1_000_000
        has_events = self._seq >= self._seq_from
        delta = self._delta() if self._deltas and (has_events or silent_ms >= self._limits.heartbeat_ms) else None
        events = self._event_batch() if self._events and (self._raw_events or self._raw_events_dropped) else None
        if delta is not None or events is not None:
            self._deliver(delta, events)
        pause_s = min((thread_time() - began) / MOST_OF_CORE, self._limits.heartbeat_ms / 1000)
        if self._timer is not None and pause_s > self._limits.delta_ms / 1000:
            self._wait(pause_s)

    def _delta(self) -> Delta:
        engine, counters = self._engine, self._engine.counters
        broker = engine.options.broker_name
        delta = Delta(
            broker=broker,
            epoch=engine.epoch,
            seq_from=self._seq_from,
            seq_to=self._seq,
            wall_ms=self._clock.now().wall_ms,
            holds_added=[_hold_view(broker, event) for event in self._added.values()],
            holds_removed=self._removed,
            holds_total=engine.hold_count,
            queues=[engine.queue_view(*key) for key in self._changed_queues],
            queues_removed=list(self._removed_queues),
            wakeups=[wake_up(event) for event in self._wakeups],
            client_events=[
                msgspec.to_builtins(event)
                for event in merge(self._client_events, self._retry_events, key=attrgetter("seq"))
            ],
            counters=counters.as_dict(),
            wakeup_us=counters.wakeup_us.view(),
            held_ms=counters.held_ms.view(),
            long_polling_enable=engine.options.long_polling_enable,
            problem=engine.problem,
            dropped=self._dropped,
        )
        self._reset(self._seq)
        return delta

    def _event_batch(self) -> EventBatch:
        events, dropped = self._raw_events, self._raw_events_dropped
        self._raw_events, self._raw_events_dropped = [], 0
        return EventBatch(
            broker=self._engine.options.broker_name,
            epoch=self._engine.epoch,
            dropped=dropped,
            events=[(event.seq, str(event.__struct_config__.tag), _encode_json(event)) for event in events],
        )


def _hold_view(broker: str, event: PullHeld) -> HoldView:
    return HoldView(
        broker=broker,
        id=event.hold_id,
        topic=event.topic,
        queue_id=event.queue_id,
        group=event.group,
        client_id=event.client_id,
        protocol=event.protocol,
        pull_from_offset=event.pull_from_offset,
        queue_max_offset=event.queue_max_offset,
        suspended_at_ms=event.wall_ms,
        deadline_ms=event.deadline_ms,
        filter=event.filter,
        waits_for=event.waits_for,
    )
