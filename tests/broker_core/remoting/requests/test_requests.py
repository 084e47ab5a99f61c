"""The table as a whole: every request, with every field missing or malformed, and with anything at all."""

import logging
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core import commands as c
from broker_core.codes import RequestCode, ResponseCode
from broker_core.remoting import requests
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests import REQUESTS, RequestType, decode, encode
from broker_core.remoting.requests.request_type import encode_done
from tests.fakes.remoting import ANSWERED_AT_ONCE, EXAMPLES, IDENTITY, PEER, command_of, java

REQUIRED = {
    10: "producerGroup topic defaultTopic defaultTopicQueueNums queueId sysFlag bornTimestamp flag",
    310: "a b c d e f g h",
    320: "a b c d e f g h",
    11: "consumerGroup topic queueId queueOffset maxMsgNums sysFlag commitOffset suspendTimeoutMillis subVersion",
    14: "consumerGroup topic queueId",
    15: "consumerGroup topic queueId commitOffset",
    29: "topic queueId timestamp",
    30: "topic queueId",
    31: "topic queueId",
    32: "topic queueId",
    38: "consumerGroup",
    36: "offset group delayLevel",
    35: "clientID",
    33: "offset",
    12: "topic key maxNum beginTimestamp endTimestamp",
    307: "consumerGroup clientId",
    309: "consumerGroup clientId",
    223: "topic group",
    17: "topic readQueueNums writeQueueNums perm topicFilterType",
    215: "topic",
    351: "topic",
    202: "topic",
    207: "groupName",
    352: "group",
    353: "group topic",
    203: "consumerGroup",
    204: "producerGroup",
    208: "consumerGroup",
    317: "isOrder",
    303: "topic group",
    300: "topic",
    343: "group",
    345: "group",
    222: "topic group timestamp",
    314: "srcGroup destGroup",
    308: "topic",
    315: "statsName statsKey",
    321: "topic queueId index count",
}
REQUIRED[361] = REQUIRED[11]

NUMBERS = (
    "queueId",
    "sysFlag",
    "bornTimestamp",
    "flag",
    "defaultTopicQueueNums",
    "reconsumeTimes",
    "queueOffset",
    "maxReconsumeTimes",
    "maxMsgNums",
    "commitOffset",
    "suspendTimeoutMillis",
    "subVersion",
    "maxMsgBytes",
    "timestamp",
    "offset",
    "delayLevel",
    "maxNum",
    "beginTimestamp",
    "endTimestamp",
    "readQueueNums",
    "writeQueueNums",
    "perm",
    "topicSysFlag",
    "index",
    "count",
    *"defghj",
)
BOOLEANS = ("batch", "m", "setZeroIfNotFound", "order", "cleanOffset", "readable", "isOrder", "offline")


def request(code: int, **changes: str | None) -> RemotingCommand:
    """The example of a request, with other fields; None leaves one out."""
    fields, body = EXAMPLES[code]
    return RemotingCommand.request(
        code, {name: value for name, value in (fields | changes).items() if value is not None}, body, opaque=1
    )


def test_every_request_has_an_example() -> None:
    assert sorted(EXAMPLES) == sorted(REQUESTS)


@pytest.mark.parametrize("code", EXAMPLES)
def test_every_example_is_understood(code: int) -> None:
    fields, body = EXAMPLES[code]
    decoded = decode(command_of(java(code, fields, body)), PEER)
    if code in ANSWERED_AT_ONCE:
        assert (decoded.code if isinstance(decoded, c.Failed) else 0) == ANSWERED_AT_ONCE[RequestCode(code)]
        return
    for command in decoded if isinstance(decoded, list) else [decoded]:
        assert isinstance(command, c.Command)
        assert msgspec.json.decode(msgspec.json.encode(command), type=type(command)) == command


def test_a_field_that_is_missing() -> None:
    for code, fields in REQUIRED.items():
        for field in fields.split():
            failed = decode(request(code, **{field: None}), PEER)
            assert isinstance(failed, c.Failed), (code, field)
            assert failed.code == ResponseCode.SYSTEM_ERROR and f"`{field}`" in failed.remark, (code, failed)


