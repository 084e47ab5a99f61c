"""Receive over HTTP, with a real engine behind the port."""

import json
import zlib
from typing import Any

import httpx
import pytest

from api.http.answer_memory import AnswerMemory
from api.http.application import HttpApplication
from api.resources import receives
from api.routing import ROUTES, http_application
from bridge.port import UnavailableError, commands
from broker_core.formats.message_properties import encode
from tests.api.asgi_client import AsgiRequest
from tests.fakes.engine import Bench
from tests.fakes.fake_group import until
from tests.fakes.fake_port import FakePort
from tests.fakes.receiving import RECEIPT, TOPIC, engine_behind, post, receive

JSON = {"content-type": "application/json"}


@pytest.fixture
def bench(port: FakePort) -> Bench:
    return engine_behind(port)


async def test_a_received_message_is_hidden_until_it_is_acknowledged(client: httpx.AsyncClient, bench: Bench) -> None:
    bench.send("orders", b"a", b"b", b"c")
    answer = await post(client, "receive", n=2, lease_ms=5000, wait_ms=0)
    assert (answer["broker"], answer["status"], answer["rest"], answer["hold"]) == ("broker-a", "found", 1, None)
    assert answer["lease_ends_ms"] == bench.clock.now().wall_ms + 5000
    first, second = answer["messages"]
    assert (first["body"], first["queue_offset"], first["reconsume_times"]) == ("a", 0, 0)
    assert [message["body"] for message in await receive(client)] == ["c"]
    assert await receive(client) == []
    acked = await post(client, "ack", receipts=[first["receipt"]])
    assert acked == {"outcomes": [{"receipt": first["receipt"], "outcome": "acknowledged"}]}
    bench.tick(5100)
    (again,) = await receive(client)
    assert (again["body"], again["reconsume_times"], again["topic"]) == ("b", 1, "orders")
    assert again["message_id"] == second["message_id"] and again["receipt"] != second["receipt"]
    acked = await post(client, "ack", receipts=[again["receipt"]])
    assert acked["outcomes"][0]["outcome"] == "acknowledged" and bench.context.check_points.messages == 1
    bench.tick(120_000)
    assert [message["body"] for message in await receive(client)] == ["c"]


async def test_a_queue_is_received_in_order_by_one_consumer(client: httpx.AsyncClient, bench: Bench) -> None:
    bench.send("orders", b"a", b"b", b"c")
    first, second = await receive(client, in_order=True, n=2, lease_ms=5000)
    assert await receive(client, in_order=True) == []
    await post(client, "ack", receipts=[first["receipt"]])
    await post(client, "lease", receipts=[second["receipt"]], lease_ms=20_000)
    bench.tick(10_000)
    assert await receive(client, in_order=True) == []
    bench.tick(11_000)
    again = await receive(client, in_order=True)
    assert [(message["body"], message["reconsume_times"]) for message in again] == [("b", 1), ("c", 0)]
    outcomes = (await post(client, "ack", receipts=[second["receipt"]]))["outcomes"]
    assert outcomes[0]["outcome"] == "late", "it was received again"
    await post(client, "ack", receipts=[message["receipt"] for message in again])
    assert bench.context.offsets.query("g", "orders", 0) == 3


async def test_nothing_to_receive_is_no_error(client: httpx.AsyncClient, bench: Bench) -> None:
    bench.call(commands.UpdateAndCreateTopic(topic="orders"))
    answer = await post(client, "receive", wait_ms=0)
    assert (answer["status"], answer["messages"], answer["lease_ends_ms"], answer["rest"]) == ("no_new", [], None, 0)


async def test_a_filter_passes_over_the_other_messages(client: httpx.AsyncClient, bench: Bench) -> None:
    bench.send("orders", b"a", properties=encode({"color": "red"}))
    bench.send("orders", b"b", properties=encode({"color": "blue"}))
    found = await receive(client, filter="color = 'blue'", filter_type="sql92")
    assert [message["body"] for message in found] == ["b"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"n": 33}, "/n"),
        ({"n": 0}, "/n"),
        ({"lease_ms": 999}, "/lease_ms"),
        ({"lease_ms": 12 * 3_600_000 + 1}, "/lease_ms"),
        ({"group": "a b"}, "/group"),
        ({"filter": "a=1 AND b=2"}, "/filter"),
        ({"filter_type": "groovy"}, "/filter_type"),
        ({"limit": 1}, "/limit"),
    ],
)
async def test_a_wrong_receive_is_refused(
    client: httpx.AsyncClient, bench: Bench, body: dict[str, Any], pointer: str
) -> None:
    bench.send("orders", b"a")
    answer = await client.post(f"{TOPIC}/receive", json={"group": "g", "wait_ms": 0} | body)
    assert answer.status_code == 400
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


