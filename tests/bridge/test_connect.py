import asyncio
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bridge.channel_port import ChannelPort
from bridge.connect import EmbeddedPort, make_host, make_port
from bridge.port import EnginePort, PortUnavailable, get_port, set_port
from bridge.socket_port import SocketPort
from broker_core.client.remoting_client import RemotingClient
from broker_core.codes import RequestCode, ResponseCode
from broker_core.commands import BrokerView, GetBroker, GetHolds, Held, Pulled, Sent
from broker_core.errors import StoreError, StoreLockedError
from broker_core.formats.poll_journal import decode_entries
from broker_core.options import make_options
from broker_core.remoting.ha_transfer import REPORT
from broker_core.server.remoting_server import CannotServe
from tests.bridge.conftest import in_memory_layer, pull, send
from tests.fakes.engine import context_of
from tests.fakes.fake_engine import QUICK
from tests.fakes.fake_master import fake_master
from tests.fakes.followed import master
from tests.fakes.ports import unused_broker_port, unused_ports


def settings(
    folder: Path, engine: str = "embedded", broker_port: int = 0, namesrv_port: int = 0, **options: Any
) -> Any:
    return SimpleNamespace(
        GLASSMQ_ENGINE=engine,
        GLASSMQ_STORE_DIR=folder / "store",
        GLASSMQ_STORE_ADOPT=False,
        GLASSMQ_SOCKET=folder / "engine.sock",
        GLASSMQ_BROKER_HOST="127.0.0.1",
        GLASSMQ_BROKER_PORT=broker_port,
        GLASSMQ_NAMESRV_PORT=namesrv_port,
        GLASSMQ_DATA_DIR=folder,
        GLASSMQ_MAX_CONNECTIONS=100,
        GLASSMQ_NAMESRV_ADDR="",
        GLASSMQ_ATTACH="",
        GLASSMQ_ATTACH_SOURCE="auto",
        GLASSMQ_ATTACH_BEGIN="min",
        GLASSMQ_ATTACH_MAX_RATE=20,
        GLASSMQ_ATTACH_HA={},
        GLASSMQ_OPTIONS=make_options(
            {"mappedFileSizeCommitLog": 1 << 20, "maxHashSlotNum": 1000, "maxIndexNum": 4000} | options
        ),
    )


@pytest.mark.parametrize(
    ("engine", "kind"), [("embedded", EmbeddedPort), ("child", SocketPort), ("remote", ChannelPort)]
)
def test_the_settings_choose_the_port(tmp_path: Path, engine: str, kind: type[EnginePort]) -> None:
    assert type(make_port(settings(tmp_path, engine))) is kind


async def test_an_embedded_engine_serves_holds_and_stops(tmp_path: Path) -> None:
    port = make_port(settings(tmp_path))
    await port.start()
    assert isinstance(await port.call(send()), Sent)
    view = await port.call(GetBroker())
    assert isinstance(view, BrokerView)
    assert view.store_path == str(tmp_path / "store")
    pulled = await port.connection().call(pull(1, wait_ms=1))
    assert isinstance(pulled, Pulled)
    await port.stop()


async def test_stopping_answers_the_holds_of_its_own_web(tmp_path: Path) -> None:
    port = make_port(settings(tmp_path))
    await port.start()
    await port.call(send())
    reported: asyncio.Future[Held] = asyncio.get_running_loop().create_future()
    call = asyncio.create_task(port.connection().call(pull(1, report_hold=True), on_held=reported.set_result))
    await reported
    await port.stop()
    pulled = await call
    assert isinstance(pulled, Pulled)
    assert pulled.hold is not None
    assert pulled.hold.wake_cause == "shutdown"


async def test_the_poll_journal_is_beside_the_store(tmp_path: Path) -> None:
    port = make_port(settings(tmp_path))
    await port.start()
    await port.call(send())
    await port.connection().call(pull(1, wait_ms=1))
    await port.stop()
    (file,) = (tmp_path / "store" / "polljournal").iterdir()
    (entry,) = decode_entries(file.read_bytes())
    assert (entry.kind, entry.cause, entry.topic) == ("woken", "timeout", "t")


async def test_a_locked_store_is_reported_at_the_start(tmp_path: Path) -> None:
    first = make_host(settings(tmp_path))
    await first.start()
    port = EmbeddedPort(make_host(settings(tmp_path), QUICK), in_memory_layer(), "broker-a")
    with pytest.raises(StoreLockedError):
        await port.start()
    await port.stop()
    await first.stop()


