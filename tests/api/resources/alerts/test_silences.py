"""Silences over HTTP."""

import httpx
import pytest

pytestmark = pytest.mark.django_db(transaction=True)
SILENCES = "/api/v1/alerts/silences"
FAR = 32_000_000_000_000


async def test_a_silence_is_added_listed_and_ended(client: httpx.AsyncClient) -> None:
    body = {"group": "billing", "from_ms": FAR, "to_ms": FAR + 1000, "comment": "a release"}
    added = await client.post(SILENCES, json=body)
    assert added.status_code == 201
    assert added.json() == body | {"id": added.json()["id"], "rule": None}
    assert (await client.get(SILENCES)).json() == {"silences": [added.json()]}
    path = f"{SILENCES}/{added.json()['id']}"
    assert (await client.delete(path)).status_code == 204
    assert (await client.delete(path)).status_code == 404


async def test_a_silence_may_last_from_now_on(client: httpx.AsyncClient) -> None:
    silence = (await client.post(SILENCES, json={"for_s": 3600})).json()
    assert silence["to_ms"] - silence["from_ms"] == 3_600_000
    assert silence["group"] == "*"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"to_ms": 5}, "/to_ms"),
        ({"from_ms": FAR, "to_ms": 2 * FAR}, "/to_ms"),
        ({"from_ms": FAR, "to_ms": FAR + 1, "rule": 99}, "/rule"),
        ({}, "/to_ms"),
        ({"to_ms": FAR, "for_s": 60}, "/to_ms"),
        ({"for_s": 0}, "/for_s"),
    ],
)
async def test_a_silence_that_cannot_be_is_refused(
    client: httpx.AsyncClient, body: dict[str, int], pointer: str
) -> None:
    answer = await client.post(SILENCES, json=body)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, pointer)
