"""Publishing and finding messages over HTTP."""

import base64
import json
import threading
import tracemalloc
import zlib
from collections.abc import Sequence

import httpx
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.http.limits import MAX_SENT_FRAME
from api.resources.messages import PIECE, beginning, encode_body, messages_found, render_messages
from api.routing import http_application
from bridge.port import (
    INFLATED_BYTES_MAX,
    ConflictError,
    Message,
    NotFoundError,
    RequestError,
    ResponseCode,
    commands,
    inflate_messages,
    stored_messages,
)
from broker_core.formats.message_body import COMPRESSED
from tests.api.asgi_client import AsgiRequest
from tests.fakes.engine import Bench
from tests.fakes.fake_port import FakePort, record
from tests.fakes.timers import small_wheel

__all__ = ["small_wheel"]

JSON = {"content-type": "application/json"}
PATH = "/api/v1/topics/T/messages"


async def test_published(client: httpx.AsyncClient, port: FakePort) -> None:
    answer = await client.post(PATH, json={"body": "hello", "tag": "A"}, headers={"Idempotency-Key": "k 1"})
    assert answer.status_code == 201
    assert answer.json() == {
        "messages": [
            {
                "broker": "broker-a",
                "message_id": "ID0",
                "offset_message_id": "0A00000100002A9F0000000000000400",
                "topic": "T",
                "queue_id": 0,
                "queue_offset": 0,
                "physical_offset": 0,
                "store_time_ms": 1_700_000_000_005,
            }
        ]
    }
    command = port.commands[0]
    assert isinstance(command, commands.SendMessage)
    assert (command.topic, command.idempotency_key, command.born_host) == ("T", "k 1", "127.0.0.1")


async def test_a_key_used_again_for_another_body_is_409(client: httpx.AsyncClient, port: FakePort) -> None:
    bench = Bench()
    port.replies[commands.SendMessage] = bench.call
    first = await client.post(PATH, json={"body": "hello"}, headers={"Idempotency-Key": "k1"})
    again = await client.post(PATH, json={"body": "hello"}, headers={"Idempotency-Key": "k1"})
    other = await client.post(PATH, json={"body": "other"}, headers={"Idempotency-Key": "k1"})
    assert (first.status_code, again.status_code, again.json()) == (201, 201, first.json())
    assert (other.status_code, other.json()["code"]) == (409, "ILLEGAL_OPERATION")
    (error,) = other.json()["errors"]
    assert error["pointer"] == "/Idempotency-Key"
    assert first.json()["messages"][0]["message_id"] in error["detail"] and "this send differs" in error["detail"]


async def test_a_delayed_message_in_a_batch_is_400(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.SendMessage] = Bench().call
    answer = await client.post(PATH, json={"messages": [{"body": "a"}, {"body": "b", "properties": {"DELAY": "1"}}]})
    assert (answer.status_code, answer.json()["code"]) == (400, "MESSAGE_ILLEGAL")
    assert answer.json()["errors"][0]["pointer"] == "/messages/1/properties"


async def test_a_message_above_the_brokers_limit_is_413(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.SendMessage] = Bench(max_message_size=64 * 1024).call
    answer = await client.post(PATH, json={"body": "x" * 65_537})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (413, "/body")


async def test_an_error_points_into_the_body_that_was_sent(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.SendMessage] = Bench().call
    single = await client.post(PATH, json={"body": "a", "queue_id": 99})
    several = await client.post(PATH, json={"messages": [{"body": "a", "queue_id": 99}]})
    assert single.json()["errors"][0]["pointer"] == "/queue_id"
    assert several.json()["errors"][0]["pointer"] == "/messages/0/queue_id"


async def test_a_message_for_an_exact_time_is_recalled(
    client: httpx.AsyncClient, port: FakePort, small_wheel: None
) -> None:
    bench = Bench()
    port.replies |= dict.fromkeys((commands.SendMessage, commands.RecallMessage), bench.call)
    stored = (await client.post(PATH, json={"body": "a", "delay_ms": 5000})).json()["messages"][0]
    recalled = await client.post("/api/v1/topics/T/recalls", json={"recall_handle": stored["recall_handle"]})
    assert recalled.status_code == 201
    assert recalled.json() == {"broker": "broker-a", "message_id": stored["message_id"]}
    for handle in ("nonsense", ""):
        refused = await client.post("/api/v1/topics/T/recalls", json={"recall_handle": handle})
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (400, "/recall_handle")
    bench.tick(6000)
    assert bench.context.store.max_offset("T", stored["queue_id"]) == 0


