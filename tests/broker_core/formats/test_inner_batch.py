"""The record of a batch, and its messages."""

import pytest

from broker_core.formats.batch_consume_queue_unit import NUMBER_MAX
from broker_core.formats.commit_log_record import CommitLogRecord, RecordError, body_crc, decode, encode
from broker_core.formats.inner_batch import (
    INNER_BATCH,
    INNER_FLAGS,
    NEED_UNWRAP,
    encode_inner_batch,
    inner_messages_with,
    inner_number,
    number_batch,
    split_record,
)
from broker_core.formats.message_batch import BatchEntry, MessageBatchError


def record_of(body: bytes, properties: str, sys_flag: int = INNER_FLAGS) -> CommitLogRecord:
    return decode(
        encode(
            topic="T",
            queue_id=2,
            queue_offset=40,
            physical_offset=1000,
            body=body,
            properties=properties,
            sys_flag=sys_flag,
            born_timestamp=5,
            store_timestamp=6,
            flag=9,
        )
    )


def test_a_record_is_split_into_its_messages() -> None:
    entries = [BatchEntry(number, f"m{number}".encode(), f"UNIQ_KEY\x01U{number}\x02") for number in range(3)]
    body, properties = encode_inner_batch(entries, "UNIQ_KEY\x01BATCH\x02")
    properties, number = number_batch(properties, 40)
    assert number == 3 and inner_number(properties) == 3
    record = record_of(body, properties)
    messages = split_record(record)
    assert [(m.queue_offset, m.flag, m.body, m.properties) for m in messages] == [
        (40 + number, *entry[:2], entry.properties) for number, entry in enumerate(entries)
    ]
    for message in messages:
        assert message.body_crc == body_crc(message.body)
        assert (message.topic, message.queue_id, message.physical_offset) == ("T", 2, 1000)
        assert (message.born_timestamp, message.store_timestamp, message.sys_flag) == (5, 6, 0)


def test_only_the_messages_that_contain_the_id_are_decoded() -> None:
    keys = ["U0", "U1", "U2", "U1"]
    entries = [BatchEntry(0, b"U2 in %d" % number, f"UNIQ_KEY\x01{key}\x02") for number, key in enumerate(keys)]
    body, properties = encode_inner_batch(entries, "")
    record = record_of(body, properties)
    messages = split_record(record)
    assert inner_messages_with(record, "U2") == [messages[2]]
    assert inner_messages_with(record, "U1") == [messages[1], messages[3]]
    assert inner_messages_with(record, "U") == inner_messages_with(record, "X") == []
    damaged = record_of(body.replace(b"U0", b"\xff\xff"), properties)
    assert [m.queue_offset for m in inner_messages_with(damaged, "U1")] == [41, 43]
    with pytest.raises(RecordError, match="message 0: the properties are not UTF-8"):
        inner_messages_with(damaged, "U2")


@pytest.mark.parametrize("size", [b"\0\0\0\0", b"\0\0\0\x15", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"])
def test_a_wrong_size_in_a_batch_is_found_out(size: bytes) -> None:
    body, properties = encode_inner_batch([BatchEntry(0, b"a", ""), BatchEntry(0, b"b", "UNIQ_KEY\x01U1\x02")], "")
    with pytest.raises(RecordError, match="the batch at physical offset 1000 is damaged"):
        inner_messages_with(record_of(size + body[4:], properties), "U1")


@pytest.mark.parametrize("sys_flag", [0, INNER_BATCH, NEED_UNWRAP])
def test_a_record_without_both_flags_is_one_message(sys_flag: int) -> None:
    record = record_of(b"plain", "INNER_NUM\x017\x02", sys_flag)
    assert split_record(record) == [record]


def test_a_body_that_is_no_batch_is_refused() -> None:
    with pytest.raises(RecordError, match="the batch at physical offset 1000 is damaged"):
        split_record(record_of(b"plain", ""))


def test_a_record_has_at_most_32_767_messages() -> None:
    entry = BatchEntry(0, b"", "")
    assert inner_number(encode_inner_batch([entry] * NUMBER_MAX, "")[1]) == NUMBER_MAX
    with pytest.raises(MessageBatchError, match="the limit is 32767"):
        encode_inner_batch([entry] * (NUMBER_MAX + 1), "")


@pytest.mark.parametrize("value", ["0", "-3", "x", "1e3", "99999999", "²"])
def test_an_inner_num_that_is_no_number_counts_as_one(value: str) -> None:
    assert inner_number(f"INNER_NUM\x01{value}\x02") == 1
