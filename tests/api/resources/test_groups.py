"""Consumer groups over HTTP."""

import httpx
import pytest

from bridge.port import NotFoundError, ResponseCode, UnavailableError, commands, set_ports
from tests.fakes.fake_port import BROKER, FakePort, group_detail, group_queue, group_retries, hold_view

GROUP = commands.ConsumerGroupView(
    broker=BROKER,
    group="G",
    topics=["T"],
    lag=8,
    holds=1,
    members=2,
    message_model="CLUSTERING",
    state="stalled",
    unknown_queues=1,
    severity="error",
    problems=["listener_blocked"],
)


async def test_groups_are_listed(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.GetConsumerGroups] = commands.ConsumerGroups(seq=5, groups=[GROUP])
    assert (await client.get("/api/v1/groups")).json() == {
        "seq": 5,
        "groups": [
            {
                "broker": BROKER,
                "group": "G",
                "topics": ["T"],
                "lag": 8,
                "holds": 1,
                "members": 2,
                "message_model": "CLUSTERING",
                "state": "stalled",
                "unknown_queues": 1,
                "oldest_ms": None,
                "consume_tps": 0.0,
                "retrying": None,
                "dead_letters": 0,
                "severity": "error",
                "problems": ["listener_blocked"],
            }
        ],
    }
    assert port.commands == [commands.GetConsumerGroups(limit=10_000, alone=True)]


@pytest.mark.parametrize("query", ["", "?broker=broker-a"])
async def test_of_several_brokers_none_judges_as_if_it_were_alone(
    client: httpx.AsyncClient, port: FakePort, query: str
) -> None:
    port.replies[commands.GetConsumerGroups] = commands.ConsumerGroups(seq=5, groups=[GROUP])
    set_ports({"broker-a": port, "broker-b": port})
    assert (await client.get(f"/api/v1/groups{query}")).status_code == 200
    assert port.commands and {command.alone for command in port.commands} == {False}


@pytest.fixture
def detailed(port: FakePort) -> FakePort:
    port.replies[commands.GetHolds] = commands.Holds(seq=5, total=2, holds=[hold_view()])
    port.replies[commands.GetConsumerGroup] = group_detail()
    return port


async def test_a_group_is_shown(client: httpx.AsyncClient, detailed: FakePort) -> None:
    body = (await client.get("/api/v1/groups/G")).json()
    assert {
        name: body[name]
        for name in ("broker", "group", "seq", "topics", "lag", "consume_type", "message_model", "consume_from_where")
    } == {
        "broker": BROKER,
        "group": "G",
        "seq": 41,
        "topics": ["T"],
        "lag": 8,
        "consume_type": "CONSUME_PASSIVELY",
        "message_model": "CLUSTERING",
        "consume_from_where": "CONSUME_FROM_LAST_OFFSET",
    }
    assert [(member["client_id"], member["version"]) for member in body["members"]] == [
        ("java-1", "5.4.0"),
        ("web-1", "5.4.0"),
    ]
    assert body["subscriptions"] == [{"topic": "T", "sub_string": "TagA", "expression_type": "TAG", "sub_version": 7}]
    assert body["queues_total"] == len(body["queues"]) == 2
    assert body["queues"][0] == {
        "broker": BROKER,
        "topic": "T",
        "queue_id": 0,
        "assigned_to": "java-1",
        "polled_by": "java-1",
        "polled_ms_ago": 12,
        "state": "held",
        "why": "because",
        "offset": 2,
        "pull_offset": 4,
        "min_offset": 0,
        "max_offset": 10,
        "lag": 8,
        "lag_ms": 5,
        "locked_by": None,
    }
    assert body["assignment"] == [
        {"client_id": "java-1", "queues": [{"broker": BROKER, "topic": "T", "queue_id": 0}]},
        {"client_id": "web-1", "queues": [{"broker": BROKER, "topic": "T", "queue_id": 1}]},
    ]
    assert body["offsets"] == [
        {"topic": "T", "queue_id": 0, "offset": 2, "min_offset": 0, "max_offset": 10, "lag": 8, "lag_ms": 5}
    ]
    assert [hold["id"] for hold in body["holds"]] == [1]
    assert detailed.commands[-2:] == [commands.GetConsumerGroup(group="G"), commands.GetHolds(group="G")]


async def test_a_member_without_a_queue_has_an_empty_assignment(client: httpx.AsyncClient, detailed: FakePort) -> None:
    detailed.replies[commands.GetConsumerGroup] = group_detail(queues=[group_queue(0, "java-1")])
    assert (await client.get("/api/v1/groups/G")).json()["assignment"][1] == {"client_id": "web-1", "queues": []}


