"""Which engine this process connects to, and how. Only this module decides it, from the settings."""

import os
import random
from collections.abc import Sequence
from functools import partial
from typing import Any

from channels.layers import get_channel_layer

from bridge.channel_port import ChannelPort
from bridge.cluster import BrokerPlace
from bridge.engine_host import EngineHost
from bridge.engine_worker import EngineWorker
from bridge.limits import Limits
from bridge.open_files import OWN_FILES, most_connections, open_files_limit
from bridge.port import EnginePort
from bridge.socket_port import SocketPort
from broker_core.clock import Clock, SystemClock
from broker_core.engine import Engine
from broker_core.formats.message_id import UniqKeyGenerator
from broker_core.options import Options
from broker_core.remoting.requests import Identity
from broker_core.server.attach.follower import Follower, FollowOptions
from broker_core.server.broker_routes import BrokerRoutes
from broker_core.server.broker_session import BrokerSessions
from broker_core.server.engine_runner import EngineRunner
from broker_core.server.ha_server import HAServer
from broker_core.server.namesrv_server import NameServer
from broker_core.server.poll_journal import PollJournal
from broker_core.server.remoting_limits import RemotingLimits
from broker_core.server.remoting_server import RemotingServer
from broker_core.server.tls import TlsOptions
from broker_core.store.files import RealFiles

ANSWER_OVERHEAD_BYTES = 64 * 1024
"""Room for everything in an answer except a message's body: the message's properties and the answer's header."""


def make_port(settings: Any) -> EnginePort:
    """The port of a web process, according to ``GLASSMQ_ENGINE``: embedded, child or remote."""
    options = settings.GLASSMQ_OPTIONS
    if settings.GLASSMQ_ENGINE == "child":
        return SocketPort(settings.GLASSMQ_SOCKET)
    layer = get_channel_layer()
    if settings.GLASSMQ_ENGINE == "remote":
        return ChannelPort(layer, options.broker_name)
    return EmbeddedPort(make_host(settings), layer, options.broker_name)


def make_ports(settings: Any, places: Sequence[BrokerPlace]) -> dict[str, EnginePort]:
    """The ports of a web process by broker name: for ``places``, or for the brokers behind Redis in the settings."""
    if settings.GLASSMQ_ENGINE == "remote":
        return {name: ChannelPort(get_channel_layer(), name) for name in settings.GLASSMQ_BROKER_NAMES}
    if settings.GLASSMQ_ENGINE == "child":
        return {place.name: SocketPort(place.socket) for place in places}
    return {places[0].name: make_port(settings)}


def make_host(settings: Any, limits: Limits | None = None) -> EngineHost:
    """The host of an engine on the store of the settings. It opens nothing yet."""
    options, clock = settings.GLASSMQ_OPTIONS, SystemClock()
    follows = bool(settings.GLASSMQ_ATTACH)
    try:
        keys = UniqKeyGenerator(options.broker_ip1, os.getpid(), random.SystemRandom())
    except ValueError:  # not an address, which opening the store reports
        keys = UniqKeyGenerator("127.0.0.1", os.getpid(), random.SystemRandom())
    files = RealFiles()
    open_engine = partial(
        Engine.open,
        settings.GLASSMQ_STORE_DIR,
        options,
        files,
        clock,
        keys.next,
        adopt=settings.GLASSMQ_STORE_ADOPT,
        follows=follows,
    )
    if follows:  # without a poll journal: the pulls of the followed broker's clients are not known
        runner = EngineRunner(open_engine, clock)
        return EngineHost(runner, clock, limits, follower=Follower(runner, clock, follow_options(settings)))
    runner = EngineRunner(open_engine, clock, journal=PollJournal(files, clock))
    sessions = BrokerSessions(runner, Identity(options.broker_name, options.broker_id))
    return EngineHost(
        runner,
        clock,
        limits,
        remoting=make_remoting(settings, runner, sessions),
        sessions=sessions,
        routes=make_routes(settings, runner, clock),
        ha_server=make_ha_server(settings, runner),
    )


