from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge import wire
from broker_core.codes import ResponseCode
from broker_core.commands import Done, Failed, GetTopic, OutgoingMessage, Pulled, PullMessage, SendMessage
from tests.fakes.fake_engine import delta

LIMIT = 1 << 20
numbers = st.integers(0, (1 << 63) - 1)
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
a_command = st.one_of(
    st.builds(GetTopic, topic=texts),
    st.builds(PullMessage, topic=texts, queue_id=numbers, queue_offset=numbers, report_hold=st.booleans()),
    st.builds(
        SendMessage,
        topic=texts,
        messages=st.lists(st.builds(OutgoingMessage, body=st.binary(max_size=100), properties=texts), max_size=3),
    ),
)
a_reply = st.one_of(
    st.just(Done()),
    st.builds(Failed, code=st.integers(0, 1000), remark=texts, kind=st.just("request")),
    st.builds(
        Pulled,
        code=st.just(0),
        status=texts,
        next_begin_offset=numbers,
        min_offset=numbers,
        max_offset=numbers,
        suspend_timeout_ms=numbers,
        read_us=numbers,
        records=st.binary(max_size=300),
    ),
)


@given(st.lists(st.tuples(numbers, numbers, numbers, a_command), max_size=5), st.lists(numbers, max_size=3))
def test_requests_round_trip(requests: Any, closed: list[int]) -> None:
    encoded = wire.EncodedRequests(
        "p",
        "r",
        7,
        closed,
        [
            (connection, request, deadline, wire.encode_command(command))
            for connection, request, deadline, command in requests
        ],
    )
    message, unknown = wire.decode_to_engine(wire.encode_to_engine(encoded), LIMIT)
    assert message == wire.Requests("p", "r", 7, closed, requests)
    assert unknown == []


@given(st.lists(st.tuples(numbers, numbers, a_reply), max_size=5))
def test_replies_round_trip(replies: Any) -> None:
    encoded = wire.EncodedReplies(
        "b",
        1,
        2,
        False,
        [(connection, request, wire.encode_reply(reply)) for connection, request, reply in replies],
        [wire.encode_delta(delta(1, 5))],
        [],
    )
    assert wire.decode_to_web(wire.encode_to_web(encoded), LIMIT) == wire.Replies(
        "b", 1, 2, False, replies, [delta(1, 5)], []
    )


@pytest.mark.parametrize("message", [wire.Alive("p", "r", 3, True, False), wire.Bye("p")])
def test_heartbeats_round_trip(message: wire.Alive | wire.Bye) -> None:
    assert wire.decode_to_engine(wire.encode_to_engine(message), LIMIT) == (message, [])


def test_an_unknown_command_does_not_affect_its_batch() -> None:
    strange = msgspec.Raw(msgspec.msgpack.encode({"t": "BrewCoffee"}))
    batch = wire.EncodedRequests(
        "p", "r", 1, [], [(1, 1, 0, wire.encode_command(GetTopic(topic="a"))), (1, 2, 0, strange)]
    )
    message, unknown = wire.decode_to_engine(wire.encode_to_engine(batch), LIMIT)
    assert isinstance(message, wire.Requests)
    assert message.requests == [(1, 1, 0, GetTopic(topic="a"))]
    ((connection, request_id, failed),) = unknown
    assert (connection, request_id, failed.code) == (1, 2, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_message_are_refused_and_nothing_else(data: bytes) -> None:
    for decode in (wire.decode_to_engine, wire.decode_to_web):
        try:
            decode(data, LIMIT)
        except wire.MalformedMessage:
            continue


@pytest.mark.parametrize("data", [None, 5, "text", {}, b"", b"\xc1", b"\x91\xa2\x00\x80", b"x" * (LIMIT + 1)])
def test_data_that_is_not_bytes_or_too_long_is_malformed(data: Any) -> None:
    for decode in (wire.decode_to_engine, wire.decode_to_web):
        with pytest.raises(wire.MalformedMessage):
            decode(data, LIMIT)
