"""A name server on a real port: clients, brokers that come and go, files."""

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from broker_core.client.remoting_client import RemotingClient
from broker_core.clock import SystemClock
from broker_core.codes import RequestCode, ResponseCode
from broker_core.namesrv.register_broker import describe_broker
from broker_core.options import Options
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.server import namesrv_server
from broker_core.server.namesrv_server import NameServer
from broker_core.server.remoting_server import CannotServe
from broker_core.server.tls import TlsOptions
from broker_core.store.files import RealFiles
from broker_core.topics import TopicConfigManager
from tests.fakes.clock import VirtualClock
from tests.fakes.name_server import FOLDER, broker_header, register_body, topic_config
from tests.fakes.ports import unused_ports
from tests.fakes.remoting_peer import Peer, until
from tests.fakes.simulated_files import SimulatedFiles

PLAIN = TlsOptions(mode="disabled")


class Running:
    """A name server, and clients of it."""

    def __init__(self, files: Any, clock: Any, folder: Path, **options: Any) -> None:
        [self.port] = unused_ports(1)
        self.files = files
        self.clock = clock
        self.name_server = NameServer(folder, files, clock, "127.0.0.1", self.port, tls=PLAIN, **options)
        self.client = RemotingClient("127.0.0.1", self.port)

    async def ask(self, code: int, ext_fields: dict[str, str] | None = None, body: bytes = b"") -> RemotingCommand:
        return await self.client.invoke(code, ext_fields or {}, body, timeout_s=60)

    async def route(self, topic: str) -> Any:
        answer = await self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        return msgspec.json.decode(answer.body) if answer.code == 0 else None

    async def peer(self) -> Peer:
        return Peer(*await asyncio.open_connection("127.0.0.1", self.port))


@asynccontextmanager
async def running(
    files: Any = None, clock: Any = None, folder: Path = FOLDER, **options: Any
) -> AsyncIterator[Running]:
    server = Running(files or SimulatedFiles(), clock or SystemClock(), folder, **options)
    await server.name_server.bind()
    await server.name_server.start()
    try:
        yield server
    finally:
        await server.client.close()
        await server.name_server.stop()


def registration(name: str, addr: str, *topics: str, opaque: int = 1) -> RemotingCommand:
    return RemotingCommand.request(
        RequestCode.REGISTER_BROKER, broker_header(name, addr), register_body(*map(topic_config, topics)), opaque=opaque
    )


async def test_a_broker_lives_as_long_as_its_connection() -> None:
    async with running() as server:
        broker = await server.peer()
        broker.write(registration("b1", "1.1.1.1:1", "t1", "t2"))
        assert (await broker.receive()).code == 0
        route = await server.route("t1")
        assert route["brokerDatas"][0]["brokerAddrs"] == {"0": "1.1.1.1:1"}
        broker.writer.close()
        while await server.route("t1") is not None:
            await asyncio.sleep(0.001)


async def test_a_silent_broker_is_forgotten_and_its_connection_closed() -> None:
    clock = VirtualClock()
    async with running(clock=clock) as server:
        await server.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"scanNotActiveBrokerInterval=100")
        server.name_server._scan_timer.cancel()  # type: ignore[union-attr]
        broker = await server.peer()
        broker.write(registration("b1", "1.1.1.1:1", "t1", "t2"))
        await broker.receive()
        clock.advance(119_000)
        server.name_server._scan_brokers()
        assert await server.route("t1") is not None
        clock.advance(2000)
        assert await broker.rest() == b""
        assert await server.route("t1") is None


async def test_many_requests_of_one_read_and_one_way_ones() -> None:
    async with running() as server:
        peer = await server.peer()
        asked = [RemotingCommand.request(RequestCode.GET_BROKER_CLUSTER_INFO, {}, opaque=n) for n in range(50)]
        oneway = RemotingCommand.request(RequestCode.GET_BROKER_CLUSTER_INFO, {}, opaque=99, oneway=True)
        put = RemotingCommand.request(
            RequestCode.PUT_KV_CONFIG, {"namespace": "n", "key": "k", "value": "v"}, opaque=98, oneway=True
        )
        stray = RemotingCommand.request(1, {}, opaque=97).response(0)
        peer.write(oneway, put, stray, *asked)
        assert [(await peer.receive()).opaque for _ in asked] == list(range(50))
        answer = await server.ask(RequestCode.GET_KV_CONFIG, {"namespace": "n", "key": "k"})
        assert answer.ext_fields == {"value": "v"}


@pytest.mark.covers("binary-header")
async def test_a_binary_header_is_answered_in_kind() -> None:
    async with running() as server:
        peer = await server.peer()
        peer.write(RemotingCommand.request(206, {}, opaque=5, serialize_type="ROCKETMQ"))
        answer = await peer.receive()
        assert answer.serialize_type == "ROCKETMQ" and answer.body == b'{"topicList":[]}'


