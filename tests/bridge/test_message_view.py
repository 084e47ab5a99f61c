import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.message_view import read_messages
from broker_core.formats import message_body
from broker_core.formats.commit_log_record import body_crc, encode
from broker_core.formats.message_id import decode_offset_message_id
from broker_core.formats.message_properties import encode as encode_properties
from tests.fakes.engine import Bench


def record(body: bytes = b"hello", offset: int = 0, **more: object) -> bytes:
    fields = {
        "topic": "t",
        "queue_id": 3,
        "queue_offset": offset,
        "physical_offset": 1000 + offset,
        "properties": encode_properties({"TAGS": "A", "KEYS": "k1 k2", "UNIQ_KEY": "ID", "x": "y"}),
        "born_timestamp": 5,
        "born_port": 1234,
        "store_timestamp": 6,
        "reconsume_times": 2,
    }
    return encode(body=body, **(fields | more))  # type: ignore[arg-type]


def test_every_field_of_a_message() -> None:
    data = record()
    (message,) = read_messages(data, "broker-a")
    assert message.broker == "broker-a"
    assert message.message_id == "ID"
    assert decode_offset_message_id(message.offset_message_id) == ("127.0.0.1", 10911, 1000)
    assert (message.topic, message.queue_id, message.queue_offset, message.physical_offset) == ("t", 3, 0, 1000)
    assert (message.tag, message.keys) == ("A", ["k1", "k2"])
    assert message.properties == {"TAGS": "A", "KEYS": "k1 k2", "UNIQ_KEY": "ID", "x": "y"}
    assert (message.body, message.size, message.problem) == (b"hello", len(data), "")
    assert (message.born_time_ms, message.store_time_ms, message.reconsume_times) == (5, 6, 2)
    assert (message.born_host, message.store_host) == ("127.0.0.1:1234", "127.0.0.1:10911")


def test_without_a_unique_key_the_offset_names_the_message() -> None:
    (message,) = read_messages(record(properties="", born_host="::1"), "b")
    assert message.message_id == message.offset_message_id
    assert (message.tag, message.keys, message.properties) == ("", [], {})
    assert message.born_host == "[::1]:1234"


def test_what_the_engine_stored_is_read_back() -> None:
    bench = Bench()
    sent = bench.send("t", b"one", b"two", tag="A")
    pulled = bench.pulled(bench.pull("t", 0))
    messages = read_messages(pulled.records, "broker-a")
    assert [message.body for message in messages] == [b"one", b"two"]
    assert [message.message_id for message in messages] == [message.message_id for message in sent.messages]
    assert [message.offset_message_id for message in messages] == [m.offset_message_id for m in sent.messages]


def test_bodies_come_inflated() -> None:
    body = b"a" * 1000
    (message,) = read_messages(record(zlib.compress(body), sys_flag=message_body.COMPRESSED), "b")
    assert (message.body, message.problem) == (body, "")


def test_a_body_that_cannot_be_inflated_comes_as_it_is_and_says_so() -> None:
    first, second = read_messages(record(b"no zlib", sys_flag=message_body.COMPRESSED) + record(), "b")
    assert first.body == b"no zlib"
    assert first.problem
    assert second.problem == ""


def test_a_body_that_does_not_match_its_checksum_says_so() -> None:
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
def test_nothing_is_raised_whatever_the_bytes(data: bytes) -> None:
    assert sum(message.size for message in read_messages(data, "b")) == len(data)
