"""Progress of groups in the words of RocketMQ's tools. Bodies are those of RocketMQ 5.4.0, but for the order of
tables."""

from typing import Any

import pytest

from broker_core import commands as c
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests import decode, encode
from tests.fakes.remoting import EXAMPLES, IDENTITY, PEER, command_of, java

QUEUE_0 = b'{"brokerName":"broker-a","queueId":0,"topic":"T"}'
STATS = c.ConsumeStats(
    consume_tps=0.4,
    queues=[
        c.OffsetWrapper(
            topic="T", queue_id=0, broker_offset=3, consumer_offset=1, pull_offset=2, last_timestamp=1_795_277_343_775
        )
    ],
)
STATS_JSON = (
    b'{"consumeTps":0.4,"offsetTable":{' + QUEUE_0 + b':{"brokerOffset":3,"consumerOffset":1,"lastTimestamp":'
    b'1795277343775,"pullOffset":2}}}'
)


def decoded(code: int, body: bytes | None = None, **fields: str) -> Any:
    example, example_body = EXAMPLES[code]
    return decode(command_of(java(code, example | fields, example_body if body is None else body)), PEER)


def answer(code: int, reply: c.Reply) -> bytes:
    response = encode(reply, RemotingCommand.request(code, EXAMPLES[code][0], opaque=9), IDENTITY)
    assert isinstance(response, RemotingCommand) and (response.code, response.remark, response.opaque) == (0, "", 9)
    assert response.ext_fields == {}
    return response.body


@pytest.mark.parametrize(
    ("fields", "topics"),
    [
        ({}, []),
        ({"topic": "T"}, ["T"]),
        ({"topic": ""}, []),
        ({"topicList": "T;U"}, ["T", "U"]),
        ({"topic": "V", "topicList": "T;;U;"}, ["T", "U"]),
    ],
)
def test_progress_of_a_group(fields: dict[str, str], topics: list[str]) -> None:
    command = decode(command_of(java(208, {"consumerGroup": "g"} | fields)), PEER)
    assert command == c.GetConsumeStats(group="g", topics=topics)
    assert answer(208, STATS) == STATS_JSON


def test_progress_of_all_groups() -> None:
    assert decoded(317, isOrder="true") == c.GetBrokerConsumeStats(is_order=True)
    reply = c.BrokerConsumeStats(
        broker_addr="127.0.0.1:10911", groups={"g": [STATS], "h": []}, total_diff=2, total_inflight_diff=1
    )
    assert answer(317, reply) == (
        b'{"brokerAddr":"127.0.0.1:10911","consumeStatsList":[{"g":[' + STATS_JSON + b']},{"h":[]}],"totalDiff":2,'
        b'"totalInflightDiff":1}'
    )


def test_time_spans() -> None:
    assert decoded(303) == c.QueryConsumeTimeSpan(topic="T", group="g")
    reply = c.ConsumeTimeSpans(
        topic="T",
        spans=[c.QueueTimeSpan(queue_id=0, min_timestamp=1, max_timestamp=3, consume_timestamp=2, delay_time=552)],
    )
    assert answer(303, reply) == (
        b'{"consumeTimeSpanSet":[{"consumeTimeStamp":2,"delayTime":552,"maxTimeStamp":3,"messageQueue":'
        + QUEUE_0
        + b',"minTimeStamp":1}]}'
    )


def test_groups_of_a_topic_and_topics_of_a_group() -> None:
    assert decoded(300) == c.QueryTopicConsumeByWho(topic="T")
    assert answer(300, c.GroupNames(groups=["g", "h"])) == b'{"groupList":["g","h"]}'
    assert decoded(343) == c.QueryTopicsByConsumer(group="g")
    assert answer(343, c.TopicNames(broker_addr="127.0.0.1:10911", topics=["T"])) == (
        b'{"brokerAddr":"127.0.0.1:10911","topicList":["T"]}'
    )


