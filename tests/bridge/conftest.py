"""A real engine on a small store, and layers to reach it."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from channels.layers import InMemoryChannelLayer
from channels_redis.core import RedisChannelLayer

from bridge.engine_host import EngineHost
from bridge.limits import Limits
from broker_core.clock import SystemClock
from broker_core.commands import OutgoingMessage, PullMessage, SendMessage
from broker_core.engine import Engine
from broker_core.formats.message_id import UniqKeyGenerator
from broker_core.options import Options
from broker_core.server.engine_runner import EngineRunner
from broker_core.store.files import RealFiles
from tests.fakes.fake_engine import QUICK
from tests.fakes.redis_server import RedisServer, redis_server

__all__ = ["redis_server"]
BROKER = "broker-a"
SMALL = Options(
    mapped_file_size_commit_log=1 << 20,
    mapped_file_size_consume_queue=20_000,
    max_hash_slot_num=1000,
    max_index_num=4000,
)


def send(body: bytes = b"hello", topic: str = "t") -> SendMessage:
    return SendMessage(topic=topic, messages=[OutgoingMessage(body=body, queue_id=0)])


def pull(offset: int = 0, *, wait_ms: int = 30_000, topic: str = "t", **more: Any) -> PullMessage:
    return PullMessage(
        topic=topic, queue_id=0, queue_offset=offset, suspend_timeout_ms=wait_ms, consumer_group="g", **more
    )


def new_host(folder: Path, limits: Limits = QUICK, clock: Any = None) -> EngineHost:
    clock = clock or SystemClock()
    keys = UniqKeyGenerator("127.0.0.1", 1, random.Random(1))
    return EngineHost(
        EngineRunner(partial(Engine.open, folder, SMALL, RealFiles(), clock, keys.next), clock), clock, limits
    )


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[EngineHost]:
    host = new_host(tmp_path / "store")
    await host.start()
    yield host
    await host.stop()


def in_memory_layer(capacity: int = 1000) -> InMemoryChannelLayer:
    return InMemoryChannelLayer(capacity=capacity)


def redis_layer(server: RedisServer, capacity: int = 1000) -> RedisChannelLayer:
    return RedisChannelLayer(
        hosts=[{"address": server.url, "socket_timeout": 30, "max_connections": 2000}], capacity=capacity
    )


async def until(condition: Callable[[], bool]) -> None:
    """Run the event loop until ``condition`` is true."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.002)
