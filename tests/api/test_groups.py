"""Consumer groups over HTTP."""

import httpx

from bridge.port import NotFoundError, commands
from tests.fakes.fake_port import BROKER, FakePort, hold_view

GROUP = commands.ConsumerGroupView(broker=BROKER, group="G", topics=["T"], lag=8, holds=1)
OFFSET = commands.GroupQueueOffset(topic="T", queue_id=0, offset=2, min_offset=0, max_offset=10, lag=8, lag_ms=5)


async def test_all_groups(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.GetConsumerGroups] = commands.ConsumerGroups(seq=5, groups=[GROUP])
    assert (await client.get("/api/v1/groups")).json() == {"seq": 5, "groups": [
        {"broker": BROKER, "group": "G", "topics": ["T"], "lag": 8, "holds": 1}]}


async def test_one_group(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.GetConsumerGroups] = commands.ConsumerGroups(seq=5, groups=[GROUP])
    port.replies[commands.QueryConsumerOffset] = commands.ConsumerOffsets(group="G", offsets=[OFFSET])
    port.replies[commands.GetHolds] = commands.Holds(seq=5, total=2, holds=[hold_view()])
    body = (await client.get("/api/v1/groups/G")).json()
    assert (body["group"], body["lag"], body["offsets"][0]["lag_ms"], body["holds"][0]["id"]) == ("G", 8, 5, 1)
    assert port.commands[-1] == commands.GetHolds(group="G")


async def test_a_group_that_only_waits(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.GetConsumerGroups] = commands.ConsumerGroups(seq=5, groups=[GROUP])
    port.replies[commands.QueryConsumerOffset] = NotFoundError("no offsets")
    port.replies[commands.GetHolds] = commands.Holds(seq=5, total=1, holds=[hold_view()])
    assert (await client.get("/api/v1/groups/G")).json()["offsets"] == []


async def test_an_unknown_group(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.GetConsumerGroups] = commands.ConsumerGroups(seq=5, groups=[GROUP])
    answer = await client.get("/api/v1/groups/H")
    assert (answer.status_code, answer.json()["code"]) == (404, "SUBSCRIPTION_GROUP_NOT_EXIST")
    assert (await client.get("/api/v1/groups/a%20b")).status_code == 400
