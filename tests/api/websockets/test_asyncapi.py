"""The AsyncAPI document is what the frames are."""

import json
from typing import Any

import httpx
import yaml

from api.websockets.asyncapi import build, tag_of
from api.websockets.frames import Pull
from tests.conftest import PROJECT


def test_the_file_is_up_to_date() -> None:
    written = yaml.safe_load((PROJECT / "docs" / "asyncapi.yaml").read_text(encoding="utf-8"))
    assert written == build(), "write it anew: python -m api.websockets.asyncapi > docs/asyncapi.yaml"


async def test_the_document_is_served(client: httpx.AsyncClient) -> None:
    answer = await client.get("/api/v1/asyncapi.json")
    assert answer.headers["content-type"] == "application/json" and answer.json() == json.loads(json.dumps(build()))


def test_the_document_has_every_frame() -> None:
    document = build()
    names = {message["name"] for message in document["components"]["messages"].values()}
    assert {"hello", "welcome", "pull", "held", "woken", "pulled", "snapshot", "delta", "lost", "bye"} <= names
    for operation in document["operations"].values():
        for reference in operation["messages"]:
            assert _at(document, reference["$ref"])
    assert tag_of(Pull) == "pull"


def _at(document: dict[str, Any], reference: str) -> Any:
    value: Any = document
    for name in reference.removeprefix("#/").split("/"):
        value = value[name]
    return value
