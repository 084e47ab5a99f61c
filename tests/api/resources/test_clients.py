"""Clients over HTTP."""

from typing import Any

import httpx
import pytest

from bridge.port import UnavailableError, commands, set_ports
from tests.fakes.fake_port import BROKER, FakePort, client_view


def clients(*views: commands.ClientView) -> commands.Clients:
    return commands.Clients(seq=5, total=len(views) + 1, clients=list(views))


async def test_clients_are_listed(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.GetClients] = clients(
        client_view("java-1", consumer_groups=["G"]),
        client_view("web-1", protocol="websocket", language="HTTP", version=0, last_heartbeat_ms=None),
    )
    body = (await client.get("/api/v1/clients")).json()
    assert (body["seq"], body["total"]) == (5, 3)
    assert body["clients"][0] == {
        "broker": BROKER,
        "client_id": "java-1",
        "protocol": "remoting",
        "remote": "10.0.0.7:50001",
        "language": "JAVA",
        "version": "5.4.0",
        "connected_at_ms": 1_700_000_000_000,
        "last_heartbeat_ms": 1_700_000_030_000,
        "producer_groups": [],
        "consumer_groups": ["G"],
        "holds": 2,
    }
    assert (body["clients"][1]["version"], body["clients"][1]["last_heartbeat_ms"]) == ("", None)
    assert port.commands[-1] == commands.GetClients(limit=1000)


async def test_those_of_a_group(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.GetClients] = clients()
    await client.get("/api/v1/clients?group=G&limit=5")
    assert port.commands[-1] == commands.GetClients(group="G", limit=5)


@pytest.mark.parametrize("query", ["limit=0", "limit=5001", "group=a%20b"])
async def test_bad_parameters_are_refused(client: httpx.AsyncClient, query: str) -> None:
    assert (await client.get(f"/api/v1/clients?{query}")).status_code == 400


async def test_a_client_is_found_by_an_id_with_any_characters(client: httpx.AsyncClient, port: FakePort) -> None:
    name = "10.0.0.2@23932#280/x y"
    port.replies[commands.GetClients] = clients(
        client_view("other"),
        client_view(name, connected_at_ms=1, holds=1),
        client_view(name, connected_at_ms=2, holds=7),
    )
    answer = await client.get("/api/v1/clients/10.0.0.2%4023932%23280%2Fx%20y")
    assert (answer.json()["client_id"], answer.json()["holds"]) == (name, 7)
    assert port.commands[-1] == commands.GetClients(client_id=name, limit=5000)
    answer = await client.get("/api/v1/clients/nobody")
    assert (answer.status_code, answer.json()["code"]) == (404, "QUERY_NOT_FOUND")


async def test_clients_of_several_brokers(client: httpx.AsyncClient, port: FakePort) -> None:
    other = FakePort()
    set_ports({"broker-a": port, "broker-b": other})
    port.replies[commands.GetClients] = clients(client_view("java-1"))
    other.replies[commands.GetClients] = clients(client_view("java-1", broker="broker-b"))

    async def names(query: str = "") -> Any:
        body = (await client.get("/api/v1/clients" + query)).json()
        return [entry["broker"] for entry in body["clients"]], body["total"], body.get("unavailable")

    assert await names() == (["broker-a", "broker-b"], 4, None)
    assert await names("?broker=broker-b") == (["broker-b"], 2, None)
    other.replies[commands.GetClients] = UnavailableError("away")
    assert await names() == (["broker-a"], 2, ["broker-b"])
