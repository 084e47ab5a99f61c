"""A real engine beside a name server, and at one elsewhere."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from broker_core import commands as c
from broker_core.client.remoting_client import RemotingClient
from broker_core.clock import SystemClock
from broker_core.codes import RequestCode
from broker_core.engine import Engine
from broker_core.formats.message_id import UniqKeyGenerator
from broker_core.options import Options
from broker_core.server.broker_routes import BrokerRoutes
from broker_core.server.engine_runner import Connection, EngineRunner
from broker_core.server.namesrv_server import NameServer
from broker_core.server.remoting_server import CannotServe
from broker_core.server.tls import TlsOptions
from tests.fakes.engine import ROOT, SMALL, context_of, send
from tests.fakes.ports import unused_ports
from tests.fakes.remoting_peer import until
from tests.fakes.simulated_files import SimulatedFiles

CLOCK = SystemClock()
FOLDER = Path("/namesrv")


def name_server(port: int) -> NameServer:
    return NameServer(FOLDER, SimulatedFiles(), CLOCK, "127.0.0.1", port, tls=TlsOptions(mode="disabled"))


@asynccontextmanager
async def running(
    beside: NameServer | None, *, files: SimulatedFiles | None = None, register_read_only: bool = True, **options: Any
) -> AsyncIterator[tuple[EngineRunner, BrokerRoutes]]:
    made, keys = Options(**(SMALL | options)), UniqKeyGenerator("127.0.0.1", 1, random.Random(1))
    runner = EngineRunner(lambda: Engine.open(ROOT, made, files or SimulatedFiles(), CLOCK, keys.next), CLOCK)
    await runner.start()
    routes = BrokerRoutes(runner, made, CLOCK, beside, register_read_only=register_read_only)
    try:
        await routes.bind()
        await routes.start()
        yield runner, routes
    finally:
        await routes.stop()
        await runner.stop()


async def test_queues_are_assigned_when_all_brokers_are_known() -> None:
    [port] = unused_ports(1)
    server = name_server(port)
    async with running(server) as (runner, _):
        find, topics = context_of(runner.engine).find_queues, context_of(runner.engine).topics
        assert find is not None and find("orders") is None
        for topic, perm in (("orders", 6), ("closed", 2)):
            topics.update(topic, 2, 4, perm, CLOCK.now())
            server.topics_changed({topic})
        assert find("orders") == [
            c.MessageQueue(topic="orders", broker_name="broker-a", queue_id=queue_id) for queue_id in (0, 1)
        ]
        assert find("closed") == []
    for beside, elsewhere in ((None, ""), (name_server(port), f"127.0.0.1:{port}")):
        async with running(beside, namesrv_addr=elsewhere) as (runner, _):
            assert context_of(runner.engine).find_queues is None


async def test_a_topic_has_a_route_when_the_answer_that_made_it_leaves() -> None:
    [port] = unused_ports(1)
    server = name_server(port)
    async with running(server, broker_ip1="10.0.0.1") as (runner, _):
        seen: list[Any] = []

        def sink(replies: list[tuple[Connection, int, c.Reply]]) -> None:
            seen.append(server.controller.routes.pick_topic_route("orders"))

        runner.submit(Connection(sink), 1, send("orders", b"one"))
        await until(lambda: bool(seen))
        assert seen[0].broker_datas[0].broker_addrs == {0: "10.0.0.1:10911"}
        client = RemotingClient("127.0.0.1", port)
        answer = await client.invoke(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"}, timeout_s=60)
        assert msgspec.json.decode(answer.body)["queueDatas"][0]["writeQueueNums"] == 4
        runner.submit(Connection(sink), 2, c.DeleteTopic(topic="orders"))
        await until(lambda: len(seen) == 2)
        assert seen[1] is None
        await client.close()


async def test_the_broker_registers_and_unregisters_at_another_name_server() -> None:
    port, own = unused_ports(2)
    elsewhere = name_server(port)
    await elsewhere.bind()
    await elsewhere.start()
    async with running(name_server(own), namesrv_addr=f"127.0.0.1:{port}") as (runner, routes):
        await until(lambda: elsewhere.controller.routes.pick_topic_route("TBW102") is not None)
        runner.submit(Connection(lambda _: None), 1, send("orders", b"one"))
        await until(lambda: elsewhere.controller.routes.pick_topic_route("orders") is not None)
        await until(lambda: [view.state for view in routes.name_servers()] == ["registered"])
    assert elsewhere.controller.routes.topics() == []
    await elsewhere.stop()


async def test_a_broker_without_a_name_server_has_no_routes() -> None:
    async with running(None) as (runner, routes):
        runner.submit(Connection(lambda _: None), 1, send("orders", b"one"))
        assert routes.name_servers() == []


async def test_a_taken_name_server_port_is_refused() -> None:
    [port] = unused_ports(1)
    taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", port)
    with pytest.raises(CannotServe, match="is taken"):
        async with running(name_server(port)):
            pass
    taken.close()


@pytest.mark.parametrize("asked_for", [False, True])
async def test_a_read_only_store_is_announced_where_somebody_asks_for_it(asked_for: bool) -> None:
    files = SimulatedFiles()
    async with running(None, files=files) as (runner, _):
        runner.submit(Connection(lambda replies: None), 1, send("orders", b"one"))
        await until(lambda: context_of(runner.engine).store.appended_offset > 0)
    files.remove(ROOT / "glassmq")  # as if another broker had written it
    port, own = unused_ports(2)
    server = name_server(port)
    await server.bind()
    await server.start()
    async with running(
        None, files=files, register_read_only=asked_for, namesrv_addr=f"127.0.0.1:{port}", listen_port=own
    ) as (runner, routes):
        assert runner.engine.read_only
        if asked_for:
            await until(lambda: routes.name_servers()[0].registrations > 0)
        assert (server.controller.routes.pick_topic_route("orders") is not None) is asked_for
    await server.stop()
