"""Brokers, a name server and their clients in one process, without sockets, on a virtual clock.

The engines, the sessions, the frames and the clients are real. The event loop's time jumps to the next timer whenever
nothing else can happen, so an hour of the cluster takes as long as its events. Threads do not see this time: listeners
are coroutines.

    async def story(cluster):
        cluster.add_broker()
        cluster.create_topic("orders")
        async with DefaultMQProducer("p", instance=cluster.make_client()) as producer:
            await producer.send(Message("orders", b"hello"))

    run_virtually(story, folder)
"""

import asyncio
import random
import selectors
from collections.abc import Callable, Coroutine, Hashable
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from broker_core.client import MQClientInstance
from broker_core.clock import Now
from broker_core.commands import Command, Failed, FoundOffset, QueryOffset, Reply, UpdateAndCreateTopic
from broker_core.engine import Engine, Out
from broker_core.errors import RequestError
from broker_core.formats.message_id import UniqKeyGenerator
from broker_core.namesrv.namesrv_controller import NamesrvController
from broker_core.namesrv.namesrv_processor import NamesrvProcessor
from broker_core.namesrv.register_broker import describe_broker
from broker_core.options import Options
from broker_core.remoting.frame_decoder import FrameDecoder
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests import Identity
from broker_core.server.broker_session import BrokerSession, BrokerSessions
from broker_core.server.engine_runner import Connection
from broker_core.store.files import CopyingFiles, RealFiles

T = TypeVar("T")
NAMESRV = "127.0.0.1:9876"
LAST_S = 1000.0 + 86_400
WALL_MS = 1_700_000_000_000
SMALL_FILES: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 20,
    "mapped_file_size_consume_queue": 20_000,
    "max_hash_slot_num": 1000,
    "max_index_num": 4000,
}
"""A test's store is small and thrown away."""


class _JumpingSelector(selectors.SelectSelector):
    """Never waits: time is moved instead."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> Any:
        events = super().select(0)
        if not events:
            if timeout is None:
                raise AssertionError("no event is scheduled any more, so the test would wait for ever")
            self.loop.now_s += max(0.0, timeout)
            if self.loop.now_s > LAST_S and not self.loop.ending:
                raise AssertionError("the test waits for something that has not happened in a virtual day")
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop with virtual time, whose connections lead to the servers in ``servers``."""

    def __init__(self) -> None:
        selector = _JumpingSelector()
        selector.loop = self
        self.now_s = 1000.0
        self.ending = False
        """The work has ended or failed, and what is left is cancelled."""
        self.servers: dict[str, Callable[[Link], Any]] = {}
        self.dark: set[str] = set()
        """Addresses from which nothing comes back: attempts to connect to them hang."""
        super().__init__(selector)

    def time(self) -> float:
        return self.now_s

    def now(self) -> Now:
        """The loop is a Clock, too."""
        return Now(WALL_MS + round(self.now_s * 1000), self.mono_ns())

    def mono_ns(self) -> int:
        return round(self.now_s * 1e9)

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        if f"{host}:{port}" in self.dark:
            await self.create_future()
        accept = self.servers.get(f"{host}:{port}")
        if accept is None:
            raise ConnectionRefusedError(f"nobody listens on {host}:{port}")
        protocol = protocol_factory()
        link = Link(self, protocol)
        protocol.connection_made(link)
        link.session = accept(link)
        return link, protocol


class Link(asyncio.Transport):
    """A client's transport, and the server's channel of the same connection. Bytes take no time."""

    remote_host, remote_port = "10.0.0.1", 50_000

    def __init__(self, loop: VirtualLoop, protocol: Any) -> None:
        super().__init__()
        self._loop = loop
        self._protocol = protocol
        self._decoder = FrameDecoder()
        self._closing = self._ended = False
        self.session: Any = None
        self.drop_answers = False
        """The server's bytes are lost."""

    # --- the client's side
    def write(self, data: Any) -> None:
        self._loop.call_soon(self._receive, bytes(data))

    def _receive(self, data: bytes) -> None:
        if not self._closing:
            self.session.receive(self._decoder.feed(data))

    def is_closing(self) -> bool:
        return self._closing

    def abort(self) -> None:
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self.end)

    def end(self) -> None:
        """Both ends notice that the connection has ended."""
        self._closing = True
        if self._ended:
            return
        self._ended = True
        self.session.closed()
        self._protocol.connection_lost(None)

    # --- the server's side
    def send(self, data: bytes) -> None:
        self._loop.call_soon(self._deliver, data)

    def _deliver(self, data: bytes) -> None:
        if not self._closing and not self.drop_answers:
            self._protocol.data_received(data)


