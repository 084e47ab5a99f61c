"""The API's HTTP side: find the route, read, decode, call the handler, encode; a problem wherever one of them fails."""

import logging
from collections.abc import Iterable
from typing import Any

import msgspec

from api.http import brokers
from api.http.asgi import Receive, Scope, Send
from api.http.problems import Problem, problem_of
from api.http.request import (
    Answer,
    ClientGone,
    Params,
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
from bridge.port import BrokerError, ResponseCode

log = logging.getLogger(__name__)


class HttpApplication:
    """The ASGI application of all API paths."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._router = Router(routes)
        self._encoder = msgspec.json.Encoder()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = await self._answer(scope, receive, send)
        except ClientGone:
            return
        except Problem as problem:
            answer = self._refuse(problem, scope)
        except BrokerError as error:
            answer = self._refuse(problem_of(error), scope)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            answer = self._refuse(
                Problem(500, "the API failed to answer; the server's log says why", code=ResponseCode.SYSTEM_ERROR),
                scope,
            )
        if answer is not None:
            await self._send(scope, send, answer)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> Answer | None:
        found = self._router.find(path_segments(scope))
        if found is None:
            raise Problem(
                404,
                f"there is nothing at {scope['path']}; /api/docs lists what there is",
                code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            )
        methods, path_values = found
        method: str = scope["method"]
        route = methods.get("GET" if method == "HEAD" else method)
        if route is None or (method == "HEAD" and route.streaming):
            return self._other_method(method, methods)
        params = read_params(self._parameters(scope, path_values, route), route.params)
        headers = read_headers(scope)
        request: Request[Any] = Request(scope, receive, send, params, headers)
        body = await read_body(receive, headers, route.body_limit)
        if route.body_optional and not body and b"content-type" not in headers:
            request.body = route.bodies[0]()
        elif route.bodies:
            require_json(headers)
            request.body = body if route.raw_body else decode_json(body, route.bodies[0])
        elif body:
            raise Problem(400, f"{method} {route.path} takes no body", pointer="/")
        if params.broker and route.needs_broker:
            brokers.named(params.broker)  # 404 when there is none of that name
        answer = await route.handler(request)
        if answer is not None and answer.content is None and answer.body is not None:
            answer.content = self._encode(answer.body, params)
        if answer is not None and not answer.status:
            answer.status = route.status
        return answer

    @staticmethod
    def _parameters(scope: Scope, path_values: dict[str, str], route: Route) -> dict[str, str]:
        query = read_query(scope)
        for name in path_values:
            if name in query:
                raise Problem(400, f"{name} belongs in the path of {route.path}, not in the query", pointer=f"/{name}")
        return query | path_values

    @staticmethod
    def _other_method(method: str, methods: dict[str, Route]) -> Answer:
        get = methods.get("GET")
        allowed = sorted({*methods, "OPTIONS"} | ({"HEAD"} if get is not None and not get.streaming else set()))
        if method == "OPTIONS":
            return Answer(status=204, headers={"allow": ", ".join(allowed)})
        raise Problem(
            405,
            f"{method} is not possible here, but {', '.join(allowed)}",
            code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            headers={"allow": ", ".join(allowed)},
        )

    def _encode(self, body: Any, params: Params) -> bytes:
        if params.int64 == "string":
            body = with_int64_as_text(msgspec.to_builtins(body))
        return self._encoder.encode(body)

    def _refuse(self, problem: Problem, scope: Scope) -> Answer:
        headers = dict(problem.headers)
        if problem.retry_after_s:
            headers["retry-after"] = str(problem.retry_after_s)
        return Answer(
            content=self._encoder.encode(problem.details(scope["path"])),
            status=problem.status,
            content_type="application/problem+json",
            headers=headers,
        )

    @staticmethod
    async def _send(scope: Scope, send: Send, answer: Answer) -> None:
        content = answer.content or b""
        headers = [(b"cache-control", b"no-store")] if "cache-control" not in answer.headers else []
        if answer.content is not None:
            headers.append((b"content-type", answer.content_type.encode("latin-1")))
        if answer.status != 204:
            headers.append((b"content-length", str(len(content)).encode("ascii")))
        for name, value in answer.headers.items():
            headers.append((name.lower().encode("latin-1"), value.encode("latin-1")))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else content})
