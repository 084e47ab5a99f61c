"""Host, Origin, token: what stands before everything."""

import time
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

import pytest

from api.http import failed_logins
from api.http.auth import Gate
from api.http.outbox import SCOPE_KEY
from api.http.security import SecurityMiddleware
from tests.api.asgi_client import AsgiRequest
from tests.fakes.websocket import WebsocketCommunicator

TOKEN = "a-token-of-sixteen"
LOCAL = {"Host": "localhost:8000"}
PAGE = {"Accept": "text/html"}


async def app(scope: Any, receive: Any, send: Any) -> None:
    """What is protected: says yes."""
    assert SCOPE_KEY in scope
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"X-Frame-Options", b"SAMEORIGIN")]})
        await send({"type": "http.response.body", "body": b"yes"})
        return
    await receive()
    await send({"type": "websocket.accept"})


def middleware(token: str = "", **arguments: Any) -> SecurityMiddleware:
    return SecurityMiddleware(
        app,
        allowed_hosts=["broker.example"],
        trusted_origins=["https://ours.example"],
        gate=Gate(token, "key"),
        **arguments,
    )


async def ask(method: str = "GET", path: str = "/api/v1/topics", token: str = "", **headers: str) -> AsgiRequest:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await AsgiRequest(middleware(token), method, path, headers=LOCAL | named).done()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:8000", 200),
        ("127.0.0.1:9", 200),
        ("[::1]:8000", 200),
        ("broker.example", 200),
        ("BROKER.example:80", 200),
        ("a.localhost", 200),
        ("evil.example", 400),
        ("", 400),
        ("127.0.0.1.evil.example", 400),
        ("localhost:8000/x", 400),
        ("localhost evil", 400),
    ],
)
async def test_hosts(host: str, status: int) -> None:
    answer = await ask(Host=host)
    assert answer.status == status
    assert answer.status == 200 or answer.json()["errors"][0]["pointer"] == "/Host"


async def test_probes_come_by_address() -> None:
    assert (await ask(path="/livez", Host="10.0.0.7:8000")).status == 200
    assert (await ask(path="/metrics", Host="10.0.0.7:8000")).status == 400


@pytest.mark.parametrize(
    ("method", "origin", "status"),
    [
        ("POST", "http://localhost:8000", 200),
        ("POST", "https://localhost:8000", 200),
        ("POST", "https://ours.example", 200),
        ("POST", "http://evil.example", 403),
        ("POST", "null", 403),
        ("POST", "http://localhost:8001", 403),
        ("DELETE", "http://[", 403),
        ("PUT", "file://localhost:8000", 403),
        ("GET", "http://evil.example", 200),
    ],
)
async def test_origins(method: str, origin: str, status: int) -> None:
    assert (await ask(method, Origin=origin)).status == status


async def test_no_origin_is_no_browser() -> None:
    assert (await ask("POST")).status == 200


async def test_headers_and_paths_within_reason() -> None:
    assert (await ask(**{f"x_{number}": "y" for number in range(120)})).status == 431
    assert (await ask(x="y" * 40_000)).status == 431
    assert (await ask(path="/" + "x" * 5000)).status == 414


async def test_answers_carry_the_security_headers_they_do_not_set() -> None:
    headers = (await ask()).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["X-Frame-Options"] == "SAMEORIGIN"
    assert "x-frame-options" not in headers


async def test_answers_say_what_time_it_is() -> None:
    """Pages need it: a browser's clock may be wrong by hours."""
    date = parsedate_to_datetime((await ask()).headers["date"])
    assert abs(date.timestamp() - time.time()) < 60 and date.tzinfo is UTC


async def test_a_program_without_the_token() -> None:
    answer = await ask(token=TOKEN)
    assert (answer.status, answer.json()["code"], answer.headers["www-authenticate"]) == (
        401,
        "NO_PERMISSION",
        'Bearer realm="glassmq"',
    )
    assert (await ask(token=TOKEN, Authorization=f"Bearer {TOKEN}")).body == b"yes"
    assert (await ask("HEAD", token=TOKEN)).body == b""


async def test_a_browser_without_the_token() -> None:
    answer = await ask(path="/topics", token=TOKEN, **PAGE)
    assert (answer.status, answer.headers["location"]) == (303, "/login?next=/topics")


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/static/css/base.css", "/login", "/favicon.ico"])
async def test_paths_that_need_no_token(path: str) -> None:
    assert (await ask(path=path, token=TOKEN)).status == 200


