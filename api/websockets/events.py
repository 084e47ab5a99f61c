"""``/ws/v1/events``: a snapshot of the broker, then coalesced deltas. The dashboard reads it."""

import asyncio
from collections.abc import Callable, Hashable
from typing import Any

from api.http import brokers
from api.http.asgi import Receive, Scope, Send
from api.http.limits import MAX_WAITING_FRAMES
from api.http.problems import Problem
from api.http.request import ask
from api.http.schemas import copied
from api.websockets.frames import (
    PANELS,
    DeltaFrame,
    EventsRequest,
    HoldChanges,
    Lost,
    Ping,
    Pong,
    QueueChanges,
    SnapshotFrame,
    SnapshotRequest,
    SubscribePanels,
)
from api.websockets.socket import EncodedFrame, Socket
from bridge.port import BrokerError, Delta, EventBatch, commands

_RETRY_S = 0.5


class SharedFrames:
    """The frames of one delta, each encoded once for all pages that get the same frame.

    A delta is handed to all pages in one turn of the event loop. Afterwards its frames are forgotten.
    """

    def __init__(self) -> None:
        self._delta: Delta | None = None
        self._frames: dict[Hashable, EncodedFrame] = {}

    def frame(self, delta: Delta, key: Hashable, encode: Callable[[], EncodedFrame]) -> EncodedFrame:
        """The frame of ``delta`` for pages with this ``key``; ``encode`` makes it for the first one."""
        if self._delta is not delta:
            if self._delta is None:
                asyncio.get_running_loop().call_soon(self._forget)
            self._delta, self._frames = delta, {}
        frame = self._frames.get(key)
        if frame is None:
            frame = self._frames[key] = encode()
        return frame

    def _forget(self) -> None:
        self._delta, self._frames = None, {}


_shared_frames = SharedFrames()


