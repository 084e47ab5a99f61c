"""Topics and queues over HTTP."""

from typing import Any

import httpx
import pytest

from bridge.port import ConflictError, NotFoundError, RequestError, ResponseCode, commands
from tests.fakes.fake_port import BROKER, FakePort, queue_view

VIEW = commands.TopicView(broker=BROKER, topic="T", read_queues=4, write_queues=4, perm=6, system=False, messages=9)
UNKNOWN = RequestError("the topic T does not exist", code=ResponseCode.TOPIC_NOT_EXIST)


async def test_topics_are_listed(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.GetTopics] = commands.Topics(seq=5, topics=[VIEW])
    body = (await client.get("/api/v1/topics?system=false")).json()
    assert port.commands == [commands.GetTopics(system=False, limit=10_000)]
    assert body == {
        "seq": 5,
        "topics": [
            {
                "broker": BROKER,
                "topic": "T",
                "read_queues": 4,
                "write_queues": 4,
                "perm": 6,
                "system": False,
                "messages": 9,
                "put_tps": 0.0,
            }
        ],
    }


async def test_a_topic_is_shown(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.GetTopic] = commands.Topics(seq=5, topics=[VIEW])
    assert (await client.get("/api/v1/topics/T")).json()["topic"] == "T"
    port.replies[commands.GetTopic] = UNKNOWN
    answer = await client.get("/api/v1/topics/T")
    assert (answer.status_code, answer.json()["code"]) == (404, "TOPIC_NOT_EXIST")


@pytest.mark.parametrize(
    ("body", "read", "write", "perm"),
    [
        ({"queues": 4}, 4, 4, None),
        ({"read_queues": 2, "write_queues": 3, "perm": 4}, 2, 3, 4),
        ({}, None, None, None),
        ({"queues": 4, "write_queues": 2}, 4, 2, None),
    ],
)
async def test_create_or_change(
    client: httpx.AsyncClient,
    port: FakePort,
    body: dict[str, Any],
    read: int | None,
    write: int | None,
    perm: int | None,
) -> None:
    port.replies[commands.UpdateAndCreateTopic] = commands.Topics(seq=5, topics=[VIEW])
    answer = await client.put("/api/v1/topics/T", json=body)
    assert (answer.status_code, answer.json()["topic"]) == (200, "T")
    assert port.commands[0] == commands.UpdateAndCreateTopic(topic="T", read_queues=read, write_queues=write, perm=perm)


async def test_attributes_are_changed_as_mqadmin_changes_them(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.UpdateAndCreateTopic] = commands.Topics(seq=5, topics=[VIEW])
    changes = {"+queue.type": "BatchCQ", "-message.type": ""}
    assert (await client.put("/api/v1/topics/T", json={"attributes": changes})).status_code == 200
    assert port.commands[0] == commands.UpdateAndCreateTopic(topic="T", attributes=changes)


async def test_an_attribute_without_a_sign_is_named_with_the_signs(client: httpx.AsyncClient, port: FakePort) -> None:
    answer = await client.put("/api/v1/topics/T", json={"attributes": {"queue.type": "BatchCQ"}})
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (400, "INVALID_PARAMETER")
    assert problem["errors"][0]["pointer"] == "/attributes/queue.type"
    assert "'+queue.type' to set the attribute, '-queue.type' to remove it" in problem["detail"]
    assert port.commands == []


async def test_an_attribute_that_the_broker_refuses_is_the_clients_fault(
    client: httpx.AsyncClient, port: FakePort
) -> None:
    refusal = RequestError("unsupported key: a", code=ResponseCode.SYSTEM_ERROR, pointer="/attributes")
    port.replies[commands.UpdateAndCreateTopic] = refusal
    answer = await client.put("/api/v1/topics/T", json={"attributes": {"+a": "b"}})
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_PARAMETER")
    assert answer.json()["detail"] == "unsupported key: a"


