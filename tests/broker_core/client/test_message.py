"""Messages before they are sent and after they are pulled."""

import zlib
from typing import Any

import pytest

from broker_core.client.message import Message, decode_messages
from broker_core.client.mq_client_exception import MQClientException
from broker_core.commands import MessageQueue
from broker_core.formats import commit_log_record
from broker_core.formats.commit_log_record import RecordError
from broker_core.formats.message_body import BodyError
from tests.fakes.messages import message_ext


def test_properties_have_rocketmqs_names() -> None:
    message = Message("T", b"x", "TagA", ["k1", "k2"], delay_level=3, properties={"color": "red"})
    assert message.properties == {"color": "red", "TAGS": "TagA", "KEYS": "k1 k2", "DELAY": "3", "WAIT": "true"}
    assert message.delay_level == 3
    assert Message("T", b"x", keys="k").properties == {"KEYS": "k", "WAIT": "true"}
    assert Message("T", b"x", wait_store_msg_ok=False).properties == {"WAIT": "false"}
    assert "1 bytes" in repr(message)
    assert Message("T", b"x", deliver_time_ms=9).properties == {"TIMER_DELIVER_MS": "9", "WAIT": "true"}
    timed = Message("T", b"x", delay_time_ms=9)
    assert timed.properties == {"TIMER_DELAY_MS": "9", "WAIT": "true"} and timed.is_delayed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"properties": {"TAGS": "a"}}, "'TAGS' is RocketMQ's own"),
        ({"properties": {"TIMER_DELIVER_MS": "1"}}, "'TIMER_DELIVER_MS' is RocketMQ's own"),
        ({"delay_level": 1, "delay_time_ms": 5}, "set one of"),
        ({"properties": {"a\x01": "b"}}, "separate properties"),
        ({"properties": {"": "b"}}, "no name"),
        ({"tags": "a\x02"}, "separate properties"),
    ],
)
def test_properties_that_cannot_be_sent(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(MQClientException, match=words):
        Message("T", b"x", **arguments)


def test_a_pulled_message() -> None:
    message = message_ext(7, properties={"TAGS": "TagA", "KEYS": "k1 k2", "UNIQ_KEY": "ID", "color": "red"})
    assert (message.tags, message.keys, message.msg_id, message.queue_offset) == ("TagA", "k1 k2", "ID", 7)
    assert message.properties["color"] == "red" and message.properties is message.properties
    assert message.message_queue == MessageQueue(topic="T", broker_name="a", queue_id=0)
    assert message.offset_msg_id == "7F00000100002A9F0000000000001B58"
    assert message_ext().msg_id == message_ext().offset_msg_id
    assert "offset 7" in repr(message)


def test_a_retried_message_has_its_original_topic() -> None:
    message = message_ext(topic="%RETRY%g", properties={"RETRY_TOPIC": "orders"}, reconsume_times=2)
    assert (message.topic, message.message_queue.topic, message.reconsume_times) == ("orders", "%RETRY%g", 2)


def test_bodies_are_decompressed_when_they_are_read() -> None:
    assert message_ext(body=zlib.compress(b"large" * 100), sys_flag=0x301).body == b"large" * 100
    damaged = message_ext(body=b"not zlib", sys_flag=0x301)
    with pytest.raises(BodyError):
        _ = damaged.body


def test_the_records_of_an_answer() -> None:
    records = b"".join(
        commit_log_record.encode(topic="T", queue_id=1, queue_offset=n, physical_offset=n, body=b"%d" % n)
        for n in range(3)
    )
    assert [(message.body, message.broker_name) for message in decode_messages(records, "a")] == [
        (b"0", "a"),
        (b"1", "a"),
        (b"2", "a"),
    ]
    with pytest.raises(RecordError):
        decode_messages(records[:-1], "a")
