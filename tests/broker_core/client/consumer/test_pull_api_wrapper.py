"""Pulls as they are written, and answers as they are read."""

import asyncio

import pytest

from broker_core.client.consumer.pull_api_wrapper import PullAPIWrapper, PullOptions
from broker_core.client.mq_client_exception import MQBrokerException, MQClientException
from broker_core.commands import MessageQueue, SubscriptionData
from broker_core.formats import commit_log_record
from broker_core.formats.inner_batch import INNER_FLAGS
from broker_core.formats.message_batch import BatchEntry, encode_batch
from broker_core.remoting.remoting_command import RemotingCommand
from tests.fakes.client import instance_of
from tests.fakes.virtual_cluster import PULL, VirtualCluster, run_virtually

QUEUE = MessageQueue(topic="orders", broker_name="a", queue_id=0)
FIELDS = {"nextBeginOffset": "9", "minOffset": "1", "maxOffset": "12", "suggestWhichBrokerId": "0"}


def subscription(expression: str = "*") -> SubscriptionData:
    return SubscriptionData(topic="orders", sub_string=expression, sub_version=5)


def answer(code: int, fields: dict[str, str] = FIELDS, body: bytes = b"") -> RemotingCommand:
    return RemotingCommand(code, fields, body, flag=1, remark="why")


def records(*tags: str) -> bytes:
    return b"".join(
        commit_log_record.encode(
            topic="orders", queue_id=0, queue_offset=n, physical_offset=n, body=b"x", properties=f"TAGS\x01{tag}\x02"
        )
        for n, tag in enumerate(tags)
    )


def test_the_pull_of_a_push_consumer_is_javas() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        instance = instance_of(cluster)
        wrapper = PullAPIWrapper(instance, "g")
        options = PullOptions(32, 262_144)
        with pytest.raises(MQClientException, match="no name server has reported a master of broker 'a'"):
            wrapper.pull_kernel_impl(QUEUE, subscription(), 7, options, commit_offset=-1)
        await instance.update_topic_route("orders")
        wrapper.pull_kernel_impl(QUEUE, subscription("A"), 7, options, commit_offset=6)
        await asyncio.sleep(1)
        wrapper.pull_kernel_impl(QUEUE, subscription("A"), 7, options, commit_offset=-1)
        await asyncio.sleep(1)
        first, second = (request.ext_fields for request in broker.sent(PULL))
        assert first == {
            "consumerGroup": "g",
            "topic": "orders",
            "queueId": "0",
            "queueOffset": "7",
            "maxMsgNums": "32",
            "sysFlag": "3",
            "commitOffset": "6",
            "suspendTimeoutMillis": "15000",
            "subVersion": "5",
            "subscription": "A",
            "expressionType": "TAG",
            "maxMsgBytes": "262144",
        }
        assert (second["sysFlag"], second["commitOffset"]) == ("2", "0")
        await instance.api.close()

    run_virtually(story)


def test_answers() -> None:
    found = PullAPIWrapper.process_pull_result(QUEUE, subscription("A || B"), answer(0, body=records("A", "C", "B")))
    assert [message.tags for message in found.messages] == ["A", "B"]
    assert found[:4] == ("FOUND", 9, 1, 12)
    others = PullAPIWrapper.process_pull_result(QUEUE, subscription("A"), answer(0, body=records("C", "\udcff")))
    assert (others.status, others.messages) == ("FOUND", [])
    everything = PullAPIWrapper.process_pull_result(QUEUE, subscription(), answer(0, body=records("A", "C")))
    assert len(everything.messages) == 2
    for code, status in ((19, "NO_NEW_MSG"), (20, "NO_MATCHED_MSG"), (21, "OFFSET_ILLEGAL")):
        assert PullAPIWrapper.process_pull_result(QUEUE, subscription(), answer(code)) == (status, 9, 1, 12, [])


def test_a_batch_is_split_and_begins_at_the_offset_of_the_pull() -> None:
    entries = [BatchEntry(0, b"%d" % number, f"TAGS\x01{tag}\x02") for number, tag in enumerate("ABAB")]
    body = commit_log_record.encode(
        topic="orders",
        queue_id=0,
        queue_offset=5,
        physical_offset=0,
        body=encode_batch(entries),
        sys_flag=INNER_FLAGS,
    )
    for offset, expression, wanted in (
        (0, "*", [5, 6, 7, 8]),
        (5, "*", [5, 6, 7, 8]),
        (7, "*", [7, 8]),
        (6, "A", [7]),
        (8, "A", []),
    ):
        result = PullAPIWrapper.process_pull_result(QUEUE, subscription(expression), answer(0, body=body), offset)
        assert [message.queue_offset for message in result.messages] == wanted
    damaged = commit_log_record.encode(
        topic="orders", queue_id=0, queue_offset=5, physical_offset=0, body=b"x", sys_flag=INNER_FLAGS
    )
    with pytest.raises(MQBrokerException, match="the batch at physical offset 0 is damaged"):
        PullAPIWrapper.process_pull_result(QUEUE, subscription(), answer(0, body=damaged))


def test_answers_that_are_errors() -> None:
    with pytest.raises(MQBrokerException, match=r"a answered SUBSCRIPTION_NOT_EXIST \(24\): why"):
        PullAPIWrapper.process_pull_result(QUEUE, subscription(), answer(24))
    for fields, body in (
        ({}, b""),
        (FIELDS, records("A")[:-1]),
        (FIELDS, b"x"),
        (FIELDS, b""),
        (FIELDS | {"maxOffset": "x"}, b""),
    ):
        with pytest.raises(MQBrokerException, match="cannot be read"):
            PullAPIWrapper.process_pull_result(QUEUE, subscription(), answer(0, fields, body))
