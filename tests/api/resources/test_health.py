"""Whether it lives, whether it takes messages."""

import httpx
import pytest

from bridge.port import PortTimeout, PortUnavailable, commands, set_port
from tests.fakes.fake_port import FakePort, broker_view


async def test_livez_is_200_without_an_engine(client: httpx.AsyncClient) -> None:
    set_port(None)
    answer = await client.get("/livez")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_ready(client: httpx.AsyncClient) -> None:
    assert (await client.get("/readyz")).json() == {"status": "ok"}


async def test_a_store_that_is_open_read_only_is_ready_for_reading(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.GetBroker] = broker_view(read_only=True, problem="the store is open read-only")
    answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "mode": "read-only"})


@pytest.mark.parametrize(
    "reply",
    [
        broker_view(problem="the disk is full"),
        PortUnavailable("away"),
        PortTimeout("no answer"),
    ],
)
async def test_not_ready(client: httpx.AsyncClient, port: FakePort, reply: object) -> None:
    port.replies[commands.GetBroker] = reply
    answer = await client.get("/readyz")
    assert (answer.status_code, "retry-after" in answer.headers, "answered_ms" in answer.json()) == (503, True, False)


@pytest.mark.parametrize("error", [PortUnavailable("away"), PortTimeout("no answer")])
async def test_an_outage_says_when_the_engine_answered_last(
    client: httpx.AsyncClient, port: FakePort, error: Exception
) -> None:
    port.replies[commands.GetBroker] = error
    port.answered_ms = 1_700_000_000_000
    assert (await client.get("/readyz")).json()["answered_ms"] == 1_700_000_000_000