async def test_rocketmq_clients_are_served_beside_the_web_and_answered_to_the_end(tmp_path: Path) -> None:
    broker_port = unused_broker_port()
    port = make_port(settings(tmp_path, broker_port=broker_port))
    await port.start()
    client, old_client = RemotingClient("127.0.0.1", broker_port), RemotingClient("127.0.0.1", broker_port - 2)
    await port.call(send())
    for each in (client, old_client):
        answer = await each.invoke(RequestCode.GET_MAX_OFFSET, {"topic": "t", "queueId": "0"})
        assert (answer.code, answer.ext_fields["offset"]) == (0, "1")
    pull = asyncio.create_task(
        client.invoke(
            RequestCode.PULL_MESSAGE,
            {
                "consumerGroup": "g",
                "topic": "t",
                "queueId": "0",
                "queueOffset": "1",
                "maxMsgNums": "32",
                "sysFlag": "6",
                "commitOffset": "0",
                "suspendTimeoutMillis": "60000",
                "subscription": "*",
                "subVersion": "0",
            },
            timeout_s=60,
        )
    )
    while not (await port.call(GetHolds())).total:  # type: ignore[attr-defined]
        pass
    await port.stop()
    assert (await pull).code == ResponseCode.PULL_NOT_FOUND
    with pytest.raises(OSError):  # noqa: PT011  # refused or reset, as the system says it
        await client.invoke(RequestCode.GET_MAX_OFFSET, {"topic": "t", "queueId": "0"})
    await client.close()
    await old_client.close()


async def test_slaves_are_served_while_the_broker_runs(tmp_path: Path) -> None:
    [port] = unused_ports(1)
    host = make_host(settings(tmp_path, haListenPort=port))
    await host.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(REPORT.pack(0))
    async with asyncio.timeout(60):
        while not context_of(host.runner.engine).ha_service.slaves:
            await asyncio.sleep(0.001)
    await host.stop()
    assert await reader.read() == b""
    writer.close()


async def test_a_taken_port_for_slaves_ends_the_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        host = make_host(settings(tmp_path, haListenPort=port))
        with pytest.raises(CannotServe, match="haListenPort"):
            await host.start()
    again = make_host(settings(tmp_path))
    await again.start()  # the store was closed
    await again.stop()


async def test_a_taken_port_ends_the_start_before_a_store_is_opened(tmp_path: Path) -> None:
    broker_port = unused_broker_port()
    with socket.create_server(("127.0.0.1", broker_port - 2)):
        host = make_host(settings(tmp_path, broker_port=broker_port))
        with pytest.raises(CannotServe, match=rf"{broker_port - 2} .* GLASSMQ_BROKER_PORT={broker_port + 10}"):
            await host.start()
    assert not (tmp_path / "store").exists()
    await host.start()
    await host.stop()


async def test_a_store_that_cannot_be_opened_releases_the_port(tmp_path: Path) -> None:
    broker_port = unused_broker_port()
    with pytest.raises(StoreError):
        await make_host(settings(tmp_path, broker_port=broker_port, brokerIP1="broker.example")).start()
    with socket.create_server(("127.0.0.1", broker_port)):
        pass


async def test_clients_find_the_broker_through_the_name_server_beside_it(tmp_path: Path) -> None:
    broker_port, namesrv_port = unused_broker_port(), unused_ports(1)[0]
    host = make_host(settings(tmp_path, broker_port=broker_port, namesrv_port=namesrv_port, listenPort=broker_port))
    await host.start()
    client = RemotingClient("127.0.0.1", namesrv_port)
    answer = await client.invoke(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TBW102"}, timeout_s=60)
    assert f'"brokerAddrs":{{"0":"127.0.0.1:{broker_port}"}}'.encode() in answer.body
    await client.close()
    await host.stop()
    with socket.create_server(("127.0.0.1", namesrv_port)):
        pass


async def test_a_taken_name_server_port_ends_the_start_and_releases_everything(tmp_path: Path) -> None:
    broker_port, namesrv_port = unused_broker_port(), unused_ports(1)[0]
    host = make_host(settings(tmp_path, broker_port=broker_port, namesrv_port=namesrv_port))
    with socket.create_server(("127.0.0.1", namesrv_port)), pytest.raises(CannotServe, match="GLASSMQ_NAMESRV_PORT"):
        await host.start()
    assert not (tmp_path / "store").exists()
    await host.start()
    await host.stop()


async def test_an_invalid_broker_address_is_reported_by_the_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"broker\.example"):
        await make_host(settings(tmp_path, brokerIP1="broker.example")).start()


def test_without_a_port_the_engine_is_unavailable(tmp_path: Path) -> None:
    set_port(None)
    with pytest.raises(PortUnavailable):
        get_port()
    port = make_port(settings(tmp_path, "child"))
    set_port(port)
    assert get_port() is port
    set_port(None)


async def test_an_engine_attached_to_a_cluster_follows_and_serves_no_clients(tmp_path: Path) -> None:
    async with fake_master(master(60)) as leader:
        attached = settings(tmp_path, broker_port=unused_broker_port(), mappedFileSizeCommitLog=65_536)
        attached.GLASSMQ_ATTACH = leader.address
        host = make_host(attached)
        assert (host.remoting, host.routes) == (None, None)
        await host.start()
        async with asyncio.timeout(60):
            while not (client := host.runner.engine.counters).messages_stored:
                await asyncio.sleep(0.01)
        assert client.messages_stored and host.runner.engine.read_only
        await host.stop()
