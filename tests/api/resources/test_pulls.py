"""The long-polling pull over HTTP: what it asks for, how it ends."""

import asyncio
import zlib

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.resources.pulls import clamp_wait, preferred_wait_s, pull_result
from api.routing import http_application
from bridge.port import RequestError, ResponseCode, commands
from broker_core.formats.inner_batch import INNER_FLAGS
from broker_core.formats.message_batch import BatchEntry, encode_batch
from tests.api.asgi_client import AsgiRequest
from tests.fakes.fake_port import FakePort, pulled, record

PATH = "/api/v1/topics/T/queues/0/messages"


def asked(port: FakePort) -> commands.PullMessage:
    found = [command for command in port.commands if isinstance(command, commands.PullMessage)]
    return found[-1]


async def test_found_at_once(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.PullMessage] = pulled(
        records=record() + record(queue_offset=1), next_offset=2, granted_ms=15_000
    )
    answer = await client.get(PATH, params={"offset": 0, "filter": "TagA||TagB", "group": "G", "limit": 5})
    body = answer.json()
    assert (answer.status_code, body["status"], body["next_offset"], body["hold"]) == (200, "found", 2, None)
    assert [message["body"] for message in body["messages"]] == ["hello", "hello"]
    assert (body["broker"], body["min_offset"], body["max_offset"], body["effective_wait_ms"]) == (
        "broker-a",
        0,
        1,
        15_000,
    )
    assert answer.headers["server-timing"] == "hold;dur=0.000, read;dur=0.040"
    command = asked(port)
    assert (
        command.subscription,
        command.expression_type,
        command.max_msg_nums,
        command.suspend_timeout_ms,
        command.consumer_group,
        command.protocol,
    ) == ("TagA||TagB", "TAG", 5, 15_000, "G", "http")


async def test_held_and_woken(port: FakePort) -> None:
    request = AsgiRequest(http_application, "GET", PATH, query="offset=3&wait_ms=2000")
    await port.until_held(1)
    assert request.sent == []
    port.wake(port.held[0], record())
    body = (await request.done()).json()
    assert body["hold"] == {"id": 1, "held_ms": 12, "held_us": 12_345, "wake_us": 67, "wake_cause": "arrival"}
    assert body["effective_wait_ms"] == 2000
    assert request.headers["server-timing"].startswith("hold;dur=12.345")
    assert not port.connections[0].is_open


async def test_a_time_out_is_an_empty_answer(port: FakePort) -> None:
    request = AsgiRequest(http_application, "GET", PATH, query="offset=3")
    await port.until_held(1)
    port.wake(port.held[0], cause="timeout")
    body = (await request.done()).json()
    assert (request.status, body["status"], body["messages"]) == (200, "no_new", [])
    assert body["hold"]["wake_cause"] == "timeout"


async def test_a_client_that_goes_releases_its_hold_at_once(port: FakePort) -> None:
    request = AsgiRequest(http_application, "GET", PATH, query="offset=3")
    await port.until_held(1)
    request.disconnect()
    await port.until_held(0)
    await request.done()
    assert request.sent == []
    assert not port.connections[0].is_open


async def test_an_application_that_is_cancelled_releases_its_hold(port: FakePort) -> None:
    request = AsgiRequest(http_application, "GET", PATH, query="offset=3")
    await port.until_held(1)
    request.task.cancel()
    await port.until_held(0)
    with pytest.raises(asyncio.CancelledError):
        await request.task
    assert not port.connections[0].is_open


@pytest.mark.parametrize(
    ("query", "prefer", "wait_ms", "applied"),
    [
        ("", "", 15_000, None),
        ("wait_ms=0", "", 0, None),
        ("wait_ms=-5", "", 0, None),
        ("wait_ms=99999999", "", 30_000, None),
        ("", "wait=3", 3000, "wait=3"),
        ("", "respond-async, wait=100", 30_000, "wait=30"),
        ("wait_ms=10", "wait=3", 10, None),
        ("", "wait=soon", 15_000, None),
    ],
)
async def test_the_wait_comes_from_wait_ms_or_prefer(
    client: httpx.AsyncClient, port: FakePort, query: str, prefer: str, wait_ms: int, applied: str | None
) -> None:
    port.replies[commands.PullMessage] = pulled()
    answer = await client.get(f"{PATH}?offset=0&{query}", headers={"Prefer": prefer} if prefer else {})
    assert asked(port).suspend_timeout_ms == wait_ms
    assert answer.headers.get("preference-applied") == applied


@pytest.mark.parametrize(("code", "status"), [(0, "found"), (19, "no_new"), (20, "no_match"), (21, "offset_moved")])
def test_rocketmqs_codes_have_names(code: int, status: str) -> None:
    assert pull_result(pulled(code), "broker-a").status == status


