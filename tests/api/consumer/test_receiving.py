"""Receive, acknowledge and lease over one WebSocket, with a real engine behind the port."""

import zlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from api.consumer import socket as consumer_socket
from api.http.limits import MAX_BUFFERED
from api.resources import receives
from bridge.port import commands
from tests.api.consumer_client import Client, connected
from tests.fakes.engine import Bench
from tests.fakes.fake_port import FakePort
from tests.fakes.receiving import engine_behind

RECEIVE = {"type": "receive", "topic": "orders", "group": "g", "wait_ms": 0}


@pytest.fixture
def bench(port: FakePort) -> Bench:
    bench = engine_behind(port)
    bench.call(commands.UpdateAndCreateTopic(topic="orders"))
    return bench


@pytest.fixture
async def client(bench: Bench) -> AsyncIterator[Client]:
    async with connected() as client:
        yield client


async def settle(client: Client, kind: str, *receipts: str, **more: Any) -> list[Any]:
    await client.send(type=kind, id="x", topic="orders", group="g", receipts=list(receipts), **more)
    outcomes: list[Any] = (await client.receive("acknowledged" if kind == "acknowledge" else "leased"))["outcomes"]
    return outcomes


async def test_receive_prolong_acknowledge(client: Client, bench: Bench) -> None:
    bench.send("orders", b"a", b"b")
    await client.send(**RECEIVE, id=1, n=5, lease_ms=5000)
    answer = await client.receive("received")
    assert (answer["id"], answer["status"], answer["rest"]) == (1, "found", 0)
    first, second = answer["messages"]
    (changed,) = await settle(client, "lease", first["receipt"], lease_ms=60_000)
    assert (changed["outcome"], changed["receipt"]) == ("changed", first["receipt"])
    acked = await settle(client, "acknowledge", first["receipt"], second["receipt"], changed["new_receipt"], "nonsense")
    assert [outcome["outcome"] for outcome in acked] == ["late", "acknowledged", "acknowledged", "refused"]
    assert bench.context.check_points.messages == 0


async def test_a_held_receive_is_reported_and_cancelled(client: Client, port: FakePort) -> None:
    await client.send(**RECEIVE | {"wait_ms": 99_999}, id=1)
    assert (await client.receive("held"))["id"] == 1
    command = port.held[0].command
    assert (command.poll_ms, command.client_id, command.protocol) == (30_000, "web-1", "websocket")
    await client.send(**RECEIVE, id=1)
    assert (await client.receive("problem"))["status"] == 409
    await client.send(type="cancel", id=1)
    assert await client.receive() == {"type": "cancelled", "id": 1}


async def test_a_socket_that_closes_releases_its_receives(bench: Bench, port: FakePort) -> None:
    async with connected() as client:
        await client.send(**RECEIVE | {"wait_ms": 5000}, id=1)
        await client.receive("held")
    await port.until_held(0)


async def test_receives_of_one_socket_are_limited(
    client: Client, port: FakePort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_socket, "MAX_RECEIVES_PER_SOCKET", 1)
    await client.send(**RECEIVE | {"wait_ms": 5000}, id=1)
    await client.receive("held")
    await client.send(**RECEIVE, id=2)
    assert (await client.receive("problem"))["code"] == "FLOW_CONTROL"
    await client.send(type="cancel", id=1)
    await client.receive("cancelled")
    await client.send(**RECEIVE, id=2)
    assert (await client.receive("received"))["status"] == "no_new"


async def test_what_does_not_fit_into_the_frame_is_given_back(
    client: Client, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receives, "MAX_PULLED_BODIES", 1000)
    for _ in range(2):
        message = commands.OutgoingMessage(body=zlib.compress(b"x" * 600), sys_flag=1, queue_id=0)
        bench.call(commands.SendMessage(topic="orders", messages=[message]))
    await client.send(**RECEIVE, id=1, n=2)
    answer = await client.receive("received")
    assert (len(answer["messages"]), answer["rest"]) == (1, 1)
    await client.quiet()
    bench.tick(20)
    await client.send(**RECEIVE, id=1, n=2)
    (message,) = (await client.receive("received"))["messages"]
    assert message["reconsume_times"] == 0


async def test_an_answer_that_waits_when_the_socket_closes_is_given_back(bench: Bench) -> None:
    bench.send("orders", b"a")
    async with connected() as client:
        (socket,) = consumer_socket.ConsumerSocket.live
        async with socket.outbox.turn():
            await client.send(**RECEIVE, id=1)
            await client.quiet()
            assert bench.context.check_points.messages == 1
            await client.disconnect()
            await socket.finished.wait()
    async with connected() as client:
        await client.quiet()
        bench.tick(20)
        await client.send(**RECEIVE, id=1)
        (message,) = (await client.receive("received"))["messages"]
    assert (message["body"], message["reconsume_times"]) == ("a", 0)


async def test_answers_that_find_no_room_are_given_back_and_popped_in_their_turn(client: Client, bench: Bench) -> None:
    bench.send("orders", b"a")
    (socket,) = consumer_socket.ConsumerSocket.live
    assert socket.buffer.take(MAX_BUFFERED)
    async with socket.outbox.turn():
        await client.send(**RECEIVE, id=1)
        await client.quiet()
        bench.tick(20)
        assert bench.context.check_points.messages == 0
    (message,) = (await client.receive("received"))["messages"]
    assert (message["body"], message["reconsume_times"]) == ("a", 0)


async def test_too_many_waiting_receives(client: Client, port: FakePort) -> None:
    full = commands.Popped(code=209, pop_time_ms=1, invisible_ms=1, revive_queue_id=0, rest=0, queues=[])
    port.replies[commands.PopMessage] = full
    await client.send(**RECEIVE, id=1)
    problem = await client.receive("problem")
    assert (problem["id"], problem["status"], problem["code"]) == (1, 429, "POLLING_FULL")


@pytest.mark.parametrize("wrong", [{"n": 0}, {"n": 33}, {"lease_ms": 0}, {"group": ""}, {"queue_id": 1}])
async def test_a_wrong_receive_is_a_problem(client: Client, wrong: dict[str, Any]) -> None:
    await client.send(**RECEIVE | wrong, id=1)
    assert (await client.receive("problem"))["errors"][0]["pointer"] == f"/{next(iter(wrong))}"
