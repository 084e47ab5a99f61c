"""``GET /api/v1/events``: every event as it happens, as server-sent events.

A reader that reconnects continues after its last event, as far back as the engine's ring reaches.
"""

import asyncio
import contextlib
import re
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from api.http import brokers
from api.http.limits import FRAME_OVERHEAD, MAX_WAITING_EVENTS
from api.http.names import OptionalGroupName, OptionalTopicName
from api.http.outbox import Outbox
from api.http.problems import Problem
from api.http.request import Params, Request, ask
from api.http.routes import Header, Route
from api.http.schemas import with_int64_as_text
from api.http.session_watch import watch_session
from bridge.port import BrokerError, Delta, EnginePort, EventBatch, commands, event_types, start_task

HEARTBEAT_S = 10.0
_LAST_EVENT_ID = re.compile(r"^(\d{1,19})-(\d{1,19})$")
_HEADERS = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
_PAGE = 1000


class EventsParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    types: Annotated[
        str,
        Meta(
            pattern=r"^[a-z_,]{0,500}$(?!\n)",
            description="Only these types, separated by commas: `pull_held,pull_woken`.",
        ),
    ] = ""
    topic: OptionalTopicName = ""
    group: OptionalGroupName = ""


def requested_types(types: str) -> frozenset[str]:
    """The event types that ``types`` names, separated by commas; empty for all. Problem 400 for an unknown one."""
    requested = frozenset(filter(None, types.split(",")))
    unknown = sorted(requested - event_types())
    if unknown:
        raise Problem(
            400,
            f"there is no event type {unknown[0]}; the types are {', '.join(sorted(event_types()))}",
            pointer="/types",
        )
    return requested


class EventStream:
    """One reader. A reader that is too slow is cut off: see ``Outbox``."""

    def __init__(self, request: Request[EventsParams]) -> None:
        self._params: EventsParams = request.params
        self._types = requested_types(request.params.types)
        self._scope = request.scope
        self._receive = request.receive
        self._ended = asyncio.Event()
        self._epoch = -1
        self._seq = 0
        self._early: list[EventBatch] | None = []
        self._outbox = Outbox(request.scope, request.send, self._slow, max_frames=MAX_WAITING_EVENTS)

    # A watcher

    def on_delta(self, delta: Delta) -> None:
        """Deltas are for pages."""

    def on_events(self, batch: EventBatch) -> None:
        if self._early is not None:  # events of the ring are still being sent
            self._early.append(batch)
            return
        if batch.epoch != self._epoch:
            self._epoch, self._seq = batch.epoch, 0
        if batch.dropped:
            self._put("lost", f"{batch.dropped} events were dropped before they reached this reader")
        for seq, kind, data in batch.events:
            if seq > self._seq:
                self._seq = seq
                self._event(seq, kind, data)

    def on_lost(self, reason: str) -> None:
        self._put("lost", reason)

    # The stream

    async def run(self, port: EnginePort, last_event_id: str) -> None:
        stop = port.watch(self, events=True)
        unwatch_session = watch_session(self._scope, self._ended.set)
        tasks = [
            start_task(work, f"{name} of an event stream", on_failure=lambda error: self._ended.set())
            for name, work in {
                "writer": self._outbox.run(),
                "disconnect": self._client_gone(),
                "heartbeats": self._heartbeats(),
            }.items()
        ]
        try:
            await self._catch_up(port, last_event_id)
            await self._ended.wait()
        finally:
            stop()
            unwatch_session()
            for task in tasks:
                task.cancel()

    async def _catch_up(self, port: EnginePort, last_event_id: str) -> None:
        """Send the ring's events after the last one that the reader saw, then those that arrived meanwhile."""
        events = await ask(port, commands.GetEvents(after=1 << 62, limit=1), commands.Events)
        self._epoch, self._seq = events.epoch, events.seq
        match = _LAST_EVENT_ID.match(last_event_id)
        if match is not None and int(match[1]) == events.epoch:
            await self._replay(port, int(match[2]), events.seq)
        elif match is not None:
            self._put("lost", "the engine was restarted since")
        early, self._early = self._early or [], None
        for batch in early:
            self.on_events(batch)

    async def _replay(self, port: EnginePort, after: int, until: int) -> None:
        while after < until:
            events = await ask(port, commands.GetEvents(after=after, limit=_PAGE), commands.Events)
            if events.first_seq > after + 1:
                self._put("lost", f"{events.first_seq - after - 1} events are no longer in the ring")
            if not events.events:
                break
            for event in events.events:
                after = int(event["seq"])
                self._event(after, event["type"], msgspec.json.encode(event))
            await self._outbox.room()
        self._seq = max(after, until)

    async def _client_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._ended.set()

    async def _heartbeats(self) -> None:
        """Send comments, so that proxies and readers see that the stream is alive."""
        self._send(b": the stream begins\n\n")
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            self._send(b":\n\n")

    def _slow(self, reason: str) -> None:
        self._ended.set()

    def _event(self, seq: int, kind: str, data: bytes) -> None:
        if self._types and kind not in self._types:
            return
        if self._params.topic or self._params.group or self._params.int64 == "string":
            event: dict[str, Any] = msgspec.json.decode(data)
            if self._params.topic and event.get("topic") != self._params.topic:
                return
            if self._params.group and event.get("group") != self._params.group:
                return
            if self._params.int64 == "string":
                data = msgspec.json.encode(with_int64_as_text(event))
        self._send(b"id: %d-%d\nevent: %s\ndata: %s\n\n" % (self._epoch, seq, kind.encode("ascii"), data))

    def _put(self, kind: str, reason: str) -> None:
        self._send(b"event: %s\ndata: %s\n\n" % (kind.encode("ascii"), msgspec.json.encode({"reason": reason})))

    def _send(self, data: bytes) -> None:
        self._outbox.put({"type": "http.response.body", "body": data, "more_body": True}, len(data) + FRAME_OVERHEAD)


async def stream_events(request: Request[EventsParams]) -> None:
    """Events from now on, or those after `Last-Event-ID`."""
    requested_types(request.params.types)  # refused before the status is sent
    port = (await brokers.single_broker(request.params.broker)).port
    await ask(port, commands.GetEvents(after=1 << 62, limit=1), commands.Events)  # a refusal must precede the status
    await request.send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    with contextlib.suppress(BrokerError, Problem):  # an error while the ring is read ends the stream
        await EventStream(request).run(port, request.header(b"last-event-id"))
    await request.send({"type": "http.response.body", "body": b"", "more_body": False})


LAST_EVENT_ID = Header("Last-Event-ID", "Id of the last event that was received; the stream continues after it.")

ROUTES = (
    Route(
        method="GET",
        path="/api/v1/events",
        handler=stream_events,
        group="Observing",
        summary="Events as they happen (server-sent events)",
        params=EventsParams,
        response_type="text/event-stream",
        headers=(LAST_EVENT_ID,),
        streaming=True,
        problems=(504,),
    ),
)
