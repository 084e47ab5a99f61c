"""Snapshot and deltas, as pages read them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from api.websockets import events as events_socket
from api.websockets.events import EventsSocket, events_application
from api.websockets.socket import EncodedFrame
from bridge.port import EventBatch, PortUnavailable, commands, set_port
from tests.fakes.fake_port import FakePort, delta, hold_view, queue_view, snapshot, wake_up
from tests.fakes.websocket import WebsocketCommunicator


@pytest.fixture
async def page(port: FakePort) -> AsyncIterator[WebsocketCommunicator]:
    socket = WebsocketCommunicator(events_application, "/ws/v1/events")
    await socket.connect()
    yield socket
    await socket.disconnect()


async def receive(page: WebsocketCommunicator, kind: str) -> dict[str, Any]:
    frame: dict[str, Any] = await page.receive_json_from()
    assert frame["type"] == kind
    return frame


async def test_a_snapshot_comes_first(page: WebsocketCommunicator) -> None:
    frame = await receive(page, "snapshot")
    assert set(frame) == {"type", *commands.Snapshot.__struct_fields__}
    assert (frame["seq"], len(frame["holds"]), frame["counters"]["messages_stored"]) == (41, 2, 9)


async def test_an_unknown_panel_is_refused_with_the_known_ones(page: WebsocketCommunicator) -> None:
    await receive(page, "snapshot")
    await page.send_json_to({"type": "subscribe", "panels": ["holds", "wakeup"]})
    (error,) = (await receive(page, "problem"))["errors"]
    assert error["pointer"] == "/panels/1" and "wakeups" in error["detail"]


async def test_a_delta_has_every_change(page: WebsocketCommunicator, port: FakePort) -> None:
    await receive(page, "snapshot")
    port.send_delta(
        delta(
            42,
            44,
            holds_added=[hold_view(3)],
            holds_removed=[1],
            holds_total=2,
            dropped=1,
            queues=[queue_view()],
            queues_removed=[("U", 0)],
            wakeups=[wake_up(43)],
            counters={"messages_stored": 10},
        )
    )
    assert await receive(page, "delta") == {
        "type": "delta",
        "broker": "broker-a",
        "epoch": 7,
        "seq_from": 42,
        "seq_to": 44,
        "wall_ms": 2,
        "holds": {
            "added": [
                {
                    "broker": "broker-a",
                    "id": 3,
                    "topic": "T",
                    "queue_id": 0,
                    "group": "G",
                    "client_id": "c",
                    "protocol": "http",
                    "pull_from_offset": 3,
                    "queue_max_offset": 3,
                    "suspended_at_ms": 1,
                    "deadline_ms": 2,
                    "filter": "*",
                    "waits_for": None,
                }
            ],
            "removed": [1],
            "total": 2,
        },
        "queues": {
            "changed": [
                {
                    "broker": "broker-a",
                    "topic": "T",
                    "queue_id": 0,
                    "min_offset": 0,
                    "max_offset": 5,
                    "last_store_time_ms": None,
                    "holds": 0,
                }
            ],
            "removed": [["U", 0]],
        },
        "wakeups": [
            {
                "seq": 43,
                "wall_ms": 1,
                "hold_id": 1,
                "topic": "T",
                "queue_id": 0,
                "group": "G",
                "client_id": "c",
                "cause": "arrival",
                "held_us": 5,
                "wake_us": 2,
                "messages": 1,
            }
        ],
        "client_events": [],
        "counters": {"messages_stored": 10},
        "wakeup_us": {"bounds": [10, 100], "counts": [1, 2, 3]},
        "held_ms": {"bounds": [10, 100], "counts": [1, 2, 3]},
        "long_polling_enable": True,
        "problem": "",
        "dropped": 1,
    }


async def test_a_delta_that_is_older_than_the_snapshot_is_not_sent(page: WebsocketCommunicator, port: FakePort) -> None:
    await receive(page, "snapshot")
    port.send_delta(delta(30, 41))
    port.send_delta(delta(42, 41))
    frame = await receive(page, "delta")
    assert (frame["seq_from"], frame["seq_to"]) == (42, 41)


async def test_a_delta_that_overlaps_the_snapshot_continues_from_it(
    page: WebsocketCommunicator, port: FakePort
) -> None:
    await receive(page, "snapshot")
    port.send_delta(delta(40, 45, wakeups=[wake_up(41), wake_up(43)]))
    frame = await receive(page, "delta")
    assert (frame["seq_from"], frame["seq_to"]) == (42, 45)
    assert [wakeup["seq"] for wakeup in frame["wakeups"]] == [43]
    port.send_delta(delta(46, 46))
    assert (await receive(page, "delta"))["seq_from"] == 46


@pytest.mark.parametrize("change", [delta(50, 60), delta(42, 43, epoch=8)])
async def test_a_snapshot_follows_a_gap_or_a_restart(page: WebsocketCommunicator, port: FakePort, change: Any) -> None:
    await receive(page, "snapshot")
    port.replies[commands.GetSnapshot] = snapshot(seq=60, epoch=8)
    port.send_delta(change)
    frame = await receive(page, "snapshot")
    assert (frame["seq"], frame["epoch"]) == (60, 8)


async def test_a_page_may_ask_for_a_snapshot_again(page: WebsocketCommunicator) -> None:
    await receive(page, "snapshot")
    await page.send_json_to({"type": "snapshot"})
    await receive(page, "snapshot")
    await page.send_json_to({"type": "ping"})
    assert await receive(page, "pong") == {"type": "pong"}


async def test_an_engine_that_goes_away_and_returns(
    page: WebsocketCommunicator, port: FakePort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_socket, "_RETRY_S", 0)
    await receive(page, "snapshot")
    answers = iter([PortUnavailable("away"), PortUnavailable("away"), snapshot(seq=1, epoch=8)])
    port.replies[commands.GetSnapshot] = lambda command: next(answers)
    port.watchers[0].on_lost("the engine stopped")
    assert await receive(page, "lost") == {"type": "lost", "reason": "the engine stopped"}
    assert (await receive(page, "lost"))["reason"] == "away"
    assert (await receive(page, "snapshot"))["epoch"] == 8


async def test_a_page_that_connects_before_the_engine(port: FakePort, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_socket, "_RETRY_S", 0)
    set_port(None)
    socket = WebsocketCommunicator(events_application, "/ws/v1/events")
    await socket.connect()
    await receive(socket, "lost")
    set_port(port)
    await receive(socket, "snapshot")
    await socket.disconnect()


@pytest.mark.parametrize(
    ("wanted", "holds", "queues", "wakeups", "counters"),
    [
        ({"panels": ["holds"]}, [1, 2], [], [], False),
        ({"panels": ["queues", "counters"]}, [], ["T", "U"], [], True),
        ({"topic": "T"}, [1], ["T"], [3], True),
        ({"group": "H"}, [2], ["T", "U"], [4], True),
        ({"topic": "T", "group": "H"}, [], ["T"], [], True),
        ({}, [1, 2], ["T", "U"], [3, 4], True),
    ],
)
async def test_a_page_gets_the_panels_that_it_asked_for(
    page: WebsocketCommunicator,
    port: FakePort,
    wanted: dict[str, Any],
    holds: list[int],
    queues: list[str],
    wakeups: list[int],
    counters: bool,
) -> None:
    await receive(page, "snapshot")
    await page.send_json_to({"type": "subscribe"} | wanted)
    frame = await receive(page, "snapshot")
    assert [hold["id"] for hold in frame["holds"]] == holds
    assert [queue["topic"] for queue in frame["queues"]] == queues
    assert [wakeup["seq"] for wakeup in frame["wakeups"]] == wakeups
    assert frame["counters"] == (snapshot().counters if counters else {})
    before = snapshot()
    port.send_delta(
        delta(
            42,
            50,
            holds_added=before.holds,
            queues=before.queues,
            counters=before.counters,
            wakeups=[wake_up(43), wake_up(44, topic="U", group="H")],
        )
    )
    frame = await receive(page, "delta")
    assert [hold["id"] for hold in frame["holds"]["added"]] == holds
    assert [queue["topic"] for queue in frame["queues"]["changed"]] == queues
    assert [wakeup["seq"] - 40 for wakeup in frame["wakeups"]] == wakeups
    assert frame["counters"] == (snapshot().counters if counters else {})


@pytest.mark.parametrize(
    "frame", [{"type": "subscribe", "panels": ["all"]}, {"type": "subscribe", "topic": "../x"}, {"type": "watch"}]
)
async def test_invalid_panels(page: WebsocketCommunicator, frame: dict[str, Any]) -> None:
    await receive(page, "snapshot")
    await page.send_json_to(frame)
    assert (await receive(page, "problem"))["status"] == 400


async def test_a_closed_page_is_no_longer_a_watcher(port: FakePort) -> None:
    socket = WebsocketCommunicator(events_application, "/ws/v1/events")
    await socket.connect()
    await receive(socket, "snapshot")
    assert len(port.watchers) == 1
    await socket.disconnect()
    assert port.watchers == []


async def test_a_page_that_does_not_read_is_closed(port: FakePort, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EventsSocket, "max_frames", 3)
    socket = WebsocketCommunicator(events_application, "/ws/v1/events")
    await socket.connect()
    await receive(socket, "snapshot")
    for number in range(4):  # none leaves, since nothing else runs meanwhile
        port.send_delta(delta(42 + number, 42 + number))
    closing = await socket.receive_output()
    assert (closing["type"], closing["code"]) == ("websocket.close", 4429)
    assert closing["reason"].endswith("bytes in 4 frames wait to be read")
    assert port.watchers == []


async def test_pages_ignore_single_events(page: WebsocketCommunicator, port: FakePort) -> None:
    await receive(page, "snapshot")
    port.send_events(EventBatch(broker="broker-a", epoch=7, events=[(42, "pull_held", b"{}")], dropped=0))
    port.send_delta(delta(42, 42))
    await receive(page, "delta")


JOINED = {"type": "group_member_joined", "seq": 40, "group": "G", "client_id": "c"}
TAKEN = {"type": "queue_taken", "seq": 41, "group": "H", "topic": "T", "queue_id": 0, "client_id": "c"}
CAME = {"type": "client_connected", "seq": 39, "client_id": "c"}


@pytest.mark.parametrize(
    ("wanted", "events"),
    [
        ({}, [CAME, JOINED, TAKEN]),
        ({"panels": ["clients"]}, [CAME, JOINED, TAKEN]),
        ({"panels": ["holds"]}, []),
        ({"group": "G"}, [JOINED]),
        ({"topic": "T"}, [CAME, JOINED, TAKEN]),
        ({"topic": "U"}, [CAME, JOINED]),
        ({"topic": "T", "group": "H"}, [TAKEN]),
    ],
)
async def test_client_events_are_narrowed(
    page: WebsocketCommunicator, port: FakePort, wanted: dict[str, Any], events: list[dict[str, Any]]
) -> None:
    port.replies[commands.GetSnapshot] = snapshot(client_events=[CAME, JOINED, TAKEN])
    await receive(page, "snapshot")
    await page.send_json_to({"type": "subscribe", **wanted})
    assert (await receive(page, "snapshot"))["client_events"] == events
    port.send_delta(delta(41, 45, client_events=[JOINED, *({**event, "seq": 43} for event in (CAME, JOINED, TAKEN))]))
    assert (await receive(page, "delta"))["client_events"] == [{**event, "seq": 43} for event in events]


async def open_page(query: str = "", **wanted: Any) -> WebsocketCommunicator:
    """A page that has its snapshot, in step with the engine after event 41."""
    socket = WebsocketCommunicator(events_application, f"/ws/v1/events{query}")
    await socket.connect()
    await receive(socket, "snapshot")
    if wanted:
        await socket.send_json_to({"type": "subscribe", **wanted})
        await receive(socket, "snapshot")
    return socket


async def test_a_delta_is_encoded_once_for_all_pages_that_get_the_same(
    port: FakePort, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[Any] = []
    encode = EventsSocket.encoded

    def counted(self: EventsSocket, frame: Any) -> EncodedFrame:
        encoded.append(frame)
        return encode(self, frame)

    whole = [await open_page(), await open_page()]
    as_text = await open_page("?int64=string")
    holds = [await open_page(panels=["wakeups", "holds"]), await open_page(panels=["holds", "wakeups"])]
    groups = [await open_page(group="G"), await open_page(group="H")]
    monkeypatch.setattr(EventsSocket, "encoded", counted)
    port.send_delta(delta(42, 44, wakeups=[wake_up(43)], counters={"messages_stored": 10}))
    assert len(encoded) == 5
    both = [await receive(page, "delta") for page in whole]
    assert both[0] == both[1] and both[0]["counters"] == {"messages_stored": 10}
    assert (await receive(as_text, "delta"))["counters"] == {"messages_stored": "10"}
    for page in holds:
        frame = await receive(page, "delta")
        assert (frame["counters"], len(frame["wakeups"])) == ({}, 1)
    assert [len((await receive(page, "delta"))["wakeups"]) for page in groups] == [1, 0]
    assert events_socket._shared_frames._delta is None  # forgotten as soon as all pages have it
    for page in [*whole, as_text, *holds, *groups]:
        await page.disconnect()


async def test_pages_whose_snapshots_differ_do_not_share_a_delta(port: FakePort) -> None:
    early = await open_page()
    port.replies[commands.GetSnapshot] = snapshot(seq=43)
    late = await open_page()
    port.send_delta(delta(42, 45, wakeups=[wake_up(42), wake_up(44)]))
    frames = [await receive(page, "delta") for page in (early, late)]
    assert [frame["seq_from"] for frame in frames] == [42, 44]
    assert [[wakeup["seq"] for wakeup in frame["wakeups"]] for frame in frames] == [[42, 44], [44]]
    for page in (early, late):
        await page.disconnect()
