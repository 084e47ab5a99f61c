"""Permits, messages and acknowledgements of a subscription, over its socket."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from bridge.port import UnavailableError, commands
from tests.api.consumer_client import Client, connected
from tests.fakes.fake_group import FakeGroup, until
from tests.fakes.fake_port import FakePort


@pytest.fixture
def group(port: FakePort) -> FakeGroup:
    return FakeGroup(port)


@pytest.fixture
async def client(group: FakeGroup) -> AsyncIterator[Client]:
    async with connected() as client:
        yield client


async def test_nothing_is_pulled_or_sent_without_permits(client: Client, group: FakeGroup) -> None:
    group.publish("a")
    assert (await client.subscribe())["type"] == "assigned"
    await client.quiet()
    assert group.sent(commands.PullMessage) == []
    await client.permit(1)
    assert (await client.receive("message"))["body"] == "a"


async def test_a_message_names_its_queue_and_broker(client: Client, group: FakeGroup) -> None:
    group.publish("a", 1)
    await client.subscribe(id="s")
    await client.permit(5, "s")
    message = await client.receive("message")
    assert {name: message[name] for name in ("id", "seq", "broker", "topic", "queue_id", "queue_offset", "body")} == {
        "id": "s",
        "seq": 1,
        "broker": "broker-a",
        "topic": "T",
        "queue_id": 1,
        "queue_offset": 0,
        "body": "a",
    }


async def test_no_more_is_sent_than_is_permitted(client: Client, group: FakeGroup) -> None:
    for number in range(5):
        group.publish(str(number))
    await client.subscribe()
    await client.permit(2)
    assert [(await client.receive("message"))["body"] for _ in range(2)] == ["0", "1"]
    await client.quiet()
    await client.permit(2)
    assert [(await client.receive("message"))["body"] for _ in range(2)] == ["2", "3"]
    await client.quiet()


async def test_each_queue_keeps_its_order_and_gets_its_turn(client: Client, group: FakeGroup) -> None:
    for number in range(20):
        group.publish(f"a{number}", 0)
        group.publish(f"b{number}", 1)
    await client.subscribe()
    bodies: list[str] = []
    for _ in range(20):
        await client.permit(1)
        bodies.append((await client.receive("message"))["body"])
    for queue in "ab":
        of_queue = [body for body in bodies if body.startswith(queue)]
        assert of_queue == [f"{queue}{number}" for number in range(len(of_queue))]
        assert len(of_queue) >= 8


async def test_messages_of_a_woken_pull_wait_for_new_permits(client: Client, group: FakeGroup) -> None:
    await client.subscribe()
    await client.permit(1)
    await until(lambda: len(group.held()) == 2)  # both queues are asked, with one permit
    group.publish("first", 0)
    await client.receive("message")
    group.publish("second", 1)
    await client.quiet()
    await client.permit(1)
    assert (await client.receive("message"))["body"] == "second"


async def test_offsets_are_committed_up_to_the_first_open_message(client: Client, group: FakeGroup) -> None:
    for number in range(4):
        group.publish(str(number))
    await client.subscribe()
    await client.permit(4)
    for _ in range(4):
        await client.receive("message")
    await client.send(
        type="ack",
        id=1,
        offsets=[{"queue_id": 0, "offset": 0}, {"queue_id": 0, "offset": 1}, {"queue_id": 0, "offset": 3}],
    )
    await client.send(type="unsubscribe", id=1)
    await client.receive("unsubscribed")
    assert group.committed["T", 0] == 2


async def test_unacknowledged_messages_are_delivered_again_after_a_reconnect(group: FakeGroup) -> None:
    for number in range(3):
        group.publish(str(number))
    async with connected() as client:
        await client.subscribe()
        await client.permit(3)
        offsets = [(await client.receive("message"))["queue_offset"] for _ in range(3)]
        await client.send(type="ack", id=1, offsets=[offsets[0]])
        await client.quiet()
    async with connected() as client:
        await client.subscribe()
        await client.permit(3)
        assert [(await client.receive("message"))["body"] for _ in range(2)] == ["1", "2"]


@pytest.mark.parametrize(
    "entry",
    [
        {"offset": 0},
        {"offset": 0, "queue_id": 1},
        {"offset": 0, "topic": "T"},
        {"offset": 0, "queue_id": 1, "topic": "T", "broker": "broker-a"},
        0,
    ],
)
async def test_an_ack_names_a_message_in_several_ways(client: Client, group: FakeGroup, entry: Any) -> None:
    group.publish("a", 1)
    await client.subscribe()
    await client.permit(1)
    await client.receive("message")
    await client.send(type="ack", id=1, offsets=[entry])
    await client.send(type="unsubscribe", id=1)
    await client.receive("unsubscribed")
    assert group.committed["T", 1] == 1


@pytest.mark.parametrize("entry", [0, {"offset": 0}, {"offset": 0, "topic": "T"}])
async def test_an_ambiguous_ack_is_refused_as_a_whole(client: Client, group: FakeGroup, entry: Any) -> None:
    for queue_id in (0, 0, 1):
        group.publish("a", queue_id)
    await client.subscribe()
    await client.permit(3)
    for _ in range(3):
        await client.receive("message")
    await client.send(type="ack", id=1, offsets=[{"offset": 1, "queue_id": 0}, entry])
    problem = await client.receive("problem")
    assert (problem["id"], problem["status"], problem["errors"][0]["pointer"]) == (1, 400, "/offsets/1")
    assert "T@0 at broker-a, T@1 at broker-a" in problem["detail"]
    await client.send(type="unsubscribe", id=1)
    await client.receive("unsubscribed")
    assert group.committed["T", 0] == 0


async def test_an_ack_of_a_message_that_is_not_open_is_ignored(client: Client, group: FakeGroup) -> None:
    group.publish("a")
    await client.subscribe()
    await client.permit(1)
    await client.receive("message")
    await client.send(type="ack", id=1, offsets=[0, {"offset": 77, "queue_id": 0}, {"offset": 0, "queue_id": 9}])
    await client.send(type="ack", id=1, offsets=[0])
    await client.quiet()


async def test_permits_and_unacknowledged_messages_have_a_limit(client: Client, group: FakeGroup) -> None:
    group.publish("a")
    await client.subscribe()
    await client.permit(10_000)
    await client.receive("message")
    await client.permit(1)
    problem = await client.receive("problem")
    assert (problem["id"], problem["status"], problem["code"]) == (1, 429, "FLOW_CONTROL")
    assert "9999 permits are not used and 1 messages are not acknowledged" in problem["detail"]
    await client.send(type="ack", id=1, offsets=[0])
    await client.permit(1)
    await client.quiet()
    await client.permit(10_001)
    assert (await client.receive("problem"))["errors"][0]["pointer"] == "/n"


async def test_a_nack_sends_the_message_back_and_finishes_it(client: Client, group: FakeGroup) -> None:
    group.publish("a", 1)
    await client.subscribe()
    await client.permit(1)
    await client.receive("message")
    await client.send(type="nack", id=1, offset=0, queue_id=1, delay_level=3)
    await client.quiet()
    assert group.sent_back == [
        commands.ConsumerSendMsgBack(group="G", physical_offset=1000, delay_level=3, origin_topic="T")
    ]
    await client.send(type="nack", id=1, offset=0, queue_id=1)
    assert (await client.receive("problem"))["status"] == 404
    await client.send(type="unsubscribe", id=1)
    await client.receive("unsubscribed")
    assert group.committed["T", 1] == 1


async def test_a_nack_that_fails_leaves_the_message_open(client: Client, group: FakeGroup, port: FakePort) -> None:
    group.publish("a")
    await client.subscribe()
    await client.permit(1)
    await client.receive("message")
    port.replies[commands.ConsumerSendMsgBack] = UnavailableError("not now")
    await client.send(type="nack", id=1, offset=0)
    assert (await client.receive("problem"))["status"] == 503
    await client.send(type="unsubscribe", id=1)
    await client.receive("unsubscribed")
    assert group.committed["T", 0] == 0


async def test_messages_of_the_retry_topic_are_delivered(client: Client, group: FakeGroup) -> None:
    group.queues["%RETRY%G"] = 1
    group.publish("again", topic="%RETRY%G")
    group.publish("new")
    assigned = await client.subscribe(filter="TagA")
    assert [queue["topic"] for queue in assigned["queues"]] == ["%RETRY%G", "T", "T"]
    await client.permit(2)
    messages = {message["topic"]: message for message in [await client.receive("message") for _ in range(2)]}
    assert messages["%RETRY%G"]["body"] == "again"
    filters = {pull.topic: pull.subscription for pull in group.sent(commands.PullMessage)}
    assert filters == {"T": "TagA", "%RETRY%G": "*"}
    await client.send(type="ack", id=1, offsets=[{"topic": "%RETRY%G", "queue_id": 0, "offset": 0}])
    await client.send(type="unsubscribe", id=1)
    await client.receive("unsubscribed")
    assert group.committed["%RETRY%G", 0] == 1
    assert group.committed["T", 0] == 0


async def test_a_problem_of_all_queues_is_sent_once(client: Client, group: FakeGroup, port: FakePort) -> None:
    group.publish("a")
    await client.subscribe()
    port.replies[commands.PullMessage] = UnavailableError("the engine is away")
    await client.permit(1)
    assert (await client.receive("problem"))["detail"] == "the engine is away"
    await until(lambda: len({(pull.topic, pull.queue_id) for pull in group.sent(commands.PullMessage)}) == 3)
    await client.quiet()


async def test_a_problem_of_one_queue_is_sent_once(
    client: Client, group: FakeGroup, port: FakePort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.consumer.queue_consumer.PAUSE_S", 0)
    group.queues["T"] = 1
    refusals = iter([UnavailableError("too much"), UnavailableError("too much"), UnavailableError("something else")])
    read = port.replies[commands.PullMessage]

    def pull(command: commands.PullMessage) -> Any:
        return (next(refusals, None) or read(command)) if command.topic == "T" else read(command)

    port.replies[commands.PullMessage] = pull
    group.publish("a")
    await client.subscribe()
    await client.permit(1)
    assert [(await client.receive("problem"))["detail"] for _ in range(2)] == ["too much", "something else"]
    assert (await client.receive("message"))["body"] == "a"