def test_a_subscription() -> None:
    assert decoded(345) == c.QuerySubscriptionByConsumer(group="g", topic="T")
    subscription = c.SubscriptionData(topic="T", sub_version=5)
    assert answer(345, c.FoundSubscription(group="g", topic="T", subscription=subscription)) == (
        b'{"group":"g","topic":"T","subscriptionData":{"classFilterMode":false,"codeSet":[],"expressionType":"TAG",'
        b'"subString":"*","subVersion":5,"tagsSet":[],"topic":"T"}}'
    )
    assert answer(345, c.FoundSubscription(group="g", topic="T", subscription=None)) == b'{"group":"g","topic":"T"}'


def test_assignment() -> None:
    assert decoded(400) == c.QueryAssignment(group="g", topic="T", client_id="10.0.0.2@1")
    odd = decoded(
        400, b'{"clientId":"c","consumerGroup":"g","messageModel":"BROADCASTING","topic":"T","strategyName":null}'
    )
    assert odd == c.QueryAssignment(group="g", topic="T", client_id="c", strategy="", message_model="BROADCASTING")
    queue = c.MessageQueue(topic="T", broker_name="broker-b", queue_id=1)
    assert answer(400, c.Assignment(queues=[queue])) == (
        b'{"messageQueueAssignments":[{"messageQueue":{"brokerName":"broker-b","queueId":1,"topic":"T"},"mode":"PULL"}'
        b"]}"
    )
    assert answer(400, c.Assignment(queues=[])) == b'{"messageQueueAssignments":[]}'


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ("1700000000000", -1, None)),
        ({"timestamp": "-1"}, ("max", -1, None)),
        ({"timestamp": "0", "queueId": "2"}, ("0", 2, None)),
        ({"queueId": "2", "offset": "7"}, ("1700000000000", 2, 7)),
        ({"offset": "7"}, ("1700000000000", -1, None)),
        ({"queueId": "-5", "offset": "7"}, ("1700000000000", -1, None)),
    ],
)
def test_moving_a_group(fields: dict[str, str], expected: tuple[str, int, int | None]) -> None:
    command = decoded(222, **fields)
    assert (command.group, command.topic, command.dry_run) == ("g", "T", False)
    assert (command.to, command.queue_id, command.offset) == expected


def test_the_answer_of_a_reset_has_the_new_offsets() -> None:
    assert decoded(222) == decode(
        command_of(java(222, {"topic": "T", "group": "g", "timestamp": "1700000000000"})), PEER
    )
    reply = c.OffsetsReset(
        group="g",
        dry_run=False,
        changes=[],
        offsets=[c.QueueOffset(topic="T", queue_id=0, offset=7), c.QueueOffset(topic="T", queue_id=1, offset=9)],
    )
    assert answer(222, reply) == (
        b'{"offsetTable":{' + QUEUE_0 + b':7,{"brokerName":"broker-a","queueId":1,"topic":"T"}:9}}'
    )


def test_cloning() -> None:
    assert decoded(314) == c.CloneGroupOffset(src_group="g", dest_group="h", topic="T", offline=True)
    assert decode(command_of(java(314, {"srcGroup": "g", "destGroup": "h"})), PEER) == c.CloneGroupOffset(
        src_group="g", dest_group="h"
    )
    assert answer(314, c.Done()) == b""


def test_correction() -> None:
    assert decoded(308) == c.QueryCorrectionOffset(topic="T", filter_groups=["h", "i"], compare_group="g")
    assert decoded(308, filterGroups="").filter_groups == []
    assert answer(308, c.CorrectionOffsets(offsets={0: 1, 1: 2})) == b'{"correctionOffsets":{0:1,1:2}}'


def test_tables() -> None:
    assert decoded(43) == c.GetAllConsumerOffset() and decoded(45) == c.GetAllDelayOffset()
    assert answer(43, c.OffsetTable(table={"offsetTable": {"T@g": {0: 1, 1: 1}}})) == (
        b'{"offsetTable":{"T@g":{0:1,1:1}}}'
    )
    assert answer(45, c.OffsetTable(table={"offsetTable": {1: 5}})) == b'{"offsetTable":{1:5}}'
