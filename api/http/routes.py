"""Routes, and how a request finds its route. Each module of ``api/resources`` ends with its routes."""

from collections.abc import Iterable
from typing import Any

import msgspec

from api.http.limits import MAX_SMALL_BODY
from api.http.request import Handler, Params


class Header(msgspec.Struct, frozen=True):
    """A request header that a route reads."""

    name: str
    description: str


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the route table, from which requests are routed and the OpenAPI document is made.

    ``path`` has its parameters in braces; they are fields of ``params``, like those of the query. ``body`` with
    ``body_limit`` bytes is read and decoded before the handler is called, unless ``raw_body``: then the handler
    gets bytes. ``bodies`` are the structs to document; with ``body_optional`` no body is the first of them with its
    defaults. ``response`` None: an answer without a body, or one of ``response_type``, which is not JSON.
    ``or_nothing``: a 204 without a body is an answer too.
    ``streaming``: the handler sends for itself. ``needs_broker`` False: answered without the engine.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    group: str
    params: type[Params] = Params
    bodies: tuple[type[Any], ...] = ()
    raw_body: bool = False
    body_optional: bool = False
    body_limit: int = MAX_SMALL_BODY
    response: Any = None
    response_type: str = ""
    status: int = 200
    or_nothing: bool = False
    headers: tuple[Header, ...] = ()
    problems: tuple[int, ...] = ()
    streaming: bool = False
    needs_broker: bool = True


class Router:
    """Finds a route by the number of its path's parts, then part by part."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._by_length: dict[int, list[tuple[tuple[str, ...], dict[str, Route]]]] = {}
        for route in routes:
            template = tuple(route.path.split("/")[1:])
            known = self._by_length.setdefault(len(template), [])
            methods = next((methods for other, methods in known if other == template), None)
            if methods is None:
                methods = {}
                known.append((template, methods))
            methods[route.method] = route

    def find(self, parts: list[str]) -> tuple[dict[str, Route], dict[str, str]] | None:
        """The routes of a path by method, and the path's parameters, none of which is empty."""
        for template, methods in self._by_length.get(len(parts), ()):
            values: dict[str, str] = {}
            for name, part in zip(template, parts, strict=True):
                if name[:1] == "{" and part:
                    values[name[1:-1]] = part
                elif name != part:
                    break
            else:
                return methods, values
        return None
