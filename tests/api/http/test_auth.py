"""Bearer tokens, sessions, the login page, failed logins and logout."""

import logging

import pytest
from django.db import DatabaseError

from api.http import auth, failed_logins
from api.http.auth import COOKIE, Gate, local_path, wants_page
from api.http.problems import Problem
from tests.api.asgi_client import AsgiRequest

TOKEN = "a-token-of-sixteen"
GATE = Gate(TOKEN, "a secret key")
pytestmark = pytest.mark.django_db(transaction=True)
FORM = {"content-type": "application/x-www-form-urlencoded"}


def scope(**headers: str) -> dict[str, object]:
    return {"method": "GET", "headers": [(name.encode(), value.encode()) for name, value in headers.items()]}


async def login(gate: Gate, body: str, address: str = "10.0.0.9", **headers: str) -> AsgiRequest:
    request = AsgiRequest(
        gate.login, "POST", "/login", body=body.encode(), headers=FORM | headers, client=(address, 4711)
    )
    return await request.done()


async def session_of(gate: Gate) -> str:
    """The cookie of a new session, as a browser sends it back."""
    answer = await login(gate, f"token={TOKEN}")
    return answer.headers["set-cookie"].split(";")[0]


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
async def test_the_bearer_token(authorization: str, admitted: bool) -> None:
    assert await Gate(TOKEN, "a secret key").admits(scope(authorization=authorization)) is admitted


async def test_without_a_token_every_request_is_admitted() -> None:
    assert await Gate("", "key").admits(scope())
    assert not await GATE.admits(scope())


async def test_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = await login(GATE, f"token={TOKEN}&next=/topics")
    assert (answer.status, answer.headers["location"]) == (303, "/topics")
    cookie = answer.headers["set-cookie"]
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
    session = cookie.split(";")[0]
    assert TOKEN not in session
    assert await GATE.admits(scope(cookie=f"a=b; {session}"))
    assert not await GATE.admits(scope(cookie=session + "x"))
    assert not await Gate("another-token-of-ours", "a secret key").admits(scope(cookie=session))
    assert not await Gate(TOKEN, "another key").admits(scope(cookie=session))
    monkeypatch.setattr(auth, "SESSION_SECONDS", -1)
    assert not await GATE.admits(scope(cookie=session))


@pytest.mark.parametrize("cookie", [f"{COOKIE}=", f"{COOKIE}=in", "=", f"{COOKIE}=in:1:x", "\xff"])
async def test_an_invalid_cookie_is_refused(cookie: str) -> None:
    assert not await GATE.admits(scope(cookie=cookie))


async def test_behind_https_the_cookie_is_secure() -> None:
    answer = await login(Gate(TOKEN, "key", https=True), f"token={TOKEN}")
    assert "; Secure" in answer.headers["set-cookie"]


async def test_a_wrong_token_shows_an_error() -> None:
    answer = await login(GATE, "token=wrong&next=/topics")
    assert (answer.status, "set-cookie" in answer.headers) == (401, False)
    assert "not the access token" in answer.body.decode()
    assert 'value="/topics"' in answer.body.decode()


async def test_the_login_page() -> None:
    answer = await AsgiRequest(GATE.login, "GET", "/login", query="next=%2Ftopics").done()
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert '<form class="form" method="post" action="/login">' in answer.body.decode()
    assert (await AsgiRequest(GATE.login, "HEAD", "/login").done()).body == b""
    assert (await AsgiRequest(GATE.login, "PUT", "/login").done()).status == 405
    assert (await AsgiRequest(Gate("", "key").login, "GET", "/login").done()).headers["location"] == "/"


async def test_the_login_page_has_the_readers_language() -> None:
    chinese = {"accept-language": "zh-CN"}
    page = (await AsgiRequest(GATE.login, "GET", "/login", headers=chinese).done()).body.decode()
    assert '<html lang="zh-hans"' in page and "访问令牌" in page
    english = chinese | {"cookie": "glassmq_language=en"}
    page = (await AsgiRequest(GATE.login, "GET", "/login", headers=english).done()).body.decode()
    assert '<html lang="en"' in page and "Access token" in page


async def test_a_form_above_4_kib_is_refused() -> None:
    assert (await login(GATE, "token=" + "x" * 5000)).status == 413


