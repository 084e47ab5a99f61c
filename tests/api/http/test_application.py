"""Routing, refusing, encoding: what every resource has in common."""

import asyncio
from weakref import ReferenceType, ref

import httpx
import pytest
from django.db import OperationalError

from api.http.answer_memory import AnswerMemory
from api.http.application import HttpApplication
from api.http.asgi import Message
from api.http.limits import SMALL_ANSWER
from api.http.request import Answer, Params, Reading, Request
from api.http.routes import Route, Router
from api.routing import http_application
from bridge.port import (
    OverloadedError,
    PortTimeout,
    PortUnavailable,
    ResponseCode,
    UnavailableError,
    commands,
    set_port,
)
from tests.api.asgi_client import AsgiRequest
from tests.fakes.fake_port import FakePort

JSON = {"content-type": "application/json"}


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, object]:
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, object] = answer.json()
    assert (answer.status_code, body["status"], body["code"]) == (status, status, code)
    assert set(body) == {"type", "title", "status", "detail", "instance", "code", "errors"}
    return body


async def test_an_unknown_path(client: httpx.AsyncClient) -> None:
    problem(await client.get("/api/v1/nothing"), 404, "REQUEST_CODE_NOT_SUPPORTED")


@pytest.mark.parametrize("path", ["/api/docs", "/api/v1/topics/%25RETRY%25g/queues", "/livez"])
async def test_a_path_with_an_extra_slash_is_redirected(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(f"{path}/?int64=string")
    assert (answer.status_code, answer.headers["location"]) == (308, f"{path}?int64=string")
    problem(await client.get("/api/nothing/"), 404, "REQUEST_CODE_NOT_SUPPORTED")


async def test_a_redirected_path_may_have_other_bytes_than_ascii() -> None:
    scope = {"raw_path": "/api/v1/topics/é/".encode(), "query_string": "a=é".encode()}
    answer = await AsgiRequest(http_application, "GET", "/api/v1/topics/e/", **scope).done()
    assert (answer.status, answer.headers["location"]) == (308, "/api/v1/topics/%C3%A9?a=%C3%A9")


async def test_a_wrong_method_says_which_are_right(client: httpx.AsyncClient) -> None:
    answer = await client.put("/api/v1/topics", content=b"{}", headers=JSON)
    problem(answer, 405, "REQUEST_CODE_NOT_SUPPORTED")
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS"
    answer = await client.options("/api/v1/topics/T")
    assert (answer.status_code, answer.headers["allow"]) == (204, "DELETE, GET, HEAD, OPTIONS, PUT")


async def test_head_is_get_without_its_body(client: httpx.AsyncClient) -> None:
    answer = await client.head("/livez")
    assert (answer.status_code, answer.content, answer.headers["content-length"]) == (200, b"", "15")


async def test_a_stream_has_no_head_and_does_not_offer_it(client: httpx.AsyncClient) -> None:
    answer = await client.head("/api/v1/events")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, OPTIONS")
    assert (await client.options("/api/v1/events")).headers["allow"] == "GET, OPTIONS"


@pytest.mark.parametrize("path", ["/api/v1/topics/%2E%2E%2Fx", "/api/v1/topics/%2e%2e", "/api/v1/topics/a%20b"])
async def test_invalid_names_are_refused(path: str, port: FakePort) -> None:
    request = await AsgiRequest(http_application, "GET", path).done()
    assert (request.status, request.json()["code"]) == (400, "INVALID_PARAMETER")
    assert port.commands == []


@pytest.mark.parametrize("path", ["/api/v1/topics", "/api/v1/groups", "/api/v1/clients"])
async def test_the_slash_after_a_list_leads_to_the_list(path: str, port: FakePort) -> None:
    request = await AsgiRequest(http_application, "GET", f"{path}/").done()
    assert (request.status, request.headers["location"]) == (308, path)


async def test_an_empty_name_is_no_resource(port: FakePort) -> None:
    request = await AsgiRequest(http_application, "GET", "/api/v1/topics//queues").done()
    assert request.status == 404


async def test_a_path_with_dots_is_refused(port: FakePort) -> None:
    request = await AsgiRequest(http_application, "GET", "/api/v1/topics/../x/queues").done()
    assert (request.status, request.json()["code"]) == (400, "INVALID_PARAMETER")


async def test_unknown_and_misplaced_parameters(client: httpx.AsyncClient) -> None:
    body = problem(await client.get("/api/v1/topics?sytem=true"), 400, "INVALID_PARAMETER")
    assert body["errors"] == [{"pointer": "/sytem", "detail": "Object contains unknown field `sytem`"}]
    problem(await client.get("/api/v1/topics/T?topic=U"), 400, "INVALID_PARAMETER")


async def test_wrong_media_type(client: httpx.AsyncClient) -> None:
    problem(await client.put("/api/v1/topics/T", content=b"{}"), 415, "INVALID_PARAMETER")
    empty = await client.put("/api/v1/topics/T", headers={"content-type": "application/json"})
    assert empty.json()["detail"] == "the body is empty, and must be JSON"
    problem(await client.get("/api/v1/topics", params={}), 500, "SYSTEM_ERROR")  # nothing was scripted


async def test_a_get_takes_no_body(client: httpx.AsyncClient) -> None:
    problem(await client.request("GET", "/api/v1/topics", content=b"{}"), 400, "INVALID_PARAMETER")
    problem(await client.request("GET", "/api/v1/topics", content=b"x" * 70_000), 413, "MESSAGE_ILLEGAL")


@pytest.mark.parametrize(
    ("error", "status", "code", "retry_after"),
    [
        (PortUnavailable("away", retry_after_ms=2500), 503, "SYSTEM_BUSY", "3"),
        (OverloadedError("waited too long", retry_after_ms=1000), 429, "SYSTEM_BUSY", "1"),
        (PortTimeout("late"), 504, "SYSTEM_ERROR", "1"),
        (UnavailableError("full", code=ResponseCode.FLOW_CONTROL), 429, "FLOW_CONTROL", "1"),
    ],
)
async def test_temporary_failures_are_answered_with_retry_after(
    client: httpx.AsyncClient, port: FakePort, error: Exception, status: int, code: str, retry_after: str
) -> None:
    port.replies[commands.GetTopics] = error
    answer = await client.get("/api/v1/topics")
    problem(answer, status, code)
    assert answer.headers["retry-after"] == retry_after


async def test_without_an_engine(client: httpx.AsyncClient) -> None:
    set_port(None)
    problem(await client.get("/api/v1/topics"), 503, "SYSTEM_BUSY")


async def test_an_unexpected_error_is_answered_500_without_its_text(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.GetTopics] = ZeroDivisionError("secret")
    assert "secret" not in str(problem(await client.get("/api/v1/topics"), 500, "SYSTEM_ERROR"))


async def test_a_database_that_fails_is_answered_503(
    client: httpx.AsyncClient, port: FakePort, caplog: pytest.LogCaptureFixture
) -> None:
    port.replies[commands.GetTopics] = OperationalError("database or disk is full")
    refused = problem(await client.get("/api/v1/topics"), 503, "SERVICE_NOT_AVAILABLE")
    assert "database or disk is full" in str(refused["detail"])
    assert [record.exc_info for record in caplog.records] == [None]


async def test_large_numbers_as_text(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.GetTopics] = commands.Topics(seq=1 << 60, topics=[])
    assert (await client.get("/api/v1/topics")).json()["seq"] == 1 << 60
    assert (await client.get("/api/v1/topics?int64=string")).json()["seq"] == str(1 << 60)
    problem(await client.get("/api/v1/topics?int64=yes"), 400, "INVALID_PARAMETER")


async def test_nothing_is_cached(client: httpx.AsyncClient) -> None:
    answer = await client.get("/livez")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-type"] == "application/json"


async def test_a_client_that_disconnects_before_its_body_gets_no_answer(port: FakePort) -> None:
    request = AsgiRequest(http_application, "PUT", "/api/v1/topics/T", headers=JSON, chunks=[])
    request.disconnect()
    await request.done()
    assert (request.sent, port.commands) == ([], [])


async def _handler(request: Request[Params]) -> Answer:
    return Answer(body={"int": 1})


async def test_a_route_of_ones_own() -> None:
    route = Route(method="GET", path="/a/{name}/b", handler=_handler, summary="", group="", params=Named)
    request = await AsgiRequest(HttpApplication([route]), "GET", "/a/x/b").done()
    assert (request.status, request.json()) == (200, {"int": 1})
    found = Router([route]).find(["a", "x%", "b"])
    assert found is not None
    assert found[1] == {"name": "x%"}
    assert Router([route]).find(["a", "x", "c"]) is None


class Named(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str


LARGE = SMALL_ANSWER * 4


class Reader:
    """A client of an application that reads nothing until it is let."""

    def __init__(self, application: HttpApplication, method: str = "GET") -> None:
        self.may_read = asyncio.Event()
        self.sent: list[Message] = []
        scope = {"type": "http", "method": method, "path": "/large", "headers": [], "query_string": b""}
        self.task = asyncio.ensure_future(application(scope, self.receive, self.send))

    async def receive(self) -> Message:
        return {"type": "http.request"}

    async def send(self, message: Message) -> None:
        await self.may_read.wait()
        self.sent.append(message)


def large_answers(most: int, method: str = "GET") -> tuple[HttpApplication, list[int]]:
    """An application with answers of LARGE bytes, and a list that grows with each call of its handler."""
    calls: list[int] = []

    async def handler(request: Request[Params]) -> Answer:
        calls.append(len(calls))
        return Answer(content=bytes(LARGE))

    route = Route(method=method, path="/large", handler=handler, summary="", group="")
    return HttpApplication([route], AnswerMemory(most)), calls


async def test_answers_that_are_not_read_hold_a_bounded_number_of_bytes() -> None:
    application, calls = large_answers(10 * LARGE)
    readers = [Reader(application) for _ in range(50)]
    while len(calls) < 50:
        await asyncio.sleep(0)
    assert application.memory.taken == 10 * LARGE
    for reader in readers:
        reader.may_read.set()
    await asyncio.gather(*(reader.task for reader in readers))
    assert {sum(len(message.get("body", b"")) for message in reader.sent) for reader in readers} == {LARGE}
    assert application.memory.taken == 0
    assert len(calls) == 50 + 40, "an answer without room was dropped, and asked for again when there was room"


class Records:
    """Records of LARGE bytes, whose answer is a quarter larger."""

    data = bytes(LARGE)

    def read(self) -> str:
        return "x" * (LARGE * 5 // 4)


async def test_records_are_read_again_once_although_their_answer_is_larger() -> None:
    """And they are not in memory any more while the client reads the answer."""
    calls: list[ReferenceType[Records]] = []

    async def handler(request: Request[Params]) -> Answer:
        records = Records()
        calls.append(ref(records))
        return Answer(body=Reading([records.data], records.read))

    application = HttpApplication(
        [Route(method="GET", path="/large", handler=handler, summary="", group="")], AnswerMemory(10 * LARGE)
    )
    readers = [Reader(application) for _ in range(50)]
    while len(calls) < 50:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [records() for records in calls] == [None] * 50
    for reader in readers:
        reader.may_read.set()
    await asyncio.gather(*(reader.task for reader in readers))
    assert {reader.sent[0]["status"] for reader in readers} == {200}
    assert len(calls) <= 100


async def test_an_answer_that_finds_no_room_in_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.http.answer_memory.ANSWER_WAIT_SECONDS", 0.01)
    application, _ = large_answers(LARGE)
    first, second = Reader(application), Reader(application)
    second.may_read.set()
    await second.task
    assert second.sent[0]["status"] == 503
    assert dict(second.sent[0]["headers"])[b"retry-after"] == b"1"
    first.may_read.set()
    await first.task
    assert (first.sent[0]["status"], application.memory.taken) == (200, 0)


async def test_a_request_that_changes_something_is_never_repeated() -> None:
    application, calls = large_answers(LARGE, "POST")
    readers = [Reader(application, "POST") for _ in range(5)]
    while len(calls) < 5:
        await asyncio.sleep(0)
    for reader in readers:
        reader.may_read.set()
    await asyncio.gather(*(reader.task for reader in readers))
    assert len(calls) == 5