@pytest.mark.parametrize("call", ["receive", "ack", "lease"])
async def test_a_topic_that_does_not_exist_is_404(client: httpx.AsyncClient, bench: Bench, call: str) -> None:
    more: dict[str, Any] = {"receive": {}, "ack": {"receipts": [RECEIPT]}}.get(
        call, {"receipts": [RECEIPT], "lease_ms": 0}
    )
    answer = await client.post(f"/api/v1/topics/nope/{call}", json={"group": "g"} | more)
    assert (answer.status_code, answer.json()["code"]) == (404, "TOPIC_NOT_EXIST")


async def test_a_receive_waits_and_reports_its_hold(bench: Bench, port: FakePort) -> None:
    bench.call(commands.UpdateAndCreateTopic(topic="orders"))
    body = json.dumps({"group": "g", "wait_ms": 99_999, "client_id": "web-1"}).encode()
    request = AsgiRequest(http_application, "POST", f"{TOPIC}/receive", body=body, headers=JSON)
    await port.until_held(1)
    (view,) = bench.engine.snapshot(bench.clock.now()).holds
    assert (view.queue_id, view.group, view.client_id, view.protocol) == (-1, "g", "web-1", "http")
    assert view.deadline_ms - view.suspended_at_ms == 30_000
    bench.send("orders", b"a")
    ((_, (answer,)),) = [(key, found) for key, found in bench.replies.items() if isinstance(found[-1], commands.Popped)]
    port.end(port.held[0], answer)
    received = (await request.done()).json()
    assert (received["messages"][0]["body"], received["effective_wait_ms"]) == ("a", 30_000)
    assert received["hold"]["wake_cause"] == "arrival"


async def test_a_client_that_goes_releases_its_hold(port: FakePort) -> None:
    body = json.dumps({"group": "g"}).encode()
    request = AsgiRequest(http_application, "POST", f"{TOPIC}/receive", body=body, headers=JSON)
    await port.until_held(1)
    request.disconnect()
    await port.until_held(0)
    await request.done()
    assert request.sent == [] and not port.connections[0].is_open


async def test_too_many_waiting_receives_are_429(client: httpx.AsyncClient, port: FakePort) -> None:
    full = commands.Popped(code=209, pop_time_ms=1, invisible_ms=1, revive_queue_id=0, rest=0, queues=[])
    port.replies[commands.PopMessage] = full
    answer = await client.post(f"{TOPIC}/receive", json={"group": "g"})
    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (429, "POLLING_FULL", "1")


async def test_what_does_not_fit_is_given_back_and_costs_no_attempt(
    client: httpx.AsyncClient, bench: Bench, port: FakePort, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compressed bodies may be small in the log and large in the answer."""
    monkeypatch.setattr(receives, "INFLATED_BYTES_MAX", 1000)
    message = commands.OutgoingMessage(body=zlib.compress(b"x" * 600), sys_flag=1, queue_id=0)
    bench.call(commands.SendMessage(topic="orders", messages=[message]))
    bench.call(commands.SendMessage(topic="orders", messages=[message]))
    answer = await post(client, "receive", n=2, wait_ms=0)
    assert (len(answer["messages"]), answer["rest"]) == (1, 1)
    await until(lambda: isinstance(port.commands[-1], commands.ChangeInvisibleTime))
    bench.tick(20)
    (again,) = await receive(client)
    assert (len(again["body"]), again["reconsume_times"]) == (600, 0)


async def test_without_room_for_the_answer_all_messages_are_given_back(bench: Bench) -> None:
    bench.send("orders", b"x" * 100_000)
    full = AnswerMemory(max_bytes=1)
    full.take(1)
    body = json.dumps({"group": "g"}).encode()
    request = AsgiRequest(HttpApplication(ROUTES, full), "POST", f"{TOPIC}/receive", body=body, headers=JSON)
    assert (await request.done()).status == 503
    bench.tick(20)
    assert bench.context.check_points.messages == 0
    request = AsgiRequest(http_application, "POST", f"{TOPIC}/receive", body=body, headers=JSON)
    (message,) = (await request.done()).json()["messages"]
    assert message["reconsume_times"] == 0


async def test_a_message_that_cannot_be_given_back_is_no_error(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.ChangeInvisibleTime] = UnavailableError("away")
    await receives.give_back(port, "orders", "g", [receives.ExtraInfo.decode(RECEIPT)])
    assert len(port.commands) == 1