async def test_a_group_that_nobody_is_in(client: httpx.AsyncClient, detailed: FakePort) -> None:
    detailed.replies[commands.GetConsumerGroup] = group_detail(
        members=[],
        subscriptions=[],
        consume_type="",
        message_model="",
        consume_from_where="",
        queues=[group_queue(0, None, state="unassigned")],
    )
    body = (await client.get("/api/v1/groups/G")).json()
    assert (body["members"], body["assignment"], body["topics"], body["queues"][0]["state"]) == (
        [],
        [],
        ["T"],
        "unassigned",
    )


async def test_a_lag_that_no_queue_knows_is_null(client: httpx.AsyncClient, detailed: FakePort) -> None:
    unknown = group_queue(0, None, offset=None, lag=None, lag_ms=None)
    detailed.replies[commands.GetConsumerGroup] = group_detail(queues=[unknown])
    assert (await client.get("/api/v1/groups/G")).json()["lag"] is None


async def test_an_unknown_group(client: httpx.AsyncClient, detailed: FakePort) -> None:
    detailed.replies[commands.GetConsumerGroup] = NotFoundError(
        "no such group", code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    )
    answer = await client.get("/api/v1/groups/H")
    assert (answer.status_code, answer.json()["code"]) == (404, "SUBSCRIPTION_GROUP_NOT_EXIST")
    assert (await client.get("/api/v1/groups/a%20b")).status_code == 400


async def test_a_group_of_several_brokers_shares_all_their_queues(
    client: httpx.AsyncClient, detailed: FakePort
) -> None:
    other = FakePort()
    set_ports({"broker-a": detailed, "broker-b": other})
    other.replies[commands.GetHolds] = commands.Holds(seq=9, total=0, holds=[])
    other.replies[commands.GetConsumerGroup] = group_detail(
        broker="broker-b",
        seq=9,
        queues=[group_queue(0, "java-1"), group_queue(1, "web-1"), group_queue(2, None, topic="old")],
    )
    body = (await client.get("/api/v1/groups/G")).json()
    assert (body["broker"], body["seq"], body["lag"]) == ("broker-a, broker-b", 50, 32)
    assert [(queue["topic"], queue["broker"], queue["queue_id"], queue["assigned_to"]) for queue in body["queues"]] == [
        ("T", "broker-a", 0, "java-1"),
        ("T", "broker-a", 1, "java-1"),
        ("T", "broker-b", 0, "web-1"),
        ("T", "broker-b", 1, "web-1"),
        ("old", "broker-b", 2, None),
    ]
    assert [(member["client_id"], member["holds"]) for member in body["members"]] == [("java-1", 4), ("web-1", 4)]
    one = (await client.get("/api/v1/groups/G?broker=broker-b")).json()
    assert (one["broker"], [queue["assigned_to"] for queue in one["queues"]]) == ("broker-b", ["java-1", "web-1", None])
    other.replies[commands.GetConsumerGroup] = UnavailableError("away")
    assert (await client.get("/api/v1/groups/G")).json()["unavailable"] == ["broker-b"]


async def test_missing_topics_and_retries(client: httpx.AsyncClient, detailed: FakePort) -> None:
    detailed.replies[commands.GetConsumerGroup] = group_detail(missing_topics=["typo", "there"])
    other = FakePort()
    set_ports({"broker-a": detailed, "broker-b": other})
    other.replies[commands.GetHolds] = commands.Holds(seq=9, total=0, holds=[])
    other.replies[commands.GetConsumerGroup] = group_detail(
        broker="broker-b",
        queues=[group_queue(0, "java-1", topic="there")],
        retries=group_retries(broker="broker-b", waiting=3, next_due_ms=77),
    )
    detailed.replies[commands.GetTopic] = NotFoundError("no such topic")
    other.replies[commands.GetTopic] = lambda command: (
        commands.Topics(seq=1, topics=[]) if command.topic == "there" else NotFoundError("no such topic")
    )
    body = (await client.get("/api/v1/groups/G")).json()
    assert body["missing_topics"] == ["typo"]
    assert [(entry["broker"], entry["waiting"], entry["next_due_ms"]) for entry in body["retries"]] == [
        (BROKER, 0, None),
        ("broker-b", 3, 77),
    ]
    assert body["retries"][0] == {
        "broker": BROKER,
        "waiting": 0,
        "next_due_ms": None,
        "counted": True,
        "dead_letter_topic": "%DLQ%G",
        "dead_letters": 0,
        "dead_letters_from": 0,
    }


