"""Pull, cancel, commit and publish over one WebSocket."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from api.consumer import socket as consumer_socket
from api.consumer.socket import consumer_application
from api.http.limits import SMALL_ANSWER
from api.http.outbox import FRAMES, Outbox
from bridge.port import RequestError, ResponseCode, commands
from tests.api.consumer_client import Client, connected
from tests.fakes.engine import Bench
from tests.fakes.fake_group import FakeGroup, until
from tests.fakes.fake_port import FakePort, pulled, record, sent

PULL = {"type": "pull", "topic": "T", "queue_id": 0, "offset": 3}


@pytest.fixture
async def socket(port: FakePort) -> AsyncIterator[Client]:
    client = Client(consumer_application, "/ws/v1/consumer", subprotocols=["rmq.v1.json"])
    await client.connect()
    yield client
    await client.disconnect()


async def test_hello(socket: Client, port: FakePort) -> None:
    await socket.send(type="hello", client_id="c-1")
    welcome = await socket.receive()
    assert (welcome["type"], welcome["broker"], welcome["client_id"]) == ("welcome", "broker-a", "c-1")
    assert welcome["supported"] == [
        "hello",
        "pull",
        "cancel",
        "commit",
        "publish",
        "ping",
        "subscribe",
        "permit",
        "ack",
        "nack",
        "unsubscribe",
        "receive",
        "acknowledge",
        "lease",
    ]
    assert welcome["limits"]["max_frame_bytes"] == 6 << 20
    assert port.commands[-1] == commands.OpenConnection(client_id="c-1", protocol="websocket", remote="127.0.0.1:0")
    await socket.send(type="hello", client_id="c-2")
    assert (await socket.receive())["status"] == 409


async def test_without_hello_the_server_chooses_the_client_id(socket: Client, port: FakePort) -> None:
    await socket.send(**PULL, id=1)
    await socket.receive()
    assert port.held[0].command.client_id.startswith("127.0.0.1:0#")


async def test_held_woken_pulled(socket: Client, port: FakePort) -> None:
    await socket.send(**PULL, id="a", wait_ms=2000, limit=5, filter="TagA", group="G")
    assert await socket.receive() == {"type": "held", "id": "a", "hold_id": 1, "deadline_ms": 1_700_000_015_000}
    command = port.held[0].command
    assert (
        command.suspend_timeout_ms,
        command.max_msg_nums,
        command.subscription,
        command.consumer_group,
        command.protocol,
        command.report_hold,
    ) == (2000, 5, "TagA", "G", "websocket", True)
    port.wake(port.held[0], record())
    assert await socket.receive() == {"type": "woken", "id": "a", "hold_id": 1, "cause": "arrival", "held_ms": 12}
    answer = await socket.receive()
    assert (answer["type"], answer["id"], answer["status"], answer["messages"][0]["body"]) == (
        "pulled",
        "a",
        "found",
        "hello",
    )
    assert answer["hold"]["wake_cause"] == "arrival"


async def test_a_pulled_frame_has_the_first_messages_that_fit(socket: Client, port: FakePort) -> None:
    bodies = [b"x" * (3 << 20), b"y" * (3 << 20), b"z"]

    def reply(command: commands.PullMessage) -> commands.Pulled:
        left = [record(bodies[offset], queue_offset=offset) for offset in range(command.queue_offset, 3)]
        return pulled(records=b"".join(left), next_offset=3)

    port.replies[commands.PullMessage] = reply
    answers = []
    for offset in (0, 1):
        await socket.send(**PULL | {"offset": offset}, id=offset)
        answers.append(await socket.receive("pulled"))
    offsets = [[message["queue_offset"] for message in answer["messages"]] for answer in answers]
    assert (offsets, [answer["next_offset"] for answer in answers]) == ([[0], [1, 2]], [1, 3])


async def test_answers_that_wait_take_a_bounded_buffer_and_are_pulled_again(
    socket: Client, port: FakePort, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = asyncio.Event()

    async def wait(outbox: Outbox) -> None:
        await free.wait()

    monkeypatch.setattr(Outbox, "_wait_for_server_buffer", wait)
    for number in range(50):
        await socket.send(**PULL, id=number)
    await port.until_held(50)
    port.replies[commands.PullMessage] = pulled(records=record(b"again"), next_offset=4)
    for held in list(port.held):
        port.wake(held, record(b"x" * (3 << 20)))
    for _ in range(100):
        await asyncio.sleep(0)
    free.set()
    frames = [await socket.receive() for _ in range(150)]
    answers = [frame for frame in frames if frame["type"] == "pulled"]
    assert sorted(answer["id"] for answer in answers) == list(range(50))
    assert all(answer["hold"]["wake_cause"] == "arrival" for answer in answers)
    kept = [answer for answer in answers if answer["messages"][0]["body"] != "again"]
    assert 1 <= len(kept) <= 3
    again = [command for command in port.commands if isinstance(command, commands.PullMessage)][50:]
    assert (len(again), {command.suspend_timeout_ms for command in again}) == (50 - len(kept), {0})


@pytest.mark.parametrize("is_member", [False, True])
async def test_large_frames_wait_while_other_clients_have_all_their_memory(port: FakePort, is_member: bool) -> None:
    group = FakeGroup(port, queues=1)
    group.publish("x" * SMALL_ANSWER + "x")
    memory = FRAMES.max_bytes
    assert FRAMES.take(memory)
    async with connected() as client:
        if is_member:
            await client.subscribe()
            await client.permit(1)
        else:
            await client.send(**PULL | {"offset": 0}, id=1)
        await until(lambda: FRAMES.waiting == 1)
        await client.quiet()
        FRAMES.give_back(memory)
        frame = await client.receive("message" if is_member else "pulled")
        await until(lambda: not FRAMES.taken)
    assert len(frame["body"] if is_member else frame["messages"][0]["body"]) == SMALL_ANSWER + 1


async def test_many_pulls_are_held_and_answered_as_they_are_woken(socket: Client, port: FakePort) -> None:
    for number in range(20):
        await socket.send(**PULL, id=number)
        assert (await socket.receive())["type"] == "held"
    for held in reversed(list(port.held)):
        port.wake(held)
    answers = [await socket.receive() for _ in range(40)]
    assert sorted(answer["id"] for answer in answers if answer["type"] == "pulled") == list(range(20))
    assert answers[0]["id"] == 19


async def test_a_pull_that_finds_messages_at_once(socket: Client, port: FakePort) -> None:
    port.replies[commands.PullMessage] = pulled(records=record())
    await socket.send(**PULL, id=1, wait_ms=0)
    answer = await socket.receive()
    assert (answer["type"], answer["hold"], answer["effective_wait_ms"]) == ("pulled", None, 0)


async def test_cancel(socket: Client, port: FakePort) -> None:
    await socket.send(**PULL, id=1)
    await socket.receive()
    await socket.send(type="cancel", id=1)
    assert await socket.receive() == {"type": "cancelled", "id": 1}
    assert port.held == []
    await socket.send(type="cancel", id=1)
    frame = await socket.receive()
    assert (frame["id"], frame["status"]) == (1, 404)


async def test_a_disconnect_releases_all_holds(socket: Client, port: FakePort) -> None:
    for number in range(3):
        await socket.send(**PULL, id=number)
        await socket.receive()
    await socket.disconnect()
    await port.until_held(0)
    assert not port.connections[0].is_open


async def test_an_id_in_use_is_refused(socket: Client, port: FakePort) -> None:
    await socket.send(**PULL, id=1)
    await socket.receive()
    await socket.send(**PULL, id=1)
    frame = await socket.receive()
    assert (frame["type"], frame["id"], frame["status"]) == ("problem", 1, 409)
    assert len(port.held) == 1


async def test_a_socket_has_at_most_a_thousand_pulls(socket: Client, port: FakePort) -> None:
    for number in range(1001):
        await socket.send(**PULL, id=number)
    frames = [await socket.receive() for _ in range(1001)]
    refused = [frame for frame in frames if frame["type"] == "problem"]
    assert [(frame["id"], frame["status"], frame["code"], frame["retry_after_ms"]) for frame in refused] == [
        (1000, 429, "FLOW_CONTROL", 1000)
    ]
    assert len(port.held) == 1000
    port.wake(port.held[0])
    assert [(await socket.receive())["type"] for _ in range(2)] == ["woken", "pulled"]
    await socket.send(**PULL, id=1000)
    assert (await socket.receive())["type"] == "held"


async def test_only_a_few_pulls_read_at_once(socket: Client, port: FakePort) -> None:
    gate = asyncio.Event()

    async def slowly() -> commands.Reply:
        await gate.wait()
        return pulled()

    port.replies[commands.PullMessage] = lambda command: slowly()
    for number in range(20):
        await socket.send(**PULL, id=number)
    await socket.send(type="ping")
    assert await socket.receive() == {"type": "pong"}
    assert sum(isinstance(command, commands.PullMessage) for command in port.commands) == 4
    gate.set()
    assert sorted([(await socket.receive())["id"] for _ in range(20)]) == list(range(20))


async def test_errors_of_the_broker_become_problems(socket: Client, port: FakePort) -> None:
    port.replies[commands.PullMessage] = RequestError(
        "no such topic", code=ResponseCode.TOPIC_NOT_EXIST, pointer="/topic"
    )
    await socket.send(**PULL, id=1)
    frame = await socket.receive()
    assert (frame["id"], frame["status"], frame["code"]) == (1, 404, "TOPIC_NOT_EXIST")
    assert frame["errors"] == [{"pointer": "/topic", "detail": "no such topic"}]


@pytest.mark.parametrize(
    "fields", [{"offsets": [{"topic": "T", "queue_id": 1, "offset": 42}]}, {"topic": "T", "queue_id": 1, "offset": 42}]
)
async def test_commit(socket: Client, port: FakePort, fields: dict[str, Any]) -> None:
    await socket.send(type="commit", id=1, group="G", **fields)
    assert await socket.receive() == {
        "type": "committed",
        "id": 1,
        "group": "G",
        "offsets": [{"topic": "T", "queue_id": 1, "offset": 42}],
    }
    command = port.commands[-1]
    assert isinstance(command, commands.UpdateConsumerOffset)
    assert command.offsets == [commands.QueueOffset(topic="T", queue_id=1, offset=42)]


@pytest.mark.parametrize(
    "fields", [{}, {"topic": "T"}, {"offsets": [{"topic": "T", "queue_id": 1, "offset": 42}], "topic": "T"}]
)
async def test_a_commit_needs_a_list_or_one_offset(socket: Client, fields: dict[str, Any]) -> None:
    await socket.send(type="commit", id=1, group="G", **fields)
    frame = await socket.receive()
    assert (frame["id"], frame["status"]) == (1, 400)


async def test_an_idempotency_key_is_not_empty(socket: Client, port: FakePort) -> None:
    await socket.send(type="publish", id="p", topic="T", body="x", idempotency_key="")
    frame = await socket.receive()
    assert (frame["id"], frame["status"], frame["errors"][0]["pointer"]) == ("p", 400, "/idempotency_key")
    assert not any(isinstance(command, commands.SendMessage) for command in port.commands)


async def test_a_wrong_property_is_named(socket: Client, port: FakePort) -> None:
    await socket.send(type="publish", id="p", topic="T", messages=[{"body": "x", "properties": {"a": 1}}])
    frame = await socket.receive()
    assert (frame["id"], frame["errors"][0]["pointer"]) == ("p", "/messages/0/properties/a")


async def test_publish_one_and_several(socket: Client, port: FakePort) -> None:
    await socket.send(type="publish", id="p", topic="T", body="x", tag="A", idempotency_key="k")
    frame = await socket.receive()
    assert (frame["type"], frame["id"], frame["messages"][0]["message_id"]) == ("published", "p", "ID0")
    command = port.commands[-1]
    assert isinstance(command, commands.SendMessage)
    assert (command.messages[0].body, command.idempotency_key) == (b"x", "k")
    await socket.send(
        type="publish", id="q", topic="T", messages=[{"body": "a"}, {"body": {"b": 1}, "body_encoding": "json"}]
    )
    assert len((await socket.receive())["messages"]) == 2


@pytest.mark.parametrize("field", ["delay_ms", "deliver_at_ms"])
async def test_a_message_is_published_for_an_exact_time(socket: Client, port: FakePort, field: str) -> None:
    port.replies[commands.SendMessage] = Bench().call
    await socket.send(type="publish", id=1, topic="T", body="x", **{field: 1000})
    frame = await socket.receive()
    assert frame["type"] == "published"
    command = port.commands[-1]
    assert isinstance(command, commands.SendMessage)
    assert {"delay_ms": "TIMER_DELAY_MS", "deliver_at_ms": "TIMER_DELIVER_MS"}[field] in command.messages[0].properties


async def test_a_key_used_again_for_another_body_is_409(socket: Client, port: FakePort) -> None:
    port.replies[commands.SendMessage] = Bench().call
    frames = []
    for number, body in enumerate(["hello", "hello", "other"]):
        await socket.send(type="publish", id=number, topic="T", body=body, idempotency_key="k1")
        frames.append(await socket.receive())
    first, again, other = frames
    assert first["type"] == again["type"] == "published" and first["messages"] == again["messages"]
    assert (other["id"], other["status"], other["code"]) == (2, 409, "ILLEGAL_OPERATION")
    assert "this send differs" in other["detail"]


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({}, "/body"),
        ({"body": "x", "messages": [{"body": "y"}]}, "/messages"),
        ({"body": 1}, "/body"),
        ({"messages": [{"body": "x", "tag": "\x01"}]}, "/messages/0/tag"),
        ({"messages": [{"body": "x"}], "queue_id": 1}, "/queue_id"),
        ({"body": "x", "delay_ms": 1, "deliver_at_ms": 1}, "/delay_ms"),
        ({"body": "x", "topic": "../x"}, "/topic"),
    ],
)
async def test_invalid_publishes(socket: Client, port: FakePort, fields: dict[str, Any], pointer: str) -> None:
    await socket.send(**{"type": "publish", "id": 1, "topic": "T"} | fields)
    frame = await socket.receive()
    assert (frame["id"], frame["status"], frame["errors"][0]["pointer"]) == (1, 400, pointer)


async def test_the_brokers_error_points_into_the_frame(socket: Client, port: FakePort) -> None:
    port.replies |= dict.fromkeys((commands.SendMessage, commands.UpdateConsumerOffset), Bench().call)
    await socket.send(type="publish", id=0, topic="T", body="x")
    assert (await socket.receive())["type"] == "published"
    queue = {"topic": "T", "queue_id": 99}
    for fields, pointer in [
        ({"type": "publish", "topic": "T", "body": "x", "queue_id": 99}, "/queue_id"),
        ({"type": "publish", "topic": "T", "messages": [{"body": "x", "queue_id": 99}]}, "/messages/0/queue_id"),
        ({"type": "commit", "group": "G", "offset": 1} | queue, "/queue_id"),
        ({"type": "commit", "group": "G", "offsets": [{"offset": 1} | queue]}, "/offsets/0/queue_id"),
    ]:
        await socket.send(**{"id": 1} | fields)
        assert (await socket.receive())["errors"][0]["pointer"] == pointer


async def test_a_publisher_that_does_not_wait_is_refused(
    socket: Client, port: FakePort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_socket, "MAX_PUBLISHES_PER_SOCKET", 2)
    gate = asyncio.Event()

    async def slowly(command: commands.SendMessage) -> commands.Reply:
        await gate.wait()
        return sent(command)

    port.replies[commands.SendMessage] = slowly
    for number in range(3):
        await socket.send(type="publish", id=number, topic="T", body="x")
    frame = await socket.receive()
    assert (frame["id"], frame["code"]) == (2, "FLOW_CONTROL")
    gate.set()
    assert [(await socket.receive())["id"] for _ in range(2)] == [0, 1]


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "permit", "n": 5},
        {"type": "ack", "offsets": [1]},
        {"type": "nack", "offset": 1},
        {"type": "unsubscribe"},
    ],
)
async def test_frames_for_an_unknown_subscription(socket: Client, frame: dict[str, Any]) -> None:
    await socket.send(**frame, id=1)
    answer = await socket.receive("problem")
    assert (answer["id"], answer["status"], answer["errors"][0]["pointer"]) == (1, 404, "/id")


async def test_pulls_and_subscriptions_share_their_ids(socket: Client, port: FakePort) -> None:
    FakeGroup(port)
    await socket.send(**PULL, id=1)
    await socket.receive("held")
    assert (await socket.subscribe(id=1))["status"] == 409
    assert (await socket.subscribe(id=2))["type"] == "assigned"
    await socket.send(**PULL, id=2)
    assert "a subscription with the id 2" in (await socket.receive("problem"))["detail"]


async def test_large_numbers_as_text(port: FakePort) -> None:
    client = Client(consumer_application, "/ws/v1/consumer?int64=string")
    await client.connect()
    port.replies[commands.PullMessage] = pulled(records=record())
    await client.send(**PULL, id=1)
    answer = await client.receive()
    assert (answer["next_offset"], answer["messages"][0]["queue_offset"], answer["id"]) == ("1", "0", 1)
    await client.disconnect()
