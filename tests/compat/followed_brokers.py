"""Real brokers that are followed, and the copies of their logs."""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from broker_core.client import DefaultMQProducer, Message
from broker_core.client.remoting_client import RemotingClient
from broker_core.clock import SystemClock
from broker_core.codes import RequestCode
from broker_core.engine import Engine
from broker_core.formats import rocketmq_json
from broker_core.formats.message_id import UniqKeyGenerator
from broker_core.options import Options
from broker_core.server.attach.follower import Follower, FollowOptions
from broker_core.server.engine_runner import EngineRunner
from broker_core.store.files import RealFiles
from tests.compat.real_rocketmq import Server, broker
from tests.fakes.following import Copy

SEGMENT = 1 << 20
SMALL_FILES = {"mappedFileSizeCommitLog": str(SEGMENT), "brokerIP2": "127.0.0.1", "haSendHeartbeatInterval": "1000"}
SECONDS = 120


class Brokers:
    """Real brokers at one name server, which end with the case."""

    def __init__(self, folder: Path, namesrv: Server) -> None:
        self.namesrv = namesrv.address
        self._folder = folder
        self._started: list[Server] = []

    def make(self, name: str, folder: str = "", port: int | None = None, **conf: str) -> Server:
        """A broker of this name, not started; of the same ``folder``, it finds the same store."""
        conf = SMALL_FILES | {"brokerName": name} | conf
        server = broker(self._folder / (folder or name), self.namesrv, port, **conf)
        self._started.append(server)
        return server

    async def start(self, name: str, folder: str = "", port: int | None = None, **conf: str) -> Server:
        """A broker that serves and is registered."""
        server = self.make(name, folder, port, **conf)
        await self.run(server, name)
        return server

    async def run(self, server: Server, name: str) -> None:
        """Start a broker, and wait until the name server knows it."""
        await asyncio.to_thread(server.start)
        await asyncio.to_thread(server.wait_ready)

        async def is_known() -> bool:
            known = (await ask(self.namesrv, RequestCode.GET_BROKER_CLUSTER_INFO))["brokerAddrTable"]
            return server.address in known.get(name, {"brokerAddrs": {}})["brokerAddrs"].values()

        await until(is_known)

    def stop(self) -> None:
        for server in self._started:
            server.stop(signal.SIGKILL)


async def until(condition: Callable[[], Any], seconds: float = SECONDS) -> Any:
    """The condition's first true value."""
    async with asyncio.timeout(seconds):
        while not (value := await condition()):
            await asyncio.sleep(0.1)
    return value


async def ask(address: str, code: int, sent: bytes = b"", **fields: str) -> Any:
    """The JSON of a server's answer."""
    host, _, port = address.rpartition(":")
    client = RemotingClient(host, int(port))
    try:
        return rocketmq_json.decode((await client.invoke(code, fields, sent, timeout_s=30)).body or b"{}")
    finally:
        await client.close()


async def runtime_info(server: Server) -> dict[str, str]:
    """What a broker says about itself. For some seconds after its start RocketMQ answers NoSuchElementException."""

    async def table() -> Any:
        return (await ask(server.address, RequestCode.GET_BROKER_RUNTIME_INFO)).get("table")

    found: dict[str, str] = await until(table)
    return found


async def end_of(server: Server) -> int:
    """The end of a broker's log."""
    return int((await runtime_info(server))["commitLogMaxOffset"])


async def send(namesrv: str, topic: str, count: int, size: int = 300, workers: int = 16) -> list[str]:
    """How the sends of so many messages ended. They are tried again while the broker is away."""
    numbers, statuses = iter(range(count)), list[str]()
    producer = DefaultMQProducer("attach-producers", namesrv_addr=namesrv, send_msg_timeout=20_000)

    async def work() -> None:
        for number in numbers:
            body = b"%08d" % number + os.urandom(size)
            statuses.append((await producer.send(Message(topic, body, "tag", [f"key-{number}"]))).send_status)

    async with producer:
        await producer.send(Message(topic, b"first"))
        await asyncio.gather(*(work() for _ in range(workers)))
    return statuses


@asynccontextmanager
async def copy_of(namesrv: str, name: str, folder: Path, **more: Any) -> AsyncIterator[Copy]:
    """An engine on real files that follows a broker until the end of the block."""
    clock = SystemClock()
    options = Options(
        broker_name=name, mapped_file_size_commit_log=SEGMENT, mapped_file_size_consume_queue=20 * 1000,
        max_hash_slot_num=1000, max_index_num=4000,
    )  # fmt: skip
    keys = UniqKeyGenerator("127.0.0.1", 1, random.Random(1))
    runner = EngineRunner(lambda: Engine.open(folder, options, RealFiles(), clock, keys.next, follows=True), clock)
    await runner.start()
    follow = FollowOptions(namesrv_addr=namesrv, broker_name=name, **({"begin": "min"} | more))
    follower = Follower(runner, clock, follow)
    follower.start()
    try:
        yield Copy(runner)
    finally:
        await follower.stop()
        await runner.stop()


async def equal(copy: Copy, server: Server) -> None:
    """Wait until the copy ends where the broker's log does."""

    async def has_all() -> bool:
        return copy.end == await end_of(server)

    await until(has_all)


def log_in(store: Path, end: int) -> bytes:
    """The bytes of a commit log on the disk up to ``end``."""
    files = sorted((store / "commitlog").glob("[0-9]*"))
    begin = int(files[0].name) if files else 0
    return b"".join(file.read_bytes() for file in files)[: end - begin]