def follow_options(settings: Any) -> FollowOptions:
    """Which broker the engine of the settings follows, and how."""
    return FollowOptions(
        namesrv_addr=settings.GLASSMQ_ATTACH,
        broker_name=settings.GLASSMQ_OPTIONS.broker_name,
        source=settings.GLASSMQ_ATTACH_SOURCE,
        begin=settings.GLASSMQ_ATTACH_BEGIN,
        max_bytes_per_second=settings.GLASSMQ_ATTACH_MAX_RATE * 1_000_000,
        ha_addresses=settings.GLASSMQ_ATTACH_HA,
    )


def make_remoting(settings: Any, runner: EngineRunner, sessions: BrokerSessions) -> RemotingServer | None:
    """The server for RocketMQ's clients, which get ``sessions``; None if ``GLASSMQ_BROKER_PORT`` is 0.

    RocketMQ clients before 4.6 use the port that is lower by two, the "VIP channel", which works the same.
    """
    port, options = settings.GLASSMQ_BROKER_PORT, settings.GLASSMQ_OPTIONS
    if port == 0:
        return None
    return RemotingServer(
        sessions.make_session,
        settings.GLASSMQ_BROKER_HOST,
        [port, port - 2] if port > 2 else [port],
        port_setting="GLASSMQ_BROKER_PORT",
        tls=make_tls(options),
        limits=RemotingLimits(
            connections=most_connections(settings.GLASSMQ_MAX_CONNECTIONS, own_files=open_files_limit() // 2)
        ),  # the store uses the other half
        largest_answer=lambda: runner.engine.options.max_message_size + ANSWER_OVERHEAD_BYTES,
    )


def make_ha_server(settings: Any, runner: EngineRunner) -> HAServer | None:
    """The server for slaves; None if ``haListenPort`` is 0."""
    options = settings.GLASSMQ_OPTIONS
    if options.ha_listen_port == 0:
        return None
    return HAServer(runner, settings.GLASSMQ_BROKER_HOST, options.ha_listen_port, options.ha_allowed_addresses)


def make_routes(settings: Any, runner: EngineRunner, clock: Clock) -> BrokerRoutes | None:
    """The routes to this broker, with a name server unless ``GLASSMQ_NAMESRV_PORT`` is 0.

    None if the broker does not serve RocketMQ's clients.
    """
    if settings.GLASSMQ_BROKER_PORT == 0:
        return None
    beside = None
    if settings.GLASSMQ_NAMESRV_PORT:
        beside = make_name_server(settings, own_files=open_files_limit() * 3 // 4)
    return BrokerRoutes(
        runner, settings.GLASSMQ_OPTIONS, clock, beside, register_read_only=bool(settings.GLASSMQ_NAMESRV_ADDR)
    )


def make_name_server(settings: Any, *, own_files: int = OWN_FILES) -> NameServer:
    """The name server on ``GLASSMQ_NAMESRV_PORT``. It opens nothing yet."""
    return NameServer(
        settings.GLASSMQ_DATA_DIR / "namesrv",
        RealFiles(),
        SystemClock(),
        settings.GLASSMQ_BROKER_HOST,
        settings.GLASSMQ_NAMESRV_PORT,
        port_setting="GLASSMQ_NAMESRV_PORT",
        tls=make_tls(settings.GLASSMQ_OPTIONS),
        limits=RemotingLimits(connections=most_connections(settings.GLASSMQ_MAX_CONNECTIONS, own_files)),
        allow_foreign_registration=settings.GLASSMQ_OPTIONS.allow_foreign_registration,
    )


def make_tls(options: Options) -> TlsOptions:
    """How RocketMQ's clients can or must encrypt."""
    return TlsOptions(mode=options.tls_mode, cert_path=options.tls_cert_path, key_path=options.tls_key_path)


class EmbeddedPort(ChannelPort):
    """The engine in this process and event loop, as a worker on its in-memory layer."""

    def __init__(self, host: EngineHost, layer: Any, broker_name: str, *, limits: Limits | None = None) -> None:
        super().__init__(layer, broker_name, limits=limits or host.limits)
        self.host = host
        self._worker = EngineWorker(host, layer, broker_name)

    async def start(self) -> None:
        """Open the store, serve it, connect. Raises StoreError and its subclasses."""
        await self.host.start()
        self._worker.start()
        await super().start()

    async def stop(self) -> None:
        """Stop the engine. Every held pull is answered with the cause ``shutdown``, and its caller gets the answer."""
        await self._worker.stop()
        await self.host.stop()
        await self.last_replies()  # they are in the layer by now
        await super().stop()
