"""What every transport owes the port, asked of each."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from bridge import wire
from bridge.channel_port import ChannelTransport
from bridge.engine_host import EngineHost
from bridge.engine_worker import EngineConsumer, EngineWorker
from bridge.socket_port import EngineSocket, SocketTransport
from bridge.transport import Transport, TransportFull, TransportLost
from broker_core.commands import Done, OpenConnection
from tests.bridge.conftest import BROKER, in_memory_layer
from tests.fakes.fake_engine import QUICK


@pytest.fixture(params=["channel", "socket"])
async def transport(request: pytest.FixtureRequest, host: EngineHost) -> AsyncIterator[Transport]:
    if request.param == "channel":
        layer = in_memory_layer()
        worker = EngineWorker(host, layer, BROKER)
        worker.start()
        yield ChannelTransport(layer, BROKER, QUICK)
        await worker.stop()
        return
    with TemporaryDirectory(prefix="glassmq-") as folder:
        server = EngineSocket(host, Path(folder) / "engine.sock")
        await server.start()
        yield SocketTransport(Path(folder) / "engine.sock", QUICK)
        await server.stop()


async def test_requests_are_answered_and_no_task_is_left(transport: Transport) -> None:
    answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    await transport.start(answer.set_result, lambda reason: None)
    assert [task for task in asyncio.all_tasks() if type(transport).__name__ in repr(task)]
    command: Any = OpenConnection(client_id="c", protocol="http")
    await transport.send(
        wire.encode_to_engine(wire.Requests("web", transport.reply_to, 1, [], [(1, 1, 1 << 62, command)]))
    )
    assert wire.decode_to_web(await answer, 1 << 20).replies == [(1, 1, Done())]
    await transport.stop()
    assert not [task for task in asyncio.all_tasks() if type(transport).__name__ in repr(task)]


async def test_the_same_consumer_receives_the_batch_on_every_transport(
    transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: asyncio.Queue[bytes] = asyncio.Queue()
    monkeypatch.setattr(EngineConsumer, "engine_batch", lambda self, data: batches.put_nowait(data))
    await transport.start(lambda data: None, lambda reason: None)
    await transport.send(b"a batch")
    async with asyncio.timeout(60):
        assert await batches.get() == b"a batch"
    await transport.stop()


async def test_sending_before_the_connection_is_an_error() -> None:
    transport = SocketTransport(Path("/nowhere/engine.sock"), QUICK)
    with pytest.raises(TransportLost):
        await transport.send(b"")


async def test_a_full_transport_is_distinguished_from_a_lost_one() -> None:
    transport = ChannelTransport(in_memory_layer(capacity=1), BROKER, QUICK)
    await transport.send(b"1")
    with pytest.raises(TransportFull):
        await transport.send(b"2")
