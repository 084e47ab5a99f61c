"""Which broker a port leads to."""

import httpx

from api import brokers
from bridge.port import commands
from tests.fakes.fake_port import BROKER, FakePort


async def test_the_name_is_asked_for_once(port: FakePort) -> None:
    assert [await brokers.name_of(port), await brokers.name_of(port)] == [BROKER, BROKER]
    assert port.commands == [commands.GetBroker()]


async def test_another_broker_is_not_here(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.GetTopics] = commands.Topics(seq=1, topics=[])
    assert (await client.get("/api/v1/topics?broker=broker-a")).status_code == 200
    answer = await client.get("/api/v1/topics?broker=broker-b")
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (404, "/broker")
