"""Bodies that only fastjson would call JSON, as Java and Go peers write them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.commands import MessageQueue
from broker_core.formats.rocketmq_json import RocketmqJsonError
from broker_core.remoting import fastjson


def queue(queue_id: int, topic: str = "T", broker: str = "b") -> MessageQueue:
    return MessageQueue(topic=topic, broker_name=broker, queue_id=queue_id)


TOPIC_STATS = (
    b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{"lastUpdateTimestamp":1,"maxOffset":7,'
    b'"minOffset":1},{"brokerName":"b","queueId":1,"topic":"T"}:{"lastUpdateTimestamp":0,"maxOffset":0,"minOffset":0}},'
    b'"topicPutTps":0.0}'
)
TOPIC_STATS_VALUE: dict[Any, Any] = {
    "offsetTable": {
        queue(0): {"lastUpdateTimestamp": 1, "maxOffset": 7, "minOffset": 1},
        queue(1): {"lastUpdateTimestamp": 0, "maxOffset": 0, "minOffset": 0},
    },
    "topicPutTps": 0.0,
}


def test_topic_stats_byte_for_byte() -> None:
    assert fastjson.encode(TOPIC_STATS_VALUE) == TOPIC_STATS
    assert fastjson.decode(TOPIC_STATS) == TOPIC_STATS_VALUE


@given(st.lists(st.tuples(st.text(max_size=9), st.integers(0, 9), st.integers()), unique_by=lambda row: row[:2]))
def test_a_long_table_is_encoded_as_any_other(rows: list[tuple[str, int, int]]) -> None:
    table = fastjson.encode_table([(topic, queue_id, str(row)) for topic, queue_id, row in rows], 'b"\u00e9')
    as_dict = {queue(queue_id, topic, 'b"\u00e9'): row for topic, queue_id, row in rows}
    assert fastjson.encode({"t": table}) == fastjson.encode({"t": as_dict})


@given(st.dictionaries(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-(1 << 63), (1 << 63) - 1)))
def test_whole_numbers_as_keys_have_no_quotes(offsets: dict[int, int]) -> None:
    expected = "{" + ",".join(f"{key}:{value}" for key, value in offsets.items()) + "}"
    assert fastjson.encode(offsets) == expected.encode()


def test_a_table_of_queues_in_a_table_of_clients() -> None:
    status = {"consumerTable": {"10.0.0.2@1": {queue(0): 5, queue(3): 0}, "10.0.0.3@1": {}}, "messageQueueTable": {}}
    body = fastjson.encode(status)
    assert body == (
        b'{"consumerTable":{"10.0.0.2@1":{{"brokerName":"b","queueId":0,"topic":"T"}:5,'
        b'{"brokerName":"b","queueId":3,"topic":"T"}:0},"10.0.0.3@1":{}},"messageQueueTable":{}}'
    )
    assert fastjson.decode(body) == status


def test_running_info_as_go_writes_it() -> None:
    body = (
        b'{"jstack":"","mqTable":{{"topic":"T","brokerName":"b","queueId":2}:{"cachedMsgCount":0,"dropped":false}},'
        b'"properties":{"PROP_CONSUMEORDERLY":"false"},"statusTable":{},"subscriptionSet":[{"topic":"T","tagsSet":[]}]}'
    )
    assert fastjson.decode(body) == {
        "jstack": "",
        "mqTable": {queue(2): {"cachedMsgCount": 0, "dropped": False}},
        "properties": {"PROP_CONSUMEORDERLY": "false"},
        "statusTable": {},
        "subscriptionSet": [{"topic": "T", "tagsSet": []}],
    }


def test_queues_in_a_list_are_objects() -> None:
    assert fastjson.encode({"lockOKMQSet": [queue(0)]}) == (
        b'{"lockOKMQSet":[{"brokerName":"b","queueId":0,"topic":"T"}]}'
    )
    assert fastjson.decode(b'{"a":[{"topic":"T"},{"topic":"U"}],"b":{"topic":"T"}}') == {
        "a": [{"topic": "T"}, {"topic": "U"}],
        "b": {"topic": "T"},
    }


def test_bare_numbers_as_keys() -> None:
    assert fastjson.decode(b'{"brokerAddrs":{0:"127.0.0.1:10911",-1:"x"}}') == {
        "brokerAddrs": {0: "127.0.0.1:10911", -1: "x"}
    }
    assert fastjson.encode({"brokerAddrs": {0: "127.0.0.1:10911"}}) == b'{"brokerAddrs":{0:"127.0.0.1:10911"}}'


def test_fields_that_are_none_are_not_written() -> None:
    assert fastjson.encode({"a": None, "b": {"c": None}, "d": [None]}) == b'{"b":{},"d":[null]}'


def test_blanks_strange_names_and_members_nobody_knows() -> None:
    body = '{ "t" : { {"x":["{1:2}"], "topic" : "T{\\"}:,ä", "brokerName":"b","queueId":0} : "{7:8}" , 5 : 6 } }'
    assert fastjson.decode(body.encode()) == {"t": {queue(0, topic='T{"}:,ä'): "{7:8}", 5: 6}}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"7",
        b"{",
        b"\xff",
        b"{{}:1}",
        b'{{"topic":"T"}:1}',
        b'{{"topic":1,"brokerName":"b","queueId":0}:1}',
        b'{{"a":{}}:1}',
        b"{[1]:2}",
        b'{"\\u0000mq:x":1}',
        b'{"\\u0000int:x":1}',
        b"{" * 100_000,
        b'{"' * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b'{,{"a' * 10_000,
    ],
)
def test_a_body_that_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises(RocketmqJsonError):
        fastjson.decode(body)


def test_every_truncation_is_refused() -> None:
    for end in range(len(TOPIC_STATS)):
        with pytest.raises(RocketmqJsonError):
            fastjson.decode(TOPIC_STATS[:end])


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
QUEUES = st.builds(queue, st.integers(0, 1 << 31), TEXT, TEXT)
VALUES = st.recursive(
    st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT | st.integers() | QUEUES, inner, max_size=4),
)


@given(st.dictionaries(TEXT | QUEUES, VALUES, max_size=4))
def test_encoded_values_decode_to_the_same(value: dict[Any, Any]) -> None:
    assert fastjson.decode(fastjson.encode(value)) == value


@given(st.dictionaries(TEXT, st.lists(TEXT) | st.dictionaries(TEXT, TEXT)))
def test_plain_json_is_read_as_any_reader_reads_it(value: dict[Any, Any]) -> None:
    assert fastjson.decode(json.dumps(value).encode()) == value
