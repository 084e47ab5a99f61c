from typing import Any

import pytest

from bridge.channel_port import engine_channel
from bridge.engine_host import EngineHost
from bridge.engine_worker import EngineConsumer, EngineWorker, LayerLink
from bridge.transport import TransportFull, TransportLost
from tests.bridge.conftest import BROKER, in_memory_layer, until


class FailingLayer:
    """Fails twice, then has one message; ``received`` counts the attempts."""

    def __init__(self) -> None:
        self.received = 0
        self.inner = in_memory_layer()

    async def receive(self, channel: str) -> Any:
        self.received += 1
        if self.received < 3:
            raise OSError("the layer is restarting")
        return await self.inner.receive(channel)


async def test_the_worker_continues_to_read_after_a_failure_of_the_layer(host: EngineHost) -> None:
    layer = FailingLayer()
    worker = EngineWorker(host, layer, BROKER)
    worker.start()
    await layer.inner.send(engine_channel(BROKER), {"type": "engine.nonsense"})
    await until(lambda: host.malformed == 1)
    assert layer.received >= 3
    await worker.stop()


async def test_a_failed_consumer_is_restarted(host: EngineHost, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = in_memory_layer()
    dispatch, failures = EngineConsumer.dispatch, []

    async def failing(self: EngineConsumer, message: Any) -> None:
        if not failures:
            failures.append(message)
            raise ValueError("broken")
        await dispatch(self, message)

    monkeypatch.setattr(EngineConsumer, "dispatch", failing)
    worker = EngineWorker(host, layer, BROKER)
    worker.start()
    await layer.send(engine_channel(BROKER), {"type": "engine.nonsense"})
    await until(lambda: bool(failures))
    await layer.send(engine_channel(BROKER), {"type": "engine.nonsense"})
    await until(lambda: host.malformed == 1)
    await worker.stop()


async def test_a_probe_is_not_counted(host: EngineHost) -> None:
    consumer = EngineConsumer(host, LayerLink(in_memory_layer()))
    await consumer.dispatch({"type": "engine.probe"})
    assert host.malformed == 0
    await consumer.dispatch(["no", "message"])
    assert host.malformed == 1


async def test_a_full_layer_is_distinguished_from_a_lost_one() -> None:
    layer = in_memory_layer(capacity=1)
    link = LayerLink(layer)
    await link.send("web", b"1")
    with pytest.raises(TransportFull):
        await link.send("web", b"2")
    with pytest.raises(TransportLost):
        await link.send("not a channel name", b"3")
    link.cut()
