"""Server-sent events."""

import json
from typing import Any

import httpx
import pytest

from api.resources import events as events_module
from api.routing import http_application
from bridge.port import EventBatch, PortUnavailable, commands
from tests.api.asgi_client import AsgiRequest
from tests.fakes.fake_port import FakePort

EPOCH = 7


def event(seq: int, kind: str = "pull_held", **fields: Any) -> dict[str, Any]:
    return {"type": kind, "seq": seq, "wall_ms": 1, "mono_ns": 2, "topic": "T", "group": "G"} | fields


def batch(*events: dict[str, Any], epoch: int = EPOCH, dropped: int = 0) -> EventBatch:
    return EventBatch(
        broker="broker-a",
        epoch=epoch,
        dropped=dropped,
        events=[(one["seq"], one["type"], json.dumps(one).encode()) for one in events],
    )


def ring(*seqs: int, first: int = 1) -> Any:
    def answer(command: commands.GetEvents) -> commands.Events:
        return commands.Events(
            epoch=EPOCH,
            seq=seqs[-1] if seqs else 0,
            first_seq=first,
            events=[event(seq) for seq in seqs if seq > command.after][: command.limit],
        )

    return answer


@pytest.fixture
def stream(port: FakePort) -> Any:
    def start(query: str = "", last_event_id: str = "") -> AsgiRequest:
        port.replies.setdefault(commands.GetEvents, ring(40, 41))
        headers = {"Last-Event-ID": last_event_id} if last_event_id else {}
        return AsgiRequest(http_application, "GET", "/api/v1/events", query=query, headers=headers)

    return start


async def ended(request: AsgiRequest) -> list[str]:
    """What came, event by event, without the comments."""
    request.disconnect()
    await request.done()
    assert request.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
    return [part for part in request.body.decode().split("\n\n") if part and not part.startswith(":")]


async def test_events_as_they_happen(stream: Any, port: FakePort) -> None:
    request = stream()
    await request.until_body_has(": the stream begins")
    assert (request.status, request.headers["content-type"]) == (200, "text/event-stream")
    port.send_events(batch(event(42), event(43, "pull_woken")))
    await request.until_body_has("pull_woken")
    first, second = await ended(request)
    assert first == f"id: 7-42\nevent: pull_held\ndata: {json.dumps(event(42))}"
    assert second.startswith("id: 7-43\nevent: pull_woken\n")
    assert port.watchers == []


async def test_a_stream_without_a_last_event_id_begins_now(stream: Any, port: FakePort) -> None:
    request = stream()
    await request.until_body_has(": the stream begins")
    port.send_events(batch(event(41), event(42)))
    await request.until_body_has("7-42")
    assert len(await ended(request)) == 1


async def test_a_reader_continues_after_its_last_event_id(stream: Any, port: FakePort) -> None:
    port.replies[commands.GetEvents] = ring(*range(1, 2500))
    request = stream(last_event_id="7-1200")
    await request.until_body_has("id: 7-2499")
    port.send_events(batch(event(2499), event(2500)))
    await request.until_body_has("id: 7-2500")
    ids = [part.split("\n")[0] for part in await ended(request)]
    assert ids == [f"id: 7-{seq}" for seq in range(1201, 2501)]


async def test_events_during_the_replay_follow_it(stream: Any, port: FakePort) -> None:
    replay = ring(1, 2)

    def answer(command: commands.GetEvents) -> commands.Events:
        port.send_events(batch(event(2), event(3)))
        return replay(command)

    port.replies[commands.GetEvents] = answer
    request = stream(last_event_id="7-1")
    await request.until_body_has("id: 7-3")
    assert [part.split("\n")[0] for part in await ended(request)] == ["id: 7-2", "id: 7-3"]


@pytest.mark.parametrize(
    ("last_event_id", "first", "reason"), [("7-1", 10, "8 events are no longer in the ring"), ("6-1", 1, "restarted")]
)
async def test_lost_events_are_reported(
    stream: Any, port: FakePort, last_event_id: str, first: int, reason: str
) -> None:
    port.replies[commands.GetEvents] = ring(10, 11, first=first)
    request = stream(last_event_id=last_event_id)
    await request.until_body_has(reason)
    assert (await ended(request))[0].startswith("event: lost\n")


async def test_an_invalid_last_event_id_is_ignored(stream: Any) -> None:
    request = stream(last_event_id="yesterday")
    await request.until_body_has(": the stream begins")
    assert await ended(request) == []


async def test_only_requested_types_topic_and_group(stream: Any, port: FakePort) -> None:
    request = stream("types=pull_held,pull_woken&topic=T&group=G&int64=string")
    await request.until_body_has(": the stream begins")
    port.send_events(batch(event(42, "flush_done"), event(43, topic="U"), event(44, group="H"), event(45)))
    await request.until_body_has("7-45")
    (only,) = await ended(request)
    assert json.loads(only.split("data: ")[1])["seq"] == "45"


async def test_an_unknown_type_is_refused_with_the_known_ones(client: httpx.AsyncClient) -> None:
    answer = await client.get("/api/v1/events?types=pull_held,pull_wokken")
    (error,) = answer.json()["errors"]
    assert (answer.status_code, error["pointer"]) == (400, "/types")
    assert "pull_wokken" in error["detail"] and "pull_woken" in error["detail"]


async def test_a_gap_and_a_restart_are_reported(stream: Any, port: FakePort) -> None:
    request = stream()
    await request.until_body_has(": the stream begins")
    port.send_events(batch(event(50), dropped=3))
    port.watchers[0].on_lost("the engine was restarted")
    port.send_events(batch(event(1), epoch=8))
    await request.until_body_has("8-1")
    assert [part.split("\n")[0] for part in await ended(request)] == [
        "event: lost",
        "id: 7-50",
        "event: lost",
        "id: 8-1",
    ]


async def test_heartbeats(stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "HEARTBEAT_S", 0)
    request = stream()
    await request.until_body_has("begins\n\n:\n\n:\n\n")
    assert await ended(request) == []


async def test_a_reader_that_falls_behind_is_cut(stream: Any, port: FakePort, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "MAX_WAITING_EVENTS", 3)
    request = stream()
    await request.until_body_has(": the stream begins")
    port.send_events(batch(*(event(42 + number) for number in range(5))))
    await request.done()
    assert request.sent[-1]["more_body"] is False
    assert port.watchers == []


async def test_without_an_engine_it_is_a_problem(stream: Any, port: FakePort) -> None:
    port.replies[commands.GetEvents] = PortUnavailable("away")
    request = await stream().done()
    assert (request.status, request.json()["code"]) == (503, "SYSTEM_BUSY")


@pytest.mark.parametrize("query", ["types=Pull", "topic=../x", "since=1"])
async def test_bad_parameters_are_refused(stream: Any, query: str) -> None:
    assert (await stream(query).done()).status == 400
