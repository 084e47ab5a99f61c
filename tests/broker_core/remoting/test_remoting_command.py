"""Headers byte by byte, both encodings, as RocketMQ's Java 5.4.0 and Go 2.1.2 peers write and read them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.codes import LANGUAGES, VERSION, RequestCode, ResponseCode
from broker_core.remoting.remoting_command import (
    MAX_FRAME,
    RemotingCommand,
    RemotingProtocolError,
    SerializeType,
    decode,
)

JAVA_QUERY_ROUTE = (
    b'{"code":105,"extFields":{"topic":"TopicTest"},"flag":0,"language":"JAVA","opaque":2,'
    b'"serializeTypeCurrentRPC":"JSON","version":493}'
)
JAVA_ANSWER = b'{"code":0,"flag":1,"language":"JAVA","opaque":3,"serializeTypeCurrentRPC":"JSON","version":493}'
GO_QUERY = (
    b'{"code":105,"language":"GO","version":317,"opaque":1,"flag":0,"remark":"",'
    b'"extFields":{"topic":"T"},"serializeTypeCurrentRPC":"JSON"}'
)
GO_BINARY_FRAME = bytes.fromhex(
    "00000025 01000021"  # 37 bytes follow; a binary header of 33
    "000b 09 013d 00000005 00000000"  # PULL_MESSAGE, GO, 317, opaque 5, flag 0
    "00000000 0000000c"  # no remark; extFields of 12 bytes
    "0005 746f706963 00000001 54"
)
BINARY_FIXED = "000b 09 013d 00000005 00000000"


def parts(frame: bytes) -> tuple[int, bytes, bytes]:
    """Type, header and body of a frame, cut by the picture and not by the code under test."""
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    size = int.from_bytes(frame[5:8], "big")
    return frame[4], frame[8 : 8 + size], frame[8 + size :]


def decode_frame(frame: bytes) -> RemotingCommand:
    return decode(*parts(frame))


# --- JSON -----------------------------------------------------------------------------------------------------------


def test_a_java_request_is_read() -> None:
    assert decode(0, JAVA_QUERY_ROUTE, b"") == RemotingCommand(
        code=RequestCode.GET_ROUTEINFO_BY_TOPIC,
        ext_fields={"topic": "TopicTest"},
        opaque=2,
        language="JAVA",
        version=493,
    )


def test_a_go_request_is_read() -> None:
    assert decode(0, GO_QUERY, b"") == RemotingCommand(
        code=105, ext_fields={"topic": "T"}, opaque=1, language="GO", version=317
    )


def test_a_java_answer_is_read() -> None:
    command = decode(0, JAVA_ANSWER, b"body")
    assert command == RemotingCommand(code=0, ext_fields={}, opaque=3, flag=1, language="JAVA", body=b"body")
    assert command.is_response


def test_a_long_language_is_cut() -> None:
    header = b'{"code":34,"language":"%b"}' % (b"x" * 900_000)
    assert decode(0, header, b"").language == "x" * 32


def test_frames_equal_javas_byte_for_byte_except_for_the_language() -> None:
    request = RemotingCommand.request(105, {"topic": "TopicTest"}, opaque=2)
    assert request.encode()[8:] == JAVA_QUERY_ROUTE.replace(b"JAVA", b"PYTHON")
    answer = decode(0, JAVA_ANSWER.replace(b'"flag":1', b'"flag":0'), b"").response(0)
    assert answer.encode()[8:] == JAVA_ANSWER.replace(b"JAVA", b"PYTHON")


def test_the_head_of_a_frame() -> None:
    command = RemotingCommand(code=34, ext_fields={}, language="JAVA", opaque=3, remark="abc")
    header = command.encode()[8:]
    assert len(header) == 111
    assert command.encode()[:8] == bytes.fromhex("00000073 0000006f")
    command.body = b"12345"
    assert command.encode() == bytes.fromhex("00000078 0000006f") + header + b"12345"


def test_a_response_with_everything() -> None:
    request = RemotingCommand.request(11, {}, opaque=7)
    response = request.response(ResponseCode.PULL_NOT_FOUND, 'say "no"', {"nextBeginOffset": "7"}, b"body")
    assert response.encode()[8:] == (
        b'{"code":19,"extFields":{"nextBeginOffset":"7"},"flag":1,"language":"PYTHON","opaque":7,'
        b'"remark":"say \\"no\\"","serializeTypeCurrentRPC":"JSON","version":493}body'
    )


@pytest.mark.parametrize(
    ("given_fields", "read"),
    [
        (b"{}", {}),
        (b"null", {}),
        (b'{"a":"1","b":null}', {"a": "1"}),
        (
            b'{"a":1,"b":-5,"c":true,"d":false,"e":1.50,"f":2e3,"g":"text \\u00e4"}',
            {"a": "1", "b": "-5", "c": "true", "d": "false", "e": "1.50", "f": "2e3", "g": "text ä"},
        ),
        (b'{"i":"A\\u0001b\\u0002"}', {"i": "A\1b\2"}),
    ],
)
def test_ext_fields_become_text(given_fields: bytes, read: dict[str, str]) -> None:
    assert decode(0, b'{"code":1,"extFields":%b}' % given_fields, b"").ext_fields == read


def test_the_least_that_is_a_header_and_members_that_nobody_knows() -> None:
    assert decode(0, b'{"code":1}', b"") == RemotingCommand(code=1, ext_fields={}, language="", version=0)
    command = decode(0, b' {"code":1,"new":{"x":[1,null]},"body":"eA==","language":"FORTRAN","remark":null} ', b"")
    assert command == RemotingCommand(code=1, ext_fields={}, language="FORTRAN", version=0)
    assert decode(0, b'{"code":1,"language":null}', b"").language == ""


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"7",
        b"{}",
        b'{"opaque":1}',
        b"\xef\xbb\xbf" + JAVA_ANSWER,
        JAVA_ANSWER + b"{",
        b'{"code":"11"}',
        b'{"code":1.5}',
        b'{"code":true}',
        b'{"code":null}',
        b'{"code":2147483648}',
        b'{"code":1,"opaque":-2147483649}',
        b'{"code":1,"flag":"0"}',
        b'{"code":1,"version":[]}',
        b'{"code":1,"remark":5}',
        b'{"code":1,"language":9}',
        b'{"code":1,"extFields":[]}',
        b'{"code":1,"extFields":"a"}',
        b'{"code":1,"extFields":{"a":{}}}',
        b'{"code":1,"extFields":{"a":["b"]}}',
        b"{'code':1}",
        b'{"code":1,"extFields":{"a":"\\ud800"}}',
        b'{"code":1,"extFields":{"a":1,"b":"\\udc00"}}',
        b'{"code":1,"remark":"\xff"}',
        b'{"code":1,"extFields":{"\xed\xa0\x80":"a"}}',
        b'{"code":1,"extFields":{"a":NaN}}',
        b'{"code":1,"extFields":{"a":1,"b":"\xff"}}',
        b'{"code":' + b"9" * 5000 + b"}",
        b'{"code":1,"deep":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"code":1,"extFields":{"a":1,"b":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}}",
    ],
)
def test_a_header_that_is_not_the_json_is_refused(header: bytes) -> None:
    with pytest.raises(RemotingProtocolError, match="the header is not JSON of RocketMQ's form"):
        decode(0, header, b"")


def test_every_truncation_of_a_json_header_is_refused() -> None:
    for end in range(len(JAVA_QUERY_ROUTE)):
        with pytest.raises(RemotingProtocolError):
            decode(0, JAVA_QUERY_ROUTE[:end], b"")


# --- ROCKETMQ -------------------------------------------------------------------------------------------------------


def test_a_binary_request_is_read_and_written() -> None:
    command = RemotingCommand(
        code=11, ext_fields={"topic": "T"}, opaque=5, language="GO", version=317, serialize_type="ROCKETMQ"
    )
    assert decode_frame(GO_BINARY_FRAME) == command
    assert command.encode() == GO_BINARY_FRAME


def test_every_truncation_of_a_binary_header_is_refused() -> None:
    _, header, _ = parts(GO_BINARY_FRAME)
    for end in range(len(header)):
        with pytest.raises(RemotingProtocolError, match="not a valid ROCKETMQ header"):
            decode(1, header[:end], b"")


def test_bytes_after_the_fields_of_a_binary_header_are_ignored() -> None:
    _, header, _ = parts(GO_BINARY_FRAME)
    assert decode(1, header + b"\0\1later", b"").ext_fields == {"topic": "T"}


@pytest.mark.parametrize(
    "rest",
    [
        "ffffffff 00000000",  # remark of -1 bytes
        "00000001 ff 00000000",  # remark that is not UTF-8
        "00000000 ffffffff",  # extFields of -1 bytes
        "00000000 7fffffff",
        "00000000 0000000b 0005 746f706963 00000001 54",  # the value ends behind the extFields
        "00000000 00000006 ffff 00000000",  # key of -1 bytes
        "00000000 00000007 0001 41 ffffffff",  # value of -1 bytes
        "00000000 00000007 0001 ff 00000000",
        "00000000 0000000a 0001 41 00000003 eda080",  # a lone surrogate
    ],
)
def test_a_binary_header_with_wrong_lengths_is_refused(rest: str) -> None:
    with pytest.raises(RemotingProtocolError, match="not a valid ROCKETMQ header"):
        decode(1, bytes.fromhex(BINARY_FIXED + rest), b"")


def test_a_remark_and_empty_values_in_a_binary_header() -> None:
    header = bytes.fromhex(BINARY_FIXED + "00000002 6e6f 00000007 0001 61 00000000")
    command = decode(1, header, b"")
    assert (command.remark, command.ext_fields) == ("no", {"a": ""})


def test_a_language_that_is_not_in_the_list() -> None:
    header = bytes.fromhex("000b 0e 013d 00000005 00000000 00000000 00000000")
    command = decode(1, header, b"")
    assert command.language == ""
    assert command.encode()[8 + 2] == LANGUAGES.index("OTHER")


@pytest.mark.parametrize(
    "command",
    [
        RemotingCommand(code=RequestCode.POP_MESSAGE, ext_fields={}),
        RemotingCommand(code=-32769, ext_fields={}),
        RemotingCommand(code=1, ext_fields={}, version=32768),
        RemotingCommand(code=1, ext_fields={"k" * 32768: ""}),
        RemotingCommand(code=1, ext_fields={"k": "\ud800"}),
    ],
)
def test_fields_too_large_for_a_binary_header_are_refused(command: RemotingCommand) -> None:
    command.serialize_type = "ROCKETMQ"
    with pytest.raises(ValueError, match=r"does not fit|surrogates"):
        command.encode()


def test_the_largest_of_everything_fits_a_binary_header() -> None:
    command = RemotingCommand(
        code=32767,
        version=-32768,
        opaque=-(1 << 31),
        flag=(1 << 31) - 1,
        ext_fields={"k" * 32767: "v" * 70_000, "": ""},
        remark="r" * 70_000,
        serialize_type="ROCKETMQ",
    )
    assert decode_frame(command.encode()) == command


# --- Both -----------------------------------------------------------------------------------------------------------


def test_an_unknown_type_of_header_is_refused() -> None:
    for kind in (2, 0x16, 255):
        with pytest.raises(RemotingProtocolError, match=f"type {kind} is neither"):
            decode(kind, JAVA_ANSWER, b"")


@pytest.mark.parametrize("serialize_type", ["JSON", "ROCKETMQ"])
def test_a_response_has_the_encoding_of_its_request(serialize_type: SerializeType) -> None:
    request = decode_frame(RemotingCommand.request(34, {}, opaque=-5, serialize_type=serialize_type).encode())
    response = decode_frame(request.response(1, "why").encode())
    assert (response.serialize_type, response.opaque, response.flag) == (serialize_type, -5, 1)
    assert (response.version, response.language, response.remark) == (VERSION, "PYTHON", "why")


def test_the_flags() -> None:
    assert not RemotingCommand.request(15, {}, opaque=1).is_oneway
    oneway = RemotingCommand.request(40, {}, opaque=1, oneway=True)
    assert (oneway.flag, oneway.is_oneway, oneway.is_response) == (2, True, False)
    assert RemotingCommand(code=0, ext_fields={}, flag=3).is_response


@pytest.mark.parametrize("serialize_type", ["JSON", "ROCKETMQ"])
def test_a_frame_that_clients_would_not_take_is_refused(serialize_type: SerializeType) -> None:
    command = RemotingCommand(code=0, ext_fields={}, serialize_type=serialize_type)
    header = len(command.encode()) - 8
    command.body = bytes(MAX_FRAME - 8 - header)
    assert len(command.encode()) == MAX_FRAME
    command.body += b"\0"
    with pytest.raises(ValueError, match="16777217 bytes is longer than the 16777216"):
        command.encode()


def test_text_that_is_no_unicode_is_refused_in_json() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        RemotingCommand(code=0, ext_fields={}, remark="\udcff").encode()


def int_of(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)


@st.composite
def frames(draw: st.DrawFn) -> RemotingCommand:
    serialize_type = draw(st.sampled_from(("JSON", "ROCKETMQ")))
    bits = 32 if serialize_type == "JSON" else 16
    return RemotingCommand(
        code=draw(int_of(bits)),
        ext_fields=draw(st.dictionaries(TEXT, TEXT)),
        body=draw(st.binary(max_size=50)),
        opaque=draw(int_of(32)),
        flag=draw(int_of(32)),
        remark=draw(TEXT),
        language=draw(st.sampled_from(LANGUAGES)),
        version=draw(int_of(bits)),
        serialize_type=serialize_type,
    )


@given(frames())
def test_encoded_commands_decode_to_the_same(command: RemotingCommand) -> None:
    assert decode_frame(command.encode()) == command


@given(frames().filter(lambda command: command.serialize_type == "JSON"))
def test_a_json_header_is_compact_and_in_order_as_any_reader_sees_it(command: RemotingCommand) -> None:
    _, header, _ = parts(command.encode())
    value: dict[str, Any] = json.loads(header)
    assert json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() == header
    assert list(value) == sorted(value)
    assert value.get("extFields", {}) == command.ext_fields
