"""The engine as a Channels worker: a consumer on the channel ``broker-engine.<broker name>``.

The consumer has no state: Channels replaces a consumer whenever something goes wrong in it. It hands what it reads to
an EngineHost, which outlives it.
"""

import logging
from typing import TYPE_CHECKING, Any

from channels.consumer import AsyncConsumer

from bridge.channel_port import Backoff, engine_channel, send
from bridge.engine_host import EngineHost
from bridge.transport import Link
from broker_core.tasks import end_task, start_task

if TYPE_CHECKING:
    import asyncio

log = logging.getLogger(__name__)


class LayerLink:
    """How the engine reaches all web processes on one layer."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer

    async def send(self, reply_to: str, data: bytes) -> None:
        await send(self._layer, reply_to, {"type": "engine.replies", "data": data})

    def cut(self) -> None:
        """Do nothing: a layer has no connection for each web process."""


class EngineConsumer(AsyncConsumer):  # type: ignore[misc]
    """Passes batches to ``host``, which replies over ``link``. Every transport to the engine ends here.

    A channel layer's messages arrive through ``as_asgi()``, which Channels drives. A socket's frames are given to
    ``dispatch`` directly: Channels' own loop would make a task for each of them.
    """

    channel_layer_alias = None  # it gets its messages from EngineWorker, so it needs no channel of its own

    def __init__(self, host: EngineHost, link: Link) -> None:
        self._host = host
        self._link = link

    async def dispatch(self, message: Any) -> None:
        """Handle one message. A message that cannot be handled is counted; it never ends the consumer."""
        try:
            if message["type"] == "engine.batch":
                self.engine_batch(message["data"])
            elif message["type"] != "engine.probe":
                raise ValueError(f"a message of type {message['type']!r}")
        except Exception as error:
            self._host.count_malformed(error)

    def engine_batch(self, data: bytes) -> None:
        """A batch of requests, encoded by bridge/wire.py."""
        self._host.receive(data, self._link)


class EngineWorker:
    """Reads the engine's channel and runs the consumer on it, and survives failures of the layer."""

    def __init__(self, host: EngineHost, layer: Any, broker_name: str) -> None:
        self._host = host
        self._layer = layer
        self._channel = engine_channel(broker_name)
        self._backoff = Backoff(host.limits)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = start_task(self._run(), "the engine's consumer")

    async def stop(self) -> None:
        """Stop reading. Messages that wait in the channel are left for the next engine."""
        await end_task(self._task)

    async def _run(self) -> None:
        consumer = EngineConsumer.as_asgi(host=self._host, link=LayerLink(self._layer))
        scope = {"type": "channel", "channel": self._channel}
        while True:
            try:
                await consumer(scope, self._receive, _send_nothing)
            except Exception:
                log.exception("the engine's consumer failed; restarting it")
                await self._backoff.pause()

    async def _receive(self) -> Any:
        while True:
            try:
                message = await self._layer.receive(self._channel)
            except Exception as error:
                log.warning("reading from the channel layer failed; trying again: %s", error)
                await self._backoff.pause()
            else:
                self._backoff.reset()
                return message


async def _send_nothing(message: Any) -> None:
    """A worker's consumer has no client to send to."""
