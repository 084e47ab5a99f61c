"""Joining, sharing and leaving a group over a WebSocket."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from api.consumer import membership
from api.consumer.socket import consumer_application
from bridge.port import (
    ConflictError,
    NotFoundError,
    PortTimeout,
    RequestError,
    ResponseCode,
    UnavailableError,
    commands,
    set_ports,
)
from tests.api.consumer_client import Client, connected
from tests.fakes.fake_group import FakeGroup, until
from tests.fakes.fake_port import FakePort, client_view

RETRY = "%RETRY%G"


@pytest.fixture
def group(port: FakePort) -> FakeGroup:
    return FakeGroup(port, queues=4)


@pytest.fixture
async def client(group: FakeGroup) -> AsyncIterator[Client]:
    async with connected() as client:
        yield client


def queues(assigned: dict[str, Any], topic: str = "T") -> list[int]:
    assert assigned["type"] == "assigned", assigned
    return [queue["queue_id"] for queue in assigned["queues"] if queue["topic"] == topic]


# Joining


async def test_a_single_member_has_every_queue(client: Client, group: FakeGroup) -> None:
    assigned = await client.subscribe(filter="TagA")
    assert (assigned["id"], assigned["members"]) == (1, 1)
    assert assigned["queues"][0] == {"topic": RETRY, "broker": "broker-a", "queue_id": 0}
    assert queues(assigned) == [0, 1, 2, 3]


async def test_the_heartbeat_is_that_of_a_push_consumer(client: Client, group: FakeGroup) -> None:
    await client.subscribe(filter="TagA", filter_type="sql92", **{"from": 5})
    (beat,) = group.sent(commands.HeartBeat)
    (data,) = beat.consumers
    assert (beat.client_id, beat.protocol, beat.language) == ("web-1", "websocket", "HTTP")
    assert (data.group, data.consume_type, data.message_model, data.consume_from_where) == (
        "G",
        "CONSUME_PASSIVELY",
        "CLUSTERING",
        "CONSUME_FROM_TIMESTAMP",
    )
    assert [(entry.topic, entry.sub_string, entry.expression_type) for entry in data.subscriptions] == [
        ("T", "TagA", "SQL92"),
        (RETRY, "*", "TAG"),
    ]
    assert data.subscriptions[0].sub_version > 1_600_000_000_000
    assert group.sent(commands.CheckClientConfig)[0].subscription.sub_string == "TagA"


async def test_queues_are_shared_with_a_java_member(client: Client, group: FakeGroup) -> None:
    group.members = {"java-1", "zeta"}
    assigned = await client.subscribe()
    assert (queues(assigned), queues(assigned, RETRY), assigned["members"]) == ([2], [], 3)


async def test_hello_is_not_needed_to_be_a_member(group: FakeGroup) -> None:
    client = Client(consumer_application, "/ws/v1/consumer")
    await client.connect()
    assert queues(await client.subscribe()) == [0, 1, 2, 3]
    assert next(iter(group.members)).startswith("127.0.0.1:0#")
    await client.disconnect()


@pytest.mark.parametrize(
    ("kind", "error", "status"),
    [
        (commands.CheckClientConfig, RequestError("bad filter", code=ResponseCode.SUBSCRIPTION_PARSE_FAILED), 400),
        (commands.HeartBeat, UnavailableError("too many members"), 503),
        (commands.GetTopic, NotFoundError("no topic", code=ResponseCode.TOPIC_NOT_EXIST), 404),
    ],
)
async def test_a_refused_subscription_joins_nothing(
    client: Client, group: FakeGroup, port: FakePort, kind: type[commands.Command], error: Exception, status: int
) -> None:
    scripted = port.replies[kind]
    port.replies[kind] = error
    problem = await client.subscribe()
    assert (problem["type"], problem["id"], problem["status"]) == ("problem", 1, status)
    await client.permit(1)
    assert (await client.receive("problem"))["status"] == 404
    port.replies[kind] = scripted
    assert queues(await client.subscribe()) == [0, 1, 2, 3]


async def test_a_group_that_does_not_exist_and_is_not_created(client: Client, group: FakeGroup) -> None:
    group.create_groups = False
    problem = await client.subscribe()
    assert (problem["status"], problem["code"]) == (404, "SUBSCRIPTION_GROUP_NOT_EXIST")
    assert group.sent(commands.UnregisterClient) == [commands.UnregisterClient(client_id="web-1", consumer_group="G")]


async def test_a_member_joins_when_an_engine_that_went_away_is_back(
    client: Client, group: FakeGroup, port: FakePort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "PAUSE_S", 0)
    answers = iter([UnavailableError("away"), UnavailableError("away")])
    scripted = port.replies[commands.GetConsumerListByGroup]
    port.replies[commands.GetConsumerListByGroup] = lambda command: next(answers, None) or scripted(command)
    assert queues(await client.subscribe()) == [0, 1, 2, 3]
    assert len(group.sent(commands.HeartBeat)) >= 2


# Limits and conflicts


async def test_an_id_and_a_topic_are_subscribed_once(client: Client, group: FakeGroup) -> None:
    await client.subscribe()
    for fields, pointer in (({"topic": "U"}, "/id"), ({"id": 2}, "/topic")):
        problem = await client.subscribe(**fields)
        assert (problem["status"], problem["errors"][0]["pointer"]) == (409, pointer)


async def test_subscriptions_of_a_socket_are_bounded(
    client: Client, group: FakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "MAX_SUBSCRIPTIONS_PER_SOCKET", 1)
    await client.subscribe()
    problem = await client.subscribe(id=2, group="H")
    assert (problem["status"], problem["code"]) == (429, "FLOW_CONTROL")


async def test_queues_of_a_socket_are_bounded(
    client: Client, group: FakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "MAX_QUEUES_PER_SOCKET", 5)
    group.queues["U"] = 2
    await client.subscribe()
    problem = await client.subscribe(id=2, topic="U")
    assert (problem["status"], problem["errors"][0]["pointer"]) == (429, "/topic")
    group.queues["U"] = 1
    assert queues(await client.subscribe(id=2, topic="U"), "U") == [0]


async def test_the_retry_topic_is_not_subscribed_to(client: Client, group: FakeGroup) -> None:
    problem = await client.subscribe(topic=RETRY)
    assert (problem["status"], problem["errors"][0]["pointer"]) == (400, "/topic")


async def test_two_sockets_with_one_client_id(group: FakeGroup) -> None:
    async with connected("same", port=1) as first:
        async with connected("same", port=2) as second:
            await first.subscribe()
            problem = await second.subscribe()
            assert (problem["status"], problem["errors"][0]["pointer"], problem["retry_after_ms"]) == (
                409,
                "/client_id",
                10_000,
            )
            await first.quiet()
        await first.quiet()
    async with connected("same", port=3) as third:
        assert (await third.subscribe())["type"] == "assigned"


@pytest.mark.parametrize(("remote", "answer"), [("10.0.0.7:99", "problem"), ("10.0.0.9:4711", "assigned")])
async def test_a_client_id_of_a_member_elsewhere(
    client: Client, group: FakeGroup, port: FakePort, remote: str, answer: str
) -> None:
    port.replies[commands.GetClients] = commands.Clients(seq=1, total=1, clients=[client_view("web-1", remote=remote)])
    assert (await client.subscribe())["type"] == answer
    assert group.sent(commands.GetClients) == [commands.GetClients(group="G")]


# Sharing


async def test_queues_change_when_members_join_and_leave(client: Client, group: FakeGroup) -> None:
    await client.subscribe()
    group.join("java-1")
    assigned = await client.receive()
    assert (queues(assigned), queues(assigned, RETRY), assigned["members"]) == ([2, 3], [], 2)
    group.join("another")
    assert queues(await client.receive()) == [3]
    group.leave("java-1")
    group.leave("another")
    assert queues(await client.receive()) == [0, 1, 2, 3]


async def test_a_notice_without_a_change_sends_no_frame(client: Client, group: FakeGroup) -> None:
    await client.subscribe()
    seen = len(group.sent(commands.GetConsumerListByGroup))
    group.notify()
    await until(lambda: len(group.sent(commands.GetConsumerListByGroup)) > seen)
    await client.quiet()


async def test_a_notice_of_another_group_is_ignored(
    client: Client, group: FakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.subscribe()
    seen = len(group.sent(commands.GetConsumerListByGroup))
    group.notify("H")
    group.notify("G")
    await until(lambda: len(group.sent(commands.GetConsumerListByGroup)) > seen)
    assert {query.group for query in group.sent(commands.GetConsumerListByGroup)} == {"G"}


async def test_a_lost_queue_is_committed_and_its_open_messages_are_delivered_elsewhere(
    client: Client, group: FakeGroup
) -> None:
    for _ in range(2):
        group.publish("a", 0)
    await client.subscribe()
    await client.permit(5)
    for _ in range(2):
        await client.receive("message")
    await client.send(type="ack", id=1, offsets=[{"queue_id": 0, "offset": 0}])
    await client.quiet()
    group.join("java-1")
    assert queues(await client.receive()) == [2, 3]
    await until(lambda: group.committed.get(("T", 0)) == 1)
    assert {held.command.queue_id for held in group.held()} <= {2, 3}
    await client.send(type="ack", id=1, offsets=[{"queue_id": 0, "offset": 1}])  # too late, and no error
    await client.quiet()
    assert group.committed["T", 0] == 1


async def test_new_queues_are_assigned(client: Client, group: FakeGroup) -> None:
    await client.subscribe()
    group.queues["T"] = 5
    group.notify()
    assert queues(await client.receive()) == [0, 1, 2, 3, 4]


async def test_a_topic_that_is_deleted_leaves_nothing_to_consume(client: Client, group: FakeGroup) -> None:
    await client.subscribe()
    del group.queues["T"]
    group.notify()
    assert queues(await client.receive()) == []


async def test_queues_that_are_not_readable_are_not_assigned(client: Client, group: FakeGroup, port: FakePort) -> None:
    view = commands.TopicView(
        broker="broker-a", topic="T", read_queues=4, write_queues=4, perm=2, system=False, messages=0
    )
    port.replies[commands.GetTopic] = commands.Topics(seq=1, topics=[view])
    assert (await client.subscribe())["queues"] == []


async def test_two_topics_of_a_group_are_one_membership(client: Client, group: FakeGroup) -> None:
    group.queues["U"] = 2
    assert queues(await client.subscribe(), RETRY) == [0]
    second = await client.subscribe(id=2, topic="U")
    assert (queues(second, "U"), queues(second, RETRY)) == ([0, 1], [])
    beat = group.sent(commands.HeartBeat)[-1]
    assert [entry.topic for entry in beat.consumers[0].subscriptions] == ["T", "U", RETRY]
    await client.send(type="unsubscribe", id=1)
    moved = await client.receive()
    assert (moved["id"], queues(moved, "U"), queues(moved, RETRY)) == (2, [0, 1], [0])
    assert (await client.receive("unsubscribed"))["id"] == 1
    assert [entry.topic for entry in group.sent(commands.HeartBeat)[-1].consumers[0].subscriptions] == ["U", RETRY]
    assert group.sent(commands.UnregisterClient) == []


# Leaving


async def test_unsubscribing_leaves_the_group(client: Client, group: FakeGroup) -> None:
    await client.subscribe()
    await client.permit(1)
    await until(lambda: len(group.held()) == 4)
    await client.send(type="unsubscribe", id=1)
    assert await client.receive() == {"type": "unsubscribed", "id": 1}
    assert group.members == set()
    await until(lambda: not group.held())
    await client.permit(1)
    assert (await client.receive("problem"))["status"] == 404
    assert queues(await client.subscribe()) == [0, 1, 2, 3]


async def test_leaving_is_repeated_until_an_engine_answers(
    client: Client, group: FakeGroup, port: FakePort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "PAUSE_S", 0)
    await client.subscribe()
    scripted = port.replies[commands.UnregisterClient]
    answers = iter([PortTimeout("no answer"), PortTimeout("no answer")])
    port.replies[commands.UnregisterClient] = lambda command: next(answers, None) or scripted(command)
    port.replies[commands.UpdateConsumerOffset] = UnavailableError("away")
    await client.send(type="unsubscribe", id=1)
    await client.receive("unsubscribed")
    await until(lambda: group.members == set())
    assert len(group.sent(commands.UnregisterClient)) == 3


async def test_a_closed_socket_commits_and_leaves_its_groups(group: FakeGroup, port: FakePort) -> None:
    group.publish("a")
    async with connected() as client:
        await client.subscribe()
        await client.permit(1)
        await client.receive("message")
        await client.send(type="ack", id=1, offsets=[0])
        await client.quiet()
        assert ("T", 0) not in group.committed
    assert group.committed["T", 0] == 1
    assert not any(connection.is_open for connection in port.connections)


async def test_a_socket_closes_without_an_engine(group: FakeGroup, port: FakePort) -> None:
    async with connected() as client:
        await client.subscribe()
        port.replies[commands.UpdateConsumerOffset] = UnavailableError("away")
    assert not any(connection.is_open for connection in port.connections)


# Time


async def test_offsets_are_committed_every_few_seconds(group: FakeGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "COMMIT_S", 0.001)
    group.publish("a")
    async with connected() as client:
        await client.subscribe()
        await client.permit(1)
        await client.receive("message")
        await until(lambda: group.committed.get(("T", 0)) == 0)
        await client.send(type="ack", id=1, offsets=[0])
        await until(lambda: group.committed["T", 0] == 1)
        seen = len(group.sent(commands.UpdateConsumerOffset))
        group.notify()
        await until(lambda: len(group.sent(commands.GetConsumerListByGroup)) > 1)
        assert len(group.sent(commands.UpdateConsumerOffset)) == seen  # what is committed is not said again


@pytest.mark.parametrize(
    ("period", "kind"), [("HEARTBEAT_S", commands.HeartBeat), ("REBALANCE_S", commands.GetConsumerListByGroup)]
)
async def test_heartbeats_and_rebalances_are_periodic(
    group: FakeGroup, monkeypatch: pytest.MonkeyPatch, period: str, kind: type[commands.Command]
) -> None:
    monkeypatch.setattr(membership, "COMMIT_S", 0.001)
    monkeypatch.setattr(membership, period, 0.002)
    async with connected() as client:
        await client.subscribe()
        await until(lambda: len(group.sent(kind)) >= 4)


async def test_a_member_that_the_engine_dropped_joins_again(client: Client, group: FakeGroup) -> None:
    await client.subscribe()
    group.members.clear()  # the engine was restarted
    group.notify()
    await until(lambda: group.members == {"web-1"})
    await client.quiet()


async def test_a_connection_that_the_engine_does_not_know_is_opened_again(
    client: Client, group: FakeGroup, port: FakePort
) -> None:
    await client.subscribe()
    answers = iter([ConflictError("a heartbeat of a connection that is not open")])
    scripted = port.replies[commands.HeartBeat]
    port.replies[commands.HeartBeat] = lambda command: next(answers, None) or scripted(command)
    opened = len(group.sent(commands.OpenConnection))
    group.members.clear()
    group.notify()
    await until(lambda: group.members == {"web-1"})
    assert group.sent(commands.OpenConnection)[opened:] == [
        commands.OpenConnection(client_id="web-1", protocol="websocket", remote="10.0.0.9:4711")
    ]


async def test_assignments_survive_an_absence_of_the_engine(
    client: Client, group: FakeGroup, port: FakePort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "PAUSE_S", 0)
    monkeypatch.setattr("api.consumer.queue_consumer.PAUSE_S", 0)
    await client.subscribe()
    scripted = dict(port.replies)
    for kind in (commands.GetConsumerListByGroup, commands.HeartBeat, commands.GetTopic):
        port.replies[kind] = UnavailableError("away")
    group.notify()
    await until(lambda: len(group.sent(commands.HeartBeat)) >= 3)
    await client.quiet()
    port.replies = scripted
    group.members = {"java-1"}
    assert queues(await client.receive()) == [2, 3]


async def test_a_refused_commit_is_reported_once(
    group: FakeGroup, port: FakePort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "COMMIT_S", 0.001)
    async with connected() as client:
        await client.subscribe()
        port.replies[commands.UpdateConsumerOffset] = RequestError("offsets are not kept here")
        await client.permit(1)
        assert (await client.receive("problem"))["detail"] == "offsets are not kept here"
        seen = len(group.sent(commands.UpdateConsumerOffset))
        await until(lambda: len(group.sent(commands.UpdateConsumerOffset)) > seen + 3)
        await client.quiet()


# Several brokers


async def test_the_queues_of_all_brokers_are_shared(port: FakePort) -> None:
    other = FakePort()
    set_ports({"broker-a": port, "broker-b": other})
    first, second = FakeGroup(port, queues=2), FakeGroup(other, queues=2, broker="broker-b")
    first.members = second.members = {"java-1"}
    second.publish("from b", 0)
    async with connected() as client:
        assigned = await client.subscribe()
        mine = [(queue["broker"], queue["queue_id"]) for queue in assigned["queues"] if queue["topic"] == "T"]
        assert mine == [("broker-b", 0), ("broker-b", 1)]
        await client.permit(1)
        message = await client.receive("message")
        assert (message["broker"], message["body"]) == ("broker-b", "from b")
        await client.send(type="ack", id=1, offsets=[{"broker": "broker-b", "queue_id": 0, "offset": 0}])
        await client.send(type="unsubscribe", id=1)
        await client.receive("unsubscribed")
    assert second.committed["T", 0] == 1
    assert ("T", 0) not in first.committed
    assert not any(connection.is_open for connection in [*port.connections, *other.connections])


async def test_queues_stay_assigned_while_a_broker_does_not_answer(port: FakePort) -> None:
    other = FakePort()
    set_ports({"broker-a": port, "broker-b": other})
    first, second = FakeGroup(port, queues=2), FakeGroup(other, queues=2, broker="broker-b")
    async with connected() as client:
        await client.subscribe()
        other.replies[commands.GetTopic] = UnavailableError("away")
        seen = len(second.sent(commands.GetTopic))
        first.notify()
        await until(lambda: len(second.sent(commands.GetTopic)) > seen)
        await client.quiet()


# Permits that are used up


async def test_a_client_that_gets_no_messages_says_why(monkeypatch: pytest.MonkeyPatch, group: FakeGroup) -> None:
    monkeypatch.setattr(membership, "COMMIT_S", 0.001)
    reports: list[list[commands.ConsumerWindow]] = []
    group.port.replies[commands.ReportWindows] = lambda command: reports.append(command.windows) or commands.Done()

    def window(permits: int, unacknowledged: int = 0) -> list[commands.ConsumerWindow]:
        return [commands.ConsumerWindow(topic="T", permits=permits, unacknowledged=unacknowledged)]

    async with connected() as client:
        await client.subscribe()
        await until(lambda: reports == [window(0)])
        await client.permit(1)
        await until(lambda: reports[1:] == [window(1)])
        group.publish("one")
        await client.receive("message")
        await until(lambda: reports[2:] == [window(0, 1)])
        await client.permit(5)
        await until(lambda: reports[3:] == [window(5, 1)])
        await client.send(type="ack", id=1, offsets=[{"offset": 0, "queue_id": 0}])
        await until(lambda: len(group.sent(commands.UpdateConsumerOffset)) >= 1)
        await client.quiet()
    assert len(reports) == 4, "a client that gets messages reports nothing"


async def test_a_report_is_repeated_after_a_heartbeat(monkeypatch: pytest.MonkeyPatch, group: FakeGroup) -> None:
    monkeypatch.setattr(membership, "COMMIT_S", 0.001)
    monkeypatch.setattr(membership, "HEARTBEAT_S", 0.002)
    async with connected() as client:
        await client.subscribe()
        await until(lambda: len(group.sent(commands.ReportWindows)) > 2)
