"""The token, the session that begins with it, and the page that asks for it."""

import pytest

from api.http import auth
from api.http.auth import COOKIE, Gate, local_path, wants_page
from tests.api.asgi_client import AsgiRequest

TOKEN = "a-token-of-sixteen"
GATE = Gate(TOKEN, "a secret key")
FORM = {"content-type": "application/x-www-form-urlencoded"}


def scope(**headers: str) -> dict[str, object]:
    return {"method": "GET", "headers": [(name.encode(), value.encode()) for name, value in headers.items()]}


async def login(gate: Gate, body: str) -> AsgiRequest:
    return await AsgiRequest(gate.login, "POST", "/login", body=body.encode(), headers=FORM).done()


@pytest.mark.parametrize(
    ("authorization", "admitted"),
    [
        (f"Bearer {TOKEN}", True),
        (f"bearer  {TOKEN} ", True),
        (f"Basic {TOKEN}", False),
        ("Bearer", False),
        ("", False),
        ("Bearer another", False),
        ("Bearer \xe4", False),
    ],
)
def test_the_bearer_token(authorization: str, admitted: bool) -> None:
    assert GATE.admits(scope(authorization=authorization)) is admitted


def test_without_a_token_everybody_may_call() -> None:
    assert Gate("", "key").admits(scope())
    assert not GATE.admits(scope())


async def test_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = await login(GATE, f"token={TOKEN}&next=/topics")
    assert (answer.status, answer.headers["location"]) == (303, "/topics")
    cookie = answer.headers["set-cookie"]
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
    session = cookie.split(";")[0]
    assert TOKEN not in session
    assert GATE.admits(scope(cookie=f"a=b; {session}"))
    assert not GATE.admits(scope(cookie=session + "x"))
    assert not Gate("another-token-of-ours", "a secret key").admits(scope(cookie=session))
    assert not Gate(TOKEN, "another key").admits(scope(cookie=session))
    monkeypatch.setattr(auth, "SESSION_SECONDS", -1)
    assert not GATE.admits(scope(cookie=session))


@pytest.mark.parametrize("cookie", [f"{COOKIE}=", f"{COOKIE}=in", "=", f"{COOKIE}=in:1:x", "\xff"])
def test_what_is_no_session(cookie: str) -> None:
    assert not GATE.admits(scope(cookie=cookie))


async def test_behind_https_the_cookie_stays_there() -> None:
    answer = await login(Gate(TOKEN, "key", https=True), f"token={TOKEN}")
    assert "; Secure" in answer.headers["set-cookie"]


async def test_a_wrong_token_is_told_on_the_page() -> None:
    answer = await login(GATE, "token=wrong&next=/topics")
    assert (answer.status, "set-cookie" in answer.headers) == (401, False)
    assert "not the access token" in answer.body.decode()
    assert 'value="/topics"' in answer.body.decode()


async def test_the_page() -> None:
    answer = await AsgiRequest(GATE.login, "GET", "/login", query="next=%2Ftopics").done()
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert '<form class="form" method="post" action="/login">' in answer.body.decode()
    assert (await AsgiRequest(GATE.login, "HEAD", "/login").done()).body == b""
    assert (await AsgiRequest(GATE.login, "PUT", "/login").done()).status == 405
    assert (await AsgiRequest(Gate("", "key").login, "GET", "/login").done()).headers["location"] == "/"


async def test_a_form_that_is_too_large() -> None:
    assert (await login(GATE, "token=" + "x" * 5000)).status == 413


async def test_logout() -> None:
    answer = await AsgiRequest(GATE.logout, "POST", "/logout").done()
    assert (answer.status, "Max-Age=0" in answer.headers["set-cookie"]) == (303, True)
    assert (await AsgiRequest(GATE.logout, "GET", "/logout").done()).status == 405


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/topics/a%20b", "/topics/a%20b"),
        ("//evil.example", "/"),
        ("https://evil.example", "/"),
        ("/\\evil.example", "/"),
        ("", "/"),
        ("/a\r\nSet-Cookie: x", "/"),
        ("/ä", "/"),
    ],
)
def test_nobody_is_sent_elsewhere(target: str, path: str) -> None:
    assert local_path(target) == path


def test_who_wants_a_page() -> None:
    assert wants_page(scope(accept="text/html,*/*"))
    assert not wants_page(scope(accept="application/json"))
    assert not wants_page(scope(accept="text/html") | {"method": "POST"})
