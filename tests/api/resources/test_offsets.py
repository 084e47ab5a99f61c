"""Consumed offsets over HTTP."""

import httpx
import pytest

from bridge.port import NotFoundError, commands
from tests.fakes.fake_port import FakePort

PATH = "/api/v1/groups/G/offsets"
OFFSET = {"topic": "T", "queue_id": 1, "offset": 42}


async def test_read(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.QueryConsumerOffset] = commands.ConsumerOffsets(
        group="G",
        offsets=[
            commands.GroupQueueOffset(topic="T", queue_id=1, offset=42, min_offset=0, max_offset=50, lag=8, lag_ms=None)
        ],
    )
    body = (await client.get(PATH + "?topic=T")).json()
    assert port.commands[0] == commands.QueryConsumerOffset(group="G", topic="T", limit=1000)
    assert body == {
        "broker": "broker-a",
        "group": "G",
        "offsets": [OFFSET | {"min_offset": 0, "max_offset": 50, "lag": 8, "lag_ms": None}],
    }


async def test_pages(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.QueryConsumerOffset] = commands.ConsumerOffsets(group="G", offsets=[], next="T@1")
    body = (await client.get(PATH + "?after=%25RETRY%25G@0&limit=5")).json()
    assert port.commands[0] == commands.QueryConsumerOffset(group="G", after="%RETRY%G@0", limit=5)
    assert body["next"] == "T@1"
    for bad in ("limit=0", "limit=5001", "after=T"):
        assert (await client.get(f"{PATH}?{bad}")).status_code == 400


async def test_an_unknown_group(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.QueryConsumerOffset] = NotFoundError("no offsets")
    assert (await client.get(PATH)).status_code == 404


async def test_commit(client: httpx.AsyncClient, port: FakePort) -> None:
    answer = await client.put(PATH, json={"offsets": [OFFSET]})
    assert (answer.status_code, answer.json()) == (200, {"group": "G", "offsets": [OFFSET]})
    assert port.commands[0] == commands.UpdateConsumerOffset(
        group="G", client_id="127.0.0.1:123", offsets=[commands.QueueOffset(topic="T", queue_id=1, offset=42)]
    )


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"offset": -1}, "/offsets/0/offset"),
        ({"offset": "42"}, "/offsets/0/offset"),
        ({"topic": "../x"}, "/offsets/0/topic"),
        ({"queue": 1}, "/offsets/0/queue"),
    ],
)
async def test_bad_commits_are_refused(
    client: httpx.AsyncClient, port: FakePort, change: dict[str, object], pointer: str
) -> None:
    answer = await client.put(PATH, json={"offsets": [OFFSET | change]})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"], port.commands) == (400, pointer, [])
    assert (await client.put(PATH, json={"offsets": []})).status_code == 400


@pytest.mark.parametrize(("to", "sent"), [("min", "min"), ("max", "max"), (17, "17"), ("17", "17")])
async def test_reset(client: httpx.AsyncClient, port: FakePort, to: object, sent: str) -> None:
    port.replies[commands.ResetConsumerOffset] = commands.OffsetsReset(
        group="G", dry_run=True, changes=[commands.OffsetChange(topic="T", queue_id=0, before=None, after=3)]
    )
    answer = await client.post(PATH + "/reset", json={"topic": "T", "to": to, "dry_run": True})
    assert port.commands[0] == commands.ResetConsumerOffset(group="G", topic="T", to=sent, dry_run=True)
    assert answer.json() == {
        "broker": "broker-a",
        "group": "G",
        "dry_run": True,
        "changes": [{"topic": "T", "queue_id": 0, "before": None, "after": 3}],
    }


async def test_reset_of_one_queue_to_an_offset(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.ResetConsumerOffset] = commands.OffsetsReset(group="G", dry_run=False, changes=[])
    answer = await client.post(PATH + "/reset", json={"topic": "T", "offset": 7, "queue_id": 2})
    assert answer.status_code == 200
    assert port.commands == [commands.ResetConsumerOffset(group="G", topic="T", to="", offset=7, queue_id=2)]


@pytest.mark.parametrize("target", [{}, {"to": "min", "offset": 1}])
async def test_a_reset_needs_one_target(client: httpx.AsyncClient, port: FakePort, target: dict[str, object]) -> None:
    answer = await client.post(PATH + "/reset", json={"topic": "T"} | target)
    assert (answer.status_code, port.commands) == (400, [])
    assert answer.json()["errors"][0]["pointer"] == "/to"


@pytest.mark.parametrize("to", ["yesterday", -1, "", None, "9" * 19])
async def test_bad_reset_targets_are_refused(client: httpx.AsyncClient, port: FakePort, to: object) -> None:
    answer = await client.post(PATH + "/reset", json={"topic": "T", "to": to})
    assert (answer.status_code, port.commands) == (400, [])
