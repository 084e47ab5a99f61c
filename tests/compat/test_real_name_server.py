"""Apache RocketMQ's name server and GlassMQ's: a broker of GlassMQ at the one, the same requests to both."""

import asyncio
import json
import os
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from broker_core.client.remoting_client import RemotingClient
from broker_core.clock import SystemClock
from broker_core.codes import RequestCode
from broker_core.formats import rocketmq_json
from broker_core.namesrv.register_broker import body_crc32, describe_broker
from broker_core.options import Options
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.server.namesrv_server import NameServer
from broker_core.server.route_registration import RouteRegistration
from broker_core.server.tls import TlsOptions
from broker_core.store.files import RealFiles
from broker_core.topics import TopicConfigManager
from tests.compat.conftest import needs
from tests.compat.real_rocketmq import Server, jars, name_server
from tests.conftest import Manage
from tests.fakes.name_server import broker_header, register_body, topic_config
from tests.fakes.ports import unused_ports

CLOCK = SystemClock()
PATIENCE = 90.0


@contextmanager
def their_name_server(folder: Path) -> Iterator[Server]:
    """RocketMQ's name server, running."""
    server = needs(lambda: name_server(folder))
    try:
        server.start()
        server.wait_ready()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """RocketMQ's name server, for tests that leave nothing in it."""
    with their_name_server(tmp_path_factory.mktemp("rocketmq")) as server:
        yield server


@asynccontextmanager
async def our_name_server(folder: Path) -> AsyncIterator[int]:
    """GlassMQ's name server; its port."""
    [port] = unused_ports(1)
    server = NameServer(folder, RealFiles(), CLOCK, "127.0.0.1", port, tls=TlsOptions(mode="disabled"))
    await server.bind()
    await server.start()
    try:
        yield port
    finally:
        await server.stop()


class Broker:
    """Topics of a broker of GlassMQ, registered at name servers."""

    def __init__(self, *ports: int, **options: Any) -> None:
        self.options = Options(namesrv_addr=";".join(f"127.0.0.1:{port}" for port in ports), **options)
        self.topics = TopicConfigManager(self.options, None, CLOCK.now())
        self.registration = RouteRegistration(
            self.options, lambda only: describe_broker(self.options, self.topics, read_only=False, only=only), CLOCK
        )

    def create(self, topic: str, queues: int) -> None:
        self.topics.update(topic, queues, queues, 6, CLOCK.now())
        self.registration.topics_changed([topic])


async def route(client: RemotingClient, topic: str) -> Any:
    answer = await client.invoke(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, timeout_s=PATIENCE)
    assert answer.code in (0, 17), answer
    return json.loads(answer.body) if answer.code == 0 else None


async def until_route(client: RemotingClient, topic: str, expected: Any) -> None:
    """Ask until the route is that; the last one is shown when it never is."""
    last: Any = "not asked"
    try:
        async with asyncio.timeout(PATIENCE):
            while (last := await route(client, topic)) != expected:
                await asyncio.sleep(0.02)
    except TimeoutError:
        assert last == expected


def route_of(name: str, addr: str, queues: int, perm: int = 6) -> Any:
    return {
        "brokerDatas": [
            {"brokerAddrs": {"0": addr}, "brokerName": name, "cluster": "DefaultCluster", "enableActingMaster": False}
        ],
        "filterServerTable": {},
        "queueDatas": [
            {"brokerName": name, "perm": perm, "readQueueNums": queues, "topicSysFlag": 0, "writeQueueNums": queues}
        ],
    }


# --- A broker of GlassMQ at RocketMQ's name server ------------------------------------------------------------------


REGISTRATIONS: dict[str, dict[str, Any]] = {
    "all topics": {},
    "single topics": {"enable_single_topic_register": True},
    "split": {"enable_split_registration": True, "split_registration_size": 2},
}


