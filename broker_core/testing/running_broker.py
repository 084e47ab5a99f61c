"""A broker and a name server in a thread, on free ports, for tests of programs that use RocketMQ clients.

with RunningBroker() as broker:
    producer = DefaultMQProducer("my-producers", namesrv_addr=broker.namesrv_addr)

It is the broker that ``manage.py broker`` runs, without its web: the engine, RocketMQ's port and a name server.
"""

import asyncio
import os
import random
import socket
import tempfile
import threading
from functools import partial
from pathlib import Path
from typing import Any

from broker_core.clock import SystemClock
from broker_core.commands import Failed, Reply, UpdateAndCreateTopic
from broker_core.engine import Engine
from broker_core.errors import RequestError
from broker_core.formats.message_id import UniqKeyGenerator
from broker_core.options import make_options
from broker_core.remoting.requests import Identity
from broker_core.server.broker_routes import BrokerRoutes
from broker_core.server.broker_session import BrokerSessions
from broker_core.server.engine_runner import Connection, EngineRunner
from broker_core.server.namesrv_server import NameServer
from broker_core.server.remoting_server import CannotServe, RemotingServer
from broker_core.server.tls import TlsOptions
from broker_core.store.files import RealFiles

HOST = "127.0.0.1"
TRIES = 5
"""Another process may take a free port before the broker does."""
SMALL_FILES = {
    "mappedFileSizeCommitLog": 16 << 20,
    "mappedFileSizeConsumeQueue": 20 * 10_000,
    "maxHashSlotNum": 10_000,
    "maxIndexNum": 40_000,
}
"""A test's store is small and thrown away."""


class RunningBroker:
    """A broker of its own, with an empty store in a temporary folder.

    ``namesrv_addr`` and ``broker_addr`` are ``host:port``, and known after ``start``. ``options`` are those of a
    broker.conf, such as ``longPollingEnable=False``.
    """

    namesrv_addr: str
    broker_addr: str

    def __init__(self, **options: Any) -> None:
        """Raises RequestError for an unknown option or a wrong value."""
        self._options = SMALL_FILES | {"tlsMode": "disabled"} | options
        make_options(self._options)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._parts: _Parts | None = None

    def start(self) -> None:
        """Start it, and return when it serves. Raises CannotServe and StoreError, RuntimeError if it runs already."""
        if self._folder is not None:
            raise RuntimeError("the broker runs already: call stop() first")
        self._folder = tempfile.TemporaryDirectory(prefix="glassmq-", ignore_cleanup_errors=True)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="glassmq-broker", daemon=True)
        self._thread.start()
        try:
            self._start_parts()
        except BaseException:
            self.stop()
            raise

    def _start_parts(self) -> None:
        assert self._folder is not None
        for attempt in range(TRIES):
            broker_port, namesrv_port = free_ports(2)
            parts = _Parts(Path(self._folder.name) / str(attempt), self._options, broker_port, namesrv_port)
            try:
                self._call(parts.start())
            except CannotServe:
                if attempt == TRIES - 1:
                    raise
                continue
            self._parts = parts
            self.broker_addr, self.namesrv_addr = f"{HOST}:{broker_port}", f"{HOST}:{namesrv_port}"
            return

    def stop(self) -> None:
        """Answer its held pulls, end it, and remove its store."""
        if self._loop is None or self._thread is None or self._folder is None:
            return
        loop, thread, folder = self._loop, self._thread, self._folder
        if self._parts is not None:
            self._call(self._parts.stop())
        self._parts = self._loop = self._thread = self._folder = None
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        folder.cleanup()

    def create_topic(self, topic: str, queues: int = 4) -> None:
        """Create a topic, or change how many queues it has. Raises RequestError for an illegal name or number."""
        if self._parts is None:
            raise RuntimeError("the broker does not run: call start()")
        self._call(self._parts.create_topic(topic, queues))

    def __enter__(self) -> "RunningBroker":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _call(self, work: Any) -> Any:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class _Parts:
    """What ``RunningBroker`` runs on its event loop."""

    def __init__(self, folder: Path, options: dict[str, Any], broker_port: int, namesrv_port: int) -> None:
        clock, files, tls = SystemClock(), RealFiles(), TlsOptions(mode="disabled")
        chosen = make_options(options | {"brokerIP1": HOST, "listenPort": broker_port})
        keys = UniqKeyGenerator(HOST, os.getpid(), random.SystemRandom())
        self._runner = EngineRunner(partial(Engine.open, folder / "store", chosen, files, clock, keys.next), clock)
        sessions = BrokerSessions(self._runner, Identity(chosen.broker_name, chosen.broker_id))
        self._remoting = RemotingServer(sessions.make_session, HOST, [broker_port], tls=tls)
        self._name_server = NameServer(folder / "namesrv", files, clock, HOST, namesrv_port, tls=tls)
        self._routes = BrokerRoutes(self._runner, chosen, clock, self._name_server)

    async def start(self) -> None:
        """Raises CannotServe if a port is taken, and StoreError."""
        try:
            await self._remoting.bind()
            await self._routes.bind()
            await self._runner.start()
        except BaseException:
            self._remoting.stop_listening()
            await self._routes.stop()
            raise
        try:
            await self._remoting.start()
            await self._routes.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        await self._routes.stop()
        self._remoting.stop_listening()
        await self._runner.stop()
        await self._remoting.stop()

    async def create_topic(self, topic: str, queues: int) -> None:
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        connection = Connection(lambda replies: reply.set_result(replies[0][2]))
        self._runner.submit(connection, 1, UpdateAndCreateTopic(topic=topic, read_queues=queues, write_queues=queues))
        answer = await reply
        if isinstance(answer, Failed):
            raise RequestError(answer.remark)


def free_ports(number: int) -> list[int]:
    """Ports of 127.0.0.1 that nothing listens on at the moment."""
    probes = [socket.socket() for _ in range(number)]
    try:
        for probe in probes:
            probe.bind((HOST, 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
