"""What may be published, and what is said of what may not."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.http.problems import Problem
from api.http.request import decode_json
from api.resources.publishing import idempotency_key, point_at_fields, published, read_publish
from bridge.port import RequestError, ResponseCode, commands
from broker_core.formats import message_properties
from tests.fakes.engine import Bench
from tests.fakes.fake_port import sent
from tests.fakes.timers import timed


def read(*messages: Any, **single: Any) -> list[commands.OutgoingMessage]:
    outgoing, is_single = read_publish(json.dumps({"messages": messages} if messages else single).encode())
    assert is_single is not bool(messages)
    return outgoing


def refused(*messages: Any, **single: Any) -> Problem:
    with pytest.raises(Problem) as caught:
        read(*messages, **single)
    return caught.value


def test_a_message_with_every_field_is_read() -> None:
    (message,) = read(body="hällo", tag="A", keys=["k1", "k2"], properties={"color": "red"}, queue_id=3)
    assert (message.body, message.queue_id) == ("hällo".encode(), 3)
    assert message_properties.decode(message.properties) == {"TAGS": "A", "KEYS": "k1 k2", "color": "red"}


@pytest.mark.parametrize("tag", ["A|B", "two words", "a*", "標籤"])
def test_a_tag_that_a_filter_can_select_is_read(tag: str) -> None:
    assert message_properties.decode(read(body="x", tag=tag)[0].properties) == {"TAGS": tag}


def test_several_messages_keep_their_order_and_the_broker_chooses_the_queue() -> None:
    assert [(message.body, message.queue_id) for message in read({"body": "a"}, {"body": "b"})] == [
        (b"a", -1),
        (b"b", -1),
    ]


@pytest.mark.parametrize(
    ("message", "body"),
    [
        ({"body": "aGk=", "body_encoding": "base64"}, b"hi"),
        ({"body": "", "body_encoding": "base64"}, b""),
        ({"body": "\U0001f600", "body_encoding": "utf8"}, "\U0001f600".encode()),
    ],
)
def test_encodings(message: dict[str, Any], body: bytes) -> None:
    assert read(**message)[0].body == body


def test_json_is_stored_as_it_was_written() -> None:
    (message,), _ = read_publish(b'{"body": {"a": [1.50, null]}, "body_encoding": "json"}')
    assert message.body == b'{"a": [1.50, null]}'


@pytest.mark.parametrize(
    ("message", "pointer"),
    [
        ({"body": 1}, "/body"),
        ({"body": None}, "/body"),
        ({"body": {}, "body_encoding": "base64"}, "/body"),
        ({"body": "%", "body_encoding": "base64"}, "/body"),
        ({"body": "x", "body_encoding": "latin1"}, "/body_encoding"),
        ({}, "/body"),
        ({"body": "x", "queue_id": -1}, "/queue_id"),
        ({"body": "x", "queue_id": "1"}, "/queue_id"),
        ({"body": "x", "tga": "A"}, "/tga"),
        ({"body": "x", "tag": "a\x02b"}, "/tag"),
        ({"body": "x", "tag": "A||B"}, "/tag"),
        ({"body": "x", "tag": "*"}, "/tag"),
        ({"body": "x", "tag": " "}, "/tag"),
        ({"body": "x", "tag": "A "}, "/tag"),
        ({"body": "x", "keys": "k"}, "/keys"),
        ({"body": "x", "keys": ["a b"]}, "/keys/0"),
        ({"body": "x", "keys": ["a", ""]}, "/keys/1"),
        ({"body": "x", "keys": ["a\x01"]}, "/keys/0"),
        ({"body": "x", "properties": {"a": "1", "b": 1, "c": 2}}, "/properties/b"),
        ({"body": "x", "properties": {"a/b": None}}, "/properties/a~1b"),
        ({"body": "x", "properties": {"a": ["1"]}}, "/properties/a"),
        ({"body": "x", "properties": {"a": True}}, "/properties/a"),
        ({"body": "x", "properties": 1}, "/properties"),
        ({"body": "x", "properties": {"a\x01": "b"}}, "/properties/a\x01"),
        ({"body": "x", "properties": {"a": "b\x02"}}, "/properties/a"),
        ({"body": "x", "properties": {"a": ""}}, "/properties/a"),
        ({"body": "x", "properties": {"": "a"}}, "/properties/"),
        ({"body": "x", "properties": {"UNIQ_KEY": "1"}}, "/properties/UNIQ_KEY"),
        ({"body": "x", "properties": {"a/b~": ""}}, "/properties/a~1b~0"),
    ],
)
def test_errors_point_at_the_wrong_field(message: dict[str, Any], pointer: str) -> None:
    problem = refused(**message)
    assert (problem.status, problem.errors[0].pointer) == (400, pointer)
    in_a_list = refused({"body": "x"}, message)
    assert (in_a_list.status, in_a_list.errors[0].pointer) == (400, f"/messages/1{pointer}")


def test_a_wrong_property_in_what_is_no_json_is_refused_as_well() -> None:
    with pytest.raises(Problem) as caught:
        read_publish(b'{"body": "x", "properties": {"a": 1}, }')
    assert (caught.value.status, caught.value.errors[0].pointer) == (400, "/properties")


@pytest.mark.parametrize(
    ("text", "escape"),
    [
        (r"\ud800", r"\ud800"),
        (r"\uDc00 and more", r"\uDc00"),
        (r"\\ \ud83d\ude00 \u00e9 \ud83dx", r"\ud83d"),
        (r"\ud83d\ud83d\ude00", r"\ud83d"),
    ],
)
def test_a_lone_surrogate_is_named(text: str, escape: str) -> None:
    for body in (f'{{"body": "{text}"}}', f'{{"body": "x", "tag": "{text}"}}'):
        with pytest.raises(Problem) as caught:
            read_publish(body.encode())
        assert f"has a text with {escape}, which is half of a surrogate pair" in caught.value.detail


def test_other_escapes_are_no_surrogates() -> None:
    assert read_publish(rb'{"body": "\\ud800 \ud83d\ude00"}')[0][0].body == "\\ud800 \U0001f600".encode()
    for body in (rb'{"body": "\\ud800', rb'{"body": "\ud83d\ude00', b'{"body": "\\'):
        with pytest.raises(Problem, match="the body is not JSON"):
            read_publish(body)


@pytest.mark.parametrize("name", ["TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS"])
def test_an_exact_time_has_fields_of_its_own(name: str) -> None:
    assert "`deliver_at_ms` or `delay_ms`" in refused(body="x", properties={name: "1"}).detail


@pytest.mark.parametrize(
    ("fields", "properties"),
    [
        ({"deliver_at_ms": 1_700_000_000_000}, {"TIMER_DELIVER_MS": "1700000000000"}),
        ({"delay_ms": 5}, {"TIMER_DELAY_MS": "5"}),
    ],
)
def test_an_exact_time_is_passed_on(fields: dict[str, int], properties: dict[str, str]) -> None:
    (message,) = read(body="x", **fields)
    assert message_properties.decode(message.properties) == properties


@pytest.mark.parametrize(
    "fields",
    [
        {"deliver_at_ms": 5, "delay_ms": 5},
        {"delay_ms": 5, "properties": {"DELAY": "1"}},
        {"delay_ms": 0},
        {"deliver_at_ms": -1},
        {"delay_ms": "5"},
    ],
)
def test_two_times_or_none_at_all_are_refused(fields: dict[str, Any]) -> None:
    assert refused(body="x", **fields).status == 400


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [("TIMER_DELAY_MS", 259_200_001, "delay_ms"), ("TIMER_DELIVER_MS", 1 << 52, "deliver_at_ms")],
)
def test_a_time_that_is_too_far_away_is_refused_in_words_of_the_api(name: str, value: int, field: str) -> None:
    refusal = Bench().call(timed(**{name: value}))
    assert isinstance(refusal, commands.Failed)
    error = RequestError(refusal.remark, code=ResponseCode(refusal.code), pointer=refusal.pointer)
    point_at_fields(error, is_single=True)
    assert error.pointer == f"/{field}"
    expected = f"`{field}` is too far away: the broker delivers at most 259200 s later (timerMaxDelaySec)"
    assert error.remark == expected


def test_another_refusal_of_a_time_names_its_field() -> None:
    refusal = Bench(timer_wheel_enable=False).call(timed(TIMER_DELAY_MS=1))
    assert isinstance(refusal, commands.Failed)
    error = RequestError(refusal.remark, code=ResponseCode(refusal.code), pointer=refusal.pointer)
    point_at_fields(error, is_single=False)
    assert error.pointer == "/messages/0/delay_ms"
    assert error.remark.startswith("the broker refuses `delay_ms`: accurate timer message is not enabled")


@pytest.mark.parametrize("level", ["1", "18", "99"])
def test_a_delay_level_is_passed_on(level: str) -> None:
    (message,) = read(body="x", properties={"DELAY": level})
    assert message_properties.decode(message.properties) == {"DELAY": level}


@pytest.mark.parametrize("level", ["0", "-1", "1s", "1.5", " 1", "1\n", "٣", "1" * 10])
def test_invalid_delay_levels_are_refused(level: str) -> None:
    problem = refused(body="x", properties={"DELAY": level})
    assert "delay level" in problem.detail and problem.errors[0].pointer == "/properties/DELAY"


def test_tag_and_keys_have_fields_of_their_own() -> None:
    assert "`tag`" in refused(body="x", properties={"TAGS": "A"}).detail
    assert "`keys`" in refused(body="x", properties={"KEYS": "A"}).detail


def test_order_keys_are_applications() -> None:
    assert "__SHARDINGKEY" in read(body="x", properties={"__SHARDINGKEY": "1"})[0].properties


def test_four_mebibytes_and_not_a_byte_more() -> None:
    assert len(read(body="x" * (4 << 20))[0].body) == 4 << 20
    problem = refused(body="x" * ((4 << 20) + 1))
    assert (problem.status, problem.code) == (413, ResponseCode.MESSAGE_ILLEGAL)


@pytest.mark.parametrize("count", [0, 1025])
def test_the_number_of_messages_is_bounded(count: int) -> None:
    with pytest.raises(Problem) as caught:
        read_publish(json.dumps({"messages": [{"body": "x"}] * count}).encode())
    assert caught.value.errors[0].pointer == "/messages"


def test_a_request_with_a_body_and_messages_is_refused() -> None:
    assert refused(messages=[{"body": "x"}], body="y").errors[0].pointer == "/body"


@pytest.mark.parametrize("key", ["k" * 128, "a b"])
def test_idempotency_keys(key: str) -> None:
    assert idempotency_key({b"idempotency-key": key.encode()}) == key
    assert idempotency_key({}) == ""


@pytest.mark.parametrize("key", ["k" * 129, "ä", "a\tb", ""])
def test_bad_idempotency_keys_are_refused(key: str) -> None:
    with pytest.raises(Problem) as caught:
        idempotency_key({b"idempotency-key": key.encode()})
    assert caught.value.errors[0].pointer == "/Idempotency-Key"


def test_the_answer_names_the_place_of_each() -> None:
    answer = published(sent(commands.SendMessage(topic="T", messages=read({"body": "a"}, {"body": "b"}))), "broker-a")
    assert [(message.broker, message.topic, message.queue_offset) for message in answer.messages] == [
        ("broker-a", "T", 0),
        ("broker-a", "T", 1),
    ]


@pytest.mark.parametrize("code", [ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT])
def test_stored_but_not_on_the_disk_or_on_slaves_in_time(code: ResponseCode) -> None:
    late = commands.Sent(code=code, topic="T", messages=[])
    with pytest.raises(Problem) as caught:
        published(late, "broker-a")
    assert (caught.value.status, caught.value.code) == (504, code)
    assert "stores them again, unless both requests have the same Idempotency-Key" in str(caught.value)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=5), part, max_size=3),
    max_leaves=8,
)
shapes = st.fixed_dictionaries(
    {},
    optional={
        "body": values | st.text(),
        "body_encoding": st.sampled_from(["utf8", "base64", "json", "x"]),
        "tag": values,
        "keys": st.lists(st.text(max_size=4), max_size=3) | values,
        "queue_id": values,
        "messages": values,
        "properties": st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=3) | values,
    },
)


@given(
    st.binary(max_size=60)
    | (shapes | values | st.lists(shapes, max_size=3).map(lambda found: {"messages": found})).map(
        lambda value: json.dumps(value).encode()
    )
)
def test_any_body_is_messages_or_a_problem(data: bytes) -> None:
    try:
        messages, _ = read_publish(data)
    except Problem as problem:
        assert problem.status in (400, 413)
        assert problem.errors
        return
    for message in messages:
        read_back = message_properties.decode(message.properties)
        assert message.properties == message_properties.encode(read_back)


def test_a_body_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[type] = []

    def counting(data: bytes, shape: type) -> Any:
        decoded.append(shape)
        return decode_json(data, shape)

    monkeypatch.setattr("api.resources.publishing.decode_json", counting)
    read(body="one")
    read({"body": "one"}, {"body": "two"})
    assert len(decoded) == 2


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/body"),
        ({"tag": "A"}, "/body"),
        ({"messages": [{"body": "a"}], "body": "b"}, "/body"),
        ({"messages": [{"body": "a"}], "tag": "A"}, "/tag"),
        ({"messages": [{"body": "a"}], "queue_id": 1}, "/queue_id"),
        ({"messages": []}, "/messages"),
        ({"messages": None}, "/messages"),
        ({"messages": [{}]}, "/messages/0/body"),
        ({"other": 1}, "/other"),
    ],
)
def test_a_body_has_one_of_two_shapes(body: dict[str, Any], pointer: str) -> None:
    with pytest.raises(Problem) as caught:
        read_publish(json.dumps(body).encode())
    assert (caught.value.status, caught.value.errors[0].pointer) == (400, pointer)
