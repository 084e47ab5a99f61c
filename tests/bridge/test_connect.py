import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bridge.channel_port import ChannelPort
from bridge.connect import EmbeddedPort, make_host, make_port
from bridge.port import EnginePort, PortUnavailable, get_port, set_port
from bridge.socket_port import SocketPort
from broker_core.commands import BrokerView, GetBroker, Held, Pulled, Sent
from broker_core.errors import StoreError, StoreLockedError
from broker_core.options import make_options
from tests.bridge.conftest import in_memory_layer, pull, send
from tests.fakes.fake_engine import QUICK


def settings(folder: Path, engine: str = "embedded", **options: Any) -> Any:
    return SimpleNamespace(GLASSMQ_ENGINE=engine, GLASSMQ_STORE_DIR=folder / "store", GLASSMQ_STORE_ADOPT=False,
        GLASSMQ_SOCKET=folder / "engine.sock",
        GLASSMQ_OPTIONS=make_options(
            {"mappedFileSizeCommitLog": 1 << 20, "maxHashSlotNum": 1000, "maxIndexNum": 4000} | options))


@pytest.mark.parametrize(("engine", "kind"), [
    ("embedded", EmbeddedPort), ("child", SocketPort), ("remote", ChannelPort)])
def test_the_settings_choose(tmp_path: Path, engine: str, kind: type[EnginePort]) -> None:
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
    told: asyncio.Future[Held] = asyncio.get_running_loop().create_future()
    call = asyncio.create_task(port.connection().call(pull(1, report_hold=True), on_held=told.set_result))
    await told
    await port.stop()
    pulled = await call
    assert isinstance(pulled, Pulled)
    assert pulled.hold is not None
    assert pulled.hold.wake_cause == "shutdown"


async def test_a_locked_store_is_said_when_it_starts(tmp_path: Path) -> None:
    first = make_host(settings(tmp_path))
    await first.start()
    port = EmbeddedPort(make_host(settings(tmp_path), QUICK), in_memory_layer(), "broker-a")
    with pytest.raises(StoreLockedError):
        await port.start()
    await port.stop()
    await first.stop()


async def test_a_broker_address_that_is_none_is_said_by_the_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"broker\.example"):
        await make_host(settings(tmp_path, brokerIP1="broker.example")).start()


def test_a_process_without_a_port_says_so(tmp_path: Path) -> None:
    set_port(None)
    with pytest.raises(PortUnavailable):
        get_port()
    port = make_port(settings(tmp_path, "child"))
    set_port(port)
    assert get_port() is port
    set_port(None)
