import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.message_view import INLINE_BYTES_MAX, Message, inflate_messages, iter_messages, stored_messages, takes_long
from broker_core.formats import message_body
from broker_core.formats.commit_log_record import body_crc, encode
from broker_core.formats.inner_batch import INNER_FLAGS
from broker_core.formats.message_batch import BatchEntry, encode_batch
from broker_core.formats.message_id import decode_offset_message_id
from broker_core.formats.message_properties import encode as encode_properties
from tests.fakes.engine import Bench


def record(body: bytes = b"hello", offset: int = 0, **more: object) -> bytes:
    fields = {
        "topic": "t",
        "queue_id": 3,
        "queue_offset": offset,
        "physical_offset": 1000 + offset,
        "properties": encode_properties({"TAGS": "A", "KEYS": "k\t1 k2", "UNIQ_KEY": "ID", "x": "y"}),
        "born_timestamp": 5,
        "born_port": 1234,
        "store_timestamp": 6,
        "reconsume_times": 2,
    }
    return encode(body=body, **(fields | more))  # type: ignore[arg-type]


def compressed(body: bytes, offset: int = 0) -> bytes:
    return record(zlib.compress(body), offset, sys_flag=message_body.COMPRESSED)


def read_messages(records: bytes, broker: str) -> list[Message]:
    messages, left_out = inflate_messages(stored_messages(records, broker))
    assert not left_out
    return messages


def test_every_field_of_a_message() -> None:
    data = record()
    (message,) = read_messages(data, "broker-a")
    assert message.broker == "broker-a"
    assert message.message_id == "ID"
    assert decode_offset_message_id(message.offset_message_id) == ("127.0.0.1", 10911, 1000)
    assert (message.topic, message.queue_id, message.queue_offset, message.physical_offset) == ("t", 3, 0, 1000)
    assert (message.tag, message.keys) == ("A", ["k\t1", "k2"])
    assert message.properties == {"TAGS": "A", "KEYS": "k\t1 k2", "UNIQ_KEY": "ID", "x": "y"}
    assert (message.body, message.size, message.problem) == (b"hello", len(data), "")
    assert (message.born_time_ms, message.store_time_ms, message.reconsume_times) == (5, 6, 2)
    assert (message.born_host, message.store_host) == ("127.0.0.1:1234", "127.0.0.1:10911")


def test_without_a_unique_key_the_offset_names_the_message() -> None:
    (message,) = read_messages(record(properties="", born_host="::1"), "b")
    assert message.message_id == message.offset_message_id
    assert (message.tag, message.keys, message.properties) == ("", [], {})
    assert message.born_host == "[::1]:1234"


def test_messages_that_the_engine_stored_are_decoded() -> None:
    bench = Bench()
    sent = bench.send("t", b"one", b"two", tag="A")
    pulled = bench.pulled(bench.pull("t", 0))
    messages = read_messages(pulled.records, "broker-a")
    assert [message.body for message in messages] == [b"one", b"two"]
    assert [message.message_id for message in messages] == [message.message_id for message in sent.messages]
    assert [message.offset_message_id for message in messages] == [m.offset_message_id for m in sent.messages]


def test_bodies_come_inflated() -> None:
    body = b"a" * 1000
    (stored,) = stored_messages(compressed(body), "b")
    assert (stored.body, stored.compression) == (zlib.compress(body), message_body.COMPRESSED)
    (message,) = read_messages(compressed(body), "b")
    assert (message.body, message.compression, message.problem) == (body, 0, "")


def test_bodies_above_the_bound_are_left_out() -> None:
    stored = stored_messages(b"".join(compressed(b"a" * 400, offset) for offset in range(4)), "b")
    messages, left_out = inflate_messages(stored, 1000)
    assert [message.queue_offset for message in messages] == [0, 1]
    assert [message.queue_offset for message in left_out] == [2, 3]
    assert inflate_messages(stored, 1600)[1] == ()


def test_bodies_that_are_not_compressed_count_too() -> None:
    stored = stored_messages(record(b"a" * 900) + compressed(b"b" * 200, 1) + record(b"c" * 50, 2), "b")
    messages, left_out = inflate_messages(stored, 1000)
    assert ([len(message.body) for message in messages], len(left_out)) == ([900], 2)
    messages, left_out = inflate_messages(stored, 1100)
    assert ([len(message.body) for message in messages], len(left_out)) == ([900, 200], 1)


def test_the_first_message_is_never_left_out_and_an_empty_body_always_fits() -> None:
    stored = stored_messages(compressed(b"a" * 5000) + record(b"", 1) + compressed(b"b", 2), "b")
    messages, left_out = inflate_messages(stored, 1000)
    assert [message.body for message in messages] == [b"a" * 5000, b""]
    assert [message.queue_offset for message in left_out] == [2]


def test_a_body_that_no_answer_can_have_is_shown_as_it_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.message_view.INFLATED_BYTES_MAX", 1000)
    stored = stored_messages(record() + compressed(b"a" * 2000, 1), "b")
    assert len(inflate_messages(stored, 1000)[1]) == 1, "it is left out once, since others go first"
    (message,), left_out = inflate_messages(stored[1:], 1000)
    assert (message.body, message.compression, left_out) == (zlib.compress(b"a" * 2000), 0, ())
    assert "larger than 1000 bytes" in message.problem