@pytest.mark.parametrize("field", ["delay_ms", "deliver_at_ms"])
async def test_a_time_that_is_too_far_away_is_400(client: httpx.AsyncClient, port: FakePort, field: str) -> None:
    port.replies[commands.SendMessage] = Bench().call
    message = {"body": "a", field: 1 << 50}
    single = await client.post(PATH, json=message)
    several = await client.post(PATH, json={"messages": [message]})
    assert single.status_code == 400 and f"`{field}`" in single.json()["detail"]
    assert "too far away: the broker delivers at most 259200 s later" in single.json()["detail"]
    assert single.json()["errors"][0]["pointer"] == f"/{field}"
    assert several.json()["errors"][0]["pointer"] == f"/messages/0/{field}"


async def test_an_error_of_the_whole_body_has_the_empty_pointer(client: httpx.AsyncClient) -> None:
    """RFC 6901: "/" would be a field with an empty name."""
    for body in (b"[]", b"{"):
        answer = await client.post(PATH, content=body, headers=JSON)
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "")


@pytest.mark.parametrize("path", ["/api/v1/messages/nowhere", "/api/v1/messages/nowhere/timeline"])
async def test_an_unknown_message_points_at_the_parameter_id(
    client: httpx.AsyncClient, port: FakePort, path: str
) -> None:
    port.replies |= dict.fromkeys((commands.ViewMessage, commands.GetMessageTimeline), Bench().call)
    answer = await client.get(path)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (404, "/id")


async def test_a_damaged_message_says_what_is_wrong(client: httpx.AsyncClient, port: FakePort) -> None:
    whole = record(b"hello")
    damaged = whole.replace(b"hello", b"jello")
    port.replies[commands.ViewMessage] = commands.Records(records=whole)
    assert "problem" not in (await client.get("/api/v1/messages/ID0")).json()
    port.replies[commands.ViewMessage] = commands.Records(records=damaged)
    assert "checksum" in (await client.get("/api/v1/messages/ID0")).json()["problem"]


async def test_large_numbers_as_text(client: httpx.AsyncClient) -> None:
    message = (await client.post(PATH + "?int64=string", json={"body": "x"})).json()["messages"][0]
    assert (message["physical_offset"], message["queue_id"]) == ("0", 0)


@pytest.mark.parametrize("more", [{}, {"key": "k"}])
async def test_a_time_range_that_ends_before_it_begins(
    client: httpx.AsyncClient, port: FakePort, more: dict[str, str]
) -> None:
    answer = await client.get("/api/v1/messages", params={"topic": "T", "begin_ms": 20, "end_ms": 10} | more)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"], port.commands) == (400, "/begin_ms", [])


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "INVALID_PARAMETER"),
        (b'{"body":"\xff"}', 400, "INVALID_PARAMETER"),
        (b"", 400, "INVALID_PARAMETER"),
        (b'{"body":"' + b"x" * (4 << 20) + b'yy"}', 413, "MESSAGE_ILLEGAL"),
        (b'{"body":"' + b"x" * (8 << 20) + b'"}', 413, "MESSAGE_ILLEGAL"),
    ],
)
async def test_invalid_publishes_are_refused(
    client: httpx.AsyncClient, port: FakePort, body: bytes, status: int, code: str
) -> None:
    answer = await client.post(PATH, content=body, headers=JSON)
    assert (answer.status_code, answer.json()["code"], port.commands) == (status, code, [])


async def test_a_body_that_says_it_is_too_large_is_not_waited_for(port: FakePort) -> None:
    request = AsgiRequest(http_application, "POST", PATH, headers=JSON | {"content-length": "99999999"}, chunks=[])
    assert (await request.done()).status == 413
    assert request.headers["connection"] == "close"


async def test_a_bad_idempotency_key(client: httpx.AsyncClient) -> None:
    for key in ("k" * 129, ""):
        answer = await client.post(PATH, json={"body": "x"}, headers={"Idempotency-Key": key})
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "/Idempotency-Key")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RequestError("no", code=ResponseCode.TOPIC_NOT_EXIST), 404),
        (ConflictError("another send's key"), 409),
        (RequestError("no", code=ResponseCode.NO_PERMISSION), 403),
    ],
)
async def test_errors_of_the_broker_have_their_status(
    client: httpx.AsyncClient, port: FakePort, error: Exception, status: int
) -> None:
    port.replies[commands.SendMessage] = error
    assert (await client.post(PATH, json={"body": "x"})).status_code == status


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60)
@given(
    body=st.binary(max_size=40)
    | st.dictionaries(
        st.sampled_from(["body", "tag", "messages", "queue_id"]),
        st.text(max_size=3) | st.integers() | st.lists(st.none()),
        max_size=3,
    ).map(lambda value: json.dumps(value).encode()),
    content_type=st.sampled_from(["application/json", "text/plain", ""]),
)
async def test_always_one_documented_answer(port: FakePort, body: bytes, content_type: str) -> None:
    request = await AsgiRequest(
        http_application, "POST", PATH, body=body, headers={"content-type": content_type}
    ).done()
    assert request.status in (201, 400, 413, 415)
    assert [message["type"] for message in request.sent] == ["http.response.start", "http.response.body"]


