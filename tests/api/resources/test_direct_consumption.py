"""A client consumes a message because an operator asks for it."""

from typing import Any

import httpx
import pytest

from bridge.port import commands
from tests.fakes.fake_port import FakePort

PATH = "/api/v1/messages/M1/consume-directly?topic=orders"
BODY = {"group": "billing", "client_id": "10.0.4.17@8812"}


async def test_the_result_is_shown(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.ConsumeMessageDirectly] = commands.ConsumedDirectly(
        result="CR_THROW_EXCEPTION", remark="java.lang.X: no", spent_ms=12, order=True
    )
    answer = await client.post(PATH, json=BODY | {"timeout_ms": 2000})
    assert answer.status_code == 200
    assert answer.json() == {
        "broker": "broker-a",
        "group": "billing",
        "client_id": "10.0.4.17@8812",
        "message_id": "M1",
        "result": "CR_THROW_EXCEPTION",
        "remark": "java.lang.X: no",
        "spent_ms": 12,
        "order": True,
    }
    asked = next(sent for sent in port.commands if isinstance(sent, commands.ConsumeMessageDirectly))
    assert (asked.topic, asked.timeout_ms, asked.client_id) == ("orders", 2000, "10.0.4.17@8812")


@pytest.mark.parametrize(
    ("failed", "status", "pointer"),
    [
        (commands.Failed(code=207, kind="unavailable", remark="did not answer within 10 s"), 504, None),
        (
            commands.Failed(code=206, kind="not_found", remark="is not a member", pointer="/client_id"),
            404,
            "/client_id",
        ),
        (commands.Failed(code=22, kind="not_found", remark="no message", pointer="/message_id"), 404, "/id"),
        (commands.Failed(code=1, kind="conflict", remark="too old", pointer="/client_id"), 409, "/client_id"),
    ],
)
async def test_refusals(
    client: httpx.AsyncClient, port: FakePort, failed: commands.Failed, status: int, pointer: str | None
) -> None:
    port.replies[commands.ConsumeMessageDirectly] = failed
    answer = await client.post(PATH, json=BODY)
    assert answer.status_code == status and failed.remark in answer.json()["detail"]
    assert [error["pointer"] for error in answer.json()["errors"]] == ([pointer] if pointer else [])


@pytest.mark.parametrize(
    "body", [{}, BODY | {"client_id": ""}, BODY | {"timeout_ms": 999}, BODY | {"timeout_ms": 60_001}, BODY | {"x": 1}]
)
async def test_bad_questions(client: httpx.AsyncClient, body: dict[str, Any]) -> None:
    assert (await client.post(PATH, json=body)).status_code == 400