class _NameServerSession:
    def __init__(self, link: Link, processor: NamesrvProcessor, loop: VirtualLoop) -> None:
        self._link, self._processor, self._loop = link, processor, loop

    def receive(self, commands: list[RemotingCommand]) -> None:
        for command in commands:
            self._link.send(self._processor.process(command, self._link, self._loop.now()).encode())

    def closed(self) -> None:
        pass


class VirtualBroker:
    """An engine, run by the loop as EngineRunner would, and its sessions. It implements ``Runner``."""

    def __init__(self, cluster: "VirtualCluster", name: str, port: int, **options: Any) -> None:
        self.cluster, self.loop, self.name = cluster, cluster.loop, name
        self.address = f"127.0.0.1:{port}"
        self.options = Options(
            **(SMALL_FILES | {"broker_name": name, "broker_ip1": "127.0.0.1", "listen_port": port} | options)
        )
        self.files = cluster.make_files(port)
        self.links: list[Link] = []
        self.requests: list[RemotingCommand] = []
        """All requests of all clients, in order."""
        self.refuse: dict[int, int] = {}
        """Requests by code, with the ResponseCode by which they are refused."""
        self.ignore: set[int] = set()
        """Requests by code, which are not answered."""
        self.handled = self.submitted = self.backlog = 0
        self._timer: asyncio.TimerHandle | None = None
        self._inbox: list[tuple[Connection, int, Command]] = []
        self.start()

    def start(self) -> None:
        keys = UniqKeyGenerator("127.0.0.1", 1, random.Random(1))
        self.engine = Engine.open(self.cluster.folder / self.name, self.options, self.files, self.loop, keys.next)
        self.sessions = BrokerSessions(self, Identity(self.name, 0))
        self.loop.servers[self.address] = self._accept
        self.cluster.register(self)
        self._schedule()

    def kill(self) -> None:
        """Close all connections and end; ``start`` opens the same store again."""
        del self.loop.servers[self.address]
        for link in self.links:
            link.end()
        self.links.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._inbox.clear()
        self.engine.close(self.loop.now())

    def _accept(self, link: Link) -> "_Recorded":
        self.links.append(link)
        return _Recorded(self, link)

    def has_waiting(self, connection: Connection) -> bool:
        return False

    def is_delayed(self, connection: Connection) -> bool:
        return False

    def submit(self, connection: Connection, request_id: int, command: Command) -> None:
        if not self._inbox:
            self.loop.call_soon(self._turn, self.engine)
        self._inbox.append((connection, request_id, command))

    def _turn(self, engine: Engine) -> None:
        if engine is self.engine and self._inbox:
            batch: list[tuple[Hashable, int, Command]] = list(self._inbox)
            self._inbox.clear()
            self._take(self.engine.handle_batch(batch, self.loop.now()))

    def _take(self, out: Out) -> None:
        if self.engine.take_changed_topics():
            self.cluster.register(self)
        by_sink: dict[Any, list[Any]] = {}
        for connection, request_id, reply in out.replies:
            assert isinstance(connection, Connection)
            by_sink.setdefault(connection.sink, []).append((connection, request_id, reply))
        for sink, replies in by_sink.items():
            sink(replies)
        while (flush := self.engine.next_flush(self.loop.now())) is not None:
            flush.run()
            self._take(self.engine.flushed(flush, 0, self.loop.now()))
        self._schedule()

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        due = self.engine.next_deadline()
        if due is not None:
            self._timer = self.loop.call_at(max(self.loop.now_s, due / 1e9 + 1e-6), self._tick)

    def _tick(self) -> None:
        self._take(self.engine.tick(self.loop.now()))

    def sent(self, code: int) -> list[RemotingCommand]:
        """The requests with this code so far."""
        return [request for request in self.requests if request.code == code]

    def ask(self, command: Command) -> Reply:
        """The answer to a command that the engine answers at once."""
        answers: list[Reply] = []
        connection = Connection(lambda replies: answers.extend(reply for _, _, reply in replies))
        self._take(self.engine.handle_batch([(connection, 1, command)], self.loop.now()))
        (answer,) = answers
        return answer

    def offset(self, group: str, topic: str, queue_id: int) -> int | None:
        """The group's committed offset; None if it has committed none."""
        answer = self.ask(QueryOffset(group=group, topic=topic, queue_id=queue_id, set_zero_if_not_found=False))
        return answer.offset if isinstance(answer, FoundOffset) else None


