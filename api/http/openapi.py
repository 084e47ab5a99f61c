"""The OpenAPI 3.1 document, made from the route table and the structs, and the page that shows it."""

import re
from collections.abc import Iterable
from functools import lru_cache
from http import HTTPStatus
from inspect import cleandoc
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
from django.template.loader import render_to_string
from django.utils.translation import override

from api.http.auth import page_language
from api.http.examples import CONFIG_CHANGES, example_of, problem_example, text_of
from api.http.problems import ProblemDetails
from api.http.request import Answer, Params, Request
from api.http.schemas import INT64_FIELDS
from bridge.port import OPTION_DESCRIPTIONS

if TYPE_CHECKING:
    from api.http.routes import Route

REF = "#/components/schemas/{name}"
DESCRIPTION = """A RocketMQ-compatible message broker whose long polling can be watched.

Errors are `application/problem+json` (RFC 9457) with RocketMQ's name for the condition in `code`. Numbers that may
need 64 bits are strings with `?int64=string`. The WebSockets `/ws/v1/consumer` and `/ws/v1/events` are described in
`/api/v1/asyncapi.json`."""
ALWAYS = (400,)
WITH_BROKER = (404, 503)
"""404: no broker has the name in ``?broker=``."""


def schemas_of(types: Iterable[Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Schemas of the types and the components that they refer to, with details that msgspec does not know."""
    schemas, components = msgspec.json.schema_components(list(types), ref_template=REF)
    for component in components.values():
        is_answer = component.get("additionalProperties") is not False  # requests refuse unknown fields
        if "description" in component:  # a docstring; Python 3.13 removes its indentation, older versions do not
            component["description"] = cleandoc(component["description"])
        for name, field in component.get("properties", {}).items():
            _mark_int64(name, field, or_text=is_answer)
    for name in ("PublishMessage", "Publish"):
        if name in components:
            components[name]["properties"]["body"] = {"description": "Text, base64, or with `json` any value."}
    return list(schemas), components


def _mark_int64(name: str, field: dict[str, Any], *, or_text: bool = False) -> None:
    """Mark a number of 64 bits. With ``or_text`` it may also be text, as it is in answers with ``?int64=string``."""
    if name in INT64_FIELDS:
        for part in (field, *field.get("anyOf", ())):
            if part.get("type") == "integer":
                part["format"] = "int64"
                if or_text:
                    part["type"] = ["integer", "string"]
    elif name == "counters" and or_text:
        field["additionalProperties"]["type"] = ["integer", "string"]


def changeable_options() -> dict[str, Any]:
    """The body of PATCH: the changeable options under RocketMQ's names, each with its type."""
    return {
        "type": "object",
        "title": "ConfigChanges",
        "additionalProperties": False,
        "minProperties": 1,
        "properties": {
            name: {key: value for key, value in schema.items() if key not in ("changeable", "default")}
            for name, schema in OPTION_DESCRIPTIONS.items()
            if schema["changeable"]
        },
    }


@lru_cache(1)
def document(routes: "tuple[Route, ...]") -> bytes:
    """The document as JSON."""
    return msgspec.json.format(msgspec.json.encode(build(routes)), indent=1)


def build(routes: "tuple[Route, ...]") -> dict[str, Any]:
    shapes = [shape for route in routes for shape in (*route.bodies, route.response) if shape is not None]
    shapes.append(ProblemDetails)
    schemas, components = schemas_of(shapes)
    components["ConfigChanges"] = changeable_options()
    by_shape = dict(zip(map(repr, shapes), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_shape, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "GlassMQ", "version": "1", "description": DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "GLASSMQ_API_TOKEN, if it is set."}
            },
        },
        "security": [{"token": []}, {}],
    }


