"""A broker in the event loop of a test, with its API. The test moves its clock and stops its disk."""

import asyncio
import random
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from api.routing import http_application
from bridge.engine_host import EngineHost
from bridge.limits import Limits
from bridge.port import set_ports
from bridge.socket_port import EngineSocket, SocketPort
from broker_core.clock import Now, SystemClock
from broker_core.engine import Engine
from broker_core.formats.message_id import UniqKeyGenerator
from broker_core.options import make_options
from broker_core.remoting.requests import Identity
from broker_core.server.attach.follower import Follower, FollowOptions
from broker_core.server.broker_session import BrokerSessions
from broker_core.server.engine_runner import EngineRunner
from broker_core.server.remoting_server import RemotingServer
from broker_core.testing.running_broker import SMALL_FILES
from tests.e2e.conftest import Broker
from tests.fakes.engine import ROOT
from tests.fakes.ports import unused_broker_port
from tests.fakes.simulated_files import SimulatedFiles


class MovableClock:
    """The machine's clocks, and what a test adds to them."""

    def __init__(self) -> None:
        self._ahead_ms = 0

    def now(self) -> Now:
        now = SystemClock().now()
        return Now(now.wall_ms + self._ahead_ms, now.mono_ns + self._ahead_ms * 1_000_000)

    def mono_ns(self) -> int:
        return SystemClock.mono_ns() + self._ahead_ms * 1_000_000

    def advance(self, ms: int) -> None:
        self._ahead_ms += ms


class SlowDisk(SimulatedFiles):
    """A disk that flushes nothing while ``works`` is cleared."""

    def __init__(self) -> None:
        super().__init__()
        self.works = threading.Event()
        self.works.set()

    def called(self, call: str) -> None:
        if call == "flush":
            self.works.wait(60)
        super().called(call)


class BrokerHere(Broker):
    """The broker and what a test changes of it. With ``follows``, it is a copy of a broker of that name server."""

    def __init__(self, folder: Path, follows: str, options: dict[str, Any]) -> None:
        super().__init__("http://localhost")
        self.folder = folder
        self.clock, self.disk = MovableClock(), SlowDisk()
        port = unused_broker_port()
        self.environment = {"GLASSMQ_BROKER_PORT": str(port), "GLASSMQ_NAMESRV_PORT": "0"}
        chosen = make_options(SMALL_FILES | {"brokerIP1": "127.0.0.1"} | options)
        keys = UniqKeyGenerator("127.0.0.1", 1, random.Random(1))
        self.runner = EngineRunner(
            lambda: Engine.open(ROOT, chosen, self.disk, self.clock, keys.next, follows=bool(follows)), self.clock
        )
        sessions = BrokerSessions(self.runner, Identity(chosen.broker_name, chosen.broker_id))
        following = FollowOptions(namesrv_addr=follows, broker_name=chosen.broker_name)
        self.host = EngineHost(
            self.runner,
            SystemClock(),
            sessions=sessions,
            remoting=None if follows else RemotingServer(sessions.make_session, "127.0.0.1", [port]),
            follower=Follower(self.runner, self.clock, following) if follows else None,
        )
        self._loop = asyncio.get_running_loop()
        self._http = httpx.AsyncClient(transport=httpx.ASGITransport(http_application), base_url=self.address)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Call its API, from a thread other than the event loop's."""
        request = self._http.request(method, path, json=body)
        return asyncio.run_coroutine_threadsafe(request, self._loop).result(60).json()


@asynccontextmanager
async def broker_here(
    folder: Path, *, follows: str = "", beside: str = "", **options: Any
) -> AsyncIterator[BrokerHere]:
    """Run it until the end of the block. ``beside``: the name of another broker of the API, which does not run."""
    broker = BrokerHere(folder, follows, options)
    await broker.host.start()
    socket = EngineSocket(broker.host, folder / "engine.sock")
    await socket.start()
    ports = {"broker-a": SocketPort(folder / "engine.sock")}
    if beside:
        ports[beside] = SocketPort(folder / "nobody.sock", limits=Limits(start_wait_ms=1))
    for port in ports.values():
        await port.start()
    set_ports(ports)
    try:
        yield broker
    finally:
        broker.disk.works.set()
        set_ports({})
        await broker.host.stop()
        await socket.stop()
        for port in ports.values():
            await port.stop()
