"""Which broker a request means."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from msgspec import structs

from api.http import brokers
from bridge.port import NotFoundError, PortUnavailable, ResponseCode, commands, set_ports
from tests.fakes.fake_port import FakePort, broker_view, hold_view, pulled, queue_view, record


def topic(broker: str, name: str = "T") -> commands.TopicView:
    return commands.TopicView(
        broker=broker, topic=name, read_queues=4, write_queues=4, perm=6, system=False, messages=1
    )


def group(broker: str, name: str) -> commands.ConsumerGroupView:
    return commands.ConsumerGroupView(broker=broker, group=name, topics=[], lag=0, holds=0)


def sent(*_: Any) -> commands.Sent:
    return commands.Sent(
        code=0,
        topic="T",
        messages=[
            commands.SentMessage(
                message_id="M", offset_message_id="O", queue_id=0, queue_offset=0, physical_offset=0, store_time_ms=1
            )
        ],
    )


NO_TOPIC = NotFoundError("no such topic", code=ResponseCode.TOPIC_NOT_EXIST)


@pytest.fixture
def two(port: FakePort) -> Iterator[tuple[FakePort, FakePort]]:
    """Two brokers that both have topic T; only the second has U."""
    other = FakePort()
    for name, each in (("broker-a", port), ("broker-b", other)):
        each.replies[commands.GetTopic] = lambda command, name=name: (
            NO_TOPIC
            if (command.topic == "U" and name == "broker-a") or command.topic == "V"
            else commands.Topics(seq=1, topics=[topic(name, command.topic)])
        )
        each.replies[commands.SendMessage] = sent
    set_ports({"broker-a": port, "broker-b": other})
    brokers.forget_topics()
    yield port, other
    brokers.forget_topics()


def sends(port: FakePort) -> int:
    return sum(isinstance(command, commands.SendMessage) for command in port.commands)


async def test_another_broker_is_not_here(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.GetTopics] = commands.Topics(seq=1, topics=[])
    assert (await client.get("/api/v1/topics?broker=broker-a")).status_code == 200
    answer = await client.get("/api/v1/topics?broker=broker-b")
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (404, "/broker")


async def test_lists_come_from_all_brokers(client: httpx.AsyncClient, two: tuple[FakePort, FakePort]) -> None:
    two[0].replies[commands.GetTopics] = commands.Topics(seq=3, topics=[topic("broker-a")])
    two[1].replies[commands.GetTopics] = commands.Topics(seq=4, topics=[topic("broker-b")])
    answer = (await client.get("/api/v1/topics")).json()
    assert (answer["seq"], [line["broker"] for line in answer["topics"]]) == (7, ["broker-a", "broker-b"])
    assert "unavailable" not in answer
    answer = (await client.get("/api/v1/topics?broker=broker-b")).json()
    assert (answer["seq"], [line["broker"] for line in answer["topics"]]) == (4, ["broker-b"])


async def test_a_list_says_whose_part_is_missing(client: httpx.AsyncClient, two: tuple[FakePort, FakePort]) -> None:
    two[0].replies[commands.GetQueues] = PortUnavailable("away")
    two[1].replies[commands.GetQueues] = commands.Queues(seq=4, queues=[queue_view()])
    answer = (await client.get("/api/v1/queues")).json()
    assert (len(answer["queues"]), answer["unavailable"]) == (1, ["broker-a"])
    two[1].replies[commands.GetQueues] = PortUnavailable("away too")
    assert (await client.get("/api/v1/queues")).status_code == 503


async def test_a_page_of_several_brokers_ends_where_the_first_of_theirs_ends(
    client: httpx.AsyncClient, two: tuple[FakePort, FakePort]
) -> None:
    a, b, c = (structs.replace(queue_view(), topic=topic) for topic in "ABC")
    two[0].replies[commands.GetQueues] = commands.Queues(seq=3, queues=[a, b], next="B@0")
    two[1].replies[commands.GetQueues] = commands.Queues(seq=4, queues=[b, c], next="C@0")
    answer = (await client.get("/api/v1/queues?limit=2")).json()
    assert ([queue["topic"] for queue in answer["queues"]], answer["next"]) == (["A", "B", "B"], "B@0")
    two[0].replies[commands.GetQueues] = commands.Queues(seq=3, queues=[])
    answer = (await client.get("/api/v1/queues?limit=2&after=B%400")).json()
    assert ([queue["topic"] for queue in answer["queues"]], answer["next"]) == (["B", "C"], "C@0")


async def test_a_broker_without_the_topic_is_skipped(client: httpx.AsyncClient, two: tuple[FakePort, FakePort]) -> None:
    two[0].replies[commands.GetQueues] = NO_TOPIC
    two[1].replies[commands.GetQueues] = commands.Queues(seq=4, queues=[queue_view()])
    assert "unavailable" not in (await client.get("/api/v1/topics/T/queues")).json()
    two[1].replies[commands.GetQueues] = NO_TOPIC
    assert (await client.get("/api/v1/topics/T/queues")).status_code == 404


async def test_a_message_is_looked_for_everywhere(client: httpx.AsyncClient, two: tuple[FakePort, FakePort]) -> None:
    two[0].replies[commands.ViewMessage] = NotFoundError("no such message", code=ResponseCode.QUERY_NOT_FOUND)
    two[1].replies[commands.ViewMessage] = commands.Records(records=record())
    assert (await client.get("/api/v1/messages/M")).json()["broker"] == "broker-b"


async def test_publishing_goes_round(client: httpx.AsyncClient, two: tuple[FakePort, FakePort]) -> None:
    for _ in range(4):
        assert (await client.post("/api/v1/topics/T/messages", json={"body": "x"})).status_code == 201
    assert [sends(port) for port in two] == [2, 2]
    for _ in range(3):
        answer = await client.post("/api/v1/topics/U/messages", json={"body": "x"})
        assert answer.json()["messages"][0]["broker"] == "broker-b"
    assert [sends(port) for port in two] == [2, 5]


async def test_a_repeat_goes_where_it_went_before(client: httpx.AsyncClient, two: tuple[FakePort, FakePort]) -> None:
    for _ in range(4):
        await client.post("/api/v1/topics/T/messages", json={"body": "x"}, headers={"Idempotency-Key": "k"})
    assert sorted(sends(port) for port in two) == [0, 4]


async def test_a_new_topic_may_begin_anywhere(client: httpx.AsyncClient, two: tuple[FakePort, FakePort]) -> None:
    for _ in range(2):
        assert (await client.post("/api/v1/topics/V/messages", json={"body": "x"})).status_code == 201
    assert [sends(port) for port in two] == [1, 1]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/api/v1/topics/T/queues/0/messages?offset=0", None),
        ("POST", "/api/v1/topics/T/messages", {"body": "x", "queue_id": 0}),
        ("GET", "/api/v1/groups/G/offsets?topic=T", None),
        ("PUT", "/api/v1/groups/G/offsets", {"offsets": [{"topic": "T", "queue_id": 0, "offset": 1}]}),
        ("POST", "/api/v1/groups/G/offsets/reset", {"topic": "T", "to": "min"}),
        ("GET", "/api/v1/broker", None),
        ("PATCH", "/api/v1/broker/config", {"longPollingEnable": False}),
        ("GET", "/api/v1/holds/1", None),
        ("GET", "/api/v1/holds?after=1", None),
        ("GET", "/api/v1/snapshot", None),
        ("GET", "/api/v1/events", None),
    ],
)
async def test_requests_that_need_one_broker(
    client: httpx.AsyncClient, two: tuple[FakePort, FakePort], method: str, path: str, body: Any
) -> None:
    answer = await client.request(method, path, json=body)
    assert answer.status_code == 400
    assert "broker-a, broker-b" in answer.json()["detail"]
    assert answer.json()["errors"][0]["pointer"] == "/broker"


async def test_the_only_broker_of_a_topic_is_meant(client: httpx.AsyncClient, two: tuple[FakePort, FakePort]) -> None:
    two[1].replies[commands.PullMessage] = pulled()
    answer = await client.get("/api/v1/topics/U/queues/0/messages?offset=0")
    assert (answer.status_code, answer.json()["broker"]) == (200, "broker-b")


async def test_holds_of_all_brokers(client: httpx.AsyncClient, two: tuple[FakePort, FakePort]) -> None:
    for each in two:
        each.replies[commands.GetHolds] = commands.Holds(seq=1, total=9, holds=[hold_view()], next=1)
    answer = (await client.get("/api/v1/holds")).json()
    assert (answer["total"], len(answer["holds"]), "next" in answer) == (18, 2, False)


async def test_a_list_has_all_brokers_and_names_the_unavailable_one(
    client: httpx.AsyncClient, two: tuple[FakePort, FakePort]
) -> None:
    two[0].replies[commands.GetBroker] = broker_view()
    two[1].replies[commands.GetBroker] = PortUnavailable("away")
    first, second = (await client.get("/api/v1/brokers")).json()["brokers"]
    assert (first["broker"], first["available"], first["epoch"]) == ("broker-a", True, 7)
    assert second == {"broker": "broker-b", "available": False, "problem": "away"}
    assert (await client.get("/readyz")).status_code == 200
    assert (await client.get("/readyz?broker=broker-b")).status_code == 503


async def test_the_mode_is_read_only_when_no_broker_takes_messages(
    client: httpx.AsyncClient, two: tuple[FakePort, FakePort]
) -> None:
    two[0].replies[commands.GetBroker] = broker_view(problem="the disk is full")
    two[1].replies[commands.GetBroker] = broker_view(read_only=True, problem="the store is open read-only")
    assert (await client.get("/readyz")).json() == {"status": "ok", "mode": "read-only"}
    two[0].replies[commands.GetBroker] = broker_view()
    assert (await client.get("/readyz")).json() == {"status": "ok"}


async def test_a_page_of_topics_or_groups_ends_where_the_first_brokers_page_ends(
    client: httpx.AsyncClient, two: tuple[FakePort, FakePort]
) -> None:
    for path, command, reply, views in (
        ("topics", commands.GetTopics, commands.Topics, topic),
        ("groups", commands.GetConsumerGroups, commands.ConsumerGroups, group),
    ):
        name = path[:-1]
        shown = [[views("broker-a", one) for one in "ab"], [views("broker-b", one) for one in "bd"]]
        two[0].replies[command] = reply(**{"seq": 1, path: shown[0], "next": "b"})
        two[1].replies[command] = reply(**{"seq": 1, path: shown[1], "next": None})
        body = (await client.get(f"/api/v1/{path}?limit=2&after=Z")).json()
        assert [entry[name] for entry in body[path]] == ["a", "b", "b"] and body["next"] == "b"
        assert [port.commands[-1] for port in two] == [command(after="Z", limit=2)] * 2
        two[0].replies[command] = reply(**{"seq": 1, path: shown[0], "next": None})
        body = (await client.get(f"/api/v1/{path}?after=Z")).json()
        assert [entry[name] for entry in body[path]] == ["a", "b", "b", "d"] and "next" not in body
        for wrong in ("limit=0", "limit=10001", "limit=x", "after=%20"):
            assert (await client.get(f"/api/v1/{path}?{wrong}")).status_code == 400, wrong


async def test_pages_of_clients_are_of_one_broker(client: httpx.AsyncClient, two: tuple[FakePort, FakePort]) -> None:
    for port in two:
        port.replies[commands.GetClients] = commands.Clients(seq=1, total=9, clients=[], next=4)
    assert "next" not in (await client.get("/api/v1/clients")).json()
    assert (await client.get("/api/v1/clients?after=4")).json()["errors"][0]["pointer"] == "/broker"
    assert (await client.get("/api/v1/clients?after=4&limit=3&broker=broker-b")).json()["next"] == 4
    assert two[1].commands[-1] == commands.GetClients(after=4, limit=3)
