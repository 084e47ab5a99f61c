"""Sends in every spelling, and the answers that producers read."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core import commands as c
from broker_core.codes import ResponseCode
from broker_core.formats import message_properties
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests import decode, encode
from broker_core.remoting.requests.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from tests.fakes.engine import Bench
from tests.fakes.remoting import BATCH_OF_ONE, IDENTITY, PEER, PROPERTIES, SEND, SEND_V2, command_of, go, java

EXPECTED = c.SendMessage(
    topic="T",
    producer_group="pg",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    born_host="10.0.0.2",
    born_port=50_000,
    max_reconsume_times=None,
    messages=[
        c.OutgoingMessage(
            body=b"hello", properties=PROPERTIES, queue_id=1, flag=0, sys_flag=0, born_timestamp=1_700_000_000_000
        )
    ],
)
LETTERS = dict(
    zip(
        [
            "producerGroup",
            "topic",
            "defaultTopic",
            "defaultTopicQueueNums",
            "queueId",
            "sysFlag",
            "bornTimestamp",
            "flag",
            "properties",
            "reconsumeTimes",
            "unitMode",
            "maxReconsumeTimes",
            "batch",
            "bname",
        ],
        "abcdefghijklmn",
        strict=True,
    )
)


def sent(*places: tuple[str, str, int, int], code: int = 0) -> c.Sent:
    return c.Sent(
        code=code,
        topic="T",
        messages=[
            c.SentMessage(
                message_id=unique,
                offset_message_id=place,
                queue_id=queue,
                queue_offset=offset,
                physical_offset=0,
                store_time_ms=0,
            )
            for unique, place, queue, offset in places
        ],
    )


def refused(fields: dict[str, str], body: bytes = b"hello", code: int = 310) -> c.Failed:
    failed = decode(RemotingCommand.request(code, fields, body, opaque=1), PEER)
    assert isinstance(failed, c.Failed)
    return failed


def test_javas_single_message() -> None:
    assert decode(command_of(java(310, SEND_V2, b"hello")), PEER) == EXPECTED


def test_gos_single_message() -> None:
    """Go spells the names out, and says maxReconsumeTimes where it means nothing."""
    assert decode(command_of(go(10, SEND, b"hello")), PEER) == msgspec.structs.replace(EXPECTED, max_reconsume_times=0)


def test_the_binary_header() -> None:
    command = RemotingCommand.request(310, SEND_V2, b"hello", opaque=1, serialize_type="ROCKETMQ")
    assert decode(command_of(command.encode()), PEER) == EXPECTED


def test_the_letters_are_the_names() -> None:
    names = {field.encode_name for field in msgspec.structs.fields(SendMessageRequestHeader)}
    assert {LETTERS[name] for name in names} == {
        field.encode_name for field in msgspec.structs.fields(SendMessageRequestHeaderV2)
    }
    assert [field.name for field in msgspec.structs.fields(SendMessageRequestHeader)] == [
        field.name for field in msgspec.structs.fields(SendMessageRequestHeaderV2)
    ]


def test_optional_fields_may_be_missing() -> None:
    fields = {letter: SEND_V2[letter] for letter in "abcdefgh"}
    command = decode(RemotingCommand.request(310, fields, b"x", opaque=1), PEER)
    assert isinstance(command, c.SendMessage)
    (message,) = command.messages
    assert (message.properties, message.reconsume_times) == ("", 0)


@pytest.mark.covers("no-body")
def test_a_message_may_be_without_a_body() -> None:
    """As over HTTP and in a batch."""
    command = decode(RemotingCommand.request(310, SEND_V2, b"", opaque=1), PEER)
    assert isinstance(command, c.SendMessage) and [message.body for message in command.messages] == [b""]
    batch = decode(RemotingCommand.request(310, SEND_V2 | {"m": "true"}, b"", opaque=1), PEER)
    refused_batch = Bench().call(batch) if isinstance(batch, c.SendMessage) else batch
    assert isinstance(refused_batch, c.Failed) and refused_batch.code == ResponseCode.MESSAGE_ILLEGAL


def test_a_compressed_body_stays_as_it_is() -> None:
    command = decode(RemotingCommand.request(310, SEND_V2 | {"f": "769"}, b"x\x9c\x03\0", opaque=1), PEER)
    assert isinstance(command, c.SendMessage)
    assert (command.messages[0].body, command.messages[0].sys_flag) == (b"x\x9c\x03\0", 0x301)


@pytest.mark.parametrize(("version", "expected"), [(120, None), (121, 5), (493, 5)])
def test_old_clients_mean_something_else_by_max_reconsume_times(version: int, expected: int | None) -> None:
    request = RemotingCommand(310, SEND_V2 | {"l": "5"}, b"x", version=version)
    command = decode(request, PEER)
    assert isinstance(command, c.SendMessage) and command.max_reconsume_times == expected


@given(
    st.fixed_dictionaries(
        {
            "topic": st.text(st.characters(exclude_categories=("Cs",)), max_size=20),
            "queueId": st.integers(-5, 2000),
            "flag": st.integers(-(1 << 31), (1 << 31) - 1),
            "bornTimestamp": st.integers(-(1 << 63), (1 << 63) - 1),
            "reconsumeTimes": st.integers(0, 20),
        }
    ),
    st.binary(min_size=1, max_size=50),
    st.sampled_from(["JSON", "ROCKETMQ"]),
)
def test_round_trip(values: dict[str, Any], body: bytes, kind: Any) -> None:
    fields = SEND | {name: str(value) for name, value in values.items()}
    long = decode(command_of(RemotingCommand.request(10, fields, body, opaque=1, serialize_type=kind).encode()), PEER)
    short = {LETTERS[name]: value for name, value in fields.items() if name in LETTERS}
    assert decode(command_of(RemotingCommand.request(310, short, body, opaque=1).encode()), PEER) == long
    assert isinstance(long, c.SendMessage)
    (message,) = long.messages
    assert (
        long.topic,
        message.queue_id,
        message.flag,
        message.born_timestamp,
        message.reconsume_times,
        message.body,
    ) == (*(values[name] for name in ("topic", "queueId", "flag", "bornTimestamp", "reconsumeTimes")), body)


# --- properties ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "properties", ["", "A\x01b", "A\x01b\x02", "A\x01b\x02C\x01d", "A\x01\x02", "A\x01b\x01c\x02", "\x02A\x01b\x02\x02"]
)
def test_valid_property_strings_are_accepted(properties: str) -> None:
    command = decode(RemotingCommand.request(310, SEND_V2 | {"i": properties}, b"x", opaque=1), PEER)
    assert isinstance(command, c.SendMessage) and command.messages[0].properties == properties


@pytest.mark.parametrize(
    "properties", ["nothing", "A\x01b\x02nothing", "nothing\x02A\x01b\x02", "\x01b\x02", "x" * 9999]
)
@pytest.mark.covers("bare-properties")
def test_property_strings_without_separators(properties: str) -> None:
    failed = refused(SEND_V2 | {"i": properties})
    assert failed.code == ResponseCode.MESSAGE_ILLEGAL and "properties" in failed.remark and len(failed.remark) < 300


@given(
    st.dictionaries(
        st.text(st.characters(exclude_characters="\1\2", exclude_categories=("Cs",)), min_size=1),
        st.text(st.characters(exclude_characters="\1\2", exclude_categories=("Cs",))),
    )
)
def test_property_strings_of_clients_are_accepted(properties: dict[str, str]) -> None:
    text = message_properties.encode(properties)
    assert isinstance(decode(RemotingCommand.request(310, SEND_V2 | {"i": text}, b"x", opaque=1), PEER), c.SendMessage)


# --- batches ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [310, 320])
def test_the_field_and_not_the_code_makes_a_batch(code: int) -> None:
    request = RemotingCommand.request(code, SEND_V2 | {"m": "true"}, BATCH_OF_ONE * 2, opaque=1)
    command = decode(request, PEER)
    assert isinstance(command, c.SendMessage)
    assert (
        command.messages
        == [
            c.OutgoingMessage(body=b"m1", properties="UNIQ_KEY\x01A1\x02", queue_id=1, born_timestamp=1_700_000_000_000)
        ]
        * 2
    )
    single = decode(RemotingCommand.request(code, SEND_V2, BATCH_OF_ONE, opaque=1), PEER)
    assert isinstance(single, c.SendMessage) and single.messages[0].body == BATCH_OF_ONE


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"b": "%RETRY%g"}, "retry"),
        ({"f": "4"}, "transactional"),
        ({"f": "8"}, "transactional"),
        ({"i": "DELAY\x013\x02"}, "delayed"),
        ({"f": "128"}, "inner batch"),
        ({"i": "INNER_NUM\x011\x02"}, "INNER_NUM"),
    ],
)
def test_batches_with_forbidden_fields_are_refused(changes: dict[str, str], why: str) -> None:
    failed = refused(SEND_V2 | {"m": "true"} | changes, BATCH_OF_ONE, 320)
    assert failed.code == ResponseCode.MESSAGE_ILLEGAL and why in failed.remark


@pytest.mark.parametrize(
    ("properties", "taken"),
    [
        (b"INNER_NUM\x011\x02", False),
        (b"DELAY\x013\x02", False),
        (b"DELAY\x010\x02", True),
        (b"A\x01DELAY\x02", True),
        (b"no separator", False),
    ],
)
def test_properties_of_the_messages_of_a_batch_are_checked(properties: bytes, taken: bool) -> None:
    size = len(properties)
    body = (22 + size).to_bytes(4, "big") + bytes(16) + size.to_bytes(2, "big") + properties
    decoded = decode(RemotingCommand.request(320, SEND_V2 | {"m": "true"}, body, opaque=1), PEER)
    if taken:
        assert isinstance(decoded, c.SendMessage)
    else:
        assert isinstance(decoded, c.Failed) and decoded.code == ResponseCode.MESSAGE_ILLEGAL


def test_the_properties_of_a_batch_are_those_of_its_header() -> None:
    properties = "UNIQ_KEY\x01BATCH\x02"
    fields = SEND_V2 | {"i": properties}
    command = decode(RemotingCommand.request(320, fields | {"m": "true"}, BATCH_OF_ONE, opaque=1), PEER)
    single = decode(RemotingCommand.request(320, fields, BATCH_OF_ONE, opaque=1), PEER)
    assert isinstance(command, c.SendMessage) and isinstance(single, c.SendMessage)
    assert (command.batch_properties, single.batch_properties) == (properties, "")


@pytest.mark.covers("inner-flags")
@pytest.mark.parametrize("sys_flag", [64, 128, 192])
def test_only_the_broker_makes_inner_batches(sys_flag: int) -> None:
    for changes in ({"f": str(sys_flag)}, {"i": "INNER_NUM\x011\x02"}):
        assert refused(SEND_V2 | changes).code == ResponseCode.MESSAGE_ILLEGAL


@pytest.mark.parametrize("body", [b"hello", BATCH_OF_ONE[:-1], BATCH_OF_ONE + b"\0"])
@pytest.mark.covers("batch-lengths")
def test_a_batch_whose_lengths_lie(body: bytes) -> None:
    failed = refused(SEND_V2 | {"m": "true"}, body, 320)
    assert failed.code == ResponseCode.MESSAGE_ILLEGAL and "batch is damaged" in failed.remark


# --- answers ------------------------------------------------------------------------------------------------------


def answer(reply: c.Sent, request: RemotingCommand) -> RemotingCommand:
    encoded = encode(reply, request, IDENTITY)
    data = encoded.encode() if isinstance(encoded, RemotingCommand) else encoded
    assert isinstance(data, bytes)
    return command_of(data)


@pytest.mark.parametrize("kind", ["JSON", "ROCKETMQ"])
def test_the_answer_of_one_message(kind: Any) -> None:
    request = RemotingCommand.request(310, SEND_V2, opaque=77, serialize_type=kind)
    response = answer(sent(('A "1"é', "0A00000100002A9F0000000000000400", 3, 12), code=10), request)
    assert (response.code, response.opaque, response.flag, response.version, response.serialize_type) == (
        10,
        77,
        1,
        493,
        kind,
    )
    assert response.ext_fields == {
        "msgId": "0A00000100002A9F0000000000000400",
        "queueId": "3",
        "queueOffset": "12",
        "transactionId": 'A "1"é',
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }


@pytest.mark.parametrize(("code", "fields"), [(320, SEND_V2), (10, SEND)])
def test_the_answer_of_a_batch(code: int, fields: dict[str, str]) -> None:
    request = RemotingCommand.request(code, fields, opaque=1)
    response = answer(sent(("A1", "ID1", 3, 12), ("A2", "ID2", 3, 13)), request)
    assert response.ext_fields["msgId"] == "ID1,ID2" and response.ext_fields["queueOffset"] == "12"
    assert response.ext_fields["transactionId"] == "0A00000200010000000000000000"


def test_the_answer_of_an_inner_batch() -> None:
    request = RemotingCommand.request(320, SEND_V2, opaque=1)
    reply = msgspec.structs.replace(sent(("A1", "ID1", 3, 12)), batch_uniq_id="A1")
    fields = answer(reply, request).ext_fields
    assert fields == {
        "msgId": "ID1",
        "queueId": "3",
        "queueOffset": "12",
        "transactionId": "A1",
        "batchUniqId": "A1",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }
