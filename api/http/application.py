"""The HTTP side of the API: finds the route, decodes the request, calls the handler, encodes the answer.

A failure of any step is answered with a problem.
"""

import logging
from collections.abc import Iterable
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec
from django.db import OperationalError

from api.http import brokers
from api.http.answer_memory import AnswerMemory, Share, no_room
from api.http.asgi import Receive, Scope, Send
from api.http.limits import SMALL_ANSWER
from api.http.problems import Problem, problem_of
from api.http.request import (
    Answer,
    ClientGone,
    Params,
    Reading,
    Request,
    decode_json,
    path_segments,
    read_body,
    read_headers,
    read_params,
    read_query,
    require_json,
)
from api.http.routes import Route, Router
from api.http.schemas import with_int64_as_text
from api.http.sending import Encode, encode_in_parts, send_file, send_parts
from api.http.threads import in_thread
from bridge.port import BrokerError, ResponseCode, takes_long

log = logging.getLogger(__name__)


class HttpApplication:
    """The ASGI application of all API paths."""

    def __init__(self, routes: Iterable[Route], memory: AnswerMemory | None = None) -> None:
        self.memory = memory or AnswerMemory()
        self._router = Router(routes)
        self._encoder = msgspec.json.Encoder()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with Share(self.memory) as share:
            try:
                answer, parts = await self._answer(scope, receive, send, share)
            except ClientGone:
                return
            except Problem as problem:
                answer, parts = self._refuse(problem, scope)
            except BrokerError as error:
                answer, parts = self._refuse(problem_of(error), scope)
            except OperationalError as error:  # its disk is full, it is locked, or its server is away
                log.error("%s %s was answered 503: the database fails: %s", scope["method"], scope["path"], error)
                detail = f"the database of users, reports and alerts fails: {error}; messages are not affected"
                refusal = Problem(503, detail, code=ResponseCode.SERVICE_NOT_AVAILABLE, retry_after_s=1)
                answer, parts = self._refuse(refusal, scope)
            except Exception:
                log.exception("%s %s failed", scope["method"], scope["path"])
                detail = "the API failed to answer; the server's log has the reason"
                answer, parts = self._refuse(Problem(500, detail, code=ResponseCode.SYSTEM_ERROR), scope)
            if answer is None:
                return
            headers = _headers(answer, parts)
            if answer.file is not None:
                await send_file(receive, send, answer.file, headers, scope["method"] == "HEAD")
                return
            await send({"type": "http.response.start", "status": answer.status, "headers": headers})
            await send_parts(send, [b""] if scope["method"] == "HEAD" or not parts else parts, share)

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, share: Share
    ) -> tuple[Answer | None, list[bytes]]:
        """The answer, and its body in parts; None if the handler has sent everything itself."""
        found = self._router.find(path_segments(scope))
        if found is None and self._has_extra_slash(scope):
            path = scope.get("raw_path") or scope["path"].encode()
            location = quote(path[:-1] + _question(scope), safe="/%?=&:;,+@!$'()*~")
            return Answer(status=308, headers={"location": location}), []
        if found is None:
            raise Problem(
                404,
                f"no resource has the path {scope['path']}; /api/docs lists all paths",
                code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            )
        methods, path_values = found
        method: str = scope["method"]
        route = methods.get("GET" if method == "HEAD" else method)
        if route is None or (method == "HEAD" and route.streaming):
            return self._other_method(method, methods), []
        request = await self._read_request(route, path_values, scope, receive, send)
        encode = partial(self._encode, params=request.params)
        uncounted = Share(AnswerMemory())
        while True:
            answer = await route.handler(request)
            if answer is None:
                return None, []
            # A change cannot be repeated. Its answer is small, unless it has messages, which can be given back.
            is_counted = method in ("GET", "HEAD") or answer.give_back is not None
            parts, size = await _parts(answer, encode, share if is_counted else uncounted)
            if parts is not None:
                answer.body = None  # its records would stay in memory until the client has read the parts
                answer.status = answer.status or route.status
                return answer, parts
            if answer.give_back is not None:
                await answer.give_back()
                raise no_room(size)
            del answer  # there is no room for it: call the handler again when there is
            await share.replace(size)

    async def _read_request(
        self, route: Route, path_values: dict[str, str], scope: Scope, receive: Receive, send: Send
    ) -> Request[Any]:
        params = read_params(self._parameters(scope, path_values, route), route.params)
        headers = read_headers(scope)
        request: Request[Any] = Request(scope, receive, send, params, headers)
        body = await read_body(receive, headers, route.body_limit)
        if route.bodies and (body or not route.body_optional or b"content-type" in headers):
            require_json(headers)
        if route.body_optional and not body:
            request.body = route.bodies[0]()
        elif route.bodies:
            request.body = body if route.raw_body else decode_json(body, route.bodies[0])
        elif body:
            raise Problem(400, f"{route.method} {route.path} does not accept a body", pointer="")
        if params.broker and route.needs_broker:
            brokers.ports_of(params.broker)  # 404 if no broker has this name
        return request

    def _has_extra_slash(self, scope: Scope) -> bool:
        """Whether the path ends with a slash and has a route without it."""
        segments = path_segments(scope)
        return not segments[-1] and self._router.find(segments[:-1]) is not None

    @staticmethod
    def _parameters(scope: Scope, path_values: dict[str, str], route: Route) -> dict[str, str]:
        query = read_query(scope)
        for name in path_values:
            if name in query:
                raise Problem(400, f"{name} must be in the path of {route.path}, not in the query", pointer=f"/{name}")
        return query | path_values

    @staticmethod
    def _other_method(method: str, methods: dict[str, Route]) -> Answer:
        get = methods.get("GET")
        allowed = sorted({*methods, "OPTIONS"} | ({"HEAD"} if get is not None and not get.streaming else set()))
        if method == "OPTIONS":
            return Answer(status=204, headers={"allow": ", ".join(allowed)})
        raise Problem(
            405,
            f"{method} is not allowed here; allowed methods: {', '.join(allowed)}",
            code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            headers={"allow": ", ".join(allowed)},
        )

    def _encode(self, body: Any, params: Params) -> bytes:
        if params.int64 == "string":
            body = with_int64_as_text(msgspec.to_builtins(body))
        return self._encoder.encode(body)

    def _refuse(self, problem: Problem, scope: Scope) -> tuple[Answer, list[bytes]]:
        headers = dict(problem.headers)
        if problem.retry_after_s:
            headers["retry-after"] = str(problem.retry_after_s)
        answer = Answer(status=problem.status, content_type="application/problem+json", headers=headers)
        return answer, [self._encoder.encode(problem.details(scope["path"]))]