@pytest.mark.parametrize("options", REGISTRATIONS.values(), ids=REGISTRATIONS)
async def test_the_broker_registers_updates_and_unregisters_at_rocketmqs_name_server(
    real: Server, options: dict[str, Any]
) -> None:
    client = RemotingClient("127.0.0.1", real.port)
    broker = Broker(real.port, broker_name="glass-a", broker_ip1="10.0.0.1", **options)
    broker.registration.start()
    await until_route(client, "TBW102", route_of("glass-a", "10.0.0.1:10911", 8, 7))
    broker.create("orders", 3)
    await until_route(client, "orders", route_of("glass-a", "10.0.0.1:10911", 3))
    broker.create("orders", 5)
    await until_route(client, "orders", route_of("glass-a", "10.0.0.1:10911", 5))
    broker.topics.change_options(Options(broker_permission=4))
    broker.options = Options(broker_name="glass-a", broker_ip1="10.0.0.1", broker_permission=4)
    broker.registration.topics_changed(["orders"])
    await until_route(client, "orders", route_of("glass-a", "10.0.0.1:10911", 5, 4))
    await broker.registration.stop()
    await until_route(client, "orders", None)
    [view] = broker.registration.views()
    assert view.state == "registered" and view.failures == 0
    await client.close()


async def test_a_whole_broker_that_is_killed_disappears(real: Server, manage: Manage) -> None:
    client = RemotingClient("127.0.0.1", real.port)
    broker = f"127.0.0.1:{manage.environment['GLASSMQ_BROKER_PORT']}"
    process = manage.start(
        "broker",
        "--no-schedules",
        GLASSMQ_ENGINE="embedded",
        GLASSMQ_BROKER_NAME="glass-b",
        GLASSMQ_NAMESRV_ADDR=real.address,
    )
    await until_route(client, "TBW102", route_of("glass-b", broker, 8, 7))
    sender = RemotingClient("127.0.0.1", int(manage.environment["GLASSMQ_BROKER_PORT"]))
    sent = await sender.invoke(
        RequestCode.SEND_MESSAGE_V2,
        {
            "a": "producers",
            "b": "orders",
            "c": "TBW102",
            "d": "4",
            "e": "0",
            "f": "0",
            "g": "1700000000000",
            "h": "0",
            "i": "",
            "j": "0",
            "k": "false",
            "m": "false",
        },
        b"hello",
        timeout_s=PATIENCE,
    )
    assert sent.code == 0, sent.remark
    await until_route(client, "orders", route_of("glass-b", broker, 4))
    process.kill()
    await until_route(client, "orders", None)
    await sender.close()
    await client.close()


async def test_a_name_server_that_restarts_gets_the_routes_again(real: Server) -> None:
    client = RemotingClient("127.0.0.1", real.port)
    broker = Broker(real.port, broker_name="glass-c")
    broker.registration.start()
    broker.create("orders", 3)
    await until_route(client, "orders", route_of("glass-c", "127.0.0.1:10911", 3))
    await asyncio.to_thread(real.stop)
    real.start()
    await asyncio.to_thread(real.wait_ready)
    await until_route(client, "orders", route_of("glass-c", "127.0.0.1:10911", 3))
    await broker.registration.stop()
    await client.close()


# --- The same requests to both --------------------------------------------------------------------------------------


