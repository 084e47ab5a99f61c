"""A broker registers at name servers that come and go. They are real ones on real ports, GlassMQ's own."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from broker_core.clock import SystemClock
from broker_core.codes import RequestCode
from broker_core.namesrv.register_broker import describe_broker
from broker_core.options import Options
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.server import route_registration
from broker_core.server.namesrv_server import NameServer
from broker_core.server.route_registration import RouteRegistration
from broker_core.server.tls import TlsOptions
from broker_core.topics import TopicConfigManager
from tests.fakes.name_server import FOLDER
from tests.fakes.ports import unused_ports
from tests.fakes.remoting_peer import NotingSession, serving, until
from tests.fakes.simulated_files import SimulatedFiles

CLOCK = SystemClock()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_registration, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(route_registration, "LONGEST_PAUSE", 0.005)
    monkeypatch.setattr(route_registration, "GATHER_SECONDS", 0.001)


class Broker:
    """A broker's topics, and its registration at the name servers on these ports."""

    def __init__(self, *ports: int, read_only: bool = False, **options: Any) -> None:
        self.options = Options(namesrv_addr=";".join(f"127.0.0.1:{port}" for port in ports), **options)
        self.topics = TopicConfigManager(self.options, None, CLOCK.now())
        self.registration = RouteRegistration(
            self.options, lambda only: describe_broker(self.options, self.topics, read_only=read_only, only=only), CLOCK
        )

    def create(self, topic: str, queues: int = 1) -> None:
        self.topics.update(topic, queues, queues, 6, CLOCK.now())
        self.registration.topics_changed([topic])

    def states(self) -> list[str]:
        return [view.state for view in self.registration.views()]


@asynccontextmanager
async def running(broker: Broker) -> AsyncIterator[Broker]:
    broker.registration.start()
    try:
        yield broker
    finally:
        await broker.registration.stop()


@asynccontextmanager
async def name_server(port: int) -> AsyncIterator[NameServer]:
    server = NameServer(FOLDER, SimulatedFiles(), CLOCK, "127.0.0.1", port, tls=TlsOptions(mode="disabled"))
    await server.bind()
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def queues(server: NameServer, topic: str) -> int | None:
    route = server.controller.routes.pick_topic_route(topic)
    return route.queue_datas[0].read_queue_nums if route else None


def knows(server: NameServer, topic: str, number: int | None) -> Callable[[], bool]:
    return lambda: queues(server, topic) == number


async def test_the_broker_registers_at_all_name_servers_updates_and_unregisters() -> None:
    ports = unused_ports(2)
    async with name_server(ports[0]) as one, name_server(ports[1]) as two:
        async with running(Broker(*ports, broker_ip1="10.0.0.1")) as broker:
            for server in (one, two):
                await until(knows(server, "TBW102", 8))
                info = server.controller.routes.cluster_info()
                assert info.broker_addr_table["broker-a"].broker_addrs == {0: "10.0.0.1:10911"}
            await until(lambda: broker.states() == ["registered", "registered"])
            broker.create("orders", 3)
            await until(knows(one, "orders", 3))
            await until(knows(two, "orders", 3))
            broker.create("orders", 5)
            await until(knows(one, "orders", 5))
            await until(lambda: broker.registration.views()[0].registrations >= 3)
            view = broker.registration.views()[0]
            assert view.address == f"127.0.0.1:{ports[0]}" and view.failures == 0
            assert view.registered_at_ms is not None and view.since_ms <= view.registered_at_ms and view.problem == ""
        assert queues(one, "TBW102") is queues(two, "TBW102") is None


async def test_the_broker_registers_again_in_each_period() -> None:
    [port] = unused_ports(1)
    async with name_server(port) as server:
        broker = Broker(port)
        assert broker.registration.period == 30
        broker.registration.period = 0.002
        async with running(broker):
            await until(lambda: broker.registration.views()[0].registrations > 5)
            assert queues(server, "TBW102") == 8


@pytest.mark.parametrize(("period", "seconds"), [(1, 10), (30_000, 30), (600_000, 60)])
def test_the_period_has_rocketmqs_bounds(period: int, seconds: int) -> None:
    assert Broker(1, register_name_server_period=period).registration.period == seconds


