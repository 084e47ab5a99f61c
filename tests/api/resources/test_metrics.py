"""The metrics page."""

import httpx

from bridge.port import PortUnavailable, commands, set_ports
from tests.fakes.fake_port import FakePort, snapshot
from tests.fakes.metrics_page import A, scraped


async def test_counters_gauges_and_histograms(client: httpx.AsyncClient) -> None:
    values = await scraped(client)
    assert values["glassmq_up", A] == 1
    assert values["glassmq_messages_stored_total", A] == 9
    assert values["glassmq_pulls_woken_total", (*A, ("cause", "arrival"))] == 4
    assert values["glassmq_held_pulls", A] == 2
    assert values["glassmq_queue_max_offset", (*A, ("queue_id", "0"), ("topic", "T"))] == 5
    assert values["glassmq_broker_info", (("broker", "broker-a"), ("epoch", "7"))] == 1
    assert values["glassmq_commit_log_offset_bytes", (*A, ("position", "flushed"))] == 20
    assert values["glassmq_accepts_messages", A] == 1
    assert (
        values["glassmq_connections", A],
        values["glassmq_consumer_groups", A],
        values["glassmq_consumer_group_members", A],
    ) == (5, 3, 4)
    assert values["glassmq_web_tasks", ()] >= 1
    assert not any("_now" in name for name, _ in values)


async def test_histograms_are_cumulative_and_in_seconds(client: httpx.AsyncClient) -> None:
    values = await scraped(client)
    wakeups = {
        dict(labels)["le"]: value for (name, labels), value in values.items() if name == "glassmq_wakeup_seconds_bucket"
    }
    assert wakeups == {"1e-05": 1, "0.0001": 3, "+Inf": 6}


async def test_a_broker_with_a_problem(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.GetSnapshot] = snapshot(problem="the disk is full")
    assert (await scraped(client))["glassmq_accepts_messages", A] == 0


async def test_without_an_engine(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.GetSnapshot] = PortUnavailable("away")
    values = await scraped(client)
    assert values["glassmq_up", A] == 0
    assert ("glassmq_held_pulls", A) not in values


async def test_several_brokers_in_one_page(client: httpx.AsyncClient, port: FakePort) -> None:
    other, away = FakePort(), FakePort()
    other.replies[commands.GetSnapshot] = snapshot(broker="broker-b", holds_total=7)
    away.replies[commands.GetSnapshot] = PortUnavailable("away")
    set_ports({"broker-a": port, "broker-b": other, "broker-c": away})
    values = await scraped(client)
    up = {dict(labels)["broker"]: value for (name, labels), value in values.items() if name == "glassmq_up"}
    held = {dict(labels)["broker"]: value for (name, labels), value in values.items() if name == "glassmq_held_pulls"}
    assert (up, held) == ({"broker-a": 1, "broker-b": 1, "broker-c": 0}, {"broker-a": 2, "broker-b": 7})
