"""Fields and bodies as typed structs: what is refused, and that the remark names the field."""

import re
from collections.abc import Iterator

import msgspec
import pytest
from msgspec import inspect

from broker_core.codes import RequestCode as Q
from broker_core.codes import ResponseCode
from broker_core.errors import RequestError
from broker_core.remoting.requests import client, consumer, pull, send
from broker_core.remoting.requests.headers import (
    MAX_NAME,
    Header,
    Int,
    Long,
    json_body,
    read_body,
    read_header,
    write_header,
)
from tests.fakes.remoting import EXAMPLES


class Sample(Header):
    topic: str
    queue_id: Int
    time_stamp: Long = -1
    is_it: bool = False
    or_none: Int | None = None


def test_names_are_rocketmqs_and_others_are_passed_over() -> None:
    fields = {
        "topic": "T",
        "queueId": "-3",
        "timeStamp": "9223372036854775807",
        "isIt": "true",
        "orNone": "5",
        "bname": "b",
        "ReqT": "0",
    }
    assert read_header(Sample, fields) == Sample("T", -3, (1 << 63) - 1, True, 5)
    assert read_header(Sample, {"topic": "", "queueId": "0"}) == Sample("", 0)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        *(("queueId", text) for text in ("", "x", " 1", "1 ", "+1", "1_0", "0x1", "2147483648", "-2147483649", "٣")),
        *(("timeStamp", text) for text in ("", "9223372036854775808", "-9223372036854775809", "1" * 400)),
        *(("isIt", text) for text in ("", "yes", "maybe", "2")),
        ("orNone", "x"),
        ("orNone", "2147483648"),
    ],
)
def test_the_error_names_the_malformed_field(field: str, text: str) -> None:
    with pytest.raises(RequestError, match=rf"extFields: .*\$\.{field}") as caught:
        read_header(Sample, {"topic": "T", "queueId": "0", field: text})
    assert caught.value.code is ResponseCode.SYSTEM_ERROR


def kinds_of_headers(kind: type[Header] = Header) -> Iterator[type[Header]]:
    for child in kind.__subclasses__():
        if child.__module__.startswith("broker_core.remoting.requests."):
            yield child
        yield from kinds_of_headers(child)


def test_names_are_limited_in_every_header_and_body() -> None:
    """Names of refused requests are stored too, so an unlimited one would take as much memory as a frame."""
    names = re.compile(r"(.*_)?(topic|group|group_name|topic_name|client_id|broker_name)")
    checked = 0
    for kind in kinds_of_headers():
        for field in inspect.type_info(kind).fields:  # type: ignore[attr-defined]
            types = field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
            for text in types:
                if names.fullmatch(field.name) and isinstance(text, inspect.StrType):
                    assert text.max_length == MAX_NAME, f"{kind.__qualname__}.{field.name}"
                    checked += 1
    assert checked > 40


def test_the_error_of_a_long_name_names_the_field_and_the_limit() -> None:
    fields = EXAMPLES[Q.PULL_MESSAGE][0] | {"topic": "x" * 255}
    assert read_header(pull.PullMessageRequestHeader, fields).topic == "x" * 255
    with pytest.raises(RequestError, match=r"length <= 255 .*\$\.topic"):
        read_header(pull.PullMessageRequestHeader, fields | {"topic": "x" * 256})


@pytest.mark.parametrize("field", ["topic", "queueId"])
def test_the_error_names_the_missing_field(field: str) -> None:
    fields = {"topic": "T", "queueId": "0"}
    del fields[field]
    with pytest.raises(RequestError, match=f"missing required field `{field}`"):
        read_header(Sample, fields)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"{}",
        b'{"topic":5,"queueId":0}',
        b'{"topic":"T","queueId":"0"}',
        b'{"topic":"\xff"}',
        b'{"topic":"T","queueId":2147483648}',
        b'{"topic":"\\ud800","queueId":0}',
        b'{"topic":"\xed\xa0\x80","queueId":0}',
        b'{"x":' + b"[" * 100_000,
        b'{"topic":"T","queueId":0}}',
    ],
)
def test_bodies_that_are_refused(body: bytes) -> None:
    with pytest.raises(RequestError, match="body") as caught:
        read_body(msgspec.json.Decoder(Sample), body)
    assert caught.value.code is ResponseCode.SYSTEM_ERROR


def test_a_body() -> None:
    assert read_body(msgspec.json.Decoder(Sample), b'{"queueId":1,"new":{},"topic":"T"}') == Sample("T", 1)
    assert json_body({"ids": ["a", "é"]}) == '{"ids":["a","é"]}'.encode()


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (send.SendMessageRequestHeader, Q.SEND_MESSAGE),
        (send.SendMessageRequestHeaderV2, Q.SEND_MESSAGE_V2),
        (pull.PullMessageRequestHeader, Q.PULL_MESSAGE),
        (consumer.QueryConsumerOffsetRequestHeader, Q.QUERY_CONSUMER_OFFSET),
        (consumer.UpdateConsumerOffsetRequestHeader, Q.UPDATE_CONSUMER_OFFSET),
        (consumer.SearchOffsetRequestHeader, Q.SEARCH_OFFSET_BY_TIMESTAMP),
        (consumer.QueueRequestHeader, Q.GET_MAX_OFFSET),
        (consumer.GetConsumerListByGroupRequestHeader, Q.GET_CONSUMER_LIST_BY_GROUP),
        (consumer.ConsumerSendMsgBackRequestHeader, Q.CONSUMER_SEND_MSG_BACK),
        (client.UnregisterClientRequestHeader, Q.UNREGISTER_CLIENT),
    ],
)
def test_a_client_writes_what_a_broker_reads(kind: type[Header], code: int) -> None:
    theirs = EXAMPLES[code][0]
    header = read_header(kind, theirs)
    ours = write_header(header)
    assert read_header(kind, ours) == header
    assert {name: ours[name] for name in theirs if name in ours} == {n: v for n, v in theirs.items() if n in ours}


def test_unset_fields_are_not_written() -> None:
    assert write_header(Sample("T", 1)) == {"topic": "T", "queueId": "1", "timeStamp": "-1", "isIt": "false"}
    assert write_header(Sample("T", 1, 5, True, 0)) == {
        "topic": "T",
        "queueId": "1",
        "timeStamp": "5",
        "isIt": "true",
        "orNone": "0",
    }
