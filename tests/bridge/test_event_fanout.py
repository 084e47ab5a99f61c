import asyncio
import json
from typing import Any

import msgspec
import pytest

from bridge import event_fanout
from bridge.event_fanout import EventFanout
from bridge.limits import Limits
from bridge.port import Delta, EventBatch
from broker_core.commands import (
    CancelPull,
    ConsumerSendMsgBack,
    DeleteTopic,
    GetSnapshot,
    OpenConnection,
    UpdateAndCreateTopic,
    UpdateBrokerConfig,
)
from broker_core.event_log import Note, build_event
from broker_core.events import Event
from tests.fakes.engine import Bench, send

SLOW = Limits(delta_ms=3_600_000)  # tests call the timer themselves


class Fanout:
    """A fan-out of an engine on a virtual clock; its timer is called by hand."""

    def __init__(self, **options: Any) -> None:
        self.bench = Bench(**options)
        self.deltas: list[Delta] = []
        self.events: list[EventBatch] = []
        self.fanout = EventFanout(self.bench.engine, self.bench.clock, SLOW, self._deliver)

    def _deliver(self, delta: Delta | None, events: EventBatch | None) -> None:
        if delta is not None:
            self.deltas.append(delta)
        if events is not None:
            self.events.append(events)

    def due(self) -> None:
        self.fanout._on_timer()

    def delta(self) -> Delta:
        self.due()
        return self.deltas[-1]


@pytest.fixture
async def fanout() -> Any:
    fanout = Fanout()
    fanout.bench.send("t", b"first")
    fanout.fanout.watch(deltas=True, events=False)
    yield fanout
    fanout.fanout.stop()


async def test_a_delta_contains_the_changes_since_the_previous_one(fanout: Fanout) -> None:
    bench = fanout.bench
    kept, woken = bench.pull("t", 9), bench.pull("t", 1, consumer_group="h")
    first = fanout.delta()
    assert {hold.pull_from_offset for hold in first.holds_added} >= {1}
    holds = {hold.group: hold for hold in bench.engine.snapshot(bench.clock.now()).holds}
    assert [hold for hold in first.holds_added if hold.group == "h"] == [holds["h"]]
    bench.send("t", b"second")
    second = fanout.delta()
    assert second.seq_from == first.seq_to + 1
    assert second.seq_to == bench.engine.events.seq
    assert second.holds_added == []
    assert second.holds_removed == [holds["h"].id]
    assert [(wakeup.cause, wakeup.group, wakeup.messages) for wakeup in second.wakeups] == [("arrival", "h", 1)]
    ((topic, queue_id, max_offset),) = [(queue.topic, queue.queue_id, queue.max_offset) for queue in second.queues]
    assert (topic, queue_id, max_offset) == ("t", 0, 2)
    assert second.counters["messages_stored"] == 2
    assert second.holds_total == len(bench.context.holds)
    assert bench.final(woken) is not None
    assert kept


async def test_a_short_hold_is_left_out_but_its_wake_up_is_not(fanout: Fanout) -> None:
    request_id = fanout.bench.pull("t", 1)
    fanout.bench.submit(CancelPull(request_id=request_id))
    delta = fanout.delta()
    assert (delta.holds_added, delta.holds_removed) == ([], [])
    assert [wakeup.cause for wakeup in delta.wakeups] == ["cancelled"]


async def test_a_removal_after_a_snapshot_is_reported(fanout: Fanout) -> None:
    """hold, snapshot, wake-up in one interval: the page has the hold, and must hear that it went."""
    bench = fanout.bench
    bench.pull("t", 1)
    fanout.fanout.snapshot_asked()
    snapshot: Any = bench.call(GetSnapshot())
    fanout.fanout.snapshot_answered()
    bench.send("t", b"second")
    assert fanout.delta().holds_removed == [hold.id for hold in snapshot.holds]
    request_id = bench.pull("t", 2)
    bench.submit(CancelPull(request_id=request_id))
    assert fanout.delta().holds_removed == []


async def test_without_events_there_are_only_heartbeats(fanout: Fanout) -> None:
    fanout.bench.send("t", b"second")
    before = fanout.delta()
    fanout.due()
    assert len(fanout.deltas) == 1
    fanout.bench.clock.advance(SLOW.heartbeat_ms)
    heartbeat = fanout.delta()
    assert len(fanout.deltas) == 2
    assert (heartbeat.seq_from, heartbeat.seq_to) == (before.seq_to + 1, before.seq_to)
    assert heartbeat.queues == []


