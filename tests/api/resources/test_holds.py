"""The pullRequestTable over HTTP."""

import httpx
import pytest

from bridge.port import NotFoundError, commands
from tests.fakes.fake_port import FakePort, hold_view


async def test_a_page_of_the_table(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.GetHolds] = commands.Holds(seq=5, total=9, holds=[hold_view(4)], next=4)
    body = (await client.get("/api/v1/holds?topic=T&group=G&after=3&limit=1")).json()
    assert port.commands == [commands.GetHolds(topic="T", group="G", after=3, limit=1)]
    assert (body["seq"], body["total"], body["next"]) == (5, 9, 4)
    assert set(body["holds"][0]) == {
        "broker",
        "id",
        "topic",
        "queue_id",
        "group",
        "client_id",
        "protocol",
        "pull_from_offset",
        "queue_max_offset",
        "suspended_at_ms",
        "deadline_ms",
        "filter",
        "waits_for",
    }


async def test_the_last_page_has_no_next(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.GetHolds] = commands.Holds(seq=5, total=0, holds=[])
    assert (await client.get("/api/v1/holds")).json() == {"seq": 5, "total": 0, "holds": []}


async def test_a_hold_is_shown_until_it_is_answered(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.GetHold] = commands.Holds(seq=5, total=1, holds=[hold_view(4)])
    assert (await client.get("/api/v1/holds/4")).json()["id"] == 4
    port.replies[commands.GetHold] = NotFoundError("hold 4 was answered", pointer="/id")
    assert (await client.get("/api/v1/holds/4")).status_code == 404


async def test_the_timeline_of_a_hold(client: httpx.AsyncClient, port: FakePort) -> None:
    events = [{"seq": 7, "type": "pull_held", "wall_ms": 5, "hold_id": 4}]
    port.replies[commands.GetHoldTimeline] = commands.HoldTimeline(hold=None, complete=True, events=events)
    body = (await client.get("/api/v1/holds/4/timeline")).json()
    assert port.commands == [commands.GetHoldTimeline(hold_id=4)]
    assert body == {"broker": "broker-a", "hold": None, "complete": True, "events": events}
    port.replies[commands.GetHoldTimeline] = NotFoundError("nothing is known of hold 4", pointer="/id")
    assert (await client.get("/api/v1/holds/4/timeline")).status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/holds/x",
        "/api/v1/holds/-1",
        "/api/v1/holds?limit=0",
        "/api/v1/holds?limit=5001",
        "/api/v1/holds?after=x",
    ],
)
async def test_bad_ids_and_parameters_are_refused(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(path)).status_code == 400
