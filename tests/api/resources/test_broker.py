"""The broker and its options over HTTP."""

from typing import Any

import httpx
import msgspec
import pytest

from bridge.port import OPTION_DESCRIPTIONS, RequestError, commands
from tests.fakes.fake_port import BROKER, FakePort, broker_view


async def test_the_broker(client: httpx.AsyncClient) -> None:
    body = (await client.get("/api/v1/broker")).json()
    assert (body["broker"], body["role"], body["config"]["longPollingEnable"]) == (BROKER, "MASTER", True)
    assert body["positions"] == {"min": 0, "appended": 30, "flushed": 20, "dispatched": 30}
    assert "t" not in body


async def test_the_slaves_of_a_broker(client: httpx.AsyncClient, port: FakePort) -> None:
    slave = commands.SlaveView(
        address="10.0.0.12:50000", since_ms=5, slave_ack_offset=20, transferred=30, reported_ms=7, lag_bytes=10,
        in_sync=True, bytes_per_second=None,
    )  # fmt: skip
    refused = commands.RefusedSlave(address="10.0.0.9:1", reason="its log ends at 99", at_ms=8)
    replication = msgspec.structs.replace(
        broker_view().replication, ha_listen_port=10912, slaves=[slave], refused=1, last_refused=refused
    )
    port.replies[commands.GetBroker] = broker_view(replication=replication)
    body = (await client.get("/api/v1/broker?int64=string")).json()["replication"]
    assert body["slaves"] == [
        {
            "address": "10.0.0.12:50000",
            "since_ms": "5",
            "slave_ack_offset": "20",
            "transferred": "30",
            "reported_ms": "7",
            "lag_bytes": "10",
            "in_sync": True,
            "bytes_per_second": None,
        }
    ]
    assert body["last_refused"] == {"address": "10.0.0.9:1", "reason": "its log ends at 99", "at_ms": "8"}
    assert (body["ha_listen_port"], body["refused"]) == (10912, 1)


async def test_every_option_is_described(client: httpx.AsyncClient) -> None:
    body = (await client.get("/api/v1/broker/config")).json()
    options = {option["name"]: option for option in body["options"]}
    assert set(options) == set(OPTION_DESCRIPTIONS)
    long_polling = options["longPollingEnable"]
    assert (long_polling["type"], long_polling["default"], long_polling["value"], long_polling["changeable"]) == (
        "boolean",
        True,
        True,
        True,
    )
    assert not options["brokerName"]["changeable"]
    assert all(option["description"] and option["type"] for option in body["options"])
    assert body["config"]["brokerName"] == BROKER


async def test_change(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.UpdateBrokerConfig] = broker_view(config={"longPollingEnable": False})
    answer = await client.patch("/api/v1/broker/config", json={"longPollingEnable": False})
    assert (answer.status_code, answer.json()["config"]) == (200, {"longPollingEnable": False})
    assert port.commands == [commands.UpdateBrokerConfig(changes={"longPollingEnable": False})]


@pytest.mark.parametrize("changes", [{}, {"noSuchOption": 1}, [], "longPollingEnable"])
async def test_changes_that_cannot_be_made_are_refused(client: httpx.AsyncClient, port: FakePort, changes: Any) -> None:
    assert (await client.patch("/api/v1/broker/config", json=changes)).status_code == 400
    assert port.commands == []


@pytest.mark.parametrize(
    "changes",
    [
        {"longPollingEnable": "maybe"},
        {"longPollingEnable": 1},
        {"shortPollingTimeMills": 0},
        {"shortPollingTimeMills": "1000"},
        {"deleteWhen": "noon"},
        {"flushDiskType": "LATER"},
    ],
)
async def test_a_value_that_an_option_does_not_take(
    client: httpx.AsyncClient, port: FakePort, changes: dict[str, Any]
) -> None:
    answer = await client.patch("/api/v1/broker/config", json=changes)
    assert (answer.status_code, port.commands) == (400, [])
    assert answer.json()["errors"][0]["pointer"] == f"/{next(iter(changes))}"


async def test_options_that_cannot_be_changed_while_the_broker_runs(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.UpdateBrokerConfig] = RequestError("set it in broker.conf", pointer="/brokerName")
    answer = await client.patch("/api/v1/broker/config", json={"brokerName": "b"})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "/brokerName")


async def test_a_snapshot(client: httpx.AsyncClient, port: FakePort) -> None:
    body = (await client.get("/api/v1/snapshot?max_holds=1&max_queues=2")).json()
    assert port.commands == [commands.GetSnapshot(max_holds=1, max_queues=2)]
    assert (body["seq"], len(body["holds"]), body["counters"]["messages_stored"]) == (41, 2, 9)
    text = (await client.get("/api/v1/snapshot?int64=string")).json()
    assert (text["seq"], text["counters"]["messages_stored"], text["holds_total"]) == ("41", "9", 2)
