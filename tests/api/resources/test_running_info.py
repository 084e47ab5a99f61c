"""Questions to brokers and their clients over HTTP."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from bridge.port import NotFoundError, RequestError, ResponseCode, UnavailableError, commands, set_ports
from tests.fakes.fake_port import FakePort


def infos(**changes: Any) -> commands.ConsumerRunningInfos:
    queue = commands.ProcessQueueInfo(
        topic="T", queue_id=1, offset=3, cached=4, pulled_ms=6, consumed_ms=None, locked=False
    )
    client = commands.ConsumerRunningInfo(client_id="c1", problem="", properties={"offset": "1"}, queues=[queue])
    fields: dict[str, Any] = {
        "broker": "broker-a",
        "group": "g",
        "source": "10.0.0.1:10911",
        "asked_ms": 5,
        "members": 1,
        "clients": [client],
        "queues": [commands.PulledQueue(topic="T", queue_id=1, offset=3, pull_offset=7, max_offset=9)],
        "queues_total": 1,
    }
    return commands.ConsumerRunningInfos(**fields | changes)


@pytest.fixture
def ports() -> Iterator[dict[str, FakePort]]:
    found = {name: FakePort() for name in ("broker-a", "broker-b", "broker-c")}
    found["broker-a"].replies[commands.GetConsumerRunningInfo] = infos()
    found["broker-b"].replies[commands.GetConsumerRunningInfo] = NotFoundError("no such client")
    found["broker-c"].replies[commands.GetConsumerRunningInfo] = UnavailableError("two questions are under way")
    set_ports(found)
    yield found
    set_ports({})


async def test_every_broker_is_asked(client: httpx.AsyncClient, ports: dict[str, FakePort]) -> None:
    answer = await client.get("/api/v1/groups/g/running-info?client=c1&stacks=true&int64=string")
    assert answer.status_code == 200
    body = answer.json()
    (broker,) = body["brokers"]
    assert (broker["source"], broker["members"], broker["clients"][0]["client_id"]) == ("10.0.0.1:10911", 1, "c1")
    assert broker["clients"][0]["queues"][0]["pulled_ms"] == "6" and broker["clients"][0]["stacks"] is None
    assert broker["queues"][0]["pull_offset"] == "7"
    assert (body["unavailable"], body["problems"]) == (["broker-c"], {"broker-c": "two questions are under way"})
    (command,) = [one for one in ports["broker-b"].commands if isinstance(one, commands.GetConsumerRunningInfo)]
    assert command == commands.GetConsumerRunningInfo(group="g", client_id="c1", stacks=True)


async def test_stacks_of_all_clients_are_refused(client: httpx.AsyncClient, ports: dict[str, FakePort]) -> None:
    answer = await client.get("/api/v1/groups/g/running-info?stacks=true")
    assert answer.status_code == 400 and "?client=" in answer.json()["detail"]


async def test_without_an_answer_the_reason_is_given(client: httpx.AsyncClient, ports: dict[str, FakePort]) -> None:
    assert (await client.get("/api/v1/groups/g/running-info?broker=broker-b")).status_code == 404
    assert (await client.get("/api/v1/groups/g/running-info?broker=broker-c")).status_code == 503
    ports["broker-a"].replies[commands.GetConsumerRunningInfo] = RequestError(
        "this broker has no port for RocketMQ clients", code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    )
    answer = await client.get("/api/v1/groups/g/running-info?broker=broker-a")
    assert answer.status_code == 400 and "no port" in answer.text