@pytest.mark.django_db(transaction=True)
async def test_login_and_logout() -> None:
    form = f"token={TOKEN}".encode()
    answer = await AsgiRequest(middleware(TOKEN), "POST", "/login", body=form, headers=LOCAL).done()
    session = answer.headers["set-cookie"].split(";")[0]
    assert (await ask(token=TOKEN, Cookie=session)).status == 200
    assert (await ask("POST", "/logout", token=TOKEN, Cookie=session)).headers["location"] == "/login"
    assert (await ask(token=TOKEN, Cookie=session)).status == 401


async def test_no_page_elsewhere_can_log_in() -> None:
    assert (await ask("POST", "/login", token=TOKEN, Origin="http://evil.example")).status == 403


async def websocket(token: str = "", **headers: str) -> tuple[bool, Any, WebsocketCommunicator]:
    sent = [(name.lower().encode(), value.encode()) for name, value in (LOCAL | headers).items()]
    socket = WebsocketCommunicator(middleware(token), "/ws/v1/events", headers=sent)
    accepted, code = await socket.connect()
    return accepted, code, socket


@pytest.mark.parametrize(
    ("headers", "accepted"),
    [
        ({}, True),
        ({"Origin": "http://localhost:8000"}, True),
        ({"Origin": "http://evil.example"}, False),
        ({"Origin": "null"}, False),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, False),
    ],
)
async def test_websockets_of_other_pages_are_refused_in_the_handshake(headers: dict[str, str], accepted: bool) -> None:
    answer = await websocket(**headers)
    assert answer[:2] == (accepted, None if accepted else 4403)


async def test_a_websocket_without_the_token_is_closed_with_4401() -> None:
    accepted, _, socket = await websocket(TOKEN)
    assert accepted
    assert await socket.receive_output() == {"type": "websocket.close", "code": 4401, "reason": "not authenticated"}
    assert (await websocket(TOKEN, Authorization=f"Bearer {TOKEN}"))[0]


async def test_an_address_with_failed_logins_waits_for_http_and_websockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failed_logins, "FIRST_WAIT_SECONDS", 50.0)
    application = middleware(TOKEN)
    wrong = LOCAL | {"Authorization": "Bearer wrong"}
    statuses = [(await AsgiRequest(application, "GET", "/api", headers=wrong).done()).status for _ in range(4)]
    assert statuses == [401, 401, 401, 429]
    refused = await AsgiRequest(application, "GET", "/api", headers=wrong).done()
    assert refused.headers["retry-after"] == "50" and refused.json()["code"] == "FLOW_CONTROL"
    headers = [(name.lower().encode(), value.encode()) for name, value in wrong.items()]
    socket = WebsocketCommunicator(application, "/ws/v1/events", headers=headers)
    socket.scope["client"] = ["127.0.0.1", 4711]
    await socket.connect()
    closed = await socket.receive_output()
    assert (closed["code"], "failed logins" in closed["reason"]) == (4401, True)


async def test_failed_logins_at_the_admin_are_logged_and_slowed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(failed_logins, "FIRST_WAIT_SECONDS", 1000.0)
    statuses = iter([302, 200, 200, 403, 302])

    async def admin(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": next(statuses), "headers": []})
        await send({"type": "http.response.body", "body": b""})

    protected = SecurityMiddleware(admin, gate=Gate("", "key"))

    async def log_in() -> AsgiRequest:
        return await AsgiRequest(protected, "POST", "/admin/login/", headers=LOCAL).done()

    assert [(await log_in()).status for _ in range(4)] == [302, 200, 200, 403]
    assert caplog.messages[-1].startswith("failed login at /admin/ from ") and "(3 in a row)" in caplog.messages[-1]
    refused = await log_in()
    assert refused.status == 429 and int(refused.headers["retry-after"]) >= 1
    assert next(statuses) == 302, "the admin was not asked"
    assert (await AsgiRequest(middleware(), "GET", "/admin/login/", headers=LOCAL).done()).status == 200


async def test_by_default_the_settings_decide() -> None:
    answer = await AsgiRequest(SecurityMiddleware(app), "GET", "/", headers=LOCAL).done()
    assert answer.body == b"yes"


async def test_other_protocols_pass_the_middleware() -> None:
    seen: list[str] = []

    async def lifespan(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    await SecurityMiddleware(lifespan, gate=Gate("", "key"))({"type": "lifespan"}, None, None)  # type: ignore[arg-type]
    assert seen == ["lifespan"]