async def test_a_name_server_that_starts_late_and_restarts(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, route_registration.__name__)
    [port] = unused_ports(1)
    broker = Broker(port)
    broker.registration.start()
    await until(lambda: broker.registration.views()[0].failures > 3)
    assert broker.states() == ["failing"] and broker.registration.views()[0].problem
    for _ in range(2):
        async with name_server(port) as server:
            await until(knows(server, "TBW102", 8))
            await until(lambda: broker.states() == ["registered"])
        await until(lambda: broker.states() == ["failing"])
    await broker.registration.stop()
    said = [record.message for record in caplog.records]
    assert len(said) == 5, f"once for each change: {said}"
    assert all(
        text.startswith(f"this broker could not register at name server 127.0.0.1:{port}: ") for text in said[::2]
    )
    assert said[1] == said[3] == f"registered at name server 127.0.0.1:{port}"


async def test_a_connection_that_ends_is_made_again_without_a_word(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving() as server, running(Broker(server.ports[0])) as broker:
        await until(lambda: broker.states() == ["registered"])
        monkeypatch.setattr(route_registration, "FIRST_PAUSE", 60)
        broker.registration._name_servers[0]._client._connection.close("test")  # type: ignore[union-attr]
        await until(lambda: broker.states() == ["connecting"])
        assert broker.registration.views()[0].problem == "the connection ended"
        assert broker.registration.views()[0].failures == 0
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_an_unreachable_name_server_delays_no_other() -> None:
    away, there = unused_ports(2)
    async with name_server(there) as server, running(Broker(away, there)) as broker:
        await until(knows(server, "TBW102", 8))
        await until(lambda: broker.states() == ["failing", "registered"])
        broker.create("orders", 3)
        await until(knows(server, "orders", 3))


class Refusing(NotingSession):
    """A name server that wants none of it."""

    def answer(self, command: RemotingCommand) -> None:
        self.channel.send(command.response(1, "register broker failed").encode())


class Leaving(NotingSession):
    """A name server that answers and hangs up."""

    def answer(self, command: RemotingCommand) -> None:
        super().answer(command)
        self.channel.close()


class Codes(NotingSession):
    """Notes which requests came, and does not answer those that say good-bye."""

    codes: list[int]

    def answer(self, command: RemotingCommand) -> None:
        self.codes.append(command.code)
        if command.code == RequestCode.REGISTER_BROKER:
            super().answer(command)


async def test_a_name_server_that_refuses(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(Refusing) as server, running(Broker(server.ports[0])) as broker:
        await until(lambda: broker.registration.views()[0].failures > 3)
        view = broker.registration.views()[0]
        assert view.state == "failing" and view.registrations == 0 and view.registered_at_ms is None
        assert view.problem == "the answer was 1: register broker failed"
        assert len(server.sessions) == 1, "over one connection"
    # On a busy machine an answer may come after its call was given up; the client's line about that is another one.
    assert sum(record.name.endswith("route_registration") for record in caplog.records) == 1


async def test_a_name_server_that_hangs_up_is_not_called_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def noting(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    async with serving(Leaving) as server, running(Broker(server.ports[0])) as broker:
        monkeypatch.setattr(route_registration.asyncio, "sleep", noting)
        await until(lambda: broker.registration.views()[0].registrations > 3)
    assert pauses.count(route_registration.FIRST_PAUSE) >= 3


async def test_the_broker_unregisters_although_no_name_server_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_registration, "UNREGISTER_SECONDS", 0.001)
    codes: list[int] = []

    class Noting(Codes):
        pass

    Noting.codes = codes
    async with serving(Noting) as server:
        async with running(Broker(server.ports[0])) as broker:
            await until(lambda: broker.states() == ["registered"])
        await until(lambda: RequestCode.UNREGISTER_BROKER in codes)


async def test_a_read_only_broker_takes_no_messages() -> None:
    [port] = unused_ports(1)
    async with name_server(port) as server, running(Broker(port, read_only=True)):
        await until(knows(server, "TBW102", 8))
        route = server.controller.routes.pick_topic_route("TBW102")
        assert route is not None and route.queue_datas[0].perm == 4


async def test_the_body_is_encoded_once_for_all_name_servers_until_a_change() -> None:
    broker = Broker(1, 2)
    [first] = broker.registration.registrations()
    assert broker.registration.registrations()[0] is first
    broker.create("orders")
    assert broker.registration.registrations()[0][1] != first[1]


class Topics(NotingSession):
    """Accepts everything. Notes the topics of each registration, and of each request for one topic."""

    requests: list[tuple[int, set[str]]]

    def answer(self, command: RemotingCommand) -> None:
        if command.code == RequestCode.REGISTER_TOPIC_IN_NAMESRV:
            self.requests.append((command.code, {command.ext_fields["topic"]}))
        elif command.code == RequestCode.REGISTER_BROKER:
            table = json.loads(command.body)["topicConfigSerializeWrapper"]["topicConfigTable"]
            self.requests.append((command.code, set(table)))
        super().answer(command)


ALL, SINGLE = RequestCode.REGISTER_BROKER, RequestCode.REGISTER_TOPIC_IN_NAMESRV


@pytest.fixture
def requests() -> list[tuple[int, set[str]]]:
    Topics.requests = []
    return Topics.requests


async def test_a_changed_topic_is_registered_alone(requests: list[tuple[int, set[str]]]) -> None:
    async with serving(Topics) as server, running(Broker(server.ports[0], enable_single_topic_register=True)) as broker:
        await until(lambda: broker.states() == ["registered"])
        broker.create("orders")
        await until(lambda: len(requests) == 2)
        broker.create("invoices")
        await until(lambda: len(requests) == 3)
    assert [code for code, _ in requests] == [ALL, SINGLE, SINGLE]
    assert [topics for _, topics in requests[1:]] == [{"orders"}, {"invoices"}]


async def test_many_changed_topics_are_registered_together(
    requests: list[tuple[int, set[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route_registration, "MAX_SINGLE_TOPICS", 2)
    async with serving(Topics) as server, running(Broker(server.ports[0], enable_single_topic_register=True)) as broker:
        await until(lambda: broker.states() == ["registered"])
        for topic in ("a", "b", "c"):
            broker.create(topic)
        await until(lambda: len(requests) == 2)
    assert requests[1][0] == ALL and {"a", "b", "c"} <= requests[1][1]


async def test_a_name_server_that_lost_the_broker_gets_all_topics() -> None:
    [port] = unused_ports(1)
    async with running(Broker(port, enable_single_topic_register=True)) as broker:
        async with name_server(port):
            await until(lambda: broker.states() == ["registered"])
        await until(lambda: broker.states() == ["failing"])
        broker.create("orders")
        async with name_server(port) as server:
            await until(knows(server, "orders", 1))
            await until(knows(server, "TBW102", 8))


async def test_our_name_server_takes_a_single_topic() -> None:
    [port] = unused_ports(1)
    async with name_server(port) as server, running(Broker(port, enable_single_topic_register=True)) as broker:
        await until(lambda: broker.states() == ["registered"])
        broker.create("orders", 3)
        await until(knows(server, "orders", 3))
        assert queues(server, "TBW102") == 8


SPLIT = {"enable_split_registration": True, "split_registration_size": 3}
NAMES = [f"topic-{number}" for number in range(10)]


async def test_a_split_registration_has_all_topics_in_parts(requests: list[tuple[int, set[str]]]) -> None:
    async with serving(Topics) as server:
        broker = Broker(server.ports[0], **SPLIT)
        for name in NAMES:
            broker.create(name)
        async with running(broker):
            await until(lambda: broker.states() == ["registered"])
    everything = {config.topic_name for config in broker.topics}
    first = requests[: -(-len(everything) // 3)]
    assert all(code == ALL and len(topics) <= 3 for code, topics in first)
    assert set().union(*(topics for _, topics in first)) == everything


async def test_our_name_server_takes_each_part_of_a_split_registration() -> None:
    [port] = unused_ports(1)
    async with name_server(port) as server, running(Broker(port, **SPLIT)) as broker:
        for queues in (1, 2):
            for name in NAMES:
                broker.create(name, queues)
            for name in NAMES:
                await until(knows(server, name, queues))


async def test_a_registration_that_never_started_can_be_stopped() -> None:
    broker = Broker(1)
    await broker.registration.stop()
    assert broker.states() == ["connecting"]
    assert Broker().registration.views() == []
