"""The engine port over the Channels layer: the in-memory one of one process, or Redis between many.

web process --- {"type": "engine.batch", "data": ...} ---> channel  broker-engine.<broker name>
web process <-- {"type": "engine.replies", "data": ...} -- channel  glassmq-web.<process>!<id>
"""

import asyncio
import hashlib
import logging
import re
from collections.abc import Callable
from typing import Any

from channels.exceptions import ChannelFull

from bridge.batching_port import BatchingPort
from bridge.limits import Limits
from bridge.transport import TransportFull, TransportLost
from broker_core.clock import Clock
from broker_core.tasks import end_task, start_task

log = logging.getLogger(__name__)
ENGINE = "broker-engine"
_CHANNEL_NAME = re.compile(r"[a-zA-Z\d\-_.]{1,80}")


def engine_channel(broker_name: str) -> str:
    """The channel of a broker's engine. A broker name with characters that a channel cannot have is hashed."""
    if not _CHANNEL_NAME.fullmatch(broker_name):
        broker_name = hashlib.sha256(broker_name.encode()).hexdigest()[:32]
    return f"{ENGINE}.{broker_name}"


class Backoff:
    """Pauses after failures, which become longer until ``reset`` is called."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._next_ms = limits.reconnect_first_ms

    def reset(self) -> None:
        self._next_ms = self._limits.reconnect_first_ms

    async def pause(self) -> None:
        pause_ms = self._next_ms
        self._next_ms = min(pause_ms * 2, self._limits.reconnect_most_ms)
        await asyncio.sleep(pause_ms / 1000)


class ChannelTransport:
    """One reply channel for the whole process, and a loop that reads it and survives failures of the layer."""

    def __init__(self, layer: Any, broker_name: str, limits: Limits) -> None:
        self.reply_to = ""
        self._layer = layer
        self._engine = engine_channel(broker_name)
        self._limits = limits
        self._reader: asyncio.Task[None] | None = None

    async def start(self, on_message: Callable[[bytes], None], on_lost: Callable[[str], None]) -> None:
        self.reply_to = await self._layer.new_channel("glassmq-web")
        self._reader = start_task(self._read(on_message), f"read {self.reply_to}")

    async def send(self, data: bytes) -> None:
        await send(self._layer, self._engine, {"type": "engine.batch", "data": data})

    async def stop(self) -> None:
        await end_task(self._reader)

    async def _read(self, on_message: Callable[[bytes], None]) -> None:
        backoff = Backoff(self._limits)
        while True:
            try:
                message = await self._layer.receive(self.reply_to)
                backoff.reset()
                on_message(message["data"])
            except Exception as error:
                log.warning("reading from the channel layer failed; trying again: %s", error)
                await backoff.pause()


async def send(layer: Any, channel: str, message: dict[str, Any]) -> None:
    """``layer.send``, with its many exceptions turned into TransportFull and TransportLost."""
    try:
        await layer.send(channel, message)
    except ChannelFull as error:
        raise TransportFull(f"channel {channel} is full") from error
    except Exception as error:
        raise TransportLost(f"the channel layer failed: {error}") from error


class ChannelPort(BatchingPort):
    """An EnginePort over a channel layer."""

    def __init__(
        self, layer: Any, broker_name: str, *, limits: Limits | None = None, clock: Clock | None = None
    ) -> None:
        limits = limits or Limits()
        super().__init__(ChannelTransport(layer, broker_name, limits), limits=limits, clock=clock)
