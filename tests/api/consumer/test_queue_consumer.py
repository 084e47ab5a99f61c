"""Where a queue begins, and what happens when it moves, stalls or brings too much."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from api.consumer import queue_consumer
from api.consumer.queue_consumer import Queue
from bridge.port import ResponseCode, commands
from broker_core.formats.inner_batch import INNER_FLAGS
from broker_core.formats.message_batch import BatchEntry, encode_batch
from tests.api.consumer_client import Client, connected
from tests.fakes.fake_group import FakeGroup, until
from tests.fakes.fake_port import FakePort, pulled, record


@pytest.fixture
def group(port: FakePort) -> FakeGroup:
    return FakeGroup(port, queues=1)


@pytest.fixture
async def client(group: FakeGroup) -> AsyncIterator[Client]:
    async with connected() as client:
        yield client


def test_queues_sort_as_rocketmqs_clients_sort_them() -> None:
    queues = [Queue("T", "b", 0), Queue("T", "a", 10), Queue("T", "a", 9), Queue("%RETRY%G", "z", 0)]
    assert sorted(queues) == [queues[3], queues[2], queues[1], queues[0]]
    assert str(queues[0]) == "T@0"


@pytest.mark.parametrize(("start", "offset"), [("first", 0), ("last", 3), (1_700_000_000_000, 1)])
async def test_a_new_group_begins_where_the_subscription_asks(
    client: Client, group: FakeGroup, start: Any, offset: int
) -> None:
    for number in range(3):
        group.publish(str(number))
    await client.subscribe(**{"from": start})
    await client.permit(1)
    await until(lambda: any(pull.topic == "T" for pull in group.sent(commands.PullMessage)))
    pulls = {pull.topic: pull.queue_offset for pull in group.sent(commands.PullMessage)}
    assert pulls["T"] == offset
    if isinstance(start, int):
        assert group.sent(commands.SearchOffset)[0].timestamp_ms == start


async def test_the_default_start_is_last(client: Client, group: FakeGroup) -> None:
    group.publish("old")
    await client.send(type="subscribe", id=1, topic="T", group="G")
    await client.receive("assigned")
    await client.permit(1)
    await until(lambda: len(group.held()) == 1)
    group.publish("new")
    assert (await client.receive("message"))["body"] == "new"


async def test_the_retry_topic_is_never_skipped(client: Client, group: FakeGroup) -> None:
    group.queues["%RETRY%G"] = 1
    group.publish("again", topic="%RETRY%G")
    await client.subscribe(**{"from": "last"})
    await client.permit(1)
    assert (await client.receive("message"))["body"] == "again"


async def test_a_group_continues_at_its_committed_offset(client: Client, group: FakeGroup) -> None:
    for number in range(3):
        group.publish(str(number))
    group.committed["T", 0] = 2
    await client.subscribe()
    await client.permit(1)
    assert (await client.receive("message"))["body"] == "2"
    assert all(not query.set_zero_if_not_found for query in group.sent(commands.QueryOffset))


async def test_pulls_carry_group_client_and_filter(client: Client, group: FakeGroup) -> None:
    await client.subscribe(filter="TagA || TagB")
    await client.permit(7)
    await until(lambda: len(group.held()) == 1)
    (held,) = group.held()
    assert held.command == commands.PullMessage(
        topic="T",
        queue_id=0,
        queue_offset=0,
        max_msg_nums=7,
        suspend_timeout_ms=15_000,
        consumer_group="G",
        client_id="web-1",
        protocol="websocket",
        subscription="TagA || TagB",
        report_hold=True,
        check_group=True,
    )


async def test_a_moved_offset_forgets_open_messages(client: Client, group: FakeGroup, port: FakePort) -> None:
    for number in range(3):
        group.publish(str(number))
    await client.subscribe()
    await client.permit(4)
    for _ in range(3):
        await client.receive("message")
    await until(lambda: len(group.held()) == 1)
    port.end(group.held()[0], pulled(ResponseCode.PULL_OFFSET_MOVED, next_offset=1))  # somebody has reset it
    message = await client.receive("message")
    assert (message["body"], message["seq"]) == ("1", 4)
    await client.send(type="ack", id=1, offsets=[0, 2])
    await client.send(type="unsubscribe", id=1)
    await client.receive("unsubscribed")
    assert group.committed["T", 0] == 1


async def test_rejected_messages_count_as_done(client: Client, group: FakeGroup, port: FakePort) -> None:
    await client.subscribe()
    await client.permit(1)
    await until(lambda: len(group.held()) == 1)
    port.end(group.held()[0], pulled(ResponseCode.PULL_RETRY_IMMEDIATELY, next_offset=40))
    await until(lambda: len(group.held()) == 1 and group.held()[0].command.queue_offset == 40)
    await client.send(type="unsubscribe", id=1)
    await client.receive("unsubscribed")
    assert group.committed["T", 0] == 40


async def test_a_queue_far_ahead_of_an_unacknowledged_message_is_not_pulled(
    client: Client, group: FakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_consumer, "MAX_SPAN", 3)
    monkeypatch.setattr(queue_consumer, "DEFAULT_PULL_MESSAGES", 1)
    for number in range(6):
        group.publish(str(number))
    await client.subscribe()
    await client.permit(10)
    assert [(await client.receive("message"))["body"] for _ in range(3)] == ["0", "1", "2"]
    problem = await client.receive("problem")
    assert (problem["id"], problem["status"]) == (1, 429)
    assert "T@0: offset 0 is not acknowledged, and the queue is 3 offsets ahead of it" in problem["detail"]
    await client.send(type="ack", id=1, offsets=[1, 2])
    await client.quiet()
    await client.send(type="ack", id=1, offsets=[0])
    assert [(await client.receive("message"))["body"] for _ in range(3)] == ["3", "4", "5"]
    assert "offset 3 is not acknowledged" in (await client.receive("problem"))["detail"]


async def test_an_empty_answer_that_was_not_held_causes_a_pause(
    client: Client, group: FakeGroup, port: FakePort, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        del port.replies[commands.PullMessage]

    monkeypatch.setattr(queue_consumer.asyncio, "sleep", pause)
    port.replies[commands.PullMessage] = pulled(ResponseCode.PULL_NOT_FOUND)
    group.queues["%RETRY%G"] = 0
    await client.subscribe()
    await client.permit(1)
    await port.until_held(1)
    assert pauses == [queue_consumer.PAUSE_S]


async def test_messages_without_permits_are_bounded_and_pulled_again(
    group: FakeGroup, port: FakePort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.consumer.socket.MAX_BUFFERED", 1)
    group.queues["T"] = 3
    async with connected() as client:
        await client.subscribe()
        await client.permit(1)
        await until(lambda: len(group.held()) == 3)
        for queue_id in range(3):
            group.publish(f"of {queue_id}", queue_id)
        bodies = [(await client.receive("message"))["body"]]
        await client.quiet()
        for _ in range(2):
            await client.permit(1)
            bodies.append((await client.receive("message"))["body"])
        assert sorted(bodies) == ["of 0", "of 1", "of 2"]


async def test_messages_of_a_batch_before_the_queues_offset_are_passed_over(
    client: Client, group: FakeGroup, port: FakePort
) -> None:
    group.committed["T", 0] = 2
    await client.subscribe()
    await client.permit(3)
    await until(lambda: len(group.held()) == 1 and group.held()[0].command.queue_offset == 2)
    entries = [BatchEntry(0, b"%d" % number, "") for number in range(4)]
    batch = record(body=encode_batch(entries), sys_flag=INNER_FLAGS)
    port.end(group.held()[0], pulled(records=batch, next_offset=4))
    messages = [await client.receive("message") for _ in range(2)]
    assert [(message["queue_offset"], message["body"]) for message in messages] == [(2, "2"), (3, "3")]
    await until(lambda: len(group.held()) == 1 and group.held()[0].command.queue_offset == 4)


async def test_an_unreadable_record_is_sent_and_passed_over(client: Client, group: FakeGroup, port: FakePort) -> None:
    await client.subscribe()
    await client.permit(2)
    await until(lambda: len(group.held()) == 1)
    port.end(group.held()[0], pulled(records=b"nonsense", next_offset=1))
    message = await client.receive("message")
    assert (message["queue_offset"], message["size"]) == (-1, 8)
    await until(lambda: len(group.held()) == 1 and group.held()[0].command.queue_offset == 1)