class EventsSocket(Socket):
    """One page. Deltas that arrive before its snapshot, or precede it, are not sent."""

    requests = EventsRequest
    max_frames = MAX_WAITING_FRAMES

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(scope, receive, send)
        self._wanted = SubscribePanels()
        self._snapshot_task: asyncio.Task[None] | None = None
        self._epoch = -1
        self._seq = -1
        self._unwatch: Any = None

    async def opened(self) -> None:
        self._ask_for_snapshot()

    def busy(self) -> bool:
        return True

    def closed(self) -> None:
        if self._unwatch is not None:
            self._unwatch()

    async def handle(self, request: Any, size: int) -> None:
        match request:
            case SnapshotRequest():
                self._ask_for_snapshot()
            case SubscribePanels():
                _check_panels(request.panels)
                self._wanted = request
                self._ask_for_snapshot()
            case Ping():
                self.put(Pong(id=request.id))

    # The stream

    def _ask_for_snapshot(self) -> None:
        """Request a snapshot, unless one is under way. No deltas are sent until it is sent."""
        self._seq = -1
        if self._snapshot_task is None or self._snapshot_task.done():
            self._snapshot_task = self.start(self._snapshot(), "snapshot")

    async def _snapshot(self) -> None:
        """Send a snapshot as soon as the engine returns one."""
        is_reported = False
        while True:
            try:
                port = brokers.first_broker(self.broker_asked).port
                if self._unwatch is None:
                    self._unwatch = port.watch(self, deltas=True)
                snapshot = await ask(port, commands.GetSnapshot(), commands.Snapshot)
                break
            except (BrokerError, Problem) as error:
                if not is_reported:
                    self.put(Lost(reason=str(error)))
                    is_reported = True
                await asyncio.sleep(_RETRY_S)
        self._epoch, self._seq = snapshot.epoch, snapshot.seq
        self.put(self._narrowed_snapshot(snapshot))

    def on_delta(self, delta: Delta) -> None:
        """Send the delta if it is above the snapshot. After a gap or an engine's restart a new snapshot is sent."""
        if self._seq < 0:
            return
        if delta.epoch != self._epoch or delta.seq_from > self._seq + 1:
            self._ask_for_snapshot()
        elif delta.seq_to > self._seq or delta.seq_from > delta.seq_to:
            self.put_encoded(self._encoded_delta(delta))
            self._seq = delta.seq_to

    def on_events(self, batch: EventBatch) -> None:
        """Never called: this socket watches deltas alone."""

    def on_lost(self, reason: str) -> None:
        self.put(Lost(reason=reason))
        self._ask_for_snapshot()

    def _encoded_delta(self, delta: Delta) -> EncodedFrame:
        """The delta's frame for this page. Pages with the same panels share it.

        A page has a frame of its own if it asked for one topic or group, or if its snapshot has a part of the delta.
        """

        def encode() -> EncodedFrame:
            return self.encoded(self._narrowed_delta(delta))

        if self._is_narrowed or self._seq + 1 != delta.seq_from:
            return encode()
        return _shared_frames.frame(delta, (frozenset(self._wanted.panels), self.int64_as_text), encode)

    # Narrowed to the panels, topic and group of this page

    def _narrowed_snapshot(self, snapshot: commands.Snapshot) -> SnapshotFrame:
        return copied(
            SnapshotFrame,
            snapshot,
            holds=self._holds(snapshot.holds),
            queues=self._queues(snapshot.queues),
            wakeups=self._wakeups(snapshot.wakeups),
            client_events=self._client_events(snapshot.client_events),
            counters=snapshot.counters if "counters" in self._wanted.panels else {},
        )

    def _narrowed_delta(self, delta: Delta) -> DeltaFrame:
        return DeltaFrame(
            broker=delta.broker,
            epoch=delta.epoch,
            seq_from=self._seq + 1,
            seq_to=delta.seq_to,
            wall_ms=delta.wall_ms,
            wakeup_us=delta.wakeup_us,
            wakeups=self._wakeups([wakeup for wakeup in delta.wakeups if wakeup.seq > self._seq]),
            client_events=self._client_events([event for event in delta.client_events if event["seq"] > self._seq]),
            held_ms=delta.held_ms,
            long_polling_enable=delta.long_polling_enable,
            problem=delta.problem,
            dropped=delta.dropped,
            counters=delta.counters if "counters" in self._wanted.panels else {},
            holds=HoldChanges(
                added=self._holds(delta.holds_added),
                total=delta.holds_total,
                removed=delta.holds_removed if "holds" in self._wanted.panels else [],
            ),
            queues=QueueChanges(
                changed=self._queues(delta.queues),
                removed=delta.queues_removed if "queues" in self._wanted.panels else [],
            ),
        )

    def _holds(self, holds: list[commands.HoldView]) -> list[commands.HoldView]:
        if "holds" not in self._wanted.panels:
            return []
        return [hold for hold in holds if self._is_wanted(hold.topic, hold.group)] if self._is_narrowed else holds

    def _queues(self, queues: list[commands.QueueView]) -> list[commands.QueueView]:
        if "queues" not in self._wanted.panels:
            return []
        return [queue for queue in queues if self._is_wanted(queue.topic)] if self._wanted.topic else queues

    def _wakeups(self, wakeups: list[commands.WakeUp]) -> list[commands.WakeUp]:
        if "wakeups" not in self._wanted.panels:
            return []
        return (
            [wakeup for wakeup in wakeups if self._is_wanted(wakeup.topic, wakeup.group)]
            if self._is_narrowed
            else wakeups
        )

    def _client_events(self, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """With a group, the events that name it; with a topic, those that name no other topic."""
        wanted = self._wanted
        if "clients" not in wanted.panels:
            return []
        return [
            event
            for event in events
            if wanted.topic in ("", event.get("topic", wanted.topic)) and wanted.group in ("", event.get("group"))
        ]

    @property
    def _is_narrowed(self) -> bool:
        return bool(self._wanted.topic or self._wanted.group)

    def _is_wanted(self, topic: str, group: str | None = None) -> bool:
        wanted = self._wanted
        return wanted.topic in ("", topic) and (group is None or wanted.group in ("", group))


def _check_panels(panels: list[str]) -> None:
    for index, panel in enumerate(panels):
        if panel not in PANELS:
            raise Problem(
                400, f"there is no panel {panel!r}; the panels are {', '.join(PANELS)}", pointer=f"/panels/{index}"
            )


async def events_application(scope: Scope, receive: Receive, send: Send) -> None:
    """The ASGI application of one page's WebSocket."""
    await EventsSocket(scope, receive, send).run()
