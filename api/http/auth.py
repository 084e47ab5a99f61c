"""Authentication: a request is admitted with ``GLASSMQ_API_TOKEN`` as its bearer token, or with the cookie of /login.

The cookie is the key of a Django session, signed with the secret key and the token. So a new token ends all sessions,
and a logout, which deletes the session, ends it in every web process that shares the database.
"""

import asyncio
import logging
from collections.abc import Iterable
from functools import partial
from hashlib import sha256
from hmac import compare_digest
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from math import ceil
from urllib.parse import parse_qs, quote

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.sessions.backends.base import SessionBase
from django.core.signing import BadSignature, TimestampSigner
from django.db import Error as AnyDatabaseError
from django.http import HttpRequest, parse_cookie
from django.template.loader import render_to_string
from django.utils.translation import get_language_from_request, gettext, gettext_noop, override

from api.http.asgi import Application, Message, Receive, Scope, Send, header
from api.http.failed_logins import FailedLogins
from api.http.limits import KIB
from api.http.problems import Problem
from api.http.request import ClientGone, read_body, read_headers
from api.http.session_watch import SCOPE_KEY, SessionWatch
from bridge.port import ResponseCode

COOKIE = "glassmq_session"
SESSION_SECONDS = 12 * 3600
LOGIN_PATH = "/login"
ADMIN_LOGIN_PATH = "/admin/login/"

log = logging.getLogger(__name__)


