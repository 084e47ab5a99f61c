import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.formats import commit_log_record as records

VECTOR = bytes.fromhex(
    "00000078daa320a73610a686000000030000000000000000000000070000000000000400000000000000018bcfe568000a000002"
    "0000c3500000018bcfe568050a00000100002a9f0000000000000000000000000000000568656c6c6f015400175441475301546167"
    "410255"
    "4e49515f4b45590141424302"
)


def encode_vector() -> bytes:
    return records.encode(
        topic="T",
        queue_id=3,
        queue_offset=7,
        physical_offset=1024,
        body=b"hello",
        properties="TAGS\x01TagA\x02UNIQ_KEY\x01ABC\x02",
        born_timestamp=1_700_000_000_000,
        born_host="10.0.0.2",
        born_port=50_000,
        store_timestamp=1_700_000_000_005,
        store_host="10.0.0.1",
        store_port=10_911,
    )


def test_a_record_has_rocketmqs_layout() -> None:
    assert encode_vector() == VECTOR


def test_decoding_returns_every_field() -> None:
    record = records.decode(VECTOR)
    assert (record.topic, record.queue_id, record.queue_offset, record.physical_offset) == ("T", 3, 7, 1024)
    assert (record.body, record.properties) == (b"hello", "TAGS\x01TagA\x02UNIQ_KEY\x01ABC\x02")
    assert (record.born_host, record.born_port, record.store_host, record.store_port) == (
        "10.0.0.2",
        50_000,
        "10.0.0.1",
        10_911,
    )
    assert (record.born_timestamp, record.store_timestamp) == (1_700_000_000_000, 1_700_000_000_005)


@pytest.mark.parametrize(("body", "crc"), [(b"hello", 907_060_870), (b"Hello RocketMQ", 1_774_740_973)])
def test_body_crc_has_no_top_bit(body: bytes, crc: int) -> None:
    assert records.body_crc(body) == crc == zlib.crc32(body) & 0x7FFFFFFF


@given(
    topic=st.text("ab%_-", min_size=1, max_size=255),
    body=st.binary(max_size=300),
    properties=st.text(max_size=50),
    born_host=st.sampled_from(["1.2.3.4", "::1"]),
    store_host=st.sampled_from(["1.2.3.4", "2001:db8::1"]),
    sys_flag=st.integers(0, 0x7FF),
    before=st.integers(0, 9),
)
def test_every_record_round_trips(
    topic: str, body: bytes, properties: str, born_host: str, store_host: str, sys_flag: int, before: int
) -> None:
    data = records.encode(
        topic=topic,
        queue_id=1,
        queue_offset=2,
        physical_offset=77,
        body=body,
        properties=properties,
        born_host=born_host,
        store_host=store_host,
        sys_flag=sys_flag,
        store_timestamp=99,
    )
    placed = bytes(before) + data + b"\xff" * 5
    record = records.decode(placed, before)
    assert (record.topic, record.body, record.properties) == (topic, body, properties)
    assert (record.born_host, record.store_host, record.size) == (born_host, store_host, len(data))
    assert record.magic == (records.MAGIC_V1 if len(topic) <= 127 else records.MAGIC_V2)
    assert record.sys_flag & ~0x30 == sys_flag & ~0x30
    assert records.measure(placed, before, len(placed), 77) == len(data)
    assert records.measure(placed, before, len(placed), 78) == 0
    assert records.store_timestamp_at(placed, before) == 99
    assert records.topic_at(placed, before) == topic.encode()
    assert records.properties_at(placed, before) == properties.encode()
    assert records.properties_within(placed, before, len(data)) == properties.encode()


def test_a_truncated_record_is_not_valid() -> None:
    for length in range(len(VECTOR)):
        assert records.measure(VECTOR[:length], 0, length) == 0
        with pytest.raises(records.RecordError):
            records.decode(VECTOR[:length])


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_measured_without_an_error(data: bytes) -> None:
    assert records.measure(data, 0, len(data)) in range(len(data) + 1)


@given(st.integers(0, len(VECTOR) * 8 - 1))
def test_a_flipped_bit_in_lengths_magic_or_body_is_noticed(bit: int) -> None:
    damaged = bytearray(VECTOR)
    damaged[bit // 8] ^= 1 << bit % 8
    noticed = range(12), range(28, 36), range(84, 94), range(95, 97)
    if any(bit // 8 in part for part in noticed):
        assert records.measure(damaged, 0, len(damaged), 1024) == 0


def test_a_pull_body_with_an_invalid_end_is_refused() -> None:
    assert [record.queue_offset for record in records.decode_all(VECTOR * 3)] == [7, 7, 7]
    with pytest.raises(records.RecordError):
        records.decode_all(VECTOR + b"\0")


def test_the_filler_contains_the_number_of_bytes_left() -> None:
    filler = records.blank(626)
    assert filler == bytes.fromhex("00000272cbd43194")
    assert records.is_blank(b"x" + filler, 1)
    assert not records.is_blank(filler, 1)


def test_a_topic_or_properties_that_are_too_long_are_refused() -> None:
    with pytest.raises(records.RecordError, match="topic"):
        records.encode(topic="t" * 256, queue_id=0, queue_offset=0, physical_offset=0, body=b"")
    with pytest.raises(records.RecordError, match="properties"):
        records.encode(topic="t", queue_id=0, queue_offset=0, physical_offset=0, body=b"", properties="p" * 32_768)