def malformed(field: str) -> tuple[str, ...]:
    """Texts that the field, if it is no text itself, cannot have."""
    if field in NUMBERS:
        return "", "x", "1 2", "99999999999999999999"
    return ("", "maybe") if field in BOOLEANS else ()


def test_a_field_that_is_malformed() -> None:
    for code, field in [(code, field) for code, (fields, _) in EXAMPLES.items() for field in fields]:
        for text in malformed(field):
            failed = decode(request(code, **{field: text}), PEER)
            assert isinstance(failed, c.Failed), (code, field, text)
            assert failed.code == ResponseCode.SYSTEM_ERROR and f"$.{field}" in failed.remark, (code, text, failed)


@pytest.mark.parametrize("code", [code for code, (_, body) in EXAMPLES.items() if body[:1] == b"{"])
def test_a_body_that_is_cut(code: int) -> None:
    fields, body = EXAMPLES[code]
    for end in range(len(body)):
        failed = decode(RemotingCommand.request(code, fields, body[:end], opaque=1), PEER)
        assert isinstance(failed, c.Failed) and failed.code == ResponseCode.SYSTEM_ERROR, body[:end]
        assert "body" in failed.remark


def test_an_unknown_request_code_is_refused() -> None:
    for code in (0, -1, 3442, 999_999, RequestCode.GET_ROUTEINFO_BY_TOPIC):
        command = RemotingCommand.request(code, {}, opaque=4)
        failed = decode(command, PEER)
        assert isinstance(failed, c.Failed)
        response = encode(failed, command, IDENTITY)
        assert isinstance(response, RemotingCommand)
        assert (response.code, response.remark, response.opaque) == (3, f" request type {code} not supported", 4)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(EXAMPLES)), st.data())
def test_anything_at_all_has_an_answer(code: int, data: Any) -> None:
    """No input makes a decoder fail in an unexpected way: that would be logged, and the log be an attacker's."""
    fields, body = EXAMPLES[code]
    for name in data.draw(st.sets(st.sampled_from(sorted(fields) or ["x"]), max_size=3)):
        fields = fields | {name: data.draw(st.text(max_size=20) | st.integers().map(str))}
    if body:
        body = data.draw(
            st.just(body)
            | st.binary(max_size=100)
            | JSON.map(msgspec.json.encode)
            | st.tuples(st.integers(0, len(body)), st.binary(max_size=3)).map(
                lambda cut: body[: cut[0]] + cut[1] + body[cut[0] + 1 :]
            )
        )
    decoded = decode(RemotingCommand.request(code, fields, body, opaque=1), PEER)
    assert isinstance(decoded, c.Command | list | c.Done | c.Failed)
    if isinstance(decoded, c.Failed):
        assert decoded.kind == "request"
        assert decoded.code in (
            ResponseCode.SYSTEM_ERROR,
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            ResponseCode.MESSAGE_ILLEGAL,
            ResponseCode.NO_PERMISSION,
            ResponseCode.INVALID_PARAMETER,
            ResponseCode.NO_MESSAGE,
        )


def test_failures_have_the_same_answer_for_every_request() -> None:
    command = request(RequestCode.GET_MAX_OFFSET)
    failed = c.Failed(code=ResponseCode.TOPIC_NOT_EXIST, remark="no such topic", kind="not_found")
    for reply in (failed, [c.Done(), failed]):
        response = encode(reply, command, IDENTITY)
        assert isinstance(response, RemotingCommand)
        assert (response.code, response.remark, response.ext_fields, response.flag) == (17, "no such topic", {}, 1)


def test_a_defect_is_one_answer_and_one_line_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> Any:
        raise ZeroDivisionError

    monkeypatch.setitem(requests.REQUESTS, 30, RequestType(broken, broken))
    with caplog.at_level(logging.ERROR):
        failed = decode(request(30), PEER)
        response = encode(c.Done(), request(30), IDENTITY)
    assert isinstance(failed, c.Failed) and isinstance(response, RemotingCommand)
    assert failed.code == response.code == ResponseCode.SYSTEM_ERROR and "ZeroDivisionError" in failed.remark
    assert len(caplog.records) == 2


def test_done_is_success_and_nothing_else() -> None:
    response = encode_done(c.Done(), request(15), IDENTITY)
    assert (response.code, response.remark, response.ext_fields, response.body) == (0, "", {}, b"")