def test_memory_is_bounded_however_much_the_bodies_would_inflate_to() -> None:
    records = b"".join(compressed(bytes(4 << 20), offset) for offset in range(32))
    assert len(records) < 200_000
    tracemalloc.start()
    try:
        messages, left_out = inflate_messages(stored_messages(records, "b"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (len(messages), len(left_out)) == (4, 28)
    assert peak < 24 << 20


@pytest.mark.parametrize(
    ("records", "is_long"),
    [
        (b"", False),
        (record() * 3, False),
        (record() * 3 + compressed(b"x"), True),
        (record(b"x" * INLINE_BYTES_MAX), True),
        (b"\0" * 1000, False),
        (b"\xff" * 1000, True),
        (record()[:-1], False),
    ],
)
def test_compressed_and_many_bytes_take_long(records: bytes, is_long: bool) -> None:
    assert takes_long(records) is is_long


def test_a_body_that_cannot_be_inflated_is_returned_compressed_with_a_problem() -> None:
    first, second = read_messages(record(b"no zlib", sys_flag=message_body.COMPRESSED) + record(), "b")
    assert first.body == b"no zlib"
    assert first.problem
    assert second.problem == ""


def test_a_body_that_does_not_match_its_checksum_has_a_problem() -> None:
    data = record(b"hello").replace(b"hello", b"jello")
    assert body_crc(b"hello") != body_crc(b"jello")
    (message,) = read_messages(data, "b")
    assert message.body == b"jello"
    assert "checksum" in message.problem


@pytest.mark.parametrize("tail", [b"x", b"\0" * 200, record()[:-1], b"\xff" * 91])
def test_bytes_that_are_no_record_end_the_list_with_a_problem(tail: bytes) -> None:
    good, bad = read_messages(record() + tail, "b")
    assert good.problem == ""
    assert (bad.size, bad.topic, bad.body) == (len(tail), "", b"")
    assert bad.problem


def test_properties_that_are_not_text_are_shown_as_far_as_they_are() -> None:
    data = record(properties="k\x01caf\udce9\x02")
    (message,) = read_messages(data, "b")
    assert message.properties == {"k": "caf\ufffd"}


@given(st.binary(max_size=400))
def test_no_bytes_make_the_decoder_raise(data: bytes) -> None:
    assert sum(message.size for message in read_messages(data, "b")) == len(data)
    takes_long(data)


def batch_of(number: int, offset: int) -> bytes:
    entries = [BatchEntry(0, b"%d" % index, f"UNIQ_KEY\x01U{index}\x02") for index in range(number)]
    return record(encode_batch(entries), offset, sys_flag=INNER_FLAGS)


def test_a_batch_becomes_its_messages() -> None:
    records = record(b"x", 4) + batch_of(3, 5) + record(b"y", 8)
    messages = stored_messages(records, "broker-a")
    assert [(m.queue_offset, m.body, m.message_id) for m in messages] == [
        (4, b"x", "ID"),
        (5, b"0", "U0"),
        (6, b"1", "U1"),
        (7, b"2", "U2"),
        (8, b"y", "ID"),
    ]
    assert [m.message_id for m in stored_messages(records, "broker-a", split=False)] == ["ID"] * 3
    assert takes_long(batch_of(3, 5)) and not takes_long(record())


@pytest.mark.parametrize(("begin", "offsets"), [(0, [5, 6, 7, 9]), (6, [6, 7, 9]), (7, [7, 9]), (8, [8, 9])])
def test_a_batch_is_read_up_to_its_damage(begin: int, offsets: list[int]) -> None:
    body = encode_batch([BatchEntry(0, b"%d" % index, f"UNIQ_KEY\x01U{index}\x02") for index in range(4)])
    batch = record(body.replace(b"U2", b"\xff\xff").replace(b"U3", b"\xff\xff"), 5, sys_flag=INNER_FLAGS)
    messages = list(iter_messages(batch + record(b"y", 9), "broker-a", begin=begin))
    assert [message.queue_offset for message in messages] == offsets
    damaged = messages[-2]
    assert f"message {damaged.queue_offset - 5}: the properties are not UTF-8" in damaged.problem
    assert [bool(message.problem) for message in messages[:-2]] == [False] * (len(offsets) - 2)


def test_the_first_messages_of_a_large_batch_are_read_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    monkeypatch.setattr("broker_core.formats.inner_batch.body_crc", lambda body: read.append(body) or 0)
    messages = iter_messages(batch_of(5000, 0), "broker-a", begin=4000)
    assert [next(messages).queue_offset for _ in range(2)] == [4000, 4001]
    assert read == [b"4000", b"4001"]


def test_a_damaged_batch_is_one_message_with_a_problem() -> None:
    (message,) = stored_messages(record(b"no batch", sys_flag=INNER_FLAGS), "broker-a")
    assert message.body == b"no batch" and "the batch at physical offset 1000 is damaged" in message.problem
    (message,) = stored_messages(batch_of(2, 0).replace(b"UNIQ_KEY\x01U1", b"UNIQ_KEY\x01U2"), "broker-a")
    assert message.problem == "the body does not match its checksum"