def test_a_body_is_text_where_it_can_be() -> None:
    records = record("hällo".encode()) + record(b"\xff\x00", queue_offset=1)
    (text, binary), _ = render_messages(stored_messages(records, "broker-a"))
    assert (text.body, text.body_encoding) == ("hällo", "utf8")
    assert (base64.b64decode(binary.body), binary.body_encoding) == (b"\xff\x00", "base64")
    assert messages_found({"broker-a": b""}, 1).messages == []


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (b"", "utf8"),
        ("häl\u2028lo\x7f\t\r\n".encode(), "utf8"),
        (b'{"a":"b"}', "utf8"),
        (b'"\\' * 100, "utf8"),
        (b"\n" * 100, "utf8"),
        (b"\x1b[31mred\x1b[0m", "utf8"),
        (b"\x00", "base64"),
        (b"x\x00\x01\x02", "base64"),
        (b"\x1f" * 1000, "base64"),
        (b"\xff", "base64"),
    ],
)
def test_a_body_that_escapes_would_more_than_double_is_base64(body: bytes, encoding: str) -> None:
    text, shown = encode_body(body)
    assert shown == encoding
    assert body == (text.encode() if encoding == "utf8" else base64.b64decode(text))


@given(body=st.binary() | st.text().map(str.encode) | st.text(alphabet='\x00\x01"\\ab').map(str.encode))
def test_json_at_most_doubles_a_body(body: bytes) -> None:
    text, _ = encode_body(body)
    assert len(msgspec.json.encode(text)) - len('""') <= max(2 * len(body), 4)


@pytest.mark.parametrize("size", [PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 2])
@pytest.mark.parametrize("unit", ["a", "\u00e4", "\x00", "\udcff"])
def test_a_body_of_several_pieces_is_whole(unit: str, size: int) -> None:
    body = (unit * size).encode("utf-8", "surrogateescape")
    text, encoding = encode_body(body)
    assert body == (text.encode() if encoding == "utf8" else base64.b64decode(text))


@pytest.mark.parametrize("byte", [b"\x00", b"\xff", b"a"])
def test_encoding_a_large_body_takes_little_memory_besides_the_answer(byte: bytes) -> None:
    body = byte * (4 * 1024 * 1024)
    tracemalloc.start()
    encode_body(body)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * len(body)


def test_the_largest_message_fits_into_one_frame() -> None:
    properties = {"KEYS": "\x03" * 16_000, "TAGS": "\x03" * 16_000}
    body = zlib.compress(b'"' * INFLATED_BYTES_MAX)
    stored = stored_messages(record(body, sys_flag=COMPRESSED, properties=properties), "broker-a")
    [view], _ = render_messages(stored)
    assert (len(view.body), view.tag) == (INFLATED_BYTES_MAX, properties["TAGS"])
    frame = {"type": "message", "id": "\x03" * 128, "seq": 1 << 62} | msgspec.to_builtins(view)
    assert 2 * INFLATED_BYTES_MAX < len(msgspec.json.encode(frame)) <= MAX_SENT_FRAME


def bomb(number: int) -> bytes:
    """A record of 4 KiB with a body of 4 MiB."""
    return record(
        zlib.compress(b"a" * (4 << 20)), sys_flag=1, queue_offset=number, properties={"UNIQ_KEY": f"ID{number}"}
    )


async def test_messages_above_the_bound_are_named(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.QueryMessage] = commands.Records(records=b"".join(map(bomb, range(6))))
    body = (await client.get("/api/v1/messages?topic=T&key=k")).json()
    assert [message["message_id"] for message in body["messages"]] == ["ID0", "ID1", "ID2", "ID3"]
    assert body["left_out"] == ["ID4", "ID5"]