@pytest.mark.parametrize(
    "body",
    [
        {"attributes": {"": "b"}},
        {"attributes": {"+a": 1}},
        {"attributes": {"+a": "x" * 256}},
        {"queues": 0},
        {"queues": "4"},
        {"perm": 8},
        {"queue": 4},
        [],
        {"queues": 1, "read_queues": 1, "write_queues": 1},
    ],
)
async def test_bad_topic_settings_are_refused(client: httpx.AsyncClient, port: FakePort, body: Any) -> None:
    assert (await client.put("/api/v1/topics/T", json=body)).status_code == 400
    assert port.commands == []


async def test_a_change_that_the_store_cannot_make_is_409(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.UpdateAndCreateTopic] = ConflictError("queues cannot be taken away")
    assert (await client.put("/api/v1/topics/T", json={"queues": 1})).status_code == 409


async def test_delete(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.DeleteTopic] = commands.Done()
    answer = await client.delete("/api/v1/topics/T")
    assert (answer.status_code, answer.content, "content-length" in answer.headers) == (204, b"", False)
    port.replies[commands.DeleteTopic] = UNKNOWN
    assert (await client.delete("/api/v1/topics/T")).status_code == 404


async def test_queues_of_one_topic_and_of_all(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.GetQueues] = commands.Queues(seq=5, queues=[queue_view()])
    assert (await client.get("/api/v1/topics/T/queues")).json() == {
        "seq": 5,
        "queues": [
            {
                "broker": BROKER,
                "topic": "T",
                "queue_id": 0,
                "min_offset": 0,
                "max_offset": 5,
                "last_store_time_ms": None,
                "holds": 0,
            }
        ],
    }
    await client.get("/api/v1/queues")
    assert port.commands == [commands.GetQueues(topic="T"), commands.GetQueues(topic="", limit=1000)]


async def test_a_page_of_queues(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.GetQueues] = commands.Queues(seq=5, queues=[queue_view()], next="T@0")
    answer = (await client.get("/api/v1/queues?limit=1&after=A%40b%253")).json()
    assert answer["errors"][0]["pointer"] == "/after"
    answer = (await client.get("/api/v1/queues?limit=1&after=A%403")).json()
    assert (len(answer["queues"]), answer["next"]) == (1, "T@0")
    assert port.commands == [commands.GetQueues(after="A@3", limit=1)]
    port.replies[commands.GetQueues] = commands.Queues(seq=5, queues=[queue_view()])
    assert "next" not in (await client.get("/api/v1/queues?after=T%400")).json()


async def test_the_offset_at_a_time(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.SearchOffset] = commands.FoundOffset(offset=12)
    body = (await client.get("/api/v1/topics/T/queues/1/offset?timestamp_ms=17&boundary=upper")).json()
    assert port.commands[0] == commands.SearchOffset(topic="T", queue_id=1, timestamp_ms=17, boundary="upper")
    assert body == {"broker": BROKER, "topic": "T", "queue_id": 1, "offset": 12}


async def test_groups_of_a_topic(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.GetTopic] = commands.Topics(seq=1, topics=[VIEW])
    port.replies[commands.QueryTopicConsumeByWho] = commands.GroupNames(groups=["b", "a"])
    answer = await client.get("/api/v1/topics/T/groups")
    assert answer.json() == {"topic": "T", "groups": ["a", "b"], "total": 2}
    answer = await client.get("/api/v1/topics/T/groups?limit=1")
    assert answer.json() == {"topic": "T", "groups": ["a"], "total": 2, "next": "a"}
    answer = await client.get("/api/v1/topics/T/groups?limit=1&after=a")
    assert answer.json() == {"topic": "T", "groups": ["b"], "total": 2}
    port.replies[commands.GetTopic] = NotFoundError("no topic T", code=ResponseCode.TOPIC_NOT_EXIST)
    assert (await client.get("/api/v1/topics/T/groups")).status_code == 404