async def test_a_topic_is_not_missing_while_an_unavailable_broker_may_have_it(
    client: httpx.AsyncClient, detailed: FakePort
) -> None:
    async def missing(query: str = "") -> list[str]:
        names: list[str] = (await client.get(f"/api/v1/groups/G{query}")).json()["missing_topics"]
        return names

    detailed.replies |= {
        commands.GetConsumerGroup: group_detail(missing_topics=["a", "b"]),
        commands.GetTopic: NotFoundError("no such topic"),
    }
    assert await missing() == ["a", "b"]
    assert not any(isinstance(command, commands.GetTopic) for command in detailed.commands)
    other = FakePort()
    set_ports({"broker-a": detailed, "broker-b": other})
    other.replies |= {
        commands.GetHolds: commands.Holds(seq=9, total=0, holds=[]),
        commands.GetConsumerGroup: NotFoundError("no such group"),
        commands.GetTopic: lambda command: (
            commands.Topics(seq=1, topics=[]) if command.topic == "a" else NotFoundError("no such topic")
        ),
    }
    assert await missing() == ["b"]  # broker-b has a, though it does not know the group
    other.replies[commands.GetTopic] = UnavailableError("away")
    assert await missing() == []
    other.replies |= {
        commands.GetConsumerGroup: UnavailableError("away"),
        commands.GetTopic: NotFoundError("no such topic"),
    }
    assert await missing() == []
    assert await missing("?broker=broker-a") == ["a", "b"]


async def test_delete(client: httpx.AsyncClient, detailed: FakePort) -> None:
    detailed.replies |= {
        commands.DeleteSubscriptionGroup: commands.Done(),
        commands.GetConsumerGroup: group_detail(members=[]),
    }
    answer = await client.delete("/api/v1/groups/G")
    assert (answer.status_code, answer.content) == (204, b"")
    assert detailed.commands[-1] == commands.DeleteSubscriptionGroup(
        group="G", clean_offset=True, members_ok=False, missing_ok=False
    )
    detailed.replies[commands.GetConsumerGroup] = NotFoundError(
        "no such group", code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    )
    assert (await client.delete("/api/v1/groups/G")).status_code == 404


async def test_a_group_with_members_is_deleted_nowhere(client: httpx.AsyncClient, detailed: FakePort) -> None:
    empty = FakePort()
    empty.replies |= {
        commands.DeleteSubscriptionGroup: commands.Done(),
        commands.GetConsumerGroup: group_detail(broker="broker-b", members=[]),
    }
    set_ports({"broker-b": empty, "broker-a": detailed})
    answer = await client.delete("/api/v1/groups/G")
    assert answer.status_code == 409 and "2 members online" in answer.json()["detail"]
    assert not any(isinstance(command, commands.DeleteSubscriptionGroup) for command in empty.commands)
    assert (await client.delete("/api/v1/groups/G?broker=broker-b")).status_code == 204


async def test_a_group_is_deleted_nowhere_while_a_broker_may_have_members(
    client: httpx.AsyncClient, detailed: FakePort
) -> None:
    away = FakePort()
    detailed.replies |= {
        commands.DeleteSubscriptionGroup: commands.Done(),
        commands.GetConsumerGroup: group_detail(members=[]),
    }
    away.replies[commands.GetConsumerGroup] = UnavailableError("away")
    set_ports({"broker-a": detailed, "broker-b": away})
    answer = await client.delete("/api/v1/groups/G")
    assert answer.status_code == 503 and "no answer from broker-b" in answer.json()["detail"]
    assert not any(isinstance(command, commands.DeleteSubscriptionGroup) for command in detailed.commands)
    assert (await client.delete("/api/v1/groups/G?broker=broker-a")).status_code == 204
    away.replies |= dict.fromkeys(
        (commands.GetConsumerGroup, commands.DeleteSubscriptionGroup), NotFoundError("no such group")
    )
    assert (await client.delete("/api/v1/groups/G")).status_code == 204


async def test_a_broker_that_could_not_delete_a_group_is_named(client: httpx.AsyncClient, detailed: FakePort) -> None:
    away = FakePort()
    detailed.replies |= {
        commands.DeleteSubscriptionGroup: commands.Done(),
        commands.GetConsumerGroup: group_detail(members=[]),
    }
    away.replies |= {
        commands.DeleteSubscriptionGroup: UnavailableError("away"),
        commands.GetConsumerGroup: group_detail(members=[]),
    }
    set_ports({"broker-a": detailed, "broker-b": away})
    answer = await client.delete("/api/v1/groups/G")
    assert answer.status_code == 503 and "not at broker-b" in answer.json()["detail"]