async def test_bodies_are_inflated_off_the_event_loop_and_others_are_not(
    client: httpx.AsyncClient, port: FakePort, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[bool] = []

    def watched(messages: Sequence[Message], max_bytes: int) -> tuple[list[Message], Sequence[Message]]:
        threads.append(threading.current_thread() is threading.main_thread())
        return inflate_messages(messages, max_bytes)

    monkeypatch.setattr("api.resources.messages.inflate_messages", watched)
    port.replies[commands.ViewMessage] = commands.Records(records=bomb(0))
    assert len((await client.get("/api/v1/messages/ID0")).json()["body"]) == 4 << 20
    port.replies[commands.ViewMessage] = commands.Records(records=record())
    await client.get("/api/v1/messages/ID0")
    assert threads == [False, True]


async def test_a_message_is_shown(client: httpx.AsyncClient, port: FakePort) -> None:
    properties = {"UNIQ_KEY": "ABC", "TAGS": "A", "KEYS": "k1 k2", "color": "red"}
    port.replies[commands.ViewMessage] = commands.Records(records=record(properties=properties, queue_offset=7))
    body = (await client.get("/api/v1/messages/ABC?topic=T")).json()
    assert port.commands[0] == commands.ViewMessage(message_id="ABC", topic="T")
    assert (body["message_id"], body["tag"], body["keys"], body["queue_offset"]) == ("ABC", "A", ["k1", "k2"], 7)
    assert set(body) == {
        "broker",
        "message_id",
        "offset_message_id",
        "topic",
        "queue_id",
        "queue_offset",
        "physical_offset",
        "tag",
        "keys",
        "properties",
        "body",
        "body_encoding",
        "born_time_ms",
        "store_time_ms",
        "born_host",
        "store_host",
        "reconsume_times",
        "size",
    }


async def test_no_such_message(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.ViewMessage] = NotFoundError("no message has the id X")
    answer = await client.get("/api/v1/messages/X")
    assert (answer.status_code, answer.json()["code"]) == (404, "QUERY_NOT_FOUND")


async def test_messages_by_key(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.QueryMessage] = commands.Records(records=record() + record(queue_offset=1))
    answer = await client.get("/api/v1/messages", params={"topic": "T", "key": "a key", "limit": 5, "begin_ms": 1})
    assert [message["queue_offset"] for message in answer.json()["messages"]] == [0, 1]
    assert port.commands[0] == commands.QueryMessage(topic="T", key="a key", max_num=5, begin_ms=1, end_ms=1 << 62)
    assert (await client.get("/api/v1/messages?key=a")).status_code == 400
    assert (await client.get("/api/v1/messages?topic=T&key=k&limit=65")).status_code == 400


@pytest.mark.parametrize("key", ["a\tb", "\u3000", "k" * 10_000])
async def test_messages_by_any_key_that_a_message_can_have(client: httpx.AsyncClient, port: FakePort, key: str) -> None:
    port.replies[commands.QueryMessage] = commands.Records(records=record())
    answer = await client.get("/api/v1/messages", params={"topic": "T", "key": key})
    assert answer.status_code == 200 and port.commands == [commands.QueryMessage(topic="T", key=key)]


async def test_messages_by_time_in_pages_with_the_beginnings_of_their_bodies(
    client: httpx.AsyncClient, port: FakePort
) -> None:
    bench = Bench()
    port.replies[commands.QueryMessageByTime] = bench.call
    for body in ("first", "schön", "third"):
        bench.send("T", body.encode())
    path = "/api/v1/messages?topic=T&limit=2"
    newest = (await client.get(f"{path}&max_body=4")).json()
    assert [message["body"] for message in newest["messages"]] == ["sch", "thir"]
    assert [message["body_size"] for message in newest["messages"]] == [6, 5]
    older = (await client.get(f"{path}&before={newest['next']}")).json()
    assert [message["body"] for message in older["messages"]] == ["first"]
    assert "next" not in older and "body_size" not in older["messages"][0]


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("topic=T&key=k&before=1", "/before"),
        ("topic=T&before=-1", "/before"),
        ("topic=T&max_body=99999999", "/max_body"),
        ("key=k", "/topic"),
    ],
)
async def test_a_search_that_cannot_be_made_is_400(
    client: httpx.AsyncClient, port: FakePort, query: str, pointer: str
) -> None:
    answer = await client.get(f"/api/v1/messages?{query}")
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, pointer)


@given(st.text(max_size=20), st.integers(0, 40))
def test_the_beginning_of_a_text_is_text(text: str, size: int) -> None:
    part = beginning(text.encode(), size)
    assert (text.startswith(part.decode()) and size - 3 <= len(part) <= size) or part == text.encode()


def test_the_beginning_of_binary_data_has_every_byte() -> None:
    assert beginning(b"\xff\xfe\xfd\xfc\xfb", 3) == b"\xff\xfe\xfd"


async def test_the_timeline_lists_the_events_of_a_message(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.GetMessageTimeline] = commands.Timeline(
        topic="T",
        queue_id=0,
        queue_offset=7,
        store_time_ms=5,
        complete=False,
        events=[{"type": "messages_stored", "seq": 1}],
    )
    body = (await client.get("/api/v1/messages/ABC/timeline")).json()
    assert (body["broker"], body["message_id"], body["complete"]) == ("broker-a", "ABC", False)
    assert body["events"] == [{"type": "messages_stored", "seq": 1}]