def _question(scope: Scope) -> bytes:
    """The query string with its question mark; empty without a query."""
    query: bytes = scope.get("query_string", b"")
    return b"?" + query if query else b""


async def _parts(answer: Answer, encode: Encode, share: Share) -> tuple[list[bytes] | None, int]:
    """The body of the answer in parts, and its size. Without room for it: None, and the size that needs room.

    Records that take long to read are read in a thread.
    """
    body = answer.body
    if isinstance(body, Reading):
        size = sum(map(len, body.records))
        if not share.grow(size):
            return None, size * 4 // 3 + SMALL_ANSWER  # as base64
        read = partial(_read_and_encode, body, encode)
        parts = await in_thread(read) if any(map(takes_long, body.records)) else read()
    elif answer.content is not None:
        parts = [answer.content]
    else:
        parts = [] if body is None else [encode(body)]
    size = sum(map(len, parts))
    if not share.grow(size):
        return None, size
    share.shrink(size)
    return parts, size


def _read_and_encode(reading: Reading, encode: Encode) -> list[bytes]:
    return encode_in_parts(encode, reading.read())


def _headers(answer: Answer, parts: list[bytes]) -> list[tuple[bytes, bytes]]:
    headers = [] if "cache-control" in answer.headers else [(b"cache-control", b"no-store")]
    if parts or answer.file is not None:
        headers.append((b"content-type", answer.content_type.encode("latin-1")))
    if answer.file is None and answer.status != 204:
        headers.append((b"content-length", str(sum(map(len, parts))).encode("ascii")))
    return headers + [
        (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers.items()
    ]
