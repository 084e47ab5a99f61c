"""The examples of the OpenAPI document."""

from typing import Any

import msgspec
import pytest

from api.http.examples import example_of
from api.http.openapi import build
from api.http.problems import ProblemDetails
from api.http.routes import Route
from api.routing import ROUTES
from bridge.port import ResponseCode

DOCUMENT = build(ROUTES)


def operation_of(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = DOCUMENT["paths"][route.path][route.method.lower()]
    return operation


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_each_operation_has_a_description_and_examples_that_the_api_accepts(route: Route) -> None:
    operation = operation_of(route)
    assert len(operation["description"]) > len("too short") and operation["summary"]
    for parameter in operation["parameters"]:
        assert parameter.get("description") or parameter["in"] == "path", parameter["name"]
    given = {parameter["name"]: parameter["example"] for parameter in operation["parameters"] if "example" in parameter}
    msgspec.convert({name: str(value) for name, value in given.items()}, route.params, strict=False)
    if route.bodies:
        example = operation["requestBody"]["content"]["application/json"]["example"]
        decoded = msgspec.json.decode(msgspec.json.encode(example), type=route.bodies[0])
        assert example is not None and decoded is not None
    good = operation["responses"][str(route.status)]
    for content_type, content in good.get("content", {}).items():
        assert content["example"], content_type
        if content_type == "application/json":
            msgspec.convert(content["example"], route.response)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_each_refusal_has_an_example(route: Route) -> None:
    for status, answer in operation_of(route)["responses"].items():
        problem = answer.get("content", {}).get("application/problem+json")
        if problem is not None:
            details = msgspec.convert(problem["example"], ProblemDetails)
            assert details.status == int(status) and details.detail and ResponseCode[details.code]
            assert "{" not in details.instance and "None" not in details.instance


def test_a_value_is_chosen_by_name_and_type() -> None:
    text, number = {"type": "string"}, {"type": "integer", "minimum": 3}
    assert example_of(text, {}, "topic") == "orders" and example_of(number, {}, "topic") == 3
    assert example_of({"anyOf": [{"type": "null"}, number, text]}, {}, "topic") == "orders"
    assert example_of({"anyOf": [number, {"type": "null"}]}, {}, "unheard_of") == 3
    assert example_of({"enum": ["b", "a"]}, {}, "topic") == "b"
    assert example_of({"type": "array", "items": text}, {}, "unheard_of") == [""]


def test_optional_fields_without_a_value_are_left_out() -> None:
    node = {
        "type": "object",
        "properties": {"topic": {"type": "string"}, "more": {"type": "string"}, "child": {"$ref": "#/x/Node"}},
        "required": ["child"],
    }
    value, depth = example_of({"$ref": "#/x/Node"}, {"Node": node}), 0
    while value:
        assert set(value) == {"topic", "child"}
        value, depth = value["child"], depth + 1
    assert depth == 8, "a schema that refers to itself ends"