async def test_an_answer_that_is_too_long_for_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as server:
        monkeypatch.setattr(server.name_server.controller.routes, "topics", lambda: ["t" * 1000] * 20_000)
        answer = await server.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        assert answer.code == ResponseCode.SYSTEM_ERROR and "cannot be sent" in answer.remark


# --- Files ----------------------------------------------------------------------------------------------------------


async def test_an_acknowledged_change_is_on_the_disk(tmp_path: Path) -> None:
    value = {"namespace": "a", "key": "b", "value": "c"}
    async with running(RealFiles(), folder=tmp_path / "namesrv") as server:
        assert (await server.ask(RequestCode.PUT_KV_CONFIG, value)).code == 0
        assert (tmp_path / "namesrv" / "kvConfig.json").read_bytes() == b'{"configTable":{"a":{"b":"c"}}}'
        assert (await server.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true")).code == 0
        assert "orderMessageEnable=true" in (tmp_path / "namesrv" / "namesrv.properties").read_text()
    async with running(RealFiles(), folder=tmp_path / "namesrv") as server:
        assert (await server.ask(RequestCode.GET_KV_CONFIG, value)).ext_fields == {"value": "c"}
        assert b"orderMessageEnable=true" in (await server.ask(RequestCode.GET_NAMESRV_CONFIG)).body


async def test_a_disk_that_refuses_is_said_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    value = {"namespace": "a", "key": "b", "value": "c"}
    async with running() as server:
        server.files.fail("write", 1, errno.ENOSPC)
        answer = await server.ask(RequestCode.PUT_KV_CONFIG, value)
        assert answer.code == ResponseCode.SYSTEM_ERROR and "could not be written" in answer.remark
        assert (await server.ask(RequestCode.GET_KV_CONFIG, value)).ext_fields == {"value": "c"}
        assert (await server.ask(RequestCode.PUT_KV_CONFIG, {"namespace": "a"})).remark.startswith("extFields")
    assert b'"b":"c"' in server.files.read(FOLDER / "kvConfig.json"), "written at the end"
    assert "kvConfig" in caplog.text


async def test_too_many_changes_wait_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namesrv_server, "MAX_UNANSWERED", 2)
    async with running() as server:  # which gets four frames at once: ``RemotingLimits.questions``
        peer = await server.peer()
        peer.write(
            *(RemotingCommand.request(100, {"namespace": "a", "key": "b", "value": "c"}, opaque=n) for n in range(4))
        )
        answers = {answer.opaque: answer.code for answer in [await peer.receive() for _ in range(4)]}
        assert answers == {0: 0, 1: 0, 2: ResponseCode.SYSTEM_BUSY, 3: ResponseCode.SYSTEM_BUSY}


async def test_two_name_servers_cannot_share_a_folder_or_a_port() -> None:
    async with running() as server:
        [port] = unused_ports(1)
        other = NameServer(FOLDER, server.files, server.clock, "127.0.0.1", port, tls=PLAIN)
        with pytest.raises(CannotServe, match="Another name server"):
            await other.bind()
        await other.stop()
        elsewhere = FOLDER.with_name("elsewhere")
        second = NameServer(elsewhere, server.files, server.clock, "127.0.0.1", server.port, tls=PLAIN)
        with pytest.raises(CannotServe, match=f"Port {server.port} of .* is taken"):
            await second.bind()
        assert server.files.lock(elsewhere / "lock", shared=False) is not None, "it does not keep what it does not use"
    async with running(server.files):
        pass


