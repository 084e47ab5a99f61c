"""Both sides of the bridge over the layers: the same behaviour in memory and over a real Redis."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from channels_redis.core import RedisChannelLayer

from bridge.channel_port import ChannelPort, engine_channel
from bridge.engine_worker import EngineWorker
from bridge.port import PortUnavailable
from broker_core.commands import Done, GetBroker, GetHolds, Held, Holds, OpenConnection, Pulled, Reply, Sent
from tests.bridge.conftest import BROKER, in_memory_layer, new_host, pull, redis_layer, send, until
from tests.fakes.engine import context_of
from tests.fakes.fake_engine import QUICK, NotingWatcher
from tests.fakes.redis_server import RedisServer


class Place:
    """One engine and as many web processes as a test wants, on one kind of layer."""

    def __init__(self, folder: Path, server: RedisServer | None, limits: Any = QUICK) -> None:
        self.server = server
        self.host = new_host(folder / "store", limits)
        self.limits = limits
        self._memory = in_memory_layer()
        self.layers: list[Any] = []
        self.ports: list[ChannelPort] = []
        self.worker = EngineWorker(self.host, self.layer(), BROKER)

    def layer(self, capacity: int = 1000) -> Any:
        """A layer as one process has it: with Redis its own, in memory the only one."""
        if self.server is None:
            return self._memory
        self.layers.append(redis_layer(self.server, capacity))
        return self.layers[-1]

    async def web(self, limits: Any = None) -> ChannelPort:
        port = ChannelPort(self.layer(), BROKER, limits=limits or self.limits)
        await port.start()
        self.ports.append(port)
        return port

    async def start(self) -> None:
        await self.host.start()
        self.worker.start()

    async def stop(self) -> None:
        await self.worker.stop()
        await self.host.stop()
        for port in self.ports:
            await port.stop()
        for layer in self.layers:
            await layer.close_pools()


@pytest.fixture(params=["memory", "redis"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    server = request.getfixturevalue("redis_server") if request.param == "redis" else None
    place = Place(tmp_path, server)
    await place.start()
    yield place
    await place.stop()


@pytest.fixture
async def redis_place(redis_server: RedisServer, tmp_path: Path) -> AsyncIterator[Place]:
    place = Place(tmp_path, redis_server)
    await place.start()
    yield place
    await place.stop()


async def holds(port: ChannelPort) -> int:
    reply = await port.call(GetHolds())
    assert isinstance(reply, Holds)
    return reply.total


async def held(port: ChannelPort, **more: Any) -> "asyncio.Task[Reply]":
    """A pull, on a connection of its own, that is in the pullRequestTable now."""
    reported: asyncio.Future[Held] = asyncio.get_running_loop().create_future()
    call = asyncio.create_task(port.connection().call(pull(1, report_hold=True, **more), on_held=reported.set_result))
    await reported
    return call


@pytest.mark.parametrize("name", ["broker-a", "broker_b.c", "a|b", "%", "x" * 127])
def test_every_broker_has_a_valid_channel_name(name: str) -> None:
    assert in_memory_layer().require_valid_channel_name(engine_channel(name))


def test_brokers_do_not_share_a_channel() -> None:
    names = ["broker-a", "broker-b", "a|b", "a%b", "x" * 126, "x" * 127]
    assert len({engine_channel(name) for name in names}) == len(names)


async def test_a_held_pull_is_woken_by_another_web_process(place: Place) -> None:
    puller, sender = await place.web(), await place.web()
    assert isinstance(await sender.call(send()), Sent)
    call = await held(puller)
    assert await holds(sender) == 1
    await sender.call(send(b"more"))
    pulled = await call
    assert isinstance(pulled, Pulled)
    assert b"more" in pulled.records
    assert pulled.hold is not None
    assert pulled.hold.wake_cause == "arrival"


async def test_each_of_many_calls_from_two_web_processes_gets_its_own_answer(place: Place) -> None:
    first, second = await place.web(), await place.web()
    sent = await asyncio.gather(
        *(port.call(send(str(number).encode())) for number in range(200) for port in (first, second))
    )
    offsets = {reply.messages[0].queue_offset for reply in sent if isinstance(reply, Sent)}
    assert offsets == set(range(400))


async def test_a_cancelled_caller_releases_its_hold(place: Place) -> None:
    port = await place.web()
    await port.call(send())
    call = await held(port)
    assert await holds(port) == 1
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await holds(port) == 0


async def test_a_connection_that_closes_releases_its_holds(place: Place) -> None:
    port = await place.web()
    await port.call(send())
    connection = port.connection()
    await connection.call(OpenConnection(client_id="c1", protocol="websocket"))
    calls = [asyncio.create_task(connection.call(pull(1))) for _ in range(3)]
    while await holds(port) < 3:
        await asyncio.sleep(0)
    connection.close()
    for call in calls:
        with pytest.raises(PortUnavailable):
            await call
    assert await holds(port) == 0


async def test_a_web_process_that_stops_leaves_no_hold(place: Place) -> None:
    port, other = await place.web(), await place.web()
    await other.call(send())
    call = await held(port)
    assert await holds(other) == 1
    await port.stop()
    with pytest.raises(PortUnavailable):
        await call
    while await holds(other):
        await asyncio.sleep(0)


async def test_watchers_get_deltas_and_are_told_of_a_restart(place: Place) -> None:
    port = await place.web()
    watcher = NotingWatcher()
    port.watch(watcher, deltas=True, events=True)
    async with asyncio.timeout(60):  # the next heartbeat asks for deltas and events; what was sent before has none
        while not (watcher.events and any(delta.queues for delta in watcher.deltas)):
            await port.call(send())
            await asyncio.sleep(QUICK.alive_ms / 1000)
    lost_before = len(watcher.lost)
    context_of(place.host.runner.engine).epoch += 1
    await watcher.until(lambda: len(watcher.lost) > lost_before)


async def test_a_full_layer_refuses_calls_and_loses_none(place: Place) -> None:
    """The engine does not read while the channel fills; what was taken is answered, the rest refused at once."""
    await place.worker.stop()
    slow = msgspec.structs.replace(QUICK, batch_count=1, start_wait_ms=1, engine_silence_ms=60_000)
    port = ChannelPort(place.layer(20) if place.server else in_memory_layer(20), BROKER, limits=slow)
    if place.server is None:
        place.worker = EngineWorker(place.host, port._transport._layer, BROKER)  # type: ignore[attr-defined]
    else:
        place.worker = EngineWorker(place.host, place.layer(), BROKER)
    place.ports.append(port)
    port._away_reason = ""
    await port._transport.start(port._on_message, port._lost)
    calls = [asyncio.create_task(port.call(send(str(number).encode()))) for number in range(50)]
    await until(lambda: sum(call.done() for call in calls) == 30)
    refused = [call for call in calls if call.done()]
    assert all(isinstance(call.exception(), PortUnavailable) for call in refused)
    place.worker.start()
    answered = await asyncio.gather(*(call for call in calls if call not in refused))
    assert len(answered) == 20
    assert {reply.messages[0].queue_offset for reply in answered if isinstance(reply, Sent)} == set(range(20))


@pytest.fixture
def idle_seconds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> float:
    """Longer than a blocking read waits: with ``--idle-seconds`` (make torture) its 5 s, otherwise a shorter one."""
    seconds = float(request.config.getoption("--idle-seconds"))
    if not seconds:
        monkeypatch.setattr(RedisChannelLayer, "brpop_timeout", 1)
        seconds = 1.5
    assert RedisChannelLayer.brpop_timeout < seconds
    return seconds


async def test_an_idle_connection_outlives_a_blocking_read(idle_seconds: float, redis_place: Place) -> None:
    port = await redis_place.web(msgspec.structs.replace(QUICK, alive_ms=60_000, engine_silence_ms=120_000))
    await port.call(send())
    await asyncio.sleep(
        idle_seconds
    )  # the one honest wait: both sides sit in a blocking read, which ends once in between
    assert isinstance(await port.call(send()), Sent)


async def test_a_hold_outlives_a_blocking_read(idle_seconds: float, redis_place: Place) -> None:
    port = await redis_place.web(msgspec.structs.replace(QUICK, alive_ms=60_000, engine_silence_ms=120_000))
    await port.call(send())
    pulled = await port.connection().call(pull(1, wait_ms=int(min(idle_seconds, 10) * 1000)))
    assert isinstance(pulled, Pulled)
    assert pulled.hold is not None
    assert pulled.hold.wake_cause == "timeout"


async def test_both_sides_reconnect_after_a_restart_of_redis_and_holds_survive(redis_place: Place) -> None:
    port = await redis_place.web()
    assert redis_place.server is not None
    await port.call(send())
    call = await held(port)
    redis_place.server.kill()
    with pytest.raises(PortUnavailable):
        await port.call(GetBroker())
    redis_place.server.start()
    sent: Reply | None = None
    async with asyncio.timeout(60):
        while sent is None:
            try:
                sent = await port.call(send(b"after"), timeout_ms=2000)
            except PortUnavailable:
                await asyncio.sleep(0.01)
    pulled = await call
    assert isinstance(pulled, Pulled)
    assert b"after" in pulled.records


async def test_malformed_messages_on_the_channels_are_ignored(place: Place) -> None:
    port = await place.web()
    layer = place.layer()
    channel, reply_to = engine_channel(BROKER), port._transport.reply_to
    for nonsense in (
        {},
        {"type": "engine.batch"},
        {"type": "engine.batch", "data": b"\xc1"},
        {"type": "brew.coffee"},
        {"type": 5},
        {"type": "engine.batch", "data": 5},
    ):
        await layer.send(channel, dict(nonsense))
        await layer.send(reply_to, dict(nonsense))
    assert isinstance(await port.call(send()), Sent)
    assert place.host.malformed == 6


async def test_malformed_bytes_in_redis_are_ignored(redis_place: Place) -> None:
    port = await redis_place.web()
    redis = redis_place.layers[0].connection(0)
    for key in (engine_channel(BROKER), port._transport.reply_to.split("!")[0] + "!"):
        await redis.zadd(f"asgi{key}", {b"x" * 12 + b"\xc1": 1, b"y" * 12 + b"\x05": 2, b"": 3})
    assert isinstance(await port.call(send()), Sent)


async def test_another_engine_takes_over_after_a_stop(place: Place, tmp_path: Path) -> None:
    port = await place.web()
    watcher = NotingWatcher()
    port.watch(watcher, deltas=True)
    await port.call(send())
    call = await held(port)
    await place.worker.stop()
    await place.host.stop()
    pulled = await call
    assert isinstance(pulled, Pulled)
    assert pulled.hold is not None
    assert pulled.hold.wake_cause == "shutdown"
    await watcher.until(lambda: watcher.lost != [])  # the engine's last word comes after its last answer
    with pytest.raises(PortUnavailable):
        await port.call(GetBroker())
    place.host = new_host(tmp_path / "store")
    place.worker = EngineWorker(place.host, place.layer(), BROKER)
    await place.start()
    await watcher.until(lambda: len(watcher.lost) >= 2)
    sent = await port.call(send())
    assert isinstance(sent, Sent)
    assert sent.messages[0].queue_offset == 1


async def test_done_is_answered_over_any_layer(place: Place) -> None:
    port = await place.web()
    assert await port.connection().call(OpenConnection(client_id="c", protocol="http")) == Done()
