"""Channels over HTTP."""

from typing import Any

import httpx
import pytest

from tests.alerts.receivers import http_receiver

pytestmark = pytest.mark.django_db(transaction=True)
CHANNELS = "/api/v1/alerts/channels"
HOOK = {
    "name": "on call",
    "kind": "webhook",
    "url": "https://hooks.example:8443/s3cret?t=s3cret",
    "secret": "s3cret",
}


async def test_secrets_go_in_and_never_come_out(client: httpx.AsyncClient) -> None:
    added = await client.post(CHANNELS, json=HOOK)
    assert added.status_code == 201
    view = added.json()
    assert (view["host"], view["has_secret"], view["sent_ms"]) == ("https://hooks.example:8443", True, None)
    path = f"{CHANNELS}/{view['id']}"
    answers = [added, await client.get(CHANNELS), await client.patch(path, json={"name": "other"})]
    bad = await client.patch(path, json={"url": "ftp://hooks.example/s3cret"})
    assert bad.json()["errors"][0]["pointer"] == "/url"
    assert "s3cret" not in "".join(answer.text for answer in (*answers, bad))
    removed = await client.patch(path, json={"secret": ""})
    assert removed.json()["has_secret"] is False
    assert (await client.delete(path)).status_code == 204
    assert (await client.get(CHANNELS)).json() == {"channels": []}


async def test_a_test_message_is_sent_and_a_refusal_is_answered(client: httpx.AsyncClient) -> None:
    async with http_receiver() as receiver:
        number = (await client.post(CHANNELS, json=HOOK | {"url": receiver.url})).json()["id"]
        assert (await client.post(f"{CHANNELS}/{number}/test")).status_code == 204
        assert b"TEST: on call" in receiver.requests[0][2]
        documented = {"content-type": "application/json"}  # as in docs/alerts.md: the header, and no body
        assert (await client.post(f"{CHANNELS}/{number}/test", headers=documented)).status_code == 204
        foreign = await client.post(f"{CHANNELS}/{number}/test", headers={"content-type": "text/plain"})
        assert foreign.status_code == 415
        assert len(receiver.requests) == 2
        receiver.answer = b"HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n"
        refused = await client.post(f"{CHANNELS}/{number}/test")
    assert refused.status_code == 502
    assert refused.json()["detail"] == receiver.url.removesuffix("/hook/s3cret") + " answered 403"
    assert (await client.post(f"{CHANNELS}/{number + 1}/test")).status_code == 404


async def test_email_without_a_server_is_refused(client: httpx.AsyncClient, settings: Any) -> None:
    mail = {"name": "mail", "kind": "email", "recipients": ["a@b.example"]}
    refused = await client.post(CHANNELS, json=mail)
    assert refused.status_code == 400
    assert "GLASSMQ_SMTP_URL" in refused.json()["detail"]
    settings.GLASSMQ_SENDS_MAIL = True
    assert (await client.post(CHANNELS, json=mail)).json()["recipients"] == ["a@b.example"]