class _Recorded:
    """A session that notes the requests, and refuses some."""

    def __init__(self, broker: VirtualBroker, link: Link) -> None:
        self._broker, self._link = broker, link
        self._session: BrokerSession = broker.sessions.make_session(link)

    def receive(self, commands: list[RemotingCommand]) -> None:
        passed = []
        for command in commands:
            if not command.is_response:
                self._broker.requests.append(
                    RemotingCommand(command.code, dict(command.ext_fields), command.body, command.opaque, command.flag)
                )
            code = self._broker.refuse.get(command.code)
            if command.code in self._broker.ignore:
                continue
            if code is None:
                passed.append(command)
            else:
                self._link.send(command.response(code, "refused by the test").encode())
        self._session.receive(passed)

    def closed(self) -> None:
        self._session.closed()


class VirtualCluster:
    """A name server at ``NAMESRV``, and brokers, with stores in ``folder``. ``make_files`` gets a broker's port."""

    def __init__(self, loop: VirtualLoop, folder: Path, make_files: Callable[[int], CopyingFiles]) -> None:
        self.loop = loop
        self.folder = folder
        self.make_files = make_files
        self._controller = NamesrvController(folder, make_files(1))
        self._processor = NamesrvProcessor(self._controller)
        self._ports = count(10_911, 10)
        self.brokers: list[VirtualBroker] = []
        self.serve_names()

    def serve_names(self) -> None:
        self.loop.servers[NAMESRV] = lambda link: _NameServerSession(link, self._processor, self.loop)

    def add_broker(self, name: str = "a", **options: Any) -> VirtualBroker:
        broker = VirtualBroker(self, name, next(self._ports), **options)
        self.brokers.append(broker)
        return broker

    def register(self, broker: VirtualBroker) -> None:
        engine = broker.engine
        registration = describe_broker(engine.options, engine.topics, read_only=False, only=None)
        self._controller.routes.register_broker(registration, None, self.loop.now(), expires=False)

    def unregister(self, broker: VirtualBroker) -> None:
        self._controller.routes.unregister_broker(broker.options.broker_cluster_name, broker.address)

    def create_topic(self, topic: str, queues: int = 4, brokers: list[VirtualBroker] | None = None) -> None:
        """Create a topic on some brokers, by default on all. RequestError for an illegal name or number."""
        for broker in brokers or self.brokers:
            answer = broker.ask(UpdateAndCreateTopic(topic=topic, read_queues=queues, write_queues=queues, perm=6))
            if isinstance(answer, Failed):
                raise RequestError(answer.remark)

    def make_client(self, client_id: str = "") -> MQClientInstance:
        """The ``instance`` of a producer or a consumer: a client at this cluster, on its clock."""
        return MQClientInstance(NAMESRV, client_id=client_id, clock=self.loop)


def run_virtually(
    work: Callable[[VirtualCluster], Coroutine[Any, Any, T]],
    folder: Path,
    *,
    seed: int = 0,
    make_files: Callable[[int], CopyingFiles] = lambda port: RealFiles(),
) -> T:
    """Run ``work`` on a virtual loop with a new cluster, whose stores are in ``folder``, and return its result.

    AssertionError if the work waits for something that never happens, or not within a virtual day.
    """
    loop = VirtualLoop()
    asyncio.set_event_loop(loop)
    random.seed(seed)
    try:
        return loop.run_until_complete(work(VirtualCluster(loop, folder, make_files)))
    finally:
        loop.ending = True
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        asyncio.set_event_loop(None)
        loop.close()