async def test_logout_ends_the_session_in_every_web_process() -> None:
    ours, other = await session_of(GATE), await session_of(GATE)
    other_process = Gate(TOKEN, "a secret key")
    assert await other_process.admits(scope(cookie=ours))
    answer = await AsgiRequest(GATE.logout, "POST", "/logout", headers={"cookie": ours}).done()
    assert (answer.status, "Max-Age=0" in answer.headers["set-cookie"]) == (303, True)
    assert not await GATE.admits(scope(cookie=ours))
    assert not await other_process.admits(scope(cookie=ours))
    assert await other_process.admits(scope(cookie=other))


async def test_logout_without_a_session() -> None:
    assert (await AsgiRequest(GATE.logout, "POST", "/logout").done()).status == 303
    assert (await AsgiRequest(GATE.logout, "GET", "/logout").done()).status == 405


async def test_a_failing_database_admits_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    session = await session_of(GATE)

    def fail(*key: str) -> None:
        raise DatabaseError("no space left on device")

    for name in ("_session_exists", "_create_session", "_delete_session"):
        monkeypatch.setattr(auth, name, fail)
    assert not await GATE.admits(scope(cookie=session))
    assert await GATE.admits(scope(authorization=f"Bearer {TOKEN}"))
    assert (await login(GATE, f"token={TOKEN}")).status == 503
    assert (await AsgiRequest(GATE.logout, "POST", "/logout", headers={"cookie": session}).done()).status == 503


@pytest.fixture
def long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits that do not end during a test."""
    monkeypatch.setattr(failed_logins, "FIRST_WAIT_SECONDS", 1000.0)
    monkeypatch.setattr(failed_logins, "LONGEST_WAIT_SECONDS", 1000.0)


@pytest.mark.usefixtures("long_waits")
async def test_failed_logins_are_logged_and_slowed(caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate(TOKEN, "a secret key")
    with caplog.at_level(logging.WARNING, logger="api.http.auth"):
        statuses = [(await login(gate, "token=wrong")).status for _ in range(3)]
    assert statuses == [401, 401, 401]
    assert caplog.messages[-1] == "failed login from 10.0.0.9 (3 in a row)"
    refused = await login(gate, f"token={TOKEN}")
    assert (refused.status, "set-cookie" in refused.headers) == (429, False)
    assert 1 <= int(refused.headers["retry-after"]) <= 1000
    assert f"Try again in {refused.headers['retry-after']} s." in refused.body.decode()
    assert (await login(gate, f"token={TOKEN}", address="10.0.0.10")).status == 303


@pytest.mark.usefixtures("long_waits")
async def test_wrong_bearer_tokens_are_logged_and_slowed_like_logins(caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate(TOKEN, "a secret key")
    session = await session_of(gate)
    client = {"client": ("10.0.0.9", 4711)}
    right, wrong = (scope(authorization=f"Bearer {token}") | client for token in (TOKEN, "wrong"))
    with caplog.at_level(logging.WARNING, logger="api.http.auth"):
        assert [await gate.admits(wrong) for _ in range(3)] == [False] * 3
    assert caplog.messages[-1] == "failed login from 10.0.0.9 (3 in a row)"
    with pytest.raises(Problem) as caught:
        await gate.admits(wrong)
    assert caught.value.status == 429 and 1 <= int(caught.value.headers["retry-after"]) <= 1000
    assert await gate.admits(right), "a client with a wrong token does not lock out its neighbours"
    assert await gate.admits(scope(authorization="Bearer wrong", cookie=session) | client), "a session need not wait"


@pytest.mark.usefixtures("long_waits")
async def test_behind_https_the_proxys_last_address_counts() -> None:
    gate = Gate(TOKEN, "a secret key", https=True)
    for _ in range(3):
        await login(gate, "token=wrong", **{"x-forwarded-for": "10.0.0.10, 10.0.0.11"})
    assert (await login(gate, f"token={TOKEN}", **{"x-forwarded-for": "10.0.0.11"})).status == 429
    assert (await login(gate, f"token={TOKEN}", **{"x-forwarded-for": "10.0.0.10"})).status == 303


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
def test_redirects_stay_on_this_host(target: str, path: str) -> None:
    assert local_path(target) == path


def test_only_a_get_that_accepts_html_is_answered_with_a_page() -> None:
    assert wants_page(scope(accept="text/html,*/*"))
    assert not wants_page(scope(accept="application/json"))
    assert not wants_page(scope(accept="text/html") | {"method": "POST"})
