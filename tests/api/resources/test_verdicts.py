"""Why a group's consumers wait, over HTTP."""

import httpx
import pytest

from bridge.port import NotFoundError, ResponseCode, UnavailableError, commands, set_ports
from tests.fakes.facts import facts, queue
from tests.fakes.fake_port import FakePort

BLOCKED = {"offset": 10, "pull_offset": 100, "handed": 90, "handed_ms_ago": 40_000, "moved_ms_ago": None}


@pytest.fixture
def asked(port: FakePort) -> FakePort:
    port.replies[commands.GetGroupFacts] = facts(queue(**BLOCKED))
    return port


async def test_the_answer_has_the_state_and_the_worst_verdict_first(client: httpx.AsyncClient, asked: FakePort) -> None:
    answer = await client.get("/api/v1/groups/g/verdicts")
    assert answer.status_code == 200
    body = answer.json()
    assert list(body) == ["group", "state", "verdicts"] and (body["group"], body["state"]) == ("g", "stalled")
    assert list(body["verdicts"][0]) == ["id", "severity", "sentence", "evidence", "advice"]
    assert (body["verdicts"][0]["id"], body["verdicts"][0]["severity"]) == ("listener_blocked", "error")
    assert body["verdicts"][0]["evidence"]["messages"] == 90
    assert asked.commands[-1] == commands.GetGroupFacts(group="g")


async def test_patience_can_be_chosen(client: httpx.AsyncClient, asked: FakePort) -> None:
    assert (await client.get("/api/v1/groups/g/verdicts?patience_ms=60000")).json()["state"] != "stalled"
    for wrong in ("99", "x", "86400001"):
        answer = await client.get(f"/api/v1/groups/g/verdicts?patience_ms={wrong}")
        assert answer.status_code == 400 and "patience_ms" in answer.text


async def test_an_unknown_group(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.GetGroupFacts] = NotFoundError("g?", code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
    assert (await client.get("/api/v1/groups/g/verdicts")).status_code == 404


def cluster() -> dict[str, FakePort]:
    """Two brokers with one queue each; each assigns it to the member that it knows first."""
    ports = {name: FakePort() for name in ("broker-a", "broker-b")}
    for name, fake in ports.items():
        fake.replies[commands.GetGroupFacts] = facts(queue(**BLOCKED), at=name, missing_topics=["oders"])
        fake.replies[commands.GetTopic] = NotFoundError("no topic", code=ResponseCode.TOPIC_NOT_EXIST)
    set_ports(ports)
    return ports


async def test_a_group_on_several_brokers(client: httpx.AsyncClient, port: FakePort) -> None:
    ports = cluster()
    body = (await client.get("/api/v1/groups/g/verdicts")).json()
    assert [verdict["id"] for verdict in body["verdicts"]] == ["listener_blocked", "topic_missing"]
    assert body["verdicts"][0]["evidence"]["messages"] == 180
    ports["broker-b"].replies[commands.GetTopic] = commands.Topics(seq=1, topics=[])
    ids = [verdict["id"] for verdict in (await client.get("/api/v1/groups/g/verdicts")).json()["verdicts"]]
    assert "topic_missing" not in ids, "one broker has the topic"
    body = (await client.get("/api/v1/groups/g/verdicts?broker=broker-a")).json()
    assert body["verdicts"][0]["evidence"]["messages"] == 90


async def test_a_broker_that_does_not_answer_is_a_verdict(client: httpx.AsyncClient, port: FakePort) -> None:
    ports = cluster()
    ports["broker-b"].replies[commands.GetGroupFacts] = UnavailableError("away")
    body = (await client.get("/api/v1/groups/g/verdicts")).json()
    assert body["verdicts"][0]["id"] == "broker_away" and body["state"] == "stalled"