async def test_lists_are_limited_and_left_out_entries_are_counted(
    fanout: Fanout, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MAX_HOLDS", "MAX_QUEUES"):
        monkeypatch.setattr(event_fanout, name, 5)
    monkeypatch.setattr(event_fanout, "MAX_WAKEUPS", 4)
    fanout.delta() if fanout.deltas else fanout.fanout._reset(fanout.bench.engine.events.seq)
    for _ in range(8):
        fanout.bench.pull("t", 1)
    delta = fanout.delta()
    assert (len(delta.holds_added), delta.dropped, delta.holds_total) == (5, 3, 8)
    fanout.bench.send("t", b"second")
    delta = fanout.delta()
    assert (len(delta.holds_removed), len(delta.wakeups), delta.dropped) == (5, 4, 3 + 4)
    fanout.bench.call(UpdateAndCreateTopic(topic="wide", read_queues=7, write_queues=7))
    delta = fanout.delta()
    assert (len(delta.queues), delta.dropped) == (5, 2)


async def test_created_and_deleted_topics_change_the_queues(fanout: Fanout) -> None:
    bench = fanout.bench
    bench.call(UpdateAndCreateTopic(topic="u", read_queues=2, write_queues=3))
    assert [(queue.topic, queue.queue_id) for queue in fanout.delta().queues] == [("u", 0), ("u", 1), ("u", 2)]
    bench.call(DeleteTopic(topic="u"))
    delta = fanout.delta()
    assert (delta.queues, delta.queues_removed) == ([], [("u", 0), ("u", 1), ("u", 2)])
    bench.call(DeleteTopic(topic="t"))
    bench.call(UpdateAndCreateTopic(topic="t", read_queues=1, write_queues=1))
    delta = fanout.delta()
    assert ("t", 0) in [(queue.topic, queue.queue_id) for queue in delta.queues]
    assert ("t", 0) not in delta.queues_removed


async def test_every_delta_contains_long_polling_enable(fanout: Fanout) -> None:
    fanout.bench.call(UpdateBrokerConfig(changes={"longPollingEnable": False}))
    assert not fanout.delta().long_polling_enable


async def test_without_watchers_nothing_is_collected() -> None:
    fanout = Fanout()
    events = fanout.bench.engine.events
    assert not events._listeners
    fanout.fanout.watch(deltas=True, events=True)
    fanout.fanout.watch(deltas=True, events=False)
    assert not events._listeners
    assert len(events._recorders) == 1
    fanout.fanout.watch(deltas=False, events=False)
    assert not events._recorders
    fanout.bench.send("t", b"unseen")
    fanout.fanout.watch(deltas=True, events=False)
    fanout.bench.send("t", b"seen")
    delta = fanout.delta()
    assert delta.seq_to - delta.seq_from + 1 < events.seq
    fanout.fanout.stop()


async def test_raw_events_are_in_order_and_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_fanout, "MAX_EVENTS", 6)
    fanout = Fanout()
    fanout.fanout.watch(deltas=False, events=True)
    for _ in range(5):
        fanout.bench.call(send("t", b"x"))
    fanout.due()
    (batch,) = fanout.events
    total = fanout.bench.engine.events.seq
    assert len(batch.events) == 6
    assert batch.dropped == total - batch.events[0][0] + 1 - 6
    for seq, kind, text in batch.events:
        event = json.loads(text)
        assert (event["seq"], event["type"]) == (seq, kind)
    fanout.due()
    assert len(fanout.events) == 1
    assert fanout.deltas == []
    fanout.fanout.stop()


async def test_deltas_are_sent_periodically() -> None:
    fanout = Fanout()
    fanout.fanout._limits = msgspec.structs.replace(SLOW, delta_ms=20)
    came = asyncio.Event()
    fanout.fanout._deliver = lambda delta, events: came.set()
    fanout.fanout.watch(deltas=True, events=False)
    fanout.bench.send("t", b"x")
    async with asyncio.timeout(60):
        await came.wait()
    fanout.fanout.stop()


