"""Calls of the HTTP API, and servers that are something else."""

import pytest

from broker_core.cli.errors import CommandError
from broker_core.cli.glassmq_api import GlassmqApi
from tests.broker_core.cli.conftest import Web


def test_names_and_values_are_quoted(web: Web) -> None:
    web.answers["/api/v1/groups/a%2F%25b%3F"] = (200, {"group": "a/%b?"})
    assert GlassmqApi(f"{web.url}/").get("/api/v1/groups/{}", "a/%b?", topic="x&y", group="", limit=None) == {
        "group": "a/%b?"
    }
    assert web.asked[0][1].endswith("?topic=x%26y")
    assert "authorization" not in web.asked[0][2]


@pytest.mark.parametrize(
    ("status", "value", "code", "words"),
    [
        (404, {"title": "Not Found", "detail": "the group g does not exist"}, 4, "the group g does not exist"),
        (401, {"title": "Unauthorized", "detail": "this broker requires its access token"}, 1, "GLASSMQ_API_TOKEN"),
        (503, {"title": "Service Unavailable", "detail": "the engine is away"}, 3, "the engine is away"),
        (500, "oops", 1, "HTTP 500 Internal Server Error; is this GlassMQ?"),
        (302, "", 1, "HTTP 302 Found; is this GlassMQ?"),
        (404, [], 4, "HTTP 404 Not Found; is this GlassMQ?"),
        (200, "<html>", 5, "Is another program at this address?"),
    ],
)
def test_an_answer_that_is_no_success(web: Web, status: int, value: object, code: int, words: str) -> None:
    web.answers["/x"] = (status, value)
    with pytest.raises(CommandError) as raised:
        GlassmqApi(web.url).get("/x")
    assert raised.value.exit_code == code and words in raised.value.message


def test_nobody_answers() -> None:
    with pytest.raises(CommandError) as raised:
        GlassmqApi("http://127.0.0.1:1").get("/x")
    assert raised.value.exit_code == 3
    assert "cannot work with Apache RocketMQ" in raised.value.message and "--url" in raised.value.message


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://host", "http://", "file:///etc/passwd"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(CommandError, match="--url must be an address such as"):
        GlassmqApi(url)


def test_an_answer_that_is_too_large(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_core.cli.glassmq_api.MAX_ANSWER", 10)
    web.answers["/x"] = (200, {"a": "x" * 20})
    with pytest.raises(CommandError, match="is larger than"):
        GlassmqApi(web.url).get("/x")
