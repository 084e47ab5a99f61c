"""Followed brokers over HTTP."""

from collections.abc import Iterator

import httpx
import pytest

from bridge.port import NotFoundError, PortUnavailable, commands, set_ports
from tests.fakes.fake_port import FakePort

VIEW = commands.Attached(
    broker="broker-a",
    cluster="C",
    source="10.0.0.1:10911",
    state="following",
    since_ms=5,
    min=0,
    min_ms=1_700_000_000_000,
    received=1 << 60,
    confirmed=90,
    confirmed_ms=7,
    lag_bytes=10,
    lag_ms=None,
    bytes_per_second=1,
    tables_ms=6,
    members_ms=None,
    problem="",
    unindexed=0,
)


@pytest.fixture
def ports() -> Iterator[dict[str, FakePort]]:
    found = {name: FakePort() for name in ("broker-a", "broker-b", "broker-c")}
    found["broker-a"].replies[commands.GetAttached] = VIEW
    found["broker-b"].replies[commands.GetAttached] = NotFoundError("it follows none")
    found["broker-c"].replies[commands.GetAttached] = PortUnavailable("away")
    set_ports(found)
    yield found
    set_ports({})


async def test_followed_brokers_are_listed(client: httpx.AsyncClient, ports: dict[str, FakePort]) -> None:
    answer = await client.get("/api/v1/attached")
    assert answer.status_code == 200 and answer.json()["unavailable"] == ["broker-c"]
    (broker,) = answer.json()["brokers"]
    assert (broker["broker"], broker["state"], broker["lag_bytes"], broker["lag_ms"]) == (
        "broker-a",
        "following",
        10,
        None,
    )
    assert {"source", "received", "confirmed", "problem"} < set(broker)
    texts = (await client.get("/api/v1/attached?int64=string")).json()["brokers"][0]
    assert (texts["received"], texts["members_ms"]) == (str(1 << 60), None)


async def test_a_broker_with_a_store_of_its_own_is_not_in_the_list(
    client: httpx.AsyncClient, ports: dict[str, FakePort]
) -> None:
    assert (await client.get("/api/v1/attached?broker=broker-b")).json() == {"brokers": []}
    assert (await client.get("/api/v1/attached?broker=none")).status_code == 404


async def test_a_refusal_of_a_copy_is_a_503(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.UpdateAndCreateTopic] = commands.Failed(
        code=1, kind="unavailable", remark="Can't modify topic or subscription group from slave broker"
    )
    answer = await client.put("/api/v1/topics/new", json={})
    assert answer.status_code == 503 and "from slave broker" in answer.text
