"""Receipts over HTTP: acknowledged or with another lease, each with an outcome of its own."""

import httpx
import pytest

from bridge.port import PortUnavailable, commands, set_ports
from tests.fakes.engine import Bench
from tests.fakes.fake_port import FakePort
from tests.fakes.receiving import RECEIPT, TOPIC, engine_behind, post, receive


@pytest.fixture
def bench(port: FakePort) -> Bench:
    return engine_behind(port)


async def test_each_receipt_has_its_own_outcome(client: httpx.AsyncClient, bench: Bench) -> None:
    bench.send("orders", b"a", b"b", b"c")
    a, b, c = [message["receipt"] for message in await receive(client, n=3)]
    await post(client, "ack", receipts=[b])
    words = a.split(" ")
    foreign = " ".join([*words[:5], "broker-b", *words[6:]])
    beyond = " ".join([*words[:7], "77"])
    acked = await post(client, "ack", receipts=[a, b, "nonsense", foreign, beyond, c, a])
    assert [outcome["outcome"] for outcome in acked["outcomes"]] == [
        "acknowledged",
        "late",
        "refused",
        "refused",
        "refused",
        "acknowledged",
        "acknowledged",
    ]
    assert "send it exactly as it was received" in acked["outcomes"][2]["detail"]
    assert "broker-b" in acked["outcomes"][3]["detail"] and "77" in acked["outcomes"][4]["detail"]
    assert bench.context.check_points.messages == 0


async def test_another_group_acknowledges_nothing(client: httpx.AsyncClient, bench: Bench) -> None:
    bench.send("orders", b"a")
    (message,) = await receive(client)
    acked = await post(client, "ack", group="other", receipts=[message["receipt"]])
    assert acked["outcomes"][0]["outcome"] == "late" and bench.context.check_points.messages == 1


async def test_a_lease_is_prolonged_and_its_receipt_replaced(client: httpx.AsyncClient, bench: Bench) -> None:
    bench.send("orders", b"a", b"b")
    a, b = [message["receipt"] for message in await receive(client, lease_ms=5000)]
    (changed,) = (await post(client, "lease", receipts=[a], lease_ms=60_000))["outcomes"]
    assert (changed["receipt"], changed["outcome"]) == (a, "changed")
    bench.tick(6000)
    assert [message["body"] for message in await receive(client)] == ["b"]
    outcomes = (await post(client, "ack", receipts=[a, b, changed["new_receipt"]]))["outcomes"]
    assert [outcome["outcome"] for outcome in outcomes] == ["late", "late", "acknowledged"]
    (late,) = (await post(client, "lease", receipts=[a], lease_ms=1000))["outcomes"]
    assert late["outcome"] == "late" and "new_receipt" not in late


async def test_a_lease_of_0_gives_a_message_back(client: httpx.AsyncClient, bench: Bench) -> None:
    bench.send("orders", b"a")
    (message,) = await receive(client)
    (changed,) = (await post(client, "lease", receipts=[message["receipt"]], lease_ms=0))["outcomes"]
    assert changed == {"receipt": message["receipt"], "outcome": "changed"}
    bench.tick(20)
    (again,) = await receive(client)
    assert (again["body"], again["reconsume_times"]) == ("a", 1)
    (changed,) = (await post(client, "lease", receipts=[again["receipt"]], lease_ms=9000))["outcomes"]
    (acked,) = (await post(client, "ack", receipts=[changed["new_receipt"]]))["outcomes"]
    assert acked["outcome"] == "acknowledged"


@pytest.mark.parametrize("receipts", [[], ["x"] * 257, ["x" * 513]])
async def test_receipts_are_limited(client: httpx.AsyncClient, bench: Bench, receipts: list[str]) -> None:
    answer = await client.post(f"{TOPIC}/ack", json={"group": "g", "receipts": receipts})
    assert answer.status_code == 400 and answer.json()["errors"][0]["pointer"].startswith("/receipts")


async def test_a_broker_without_the_topic_hides_no_other_outcome(client: httpx.AsyncClient, port: FakePort) -> None:
    bench, other = engine_behind(port), FakePort()
    engine_behind(other)
    bench.send("orders", b"a", b"b")
    mine, leased = [message["receipt"] for message in await receive(client)]
    set_ports({"broker-a": port, "broker-b": other})
    theirs = RECEIPT.replace("broker-a", "broker-b")
    acked = await post(client, "ack", receipts=[mine, theirs])
    assert [outcome["outcome"] for outcome in acked["outcomes"]] == ["acknowledged", "refused"]
    assert "topic orders does not exist" in acked["outcomes"][1]["detail"]
    changed = await post(client, "lease", receipts=[leased, theirs], lease_ms=9000)
    assert [outcome["outcome"] for outcome in changed["outcomes"]] == ["changed", "refused"]
    answer = await client.post(f"{TOPIC}/ack", json={"group": "g", "receipts": [theirs]})
    assert (answer.status_code, answer.json()["code"]) == (404, "TOPIC_NOT_EXIST")


async def test_an_engine_that_is_away_fails_all_or_one_receipt(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.AckMessage] = PortUnavailable("away")
    answer = await client.post(f"{TOPIC}/ack", json={"group": "g", "receipts": [RECEIPT]})
    assert answer.status_code == 503
    acked = await post(client, "ack", receipts=[RECEIPT, "nonsense"])
    assert [outcome["outcome"] for outcome in acked["outcomes"]] == ["failed", "refused"]