async def test_client_events_are_included_and_limited(fanout: Fanout, monkeypatch: pytest.MonkeyPatch) -> None:
    fanout.bench.call(OpenConnection(client_id="c-1", protocol="websocket", remote="10.0.0.1:5"), connection="w")
    first = fanout.delta()
    assert [(event["type"], event["client_id"]) for event in first.client_events] == [("client_connected", "c-1")]
    monkeypatch.setattr(event_fanout, "MAX_CLIENT_EVENTS", 2)
    fanout.bench.send("t", b"another")
    assert fanout.delta().client_events == []
    for number in range(3):
        fanout.bench.call(OpenConnection(client_id=f"x-{number}", protocol="websocket"), connection=number)
    second = fanout.delta()
    assert ([event["client_id"] for event in second.client_events], second.dropped) == (["x-1", "x-2"], 1)


async def test_retries_do_not_displace_client_events(fanout: Fanout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_fanout, "MAX_CLIENT_EVENTS", 2)
    monkeypatch.setattr(event_fanout, "MAX_RETRY_EVENTS", 3)
    fanout.bench.send("t", b"another")
    fanout.delta()
    fanout.bench.call(ConsumerSendMsgBack(group="g", physical_offset=0))
    fanout.delta()  # with it the group came
    fanout.bench.call(OpenConnection(client_id="c-1", protocol="websocket"), connection="w")
    for _ in range(5):
        fanout.bench.call(ConsumerSendMsgBack(group="g", physical_offset=0))
    fanout.bench.call(OpenConnection(client_id="c-2", protocol="websocket"), connection="v")
    found = fanout.delta()
    assert [event["type"] for event in found.client_events] == [
        "client_connected",
        *["message_sent_back"] * 3,
        "client_connected",
    ]
    assert found.dropped == 2
    assert [event["seq"] for event in found.client_events] == sorted(event["seq"] for event in found.client_events)


async def test_queues_that_find_no_room_are_counted_and_not_looked_at(
    fanout: Fanout, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[tuple[str, int]] = []
    mark = fanout.fanout._mark_queue

    def noted(topic: str, queue_id: int) -> None:
        looked_at.append((topic, queue_id))
        mark(topic, queue_id)

    monkeypatch.setattr(fanout.fanout, "_mark_queue", noted)
    for number in range(4):
        fanout.bench.call(UpdateAndCreateTopic(topic=f"large-{number}", read_queues=1024, write_queues=1024))
    assert len(looked_at) == event_fanout.MAX_QUEUES
    delta = fanout.delta()
    assert (len(delta.queues), delta.dropped) == (event_fanout.MAX_QUEUES, 4 * 1024 - event_fanout.MAX_QUEUES)


async def test_a_topic_that_was_deleted_and_created_again_is_not_removed_for_lack_of_room(
    fanout: Fanout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_fanout, "MAX_QUEUES", 4)
    fanout.bench.call(UpdateAndCreateTopic(topic="filler", read_queues=4, write_queues=4))
    fanout.bench.call(DeleteTopic(topic="t"))
    fanout.bench.call(UpdateAndCreateTopic(topic="t", read_queues=4, write_queues=4))
    assert fanout.delta().queues_removed == []


async def test_deltas_that_cost_much_are_made_less_often(fanout: Fanout, monkeypatch: pytest.MonkeyPatch) -> None:
    costs, used_s = iter((0.0, 0.002, 0.01, 9.0)), [0.0]
    waits: list[float] = []
    monkeypatch.setattr(fanout.fanout, "_limits", Limits(delta_ms=100, heartbeat_ms=2000))
    monkeypatch.setattr(event_fanout, "thread_time", lambda: used_s[0])
    monkeypatch.setattr(fanout.fanout, "_wait", waits.append)

    def deliver(delta: Delta | None, events: EventBatch | None) -> None:
        used_s[0] += next(costs)

    monkeypatch.setattr(fanout.fanout, "_deliver", deliver)
    for pauses in ([0.1], [0.1], [0.1, 0.5], [0.1, 2.0]):
        waits.clear()
        fanout.bench.send("t", b"x")
        fanout.due()
        assert waits == [pytest.approx(pause) for pause in pauses]


async def test_of_dispatched_messages_no_event_is_built_for_deltas(
    fanout: Fanout, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[str] = []

    def build(note: Note, seq: int) -> Event:
        built.append(note.kind.__name__)
        return build_event(note, seq)

    monkeypatch.setattr(event_fanout, "build_event", build)
    fanout.bench.send("t", b"second")
    assert built == []
    assert [(queue.topic, queue.max_offset) for queue in fanout.delta().queues] == [("t", 2)]
    fanout.bench.pull("t", 2)
    assert built == ["PullHeld"]
