"""Topics in the words of RocketMQ's tools. Bodies are those of RocketMQ 5.4.0, but for the order of tables."""

from typing import Any

import pytest

from broker_core import commands as c
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests import decode, encode
from tests.fakes.remoting import EXAMPLES, IDENTITY, PEER, command_of, java

CONFIG = {
    "attributes": {"message.type": "FIFO"},
    "order": False,
    "perm": 6,
    "readQueueNums": 4,
    "topicFilterType": "SINGLE_TAG",
    "topicName": "T",
    "topicSysFlag": 0,
    "writeQueueNums": 4,
}
CONFIG_JSON = (
    b'{"attributes":{"message.type":"FIFO"},"order":false,"perm":6,"readQueueNums":4,"topicFilterType":'
    b'"SINGLE_TAG","topicName":"T","topicSysFlag":0,"writeQueueNums":4}'
)
VERSION = {"counter": 13, "stateVersion": 0, "timestamp": 1_700_000_000_000}


def decoded(code: int, body: bytes | None = None, **fields: str) -> Any:
    example, example_body = EXAMPLES[code]
    return decode(command_of(java(code, example | fields, example_body if body is None else body)), PEER)


def answer(code: int, reply: c.Reply) -> RemotingCommand:
    response = encode(reply, RemotingCommand.request(code, EXAMPLES[code][0], opaque=9), IDENTITY)
    assert isinstance(response, RemotingCommand) and (response.code, response.remark, response.opaque) == (0, "", 9)
    return response


def test_making_a_topic() -> None:
    assert decoded(17) == c.UpdateAndCreateTopic(
        topic="T",
        read_queues=4,
        write_queues=8,
        perm=6,
        order=False,
        filter_type="SINGLE_TAG",
        sys_flag=0,
        attributes={"+message.type": "FIFO", "-queue.type": ""},
    )
    assert decoded(17, attributes="", order="true").attributes == {}
    assert decoded(17, order="true").order is True
    assert decoded(17, attributes=" +a = b ,, c=d,-e").attributes == {"+a": "b", "c": "d", "-e": ""}
    refused = decoded(17, topicFilterType="ANY")
    assert isinstance(refused, c.Failed) and "topicFilterType" in refused.remark
    old = {name: value for name, value in EXAMPLES[17][0].items() if name not in ("attributes", "order", "force")}
    assert decode(command_of(java(17, old)), PEER).attributes == {}  # type: ignore[union-attr]
    assert answer(17, c.Topics(seq=1, topics=[])).body == b""


def test_making_several() -> None:
    assert decoded(18) == c.UpdateAndCreateTopicList(
        topics=[
            c.UpdateAndCreateTopic(
                topic="T",
                read_queues=4,
                write_queues=8,
                perm=6,
                order=False,
                filter_type="SINGLE_TAG",
                sys_flag=0,
                attributes={"+message.type": "FIFO"},
            )
        ]
    )
    (topic,) = decoded(18, b'{"topicConfigList":[{"topicName":"T"}]}').topics
    assert (topic.read_queues, topic.write_queues, topic.perm, topic.attributes) == (16, 16, 6, None)
    assert decoded(18, b'{"topicConfigList":[]}') == c.UpdateAndCreateTopicList(topics=[])
    many = b'{"topicConfigList":[' + b",".join([b'{"topicName":"T"}'] * 4097) + b"]}"
    for body in (b"", b"{}", b'{"topicConfigList":[{}]}', many):
        assert isinstance(decoded(18, body), c.Failed)


def test_deleting_a_topic() -> None:
    assert decoded(215) == c.DeleteTopic(topic="T", missing_ok=True)
    assert isinstance(decoded(215, topic=""), c.Failed)


def test_configuration_of_one() -> None:
    assert decoded(351) == c.GetTopicConfigs(topic="T")
    assert isinstance(decoded(351, topic=""), c.Failed), "that would be all of them"
    assert answer(351, c.TopicConfigs(data_version=VERSION, configs={"T": CONFIG})).body == CONFIG_JSON


def test_configuration_of_all() -> None:
    assert decoded(21) == c.GetTopicConfigs() == decode(command_of(java(21, {})), PEER)
    response = answer(21, c.TopicConfigs(data_version=VERSION, configs={"T": CONFIG}))
    assert response.ext_fields == {"totalTopicNum": "1"}
    assert response.body == (
        b'{"dataVersion":{"counter":13,"stateVersion":0,"timestamp":1700000000000},"topicConfigTable":{"T":'
        + CONFIG_JSON
        + b'},"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}'
    )


def test_the_offsets_of_each_queue_of_a_topic() -> None:
    assert decoded(202) == c.GetTopicStats(topic="T")
    queues = [
        c.QueueView(
            broker="broker-a",
            topic="T",
            queue_id=queue_id,
            min_offset=0,
            max_offset=end,
            last_store_time_ms=when,
            holds=0,
        )
        for queue_id, end, when in ((0, 3, 1_795_277_343_841), (1, 0, None))
    ]
    assert answer(202, c.TopicStats(queues=queues, put_tps=0.5)).body == (
        b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:{"lastUpdateTimestamp":1795277343841,'
        b'"maxOffset":3,"minOffset":0},{"brokerName":"broker-a","queueId":1,"topic":"T"}:{"lastUpdateTimestamp":0,'
        b'"maxOffset":0,"minOffset":0}},"topicPutTps":0.5}'
    )


def test_system_topics() -> None:
    assert decoded(305) == c.GetTopics()
    topics = [
        c.TopicView(
            broker="broker-a", topic=name, read_queues=1, write_queues=1, perm=6, system=name != "T", messages=0
        )
        for name in ("SELF_TEST_TOPIC", "T", "TBW102")
    ]
    assert answer(305, c.Topics(seq=1, topics=topics)).body == b'{"topicList":["SELF_TEST_TOPIC","TBW102"]}'


@pytest.mark.parametrize("code", [17, 18, 215])
def test_the_answer_of_a_change_has_no_body(code: int) -> None:
    assert answer(code, c.Done()).body == b""
