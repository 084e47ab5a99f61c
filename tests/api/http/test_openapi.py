"""The OpenAPI document and the page that shows it."""

import hashlib
import json
import re
from typing import Any

import httpx
import pytest

from api.http.openapi import build, operation_id
from api.routing import ROUTES
from tests.conftest import PROJECT

DOCUMENT = build(ROUTES)
VENDORED = PROJECT / "static" / "vendor" / "swagger-ui"


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if "$ref" in value else set()
        return own.union(*map(references, value.values()))
    return set().union(*map(references, value)) if isinstance(value, list) else set()


async def test_the_document_is_served(client: httpx.AsyncClient) -> None:
    answer = await client.get("/api/v1/openapi.json")
    assert answer.json() == json.loads(json.dumps(DOCUMENT))
    assert answer.json()["openapi"] == "3.1.0"


def test_the_document_has_every_route() -> None:
    operations = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert operations == {(route.method, route.path) for route in ROUTES}
    assert len({operation_id(route) for route in ROUTES}) == len(ROUTES)


def test_every_reference_has_a_schema() -> None:
    names = {reference.removeprefix("#/components/schemas/") for reference in references(DOCUMENT)}
    assert names == set(DOCUMENT["components"]["schemas"])


def test_descriptions_have_no_indented_lines_which_markdown_shows_as_code() -> None:
    descriptions = [
        operation.get("description", "") for methods in DOCUMENT["paths"].values() for operation in methods.values()
    ]
    assert any("\n" in description for description in descriptions)
    assert not [description for description in descriptions if "\n    " in description]


def test_path_parameters_are_required_and_all_there() -> None:
    for path, methods in DOCUMENT["paths"].items():
        for operation in methods.values():
            in_path = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"}
            assert in_path == set(re.findall(r"\{(\w+)\}", path))
            assert all(parameter["required"] for parameter in operation["parameters"] if parameter["in"] == "path")


def test_the_pull() -> None:
    pull = DOCUMENT["paths"]["/api/v1/topics/{topic}/queues/{queue_id}/messages"]["get"]
    parameters = {parameter["name"]: parameter for parameter in pull["parameters"]}
    assert list(parameters) == [
        "topic",
        "queue_id",
        "offset",
        "limit",
        "wait_ms",
        "filter",
        "filter_type",
        "group",
        "client_id",
        "int64",
        "broker",
        "Prefer",
    ]
    assert parameters["offset"]["required"]
    assert "required" not in parameters["wait_ms"]
    assert parameters["offset"]["schema"]["format"] == "int64"
    assert set(pull["responses"]) == {"200", "400", "403", "404", "429", "503", "504"}


def test_the_publish_takes_both_shapes() -> None:
    publish = DOCUMENT["paths"]["/api/v1/topics/{topic}/messages"]["post"]
    assert publish["requestBody"]["content"]["application/json"]["schema"] == {
        "oneOf": [{"$ref": "#/components/schemas/PublishMessage"}, {"$ref": "#/components/schemas/PublishMessages"}]
    }
    assert "201" in publish["responses"]


def test_the_document_has_all_answers_of_deleting_a_run() -> None:
    delete = DOCUMENT["paths"]["/api/v1/reports/{name}/runs/{id}"]["delete"]
    assert set(delete["responses"]) == {"202", "204", "400", "404"}
    assert "content" in delete["responses"]["202"] and "content" not in delete["responses"]["204"]


def test_an_answer_without_a_body_has_none() -> None:
    sync = DOCUMENT["paths"]["/api/v1/lake/sync"]["post"]["responses"]
    assert "content" not in sync["202"]
    assert set(DOCUMENT["paths"]["/metrics"]["get"]["responses"]["200"]["content"]) == {"text/plain"}


def test_a_body_is_required_where_it_is() -> None:
    optional = {
        (method, path)
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
        if "requestBody" in operation and not operation["requestBody"]["required"]
    }
    assert optional == {("post", "/api/v1/lake/sync"), ("post", "/api/v1/alerts/channels/{id}/test")}