def mqadmin(command: str, namesrv: str, *arguments: str, home: Path) -> str:
    """What RocketMQ's own tool prints."""
    done = subprocess.run(
        [
            "java",
            "-Xmx128m",
            f"-Duser.home={home}",
            "-cp",
            f"{jars()}/*",
            "org.apache.rocketmq.tools.command.MQAdminStartup",
            command,
            "-n",
            namesrv,
            *arguments,
        ],
        env=os.environ | {"ROCKETMQ_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return re.sub(r"^\d\d:\d\d:\d\d,\d{3} \|-.*\n", "", done.stdout, flags=re.MULTILINE)  # its logger's own


async def test_rocketmqs_own_tool_sees_the_same(real: Server, tmp_path: Path, everything: bool) -> None:
    async with our_name_server(tmp_path / "namesrv") as port:
        clients = [RemotingClient("127.0.0.1", number) for number in (real.port, port)]
        broker = Broker(real.port, port, broker_name="glass-d")
        broker.registration.start()
        broker.create("orders", 3)
        for client in clients:
            await until_route(client, "orders", route_of("glass-d", "127.0.0.1:10911", 3))

        async def ask_both(command: str, *arguments: str) -> list[str]:
            return list(
                await asyncio.gather(
                    *(
                        asyncio.to_thread(mqadmin, command, f"127.0.0.1:{client.port}", *arguments, home=tmp_path)
                        for client in clients
                    )
                )
            )

        theirs, ours = await ask_both("topicRoute", "-t", "orders")
        assert ours == theirs and '"glass-d"' in ours and "127.0.0.1:10911" in ours
        if everything:  # each call of the tool takes seconds
            theirs, ours = await ask_both("topicList")
            assert sorted(ours.split()) == sorted(theirs.split()) and "orders" in ours
            theirs, ours = await ask_both("updateKvConfig", "-s", "space", "-k", "key", "-v", "value")
            assert ours == theirs and "success" in ours
        theirs, ours = await ask_both("wipeWritePerm", "-b", "glass-d")
        assert ours.replace(str(port), "") == theirs.replace(str(real.port), "") and "glass-d" in ours
        for client in clients:
            await until_route(client, "orders", route_of("glass-d", "127.0.0.1:10911", 3, 4))
        await broker.registration.stop()
        await asyncio.gather(*(client.close() for client in clients))


def dialogue() -> Iterator[tuple[int, dict[str, str], bytes]]:
    """A few hundred requests of all kinds, with their order."""
    key = {"namespace": "diff", "key": "k"}
    version = json.dumps({"counter": 1, "stateVersion": 0, "timestamp": 1_700_000_000_000}).encode()
    looks = [(105, {"topic": topic}, b"") for topic in ("t1", "t2", "t9", "a1", "s1", "z1", "c1")] + [
        (106, {}, b""),
        (206, {}, b""),
        (304, {}, b""),
        (311, {}, b""),
        (312, {}, b""),
        (313, {}, b""),
        (224, {"cluster": "C1"}, b""),
        (224, {"cluster": "C2"}, b""),
        (901, {"clusterName": "C1", "brokerName": "b1"}, b""),
    ]

    def registered(
        name: str,
        addr: str,
        *topics: str,
        broker_id: int = 0,
        cluster: str = "C1",
        queues: int = 4,
        counter: int = 1,
        state_version: int = 0,
        flag: int = 0,
        **fields: str,
    ) -> tuple[int, dict[str, str], bytes]:
        body = register_body(
            *(topic_config(topic, queues, sys_flag=flag) for topic in topics),
            counter=counter,
            state_version=state_version,
        )
        return 103, broker_header(name, addr, broker_id, cluster, **fields), body

    for step in [
        (101, key, b""),
        (219, {"namespace": "diff"}, b""),
        (100, key | {"value": "v"}, b""),
        (101, key, b""),
        (219, {"namespace": "diff"}, b""),
        (102, key, b""),
        (101, key, b""),
        (219, {"namespace": "diff"}, b""),
        registered("b1", "1.1.1.1:1", "t1", "t2"),
        registered("b1", "1.1.1.1:1", "t1", "t9", queues=9),
        registered("b1", "1.1.1.1:1", "t1", queues=9, counter=2),
        registered("b1", "1.1.1.1:1", "t1", "t2", bodyCrc32="5"),
        registered(
            "b1",
            "1.1.1.1:1",
            "t1",
            "t2",
            bodyCrc32=str(body_crc32(register_body(topic_config("t1"), topic_config("t2")))),
        ),
        registered("b1", "1.1.1.2:1", "t1", "t2", queues=7),
        registered("b1", "1.1.1.3:1", "t1", "t2", state_version=5),
        registered("b1", "1.1.1.4:1", "t1", "t2", state_version=4, queues=2),
        registered("b1", "1.1.1.3:1", "t1", "t2", broker_id=1, queues=6),
        registered("b2", "2.1.1.1:1", "t1", "t2"),
        registered("b2", "2.1.1.2:1", "s1", "s2", broker_id=1),
        registered("b2", "2.1.1.3:1", "s1", "s2", broker_id=2, enableActingMaster="true"),
        registered("b3", "3.1.1.2:1", "a1", "a2", broker_id=1, enableActingMaster="true"),
        registered("b3", "3.1.1.1:1", "a1", "a2", enableActingMaster="true"),
        registered("b4", "4.1.1.1:1", "z1", "z2", flag=1, cluster="C2", __ZONE_NAME="zone"),
        registered("b4", "4.1.1.1:1", "z1", "z2", flag=2, counter=2, cluster="C2"),
        registered("b4", "4.1.1.1:1", "z1", "z2", flag=3, counter=3, cluster="C2"),
        (322, broker_header("b2", "2.1.1.1:1"), version),
        (322, broker_header("b2", "2.1.1.1:1"), b""),
        (322, broker_header("zz", "9.1.1.1:1"), version),
        (904, broker_header("b2", "2.1.1.1:1"), b""),
        (205, {"brokerName": "b2"}, b""),
        (205, {"brokerName": "zz"}, b""),
        (327, {"brokerName": "b2"}, b""),
        (217, {"topic": "nt"}, b'{"queueDatas":[{"brokerName":"b2","perm":6,"readQueueNums":3,"writeQueueNums":3}]}'),
        (105, {"topic": "nt"}, b""),
        (216, {"topic": "nt", "clusterName": "C2"}, b""),
        (105, {"topic": "nt"}, b""),
        (216, {"topic": "nt", "clusterName": "C1"}, b""),
        (105, {"topic": "nt"}, b""),
        (216, {"topic": "t2"}, b""),
        (100, {"namespace": "ORDER_TOPIC_CONFIG", "key": "t1", "value": "b1:4;b2:4"}, b""),
        registered("b2", "2.1.1.1:1", "t1", "t2", counter=2),
        (318, {}, b"orderMessageEnable=true\n"),
        (105, {"topic": "t1"}, b""),
        (318, {}, b"kvConfigPath=/x\n"),
        (10, {}, b""),
        (99_999, {}, b""),
        (-1, {}, b""),
        registered("only", "5.1.1.1:1", "one"),
    ]:
        yield step
        if step[1].get("brokerName") != "only":  # what RocketMQ keeps of a broker that it refused, GlassMQ does not
            yield from looks


def comparable(answer: RemotingCommand) -> Any:
    """An answer without the order of what has none."""
    body: Any = answer.body
    if body[:1] == b"{":
        body = rocketmq_json.decode(body)
        if "topicList" in body:
            body["topicList"].sort()
        for names in body.get("clusterAddrTable", {}).values():
            names.sort()
        for table in ("brokerDatas", "queueDatas"):
            body.get(table, []).sort(key=lambda data: data["brokerName"])
    remark = answer.remark if answer.code or "not set any" not in answer.remark else ""
    return answer.code, answer.ext_fields, remark, body


async def test_both_name_servers_give_the_same_answers(tmp_path: Path) -> None:
    with their_name_server(tmp_path / "rocketmq") as real:
        async with our_name_server(tmp_path / "namesrv") as port:
            await compare(RemotingClient("127.0.0.1", real.port), RemotingClient("127.0.0.1", port))


async def compare(theirs: RemotingClient, ours: RemotingClient) -> None:
    """Say the same to both; ask for routes as the Java client and as the Go client too."""
    for code, fields, body in dialogue():
        for version in (493, 317) if code == RequestCode.GET_ROUTEINFO_BY_TOPIC else (493,):
            expected = comparable(await ask(theirs, code, fields, body, version))
            assert comparable(await ask(ours, code, fields, body, version)) == expected, (code, fields, body)
    await theirs.close()
    await ours.close()


async def ask(client: RemotingClient, code: int, fields: dict[str, str], body: bytes, version: int) -> RemotingCommand:
    """``invoke`` by a client of that release."""
    make = client._request

    def of_release(*arguments: Any, **keywords: Any) -> RemotingCommand:
        request = make(*arguments, **keywords)
        request.version = version
        return request

    client._request = of_release  # type: ignore[method-assign]
    try:
        return await client.invoke(code, fields, body, timeout_s=PATIENCE)
    finally:
        client._request = make  # type: ignore[method-assign]