def _operation(
    route: "Route", by_shape: dict[str, dict[str, Any]], components: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": operation_id(route),
        "summary": route.summary,
        "tags": [route.group],
        "parameters": [*_parameters(route), *_headers(route)],
        "responses": _responses(route, by_shape, components),
    }
    if route.handler.__doc__:
        operation["description"] = cleandoc(route.handler.__doc__)
    if route.bodies:
        schemas = [by_shape[repr(shape)] for shape in route.bodies]
        example = example_of(schemas[0], components, path=route.path)
        if route.bodies == (dict[str, Any],):
            schemas, example = [{"$ref": REF.format(name="ConfigChanges")}], CONFIG_CHANGES
        schema = schemas[0] if len(schemas) == 1 else {"oneOf": schemas}
        operation["requestBody"] = {
            "required": not route.body_optional,
            "content": {"application/json": {"schema": schema, "example": example}},
        }
    return operation


def operation_id(route: "Route") -> str:
    """A unique name from method and path: ``get_topics_topic_queues``."""
    words = re.sub(r"[^a-zA-Z0-9]+", "_", route.path.removeprefix("/api/v1").removeprefix("/api")).strip("_")
    return f"{route.method.lower()}_{words}"


def _parameters(route: "Route") -> list[dict[str, Any]]:
    """Fields of the params struct; a field that the path names is a path parameter."""
    component = msgspec.json.schema(route.params)["$defs"][route.params.__name__]
    in_path = set(re.findall(r"\{(\w+)\}", route.path))
    parameters = []
    for name, schema in component["properties"].items():
        if name == "broker" and not (route.needs_broker or HTTPStatus.NOT_FOUND in route.problems):
            continue  # every handler has the parameter; this one ignores it
        parameter: dict[str, Any] = {"name": name, "in": "path" if name in in_path else "query"}
        if name in in_path or name in component.get("required", ()):
            parameter["required"] = True
        _mark_int64(name, schema)
        description = _COMMON.get(name) or _description(schema)
        if description:
            parameter["description"] = description
        parameter["schema"] = schema
        if parameter.get("required"):
            parameter["example"] = example_of(schema, {}, name, route.path)
        parameters.append(parameter)
    return sorted(parameters, key=lambda parameter: (parameter["in"] != "path", parameter["name"] in _COMMON))


def _description(schema: dict[str, Any]) -> str:
    """The description of the schema or of a part of it, which is taken out."""
    parts = (schema, *schema.get("anyOf", ()))
    return next((str(part.pop("description")) for part in parts if "description" in part), "")


_COMMON = {
    "int64": "`string`: numbers that may need 64 bits are strings.",
    "broker": "Only this broker; 404 if there is none of this name.",
}


def _headers(route: "Route") -> list[dict[str, Any]]:
    return [
        {"name": header.name, "in": "header", "description": header.description, "schema": {"type": "string"}}
        for header in route.headers
    ]


def _responses(
    route: "Route", by_shape: dict[str, dict[str, Any]], components: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    good: dict[str, Any] = {"description": HTTPStatus(route.status).phrase}
    if route.response is not None:
        schema = by_shape[repr(route.response)]
        good["content"] = {
            "application/json": {"schema": schema, "example": example_of(schema, components, path=route.path)}
        }
    elif route.response_type:
        good["content"] = {route.response_type: {"schema": {"type": "string"}, "example": text_of(route.path)}}
    responses = {str(route.status): good}
    if route.or_nothing:
        responses["204"] = {"description": HTTPStatus.NO_CONTENT.phrase}
    body_problems = (408, 413, 415) if route.bodies else ()
    for status in sorted({*ALWAYS, *(WITH_BROKER if route.needs_broker else ()), *body_problems, *route.problems}):
        responses[str(status)] = {
            "description": HTTPStatus(status).phrase,
            "content": {
                "application/problem+json": {
                    "schema": {"$ref": REF.format(name="ProblemDetails")},
                    "example": problem_example(status, route.path),
                }
            },
        }
    return responses


@lru_cache
def _page(language: str) -> bytes:
    frame = {"request": SimpleNamespace(path="/api/docs")}  # base.html reads nothing else of a request
    with override(language):
        return render_to_string("api/docs.html", frame).encode("utf-8")


async def docs_page(request: Request[Params]) -> Answer:
    """The page at /api/docs: Swagger UI, served from this broker's own files."""
    page = _page(page_language(request.scope))
    return Answer(content=page, content_type="text/html; charset=utf-8", headers={"cache-control": "no-cache"})