@pytest.mark.parametrize(
    ("offset", "limit", "bodies", "next_offset"),
    [(5, 32, "0123x", 10), (7, 32, "23x", 10), (5, 3, "012", 8), (8, 1, "3", 9), (9, 1, "x", 10)],
)
async def test_a_batch_is_given_message_by_message(
    client: httpx.AsyncClient, port: FakePort, offset: int, limit: int, bodies: str, next_offset: int
) -> None:
    entries = [BatchEntry(0, b"%d" % number, "") for number in range(4)]
    batch = record(body=encode_batch(entries), queue_offset=5, sys_flag=INNER_FLAGS)
    port.replies[commands.PullMessage] = pulled(records=batch + record(body=b"x", queue_offset=9), next_offset=10)
    body = (await client.get(PATH, params={"offset": offset, "limit": limit})).json()
    assert "".join(message["body"] for message in body["messages"]) == bodies
    first = 5 + "0123x".index(bodies[0])
    assert [message["queue_offset"] for message in body["messages"]] == [*range(first, first + len(bodies))]
    assert (body["next_offset"], body["max_offset"]) == (next_offset, 1)


async def test_pulls_get_past_a_damaged_batch(client: httpx.AsyncClient, port: FakePort) -> None:
    entries = [BatchEntry(0, b"%d" % number, "a\x01b\x02") for number in range(4)]
    body = encode_batch(entries)[:-1] + b"\xff"
    port.replies[commands.PullMessage] = pulled(
        records=record(body=body, queue_offset=5, sys_flag=INNER_FLAGS), next_offset=9
    )
    offset, seen = 5, []
    while offset < 9 and len(seen) < 9:
        answer = (await client.get(PATH, params={"offset": offset, "limit": 2})).json()
        seen += [message["queue_offset"] for message in answer["messages"]]
        offset = answer["next_offset"]
    assert (seen, offset) == ([5, 6, 7, 8], 9)


@pytest.mark.parametrize(
    ("path", "pointer"),
    [
        (f"{PATH}?offset=abc", "/offset"),
        (PATH, "/offset"),
        (f"{PATH}?offset=1&limit=0", "/limit"),
        (f"{PATH}?offset=1&wait_ms=x", "/wait_ms"),
        (f"{PATH}?offset=1&filter_type=groovy", "/filter_type"),
        (f"{PATH}?offset=1&group=a+b", "/group"),
        (f"{PATH}?offset=1&ofset=2", "/ofset"),
        (f"{PATH}?offset=99999999999999999999", "/offset"),
        (f"{PATH}?offset=1&filter=a%01b", "/filter"),
        ("/api/v1/topics/T/queues/x/messages?offset=0", "/queue_id"),
        ("/api/v1/topics/T/queues/-1/messages?offset=0", "/queue_id"),
    ],
)
async def test_errors_point_at_the_wrong_field(
    client: httpx.AsyncClient, port: FakePort, path: str, pointer: str
) -> None:
    answer = await client.get(path)
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_PARAMETER")
    assert answer.json()["errors"][0]["pointer"] == pointer
    assert port.commands == []


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (RequestError("no such topic", code=ResponseCode.TOPIC_NOT_EXIST), 404, "TOPIC_NOT_EXIST"),
        (
            RequestError("TagA ||", code=ResponseCode.SUBSCRIPTION_PARSE_FAILED, pointer="/filter"),
            400,
            "SUBSCRIPTION_PARSE_FAILED",
        ),
    ],
)
async def test_errors_of_the_broker_have_their_status(
    client: httpx.AsyncClient, port: FakePort, error: Exception, status: int, code: str
) -> None:
    port.replies[commands.PullMessage] = error
    answer = await client.get(f"{PATH}?offset=0")
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert not port.connections[0].is_open


@given(st.integers())
def test_a_wait_is_clamped_never_refused(wait_ms: int) -> None:
    assert 0 <= clamp_wait(wait_ms) <= 30_000


@given(st.text(max_size=30))
def test_any_preference_is_read_or_passed_over(prefer: str) -> None:
    seconds = preferred_wait_s(prefer)
    assert seconds is None or 0 <= seconds < 1_000_000


@given(st.integers(0, 999_999))
def test_a_wait_is_read(seconds: int) -> None:
    assert preferred_wait_s(f'handling=lenient, Wait="{seconds}"') == seconds


async def test_messages_above_the_bound_are_left_for_the_next_pull(client: httpx.AsyncClient, port: FakePort) -> None:
    records = b"".join(
        record(zlib.compress(b"a" * (4 << 20)), sys_flag=1, queue_offset=offset) for offset in range(10, 42)
    )
    port.replies[commands.PullMessage] = pulled(records=records, next_offset=42)
    body = (await client.get(f"{PATH}?offset=10")).json()
    assert [message["queue_offset"] for message in body["messages"]] == [10, 11, 12, 13]
    assert (body["status"], body["next_offset"]) == ("found", 14)