async def test_a_folder_that_cannot_be_had(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    [port] = unused_ports(1)
    server = NameServer(tmp_path / "file" / "namesrv", RealFiles(), SystemClock(), "127.0.0.1", port, tls=PLAIN)
    with pytest.raises(CannotServe, match="cannot keep its configuration"):
        await server.bind()


async def test_a_server_that_was_only_bound_can_be_stopped() -> None:
    [port] = unused_ports(1)
    files = SimulatedFiles()
    for _ in range(2):
        server = NameServer(FOLDER, files, SystemClock(), "127.0.0.1", port, tls=PLAIN)
        await server.bind()
        await server.stop()


# --- The broker beside it -------------------------------------------------------------------------------------------


class Broker:
    """Topics of a broker in this process."""

    def __init__(self, **options: Any) -> None:
        self.clock = VirtualClock()
        self.options = Options(**options)
        self.topics = TopicConfigManager(self.options, None, self.clock.now())

    def describe(self, only: Any) -> Any:
        return describe_broker(self.options, self.topics, read_only=False, only=only)


async def test_the_broker_beside_it_is_known_and_never_expires() -> None:
    broker, clock = Broker(broker_ip1="10.0.0.1", listen_port=20911), VirtualClock()
    async with running(clock=clock) as server:
        server.name_server.topics_changed({"before"})  # nothing happens
        server.name_server.serve_broker(broker.describe)
        route = await server.route("TBW102")
        assert route["brokerDatas"] == [
            {
                "brokerAddrs": {"0": "10.0.0.1:20911"},
                "brokerName": "broker-a",
                "cluster": "DefaultCluster",
                "enableActingMaster": False,
            }
        ]
        clock.advance(1e9)
        server.name_server._scan_brokers()
        assert await server.route("TBW102") == route


async def test_changes_of_the_broker_are_in_the_route_at_once() -> None:
    broker = Broker()
    async with running() as server:
        server.name_server.serve_broker(broker.describe)
        broker.topics.take_changed()
        broker.topics.update("orders", 3, 3, 6, broker.clock.now())
        server.name_server.topics_changed(broker.topics.take_changed() or set())
        assert (await server.route("orders"))["queueDatas"][0]["readQueueNums"] == 3
        broker.topics.update("orders", 5, 5, 6, broker.clock.now())
        broker.topics.update("more", 1, 1, 4, broker.clock.now())
        server.name_server.topics_changed(broker.topics.take_changed() or set())
        assert (await server.route("orders"))["queueDatas"][0]["readQueueNums"] == 5
        assert (await server.route("more"))["queueDatas"][0]["perm"] == 4
        broker.topics.delete("orders", broker.clock.now())
        server.name_server.topics_changed(broker.topics.take_changed() or set())
        assert await server.route("orders") is None and await server.route("more") is not None


@pytest.mark.parametrize("code", [RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER])
@pytest.mark.parametrize(
    ("name", "address"),
    [("broker-a", "1.1.1.1:1"), ("broker-b", "127.0.0.1:10911"), ("broker-a", "127.0.0.1:10911")],
    ids=["its name", "its address", "both"],
)
async def test_another_broker_cannot_change_the_route_of_this_one(code: int, name: str, address: str) -> None:
    broker = Broker()
    async with running() as server:
        server.name_server.serve_broker(broker.describe)
        route = await server.route("TBW102")
        peer = await server.peer()
        header = broker_header(name, address, cluster="DefaultCluster")
        peer.write(RemotingCommand.request(code, header, register_body(topic_config("TBW102", 1, 2)), opaque=1))
        answer = await peer.receive()
        if (name, address) == ("broker-a", "127.0.0.1:10911"):
            assert answer.code == ResponseCode.SUCCESS, "the broker itself, by the address of its own name server"
        else:
            assert answer.code == ResponseCode.NO_PERMISSION and "allowForeignRegistration" in answer.remark
        assert await server.route("TBW102") == route
        peer.writer.close()
        await until(lambda: len(server.name_server.server.channels) == 1)
        assert await server.route("TBW102") == route
        elsewhere = broker_header("broker-c", "1.1.1.1:1", cluster="DefaultCluster")
        answer = await server.ask(
            RequestCode.REGISTER_BROKER, elsewhere, register_body(topic_config("t1"), topic_config("t2"))
        )
        assert answer.code == ResponseCode.SUCCESS and await server.route("t1") is not None


async def test_a_broker_registers_again_after_another_one_replaced_it() -> None:
    broker = Broker()
    async with running(allow_foreign_registration=True) as server:
        server.name_server.serve_broker(broker.describe)
        peer = await server.peer()
        peer.write(
            RemotingCommand.request(
                103,
                broker_header("broker-a", "1.1.1.1:1", cluster="DefaultCluster"),
                register_body(topic_config("t1"), topic_config("t2")),
                opaque=1,
            )
        )
        await peer.receive()
        assert (await server.route("TBW102"))["brokerDatas"][0]["brokerAddrs"] == {"0": "1.1.1.1:1"}
        peer.writer.close()
        await until(lambda: len(server.name_server.server.channels) == 1)
        server.name_server._scan_brokers()
        assert (await server.route("TBW102"))["brokerDatas"][0]["brokerAddrs"] == {"0": "127.0.0.1:10911"}


async def test_a_table_that_is_full_harms_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("broker_core.namesrv.route_info_manager.MAX_TOPICS", 3)
    async with running() as server:
        server.name_server.serve_broker(Broker().describe)
        server.name_server._scan_brokers()
        assert await server.route("TBW102") is None
    assert caplog.text.count("does not accept its broker") == 2


async def test_a_configuration_that_cannot_be_written_is_an_error() -> None:
    files = SimulatedFiles()
    files.make_folders(FOLDER)
    files.write(FOLDER / "kvConfig.json", b'{"configTable":{"a":{"b":"\\ud800"}}}')
    async with running(files) as server:
        for _ in range(2):
            answer = await server.ask(RequestCode.PUT_KV_CONFIG, {"namespace": "a", "key": "c", "value": "d"})
            assert answer.code == ResponseCode.SYSTEM_ERROR and "could not be written" in answer.remark