def test_changeable_options_are_typed() -> None:
    changes = DOCUMENT["components"]["schemas"]["ConfigChanges"]
    assert changes["properties"]["longPollingEnable"]["type"] == "boolean"
    assert "brokerName" not in changes["properties"]
    patch = DOCUMENT["paths"]["/api/v1/broker/config"]["patch"]
    assert patch["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/ConfigChanges")


async def test_the_page_has_nothing_inline_and_nothing_from_elsewhere(client: httpx.AsyncClient) -> None:
    page = (await client.get("/api/docs")).text
    assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|<style|https?://", page)
    for path in re.findall(r'(?:src|href)="/static/([^"]+)"', page):
        assert (PROJECT / "static" / path).is_file(), path


async def test_the_page_has_the_frame_of_the_site(client: httpx.AsyncClient) -> None:
    page = (await client.get("/api/docs")).text
    assert '<a href="/api/docs" aria-current="page">API</a>' in page
    assert 'name="theme" value="dark"' in page and 'href="/groups"' in page


async def test_the_page_is_in_the_readers_language(client: httpx.AsyncClient) -> None:
    english = (await client.get("/api/docs")).text
    assert '<html lang="en"' in english and 'data-language="zh-hans"' in english and "in English" not in english
    chinese = (await client.get("/api/docs", headers={"cookie": "glassmq_language=zh-hans"})).text
    assert '<html lang="zh-hans"' in chinese and 'data-language="en"' in chinese and ">消费组</a>" in chinese
    assert "参考本身为英文。" in chinese and '<div id="swagger-ui" lang="en">' in chinese


def test_vendored_files_have_their_checksums() -> None:
    sums = dict(reversed(line.split()) for line in (VENDORED / "SHA256SUMS").read_text().splitlines())
    assert {"swagger-ui-bundle.js", "swagger-ui.css", "LICENSE", "VERSION"} <= set(sums)
    assert set(sums) == {path.name for path in VENDORED.iterdir()} - {"SHA256SUMS"}
    for name, expected in sums.items():
        assert hashlib.sha256((VENDORED / name).read_bytes()).hexdigest() == expected


@pytest.mark.parametrize("name", ["PullResult", "MessageView", "PublishedMessage", "ProblemDetails", "HoldView"])
def test_answers_are_described_field_by_field(name: str) -> None:
    schema = DOCUMENT["components"]["schemas"][name]
    assert schema["type"] == "object"
    assert len(schema["properties"]) >= 5


def test_numbers_of_64_bits_may_be_text_in_answers_but_not_in_requests() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    offset = schemas["MessageView"]["properties"]["queue_offset"]
    assert (offset["type"], offset["format"]) == (["integer", "string"], "int64")
    assert schemas["GroupQueue"]["properties"]["lag"]["anyOf"][0]["type"] == ["integer", "string"]
    assert schemas["SnapshotView"]["properties"]["counters"]["additionalProperties"]["type"] == ["integer", "string"]
    assert schemas["OffsetToCommit"]["properties"]["offset"]["type"] == "integer"
    pull = DOCUMENT["paths"]["/api/v1/topics/{topic}/queues/{queue_id}/messages"]["get"]
    offset = next(parameter for parameter in pull["parameters"] if parameter["name"] == "offset")
    assert offset["schema"]["type"] == "integer"


def test_a_request_for_an_unknown_broker_may_be_404() -> None:
    for route in ROUTES:
        responses = DOCUMENT["paths"][route.path][route.method.lower()]["responses"]
        assert not route.needs_broker or "404" in responses, route.path


def test_broker_is_a_parameter_where_an_unknown_one_is_answered_404() -> None:
    operations = [
        operation for path in build(ROUTES)["paths"].values() for operation in path.values() if "responses" in operation
    ]
    with_broker = [
        operation for operation in operations if "broker" in {field["name"] for field in operation["parameters"]}
    ]
    assert 20 < len(with_broker) < len(operations)
    assert [operation["summary"] for operation in with_broker if "404" not in operation["responses"]] == []
