"""WebSockets and event streams end with the session that opened them."""

import asyncio

import pytest
from django.db import DatabaseError, InterfaceError

from api.http import session_watch
from api.http.auth import Gate
from api.http.security import SecurityMiddleware
from api.http.session_watch import SessionWatch
from api.routing import http_application
from api.websockets.events import events_application
from bridge.port import commands
from tests.api.asgi_client import AsgiRequest
from tests.fakes.fake_port import FakePort
from tests.fakes.websocket import WebsocketCommunicator

TOKEN = "a-token-of-sixteen"
LOCAL = {"host": "localhost:8000"}


@pytest.fixture
def gate() -> Gate:
    return Gate(TOKEN, "a secret key")


async def login(gate: Gate) -> str:
    """The cookie of a new session."""
    answer = await AsgiRequest(gate.login, "POST", "/login", body=f"token={TOKEN}".encode()).done()
    return answer.headers["set-cookie"].split(";")[0]


async def logout(gate: Gate, cookie: str) -> None:
    await AsgiRequest(gate.logout, "POST", "/logout", headers={"cookie": cookie}).done()


async def open_socket(gate: Gate, cookie: str) -> WebsocketCommunicator:
    headers = [(name.encode(), value.encode()) for name, value in (LOCAL | {"cookie": cookie}).items()]
    socket = WebsocketCommunicator(SecurityMiddleware(events_application, gate=gate), "/ws/v1/events", headers=headers)
    assert (await socket.connect())[0]
    assert (await socket.receive_json_from())["type"] == "snapshot"
    return socket


@pytest.mark.django_db(transaction=True)
async def test_a_websocket_is_closed_with_4401_after_the_logout(gate: Gate, port: FakePort) -> None:
    cookie = await login(gate)
    socket, other = await open_socket(gate, cookie), await open_socket(gate, await login(gate))
    await logout(gate, cookie)
    assert await socket.receive_output() == {
        "type": "websocket.close",
        "code": 4401,
        "reason": "the session has ended",
    }
    assert await other.receive_nothing(), "another session stays"
    await other.disconnect()


@pytest.mark.django_db(transaction=True)
async def test_a_logout_in_another_web_process_is_noticed(
    gate: Gate, port: FakePort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_watch, "CHECK_SECONDS", 0.001)
    cookie = await login(gate)
    socket = await open_socket(gate, cookie)
    await logout(Gate(TOKEN, "a secret key"), cookie)
    assert (await socket.receive_output())["code"] == 4401


@pytest.mark.django_db(transaction=True)
async def test_an_event_stream_ends_with_its_session(gate: Gate, port: FakePort) -> None:
    port.replies[commands.GetEvents] = commands.Events(epoch=7, first_seq=1, seq=0, events=[])
    cookie = await login(gate)
    application = SecurityMiddleware(http_application, gate=gate)
    request = AsgiRequest(application, "GET", "/api/v1/events", headers=LOCAL | {"cookie": cookie})
    await request.until_body_has(": the stream begins")
    await logout(gate, cookie)
    await request.done()


@pytest.fixture
def watch() -> SessionWatch:
    async def exists(key: str) -> bool:
        if key == "unknown":
            raise DatabaseError("locked")
        if key == "disconnected":
            raise InterfaceError("the connection is closed")
        return key == "alive"

    return SessionWatch(exists)


async def test_only_ended_sessions_are_reported_and_each_watch_once(watch: SessionWatch) -> None:
    ended: list[str] = []
    for key in ("alive", "over", "over", "disconnected", "unknown"):
        watch.add(key, lambda key=key: ended.append(key))  # type: ignore[misc]
    await watch.check()
    await watch.check()
    assert ended == ["over", "over"]


async def test_a_removed_watch_is_not_called(watch: SessionWatch) -> None:
    ended: list[str] = []
    remove = watch.add("over", lambda: ended.append("removed"))
    watch.add("over", lambda: ended.append("kept"))
    remove()
    remove()
    watch.end("over")
    assert ended == ["kept"]


async def test_the_checks_end_with_the_last_watch(watch: SessionWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_watch, "CHECK_SECONDS", 0.0)
    remove = watch.add("alive", lambda: None)
    task = watch._task
    assert task is not None
    await asyncio.sleep(0)
    remove()
    await task
