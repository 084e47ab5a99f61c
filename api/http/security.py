"""Checks every request before pages, API and WebSockets see it, and adds the security headers to every answer.

    Host      one of ALLOWED_HOSTS, or a name of this machine; prevents DNS rebinding
    Origin    our own, if there is one; checked on every WebSocket and on every request that may change something
    headers   limited in number and length
    token     if ``GLASSMQ_API_TOKEN`` is set

It must be the outermost application: it also puts the server's write buffer into the scope (see ``api.http.outbox``).
"""

from collections.abc import Sequence
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from urllib.parse import urlsplit

import msgspec
from django.conf import settings
from django.http.request import split_domain_port, validate_host

from api.http.asgi import CLOSE_FORBIDDEN, CLOSE_NOT_AUTHENTICATED, Application, Message, Receive, Scope, Send, header
from api.http.auth import ADMIN_LOGIN_PATH, LOGIN_PATH, Gate, to_login, wants_page
from api.http.limits import MAX_HEADER_BYTES, MAX_HEADERS, MAX_PATH_BYTES
from api.http.outbox import SCOPE_KEY, server_buffer
from api.http.problems import Problem
from bridge.port import ResponseCode, SystemClock, security_headers

LOCAL_HOSTS = ("localhost", ".localhost", "127.0.0.1", "[::1]")
PROBES = ("/livez", "/readyz")
OPEN_PATHS = (*PROBES, LOGIN_PATH, "/favicon.ico")
OPEN_PREFIX = "/static/"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS", "TRACE")


class SecurityMiddleware:
    """An ASGI application around another. Arguments that are None are taken from Django's settings."""

    def __init__(
        self,
        app: Application,
        *,
        allowed_hosts: Sequence[str] | None = None,
        trusted_origins: Sequence[str] | None = None,
        gate: Gate | None = None,
    ) -> None:
        self._app = app
        self._clock = SystemClock()
        self._hosts = [*(settings.ALLOWED_HOSTS if allowed_hosts is None else allowed_hosts), *LOCAL_HOSTS]
        self._origins = frozenset(settings.CSRF_TRUSTED_ORIGINS if trusted_origins is None else trusted_origins)
        self._gate = gate or Gate(
            getattr(settings, "GLASSMQ_API_TOKEN", ""),
            settings.SECRET_KEY,
            https=getattr(settings, "GLASSMQ_HTTPS", False),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(
                scope | {SCOPE_KEY: server_buffer(scope, send)}, receive, self._with_security_headers(scope, send)
            )
        elif scope["type"] == "websocket":
            await self._websocket(scope | {SCOPE_KEY: server_buffer(scope, send)}, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._check(scope, unsafe=scope["method"] not in SAFE_METHODS)
        except Problem as problem:
            await send_problem(problem, scope, send)
            return
        path = scope["path"]
        if path == LOGIN_PATH:
            await self._gate.login(scope, receive, send)
            return
        if path == "/logout":
            await self._gate.logout(scope, receive, send)
            return
        try:
            is_admitted = path in OPEN_PATHS or path.startswith(OPEN_PREFIX) or await self._gate.admits(scope)
            if is_admitted and path == ADMIN_LOGIN_PATH and scope["method"] == "POST":
                await self._gate.admin_login(self._app, scope, receive, send)
                return
        except Problem as problem:
            await send_problem(problem, scope, send)
            return
        if is_admitted:
            await self._app(scope, receive, send)
        elif wants_page(scope):
            await to_login(scope, send)
        else:
            await send_problem(
                Problem(
                    401,
                    "this broker requires its access token: send Authorization: Bearer TOKEN",
                    code=ResponseCode.NO_PERMISSION,
                    headers={"www-authenticate": 'Bearer realm="glassmq"'},
                ),
                scope,
                send,
            )

    def _with_security_headers(self, scope: Scope, send: Send) -> Send:
        """``send`` that adds the security headers that an answer does not set itself, and the time (Date)."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                host = header(scope, b"host")
                added = security_headers(host if self._is_our_host(host) else "")
                added[b"date"] = _date(self._clock.now().wall_ms // 1000)
                headers = list(message.get("headers", ()))
                present = {bytes(name).lower() for name, _ in headers}
                headers += [(name, value) for name, value in added.items() if name not in present]
                message = message | {"headers": headers}
            await send(message)

        return sending

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._check(scope, unsafe=True)
        except Problem as problem:
            await receive()
            reason = "the Origin is not this broker" if problem.status == HTTPStatus.FORBIDDEN else "refused headers"
            await send(
                {"type": "websocket.close", "code": CLOSE_FORBIDDEN, "reason": reason}
            )  # before accept: HTTP 403
            return
        reason = "not authenticated"
        try:
            if await self._gate.admits(scope):
                await self._app(scope, receive, send)
                return
        except Problem as problem:
            reason = problem.detail
        await receive()
        # Accepted first, because a browser gives its page only the close code of a socket that was open.
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": CLOSE_NOT_AUTHENTICATED, "reason": reason})

    def _check(self, scope: Scope, *, unsafe: bool) -> None:
        """Raises Problem for a request that is refused."""
        headers = scope["headers"]
        if len(headers) > MAX_HEADERS or sum(len(name) + len(value) for name, value in headers) > MAX_HEADER_BYTES:
            raise Problem(
                431, f"the request has more than {MAX_HEADERS} headers or {MAX_HEADER_BYTES} bytes of headers"
            )
        if len(scope.get("raw_path") or scope["path"]) > MAX_PATH_BYTES:
            raise Problem(414, f"the path is longer than {MAX_PATH_BYTES} bytes")
        host = header(scope, b"host")
        if not self._is_our_host(host) and scope["path"] not in PROBES:
            raise Problem(
                400, f"{host!r} is not a host name of this broker; add it to GLASSMQ_ALLOWED_HOSTS", pointer="/Host"
            )
        origin = header(scope, b"origin")
        if unsafe and origin and not self._is_our_origin(origin, host):
            raise Problem(
                403, f"pages of {origin} may not send this request", code=ResponseCode.NO_PERMISSION, pointer="/Origin"
            )

    def _is_our_host(self, host: str) -> bool:
        domain, _ = split_domain_port(host)
        return bool(domain) and validate_host(domain, self._hosts)

    def _is_our_origin(self, origin: str, host: str) -> bool:
        """Whether the origin has the host and port of the request. Not so for ``null`` and for other schemes."""
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        if origin in self._origins:
            return True
        default = {"http": ":80", "https": ":443"}.get(parts.scheme)
        return default is not None and parts.netloc.lower() in (host.lower(), host.lower().removesuffix(default))


async def send_problem(problem: Problem, scope: Scope, send: Send) -> None:
    """Answer with a problem before a route is found."""
    content = msgspec.json.encode(problem.details(scope["path"]))
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(content)).encode("ascii")),
        (b"cache-control", b"no-store"),
    ]
    headers += [(name.encode("ascii"), value.encode("latin-1")) for name, value in problem.headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else content})


@lru_cache(1)
def _date(second: int) -> bytes:
    """A time in seconds since 1970 as a Date header. Pages compare it with the browser's clock."""
    return formatdate(second, usegmt=True).encode("ascii")
