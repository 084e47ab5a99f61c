"""Records of the revive log: RocketMQ's JSON, read and written."""

import pytest

from broker_core.formats.pop_check_point import (
    RETRY,
    AckMsg,
    ExtraInfo,
    PopCheckPoint,
    decode_ack,
    decode_check_point,
    encode,
    kind_of,
    pop_retry_topic,
    popped_topic,
    revive_topic,
)

ROCKETMQ_CK = (
    b'{"bm":2,"bn":"broker-a","c":"g","d":[0,1,5],"it":60000,"n":3,"pt":1700000000000,"q":1,"ro":0,"rt":1700000060000,'
    b'"so":7,"t":"orders"}'
)
ROCKETMQ_ACK = b'{"ao":7,"bn":"broker-a","c":"g","pt":1700000000000,"q":1,"so":7,"t":"orders"}'


def test_a_check_point_of_rocketmq() -> None:
    point = decode_check_point(ROCKETMQ_CK)
    assert point is not None
    assert (point.group, point.topic, point.queue_id, point.invisible_ms) == ("g", "orders", 1, 60_000)
    assert point.waiting() == [7, 12], "the second one is acknowledged"


def test_an_old_check_point_has_no_differences() -> None:
    point = PopCheckPoint(group="g", invisible_ms=1, count=3, pop_time=1, queue_id=0, start_offset=5, topic="t")
    assert point.waiting() == [5, 6, 7]


def test_a_check_point_has_at_most_32_messages() -> None:
    point = PopCheckPoint(group="g", invisible_ms=1, count=1 << 30, pop_time=1, queue_id=0, start_offset=0, topic="t")
    assert len(point.waiting()) == 32


def test_acknowledgements() -> None:
    one = AckMsg(
        offset=7,
        broker_name="broker-a",
        group="g",
        pop_time=1_700_000_000_000,
        queue_id=1,
        start_offset=7,
        topic="orders",
    )
    assert encode(one) == ROCKETMQ_ACK and decode_ack(ROCKETMQ_ACK) == one
    batch = decode_ack(ROCKETMQ_ACK.replace(b'"ao":7', b'"ao":-1,"aol":[7,9]'))
    assert batch is not None and batch.offsets == [7, 9]


def test_an_invalid_record_is_none() -> None:
    for body in (b"", b"{}", b"[" * 10_000, ROCKETMQ_CK[:-1]):
        assert decode_check_point(body) is None and decode_ack(body) is None


def test_names() -> None:
    assert revive_topic("DefaultCluster") == "rmq_sys_REVIVE_LOG_DefaultCluster"
    assert pop_retry_topic("orders", "g") == "%RETRY%g_orders"
    for kind, topic in (("0", "orders"), ("1", "%RETRY%g_orders"), ("2", "%RETRY%g+orders")):
        assert popped_topic(kind, "orders", "g") == topic and kind_of(topic, "orders", "g") == kind


def test_an_extra_info_is_read_only_as_it_was_written() -> None:
    text = "100 1700000000000 60000 0 1 broker-a 2 101"
    info = ExtraInfo.decode(text)
    assert (info.start_offset, info.kind, info.broker, info.queue_id, info.offset) == (100, RETRY, "broker-a", 2, 101)
    assert info.encode() == text and popped_topic(info.kind, "orders", "g") == "%RETRY%g_orders"
    changed = [text + " 1", text[:-4], "+" + text, text.replace("100", "-1"), text.replace("100", "9" * 19)]
    for wrong in ["", "x", text.replace(" 1 ", " 3 "), *changed]:
        with pytest.raises(ValueError, match=r".*"):
            ExtraInfo.decode(wrong)
