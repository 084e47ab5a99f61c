"""Who may call: whoever shows ``GLASSMQ_API_TOKEN``, as a bearer token or, from a browser, as the cookie of /login.

The cookie holds no secret: a time, and a signature over it that is made with the secret key and the token, so that
a new token ends all sessions.
"""

from hashlib import sha256
from hmac import compare_digest
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, quote

from django.core.signing import BadSignature, TimestampSigner
from django.template.loader import render_to_string

from api.http.asgi import Receive, Scope, Send, header
from api.http.limits import KIB
from api.http.problems import Problem
from api.http.request import ClientGone, read_body, read_headers

COOKIE = "glassmq_session"
SESSION_SECONDS = 12 * 3600
LOGIN_PATH = "/login"


class Gate:
    """Knows the token. Without one (``token`` empty) everybody may call."""

    def __init__(self, token: str, secret_key: str, *, https: bool = False) -> None:
        self.open = not token
        self._token = token.encode("utf-8")
        self._https = https
        salt = "api.session." + sha256(self._token).hexdigest()
        self._signer = TimestampSigner(key=secret_key, salt=salt)

    def admits(self, scope: Scope) -> bool:
        """Whether the request shows the token or a session that began with it."""
        return self.open or self._bearer(header(scope, b"authorization")) or self._session(header(scope, b"cookie"))

    def _is_token(self, text: str) -> bool:
        return compare_digest(sha256(text.encode("utf-8", "replace")).digest(), sha256(self._token).digest())

    def _bearer(self, authorization: str) -> bool:
        scheme, _, token = authorization.partition(" ")
        return scheme.lower() == "bearer" and self._is_token(token.strip())

    def _session(self, cookies: str) -> bool:
        try:
            morsel = SimpleCookie(cookies).get(COOKIE)
            return morsel is not None and bool(self._signer.unsign(morsel.value, max_age=SESSION_SECONDS))
        except (BadSignature, CookieError):
            return False

    def _cookie(self, value: str) -> bytes:
        secure = "; Secure" if self._https else ""
        gone = "" if value else "; Max-Age=0"
        return f"{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{gone}".encode("ascii")

    # /login

    async def login(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The page that asks for the token, and what its form posts to."""
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        target = local_path(query.get("next", [""])[0])
        if scope["method"] in ("GET", "HEAD"):
            await (_redirect(send, target) if self.open else _page(scope, send, target, ""))
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
        if self.open or self._is_token(form.get("token", [""])[0].strip()):
            await _redirect(send, target, self._cookie(self._signer.sign("in")))
        else:
            await _page(scope, send, target, "This is not the access token of this broker.")

    async def logout(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ends the session; by POST only, so that no link can do it."""
        if scope["method"] == "POST":
            await _redirect(send, LOGIN_PATH, self._cookie(""))
        else:
            await _answer(send, 405, [(b"allow", b"POST")])


def local_path(target: str) -> str:
    """``target`` when it is a path on this host, else the root: no redirect leads elsewhere."""
    plain = target.isascii() and target.isprintable() and "\\" not in target
    return target if plain and target.startswith("/") and not target.startswith("//") else "/"


def wants_page(scope: Scope) -> bool:
    """Whether this is a browser that opens a page, and not a program."""
    return scope["method"] in ("GET", "HEAD") and "text/html" in header(scope, b"accept")


async def to_login(scope: Scope, send: Send) -> None:
    await _redirect(send, f"{LOGIN_PATH}?next={quote(scope['path'], safe='/')}")


async def _page(scope: Scope, send: Send, target: str, error: str) -> None:
    page = render_to_string("login.html", {"next": target, "error": error}).encode("utf-8")
    headers = [(b"content-type", b"text/html; charset=utf-8"), (b"content-length", str(len(page)).encode())]
    await _answer(send, 401 if error else 200, headers, b"" if scope["method"] == "HEAD" else page)


async def _redirect(send: Send, target: str, cookie: bytes = b"") -> None:
    headers = [(b"location", target.encode("ascii", "replace")), (b"content-length", b"0")]
    await _answer(send, 303, headers + ([(b"set-cookie", cookie)] if cookie else []))


async def _answer(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes = b"") -> None:
    headers = [(b"cache-control", b"no-store"), *headers]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