class Gate:
    """Checks tokens and sessions. Without a token (``token`` is empty) every request is admitted.

    ``https`` means that a proxy speaks HTTPS in front: the cookie is Secure, and the client's address is the last entry
    of X-Forwarded-For.
    """

    def __init__(self, token: str, secret_key: str, *, https: bool = False) -> None:
        self.open = not token
        self._token = token.encode("utf-8")
        self._https = https
        salt = "api.session." + sha256(self._token).hexdigest()
        self._signer = TimestampSigner(key=secret_key, salt=salt)
        self._failed = FailedLogins()
        self.sessions = SessionWatch(_does_session_exist)

    async def admits(self, scope: Scope) -> bool:
        """Whether the request has the token, or the cookie of a session that has not ended.

        A session can then be watched through the scope (see ``session_watch``). Raises Problem 429 for a wrong token
        from an address that must wait after failed logins. The right one passes: another client's mistake does not lock
        it out, and a token of 16 characters or more cannot be guessed.
        """
        if self.open:
            return True
        refusal: Problem | None = None
        scheme, _, token = header(scope, b"authorization").partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            try:
                if self._is_token(token.strip()) or self._check_token(scope, token.strip()):
                    return True
            except Problem as problem:
                refusal = problem
        if await self._has_session(scope):
            return True
        if refusal is not None:
            raise refusal
        return False

    async def _has_session(self, scope: Scope) -> bool:
        key = self._session_key(header(scope, b"cookie"))
        if not key:
            return False
        try:
            exists = await _does_session_exist(key)
        except AnyDatabaseError as error:
            log.error("a session cannot be checked, so its request is refused: the database fails: %s", error)
            return False
        if exists:
            scope[SCOPE_KEY] = partial(self.sessions.add, key)
        return exists

    def _check_token(self, scope: Scope, token: str) -> bool:
        """Whether ``token`` is the access token. A failure is logged with its address.

        Problem 429 for an address that must wait. Its token is not looked at, so that guessing at the login is slow.
        """
        address = self._address(scope)
        self._require_wait_is_over(address)
        if self._is_token(token):
            self._failed.clear(address)
            return True
        failures = self._failed.add(address, asyncio.get_running_loop().time())
        log.warning("failed login from %s (%d in a row)", address, failures)
        return False

    def _require_wait_is_over(self, address: str) -> None:
        """Problem 429 for an address that must wait after failed logins."""
        wait_s = ceil(self._failed.wait_seconds(address, asyncio.get_running_loop().time()))
        if wait_s:
            raise Problem(
                429,
                f"Too many failed logins from your address. Try again in {wait_s} s.",
                code=ResponseCode.FLOW_CONTROL,
                headers={"retry-after": str(wait_s)},
            )

    def _is_token(self, text: str) -> bool:
        return compare_digest(sha256(text.encode("utf-8", "replace")).digest(), sha256(self._token).digest())

    def _session_key(self, cookies: str) -> str:
        """The session key of a cookie with a valid signature of the last 12 hours; otherwise empty."""
        try:
            morsel = SimpleCookie(cookies).get(COOKIE)
            return self._signer.unsign(morsel.value, max_age=SESSION_SECONDS) if morsel is not None else ""
        except (BadSignature, CookieError):
            return ""

    def _cookie(self, value: str) -> bytes:
        secure = "; Secure" if self._https else ""
        expired = "" if value else "; Max-Age=0"
        return f"{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{expired}".encode("ascii")

    # /login

    async def login(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The login page (GET), and the login itself (POST). Slows failed logins, and logs them with the address."""
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        target = local_path(query.get("next", [""])[0])
        if scope["method"] in ("GET", "HEAD"):
            await (_redirect(send, target) if self.open else _page(scope, send, target))
            return
        if scope["method"] != "POST":
            await _answer(send, 405, [(b"allow", b"GET, HEAD, POST")])
            return
        try:
            body = await read_body(receive, read_headers(scope), 4 * KIB)
        except Problem as problem:
            await _answer(send, problem.status, [])
            return
        except ClientGone:
            return
        form = parse_qs(body.decode("utf-8", "replace"))
        target = local_path(form.get("next", [target])[0])
        if self.open:
            await _redirect(send, target)
        else:
            await self._check_login(scope, send, target, form.get("token", [""])[0].strip())

    async def _check_login(self, scope: Scope, send: Send, target: str, token: str) -> None:
        try:
            is_token = self._check_token(scope, token)
        except Problem as problem:
            headers = [(name.encode("ascii"), value.encode("ascii")) for name, value in problem.headers.items()]
            await _page(scope, send, target, problem.detail, problem.status, headers)
            return
        if not is_token:
            await _page(scope, send, target, gettext_noop("This is not the access token of this broker."), 401)
            return
        try:
            key = await database_sync_to_async(_create_session)()
        except AnyDatabaseError as error:
            log.error("a login failed, because the database fails: %s", error)
            failure = gettext_noop("You cannot be signed in: the database of this broker fails.")
            await _page(scope, send, target, failure, 503)
            return
        await _redirect(send, target, self._cookie(self._signer.sign(key)))

    def _address(self, scope: Scope) -> str:
        """The client's address, at most 64 printable characters."""
        client = scope.get("client")
        address = client[0] if client else "an unknown address"
        if self._https:
            forwarded = header(scope, b"x-forwarded-for").rpartition(",")[2].strip()
            address = forwarded if forwarded.isprintable() and forwarded else address
        return address[:64]

    # Django's admin

    async def admin_login(self, app: Application, scope: Scope, receive: Receive, send: Send) -> None:
        """A login at Django's admin, which ``app`` checks. Failed ones are slowed and logged like those of /login.

        It counts as failed while it is being checked, so that many at once are slowed as well. Raises Problem 429.
        """
        address, is_success = self._address(scope), False
        self._require_wait_is_over(address)
        failures = self._failed.add(address, asyncio.get_running_loop().time())

        async def sending(message: Message) -> None:
            nonlocal is_success
            is_success |= message["type"] == "http.response.start" and message["status"] == HTTPStatus.FOUND
            await send(message)

        await app(scope, receive, sending)
        if is_success:
            self._failed.clear(address)
        else:
            log.warning("failed login at /admin/ from %s (%d in a row)", address, failures)

    async def logout(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ends the session and closes what it opened, in all web processes; by POST only, so that no link can do it."""
        if scope["method"] != "POST":
            await _answer(send, 405, [(b"allow", b"POST")])
            return
        key = self._session_key(header(scope, b"cookie"))
        try:
            if key:
                await database_sync_to_async(_delete_session)(key)
                self.sessions.end(key)
        except AnyDatabaseError as error:
            log.error("a logout failed, because the database fails: %s", error)
            failure = gettext_noop("You are still signed in: the database of this broker fails.")
            await _page(scope, send, "/", failure, 503)
            return
        await _redirect(send, LOGIN_PATH, self._cookie(""))


def _session(key: str | None = None) -> SessionBase:
    store: SessionBase = import_module(settings.SESSION_ENGINE).SessionStore(key)
    return store


def _create_session() -> str:
    """The key of a new session. Expired sessions are deleted at the same time, so that their number stays bounded."""
    session = _session()
    session.clear_expired()
    session.set_expiry(SESSION_SECONDS)
    session.create()
    assert session.session_key is not None
    return session.session_key


def _session_exists(key: str) -> bool:
    return bool(_session().exists(key))


async def _does_session_exist(key: str) -> bool:
    return bool(await database_sync_to_async(_session_exists)(key))


def _delete_session(key: str) -> None:
    _session().delete(key)


def local_path(target: str) -> str:
    """``target`` if it is a path on this host, otherwise the root, so that no redirect leads to another host."""
    plain = target.isascii() and target.isprintable() and "\\" not in target
    return target if plain and target.startswith("/") and not target.startswith("//") else "/"


def wants_page(scope: Scope) -> bool:
    """Whether the request comes from a browser that opens a page, not from a program."""
    return scope["method"] in ("GET", "HEAD") and "text/html" in header(scope, b"accept")


async def to_login(scope: Scope, send: Send) -> None:
    await _redirect(send, f"{LOGIN_PATH}?next={quote(scope['path'], safe='/')}")


async def _page(
    scope: Scope,
    send: Send,
    target: str,
    error: str = "",
    status: int = 200,
    headers: Iterable[tuple[bytes, bytes]] = (),
) -> None:
    with override(page_language(scope)):
        shown = {"next": target, "error": gettext(error) if error else ""}
        page = render_to_string("login.html", shown).encode("utf-8")
    lines = [(b"content-type", b"text/html; charset=utf-8"), (b"content-length", str(len(page)).encode()), *headers]
    await _answer(send, status, lines, b"" if scope["method"] == "HEAD" else page)


def page_language(scope: Scope) -> str:
    """The language of a page, by the reader's cookie or Accept-Language, as Django's LocaleMiddleware decides it."""
    request = HttpRequest()
    request.COOKIES = parse_cookie(header(scope, b"cookie"))
    request.META["HTTP_ACCEPT_LANGUAGE"] = header(scope, b"accept-language")
    return get_language_from_request(request)


async def _redirect(send: Send, target: str, cookie: bytes = b"") -> None:
    headers = [(b"location", target.encode("ascii", "replace")), (b"content-length", b"0")]
    await _answer(send, 303, headers + ([(b"set-cookie", cookie)] if cookie else []))


async def _answer(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes = b"") -> None:
    headers = [(b"cache-control", b"no-store"), *headers]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
