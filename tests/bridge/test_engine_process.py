"""Real engines in processes of their own, under signals, kills and wrong surroundings."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from channels_redis.core import RedisChannelLayer

from bridge.channel_port import ChannelPort
from bridge.engine_process import CannotStart, catch_signals, open_store, reach
from bridge.port import BrokerError, PortTimeout, PortUnavailable
from bridge.socket_port import SocketPort
from broker_core.commands import GetBroker, Held, Pulled, Reply, Sent
from tests.bridge.conftest import BROKER, in_memory_layer, new_host, pull, send
from tests.fakes.fake_engine import QUICK, NotingWatcher

if TYPE_CHECKING:
    import subprocess

    from tests.fakes.redis_server import RedisServer

PATIENT = msgspec.structs.replace(QUICK, alive_ms=100, away_alive_ms=50, engine_silence_ms=3000, start_wait_ms=30_000)


class Engine:
    """``manage.py runworker broker-engine`` and a port to it."""

    def __init__(self, manage: Any, arguments: tuple[str, ...], environment: dict[str, str], port: Any) -> None:
        self.port = port
        self.process: subprocess.Popen[str]
        self._start = lambda: manage.start("runworker", "broker-engine", *arguments, **environment)

    def start(self) -> None:
        self.process = self._start()

    async def held(self) -> "asyncio.Task[Reply]":
        reported: asyncio.Future[Held] = asyncio.get_running_loop().create_future()
        call = asyncio.create_task(self.port.connection().call(pull(1, report_hold=True), on_held=reported.set_result))
        await asyncio.wait([reported, call], return_when=asyncio.FIRST_COMPLETED)
        return call

    async def ended(self) -> tuple[int, str]:
        output, _ = await asyncio.to_thread(self.process.communicate, timeout=30)
        return self.process.returncode, output


@pytest.fixture
def short_folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="glassmq-") as folder:
        yield Path(folder)


@pytest.fixture(params=["socket", "redis"])
async def engine(request: pytest.FixtureRequest, manage: Any, short_folder: Path) -> AsyncIterator[Engine]:
    if request.param == "socket":
        path = short_folder / "engine.sock"
        engine = Engine(manage, ("--socket", str(path)), {}, SocketPort(path, limits=PATIENT))
    else:
        server: RedisServer = request.getfixturevalue("redis_server")
        layer = RedisChannelLayer(hosts=[{"address": server.url, "socket_timeout": 30}], prefix="glassmq")
        engine = Engine(manage, (), {"GLASSMQ_REDIS_URL": server.url}, ChannelPort(layer, BROKER, limits=PATIENT))
    engine.start()
    await engine.port.start()
    yield engine
    await engine.port.stop()
    if request.param == "redis":
        await layer.close_pools()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_answers_the_holds_and_ends_with_0(engine: Engine, number: int) -> None:
    assert isinstance(await engine.port.call(send()), Sent)
    call = await engine.held()
    os.kill(engine.process.pid, number)
    pulled = await call
    assert isinstance(pulled, Pulled)
    assert pulled.hold is not None
    assert pulled.hold.wake_cause == "shutdown"
    code, output = await engine.ended()
    assert code == 0, output
    assert "Traceback" not in output


@pytest.mark.parametrize("engine", ["socket"], indirect=True)
async def test_a_child_engine_and_its_port_stop_together(engine: Engine) -> None:
    await engine.port.call(send())
    call = await engine.held()
    engine.process.terminate()
    await engine.port.stop()
    pulled = await call
    assert isinstance(pulled, Pulled)
    code, output = await engine.ended()
    assert code == 0, output


async def test_a_killed_engine_is_restarted(engine: Engine) -> None:
    watcher = NotingWatcher()
    engine.port.watch(watcher, deltas=True)
    await engine.port.call(send())
    call = await engine.held()
    engine.process.kill()
    await engine.ended()
    with pytest.raises((PortUnavailable, PortTimeout)):
        await call
    with pytest.raises((PortUnavailable, PortTimeout)):
        await engine.port.call(GetBroker())
    engine.start()
    sent: Reply | None = None
    async with asyncio.timeout(60):
        while sent is None:
            try:
                sent = await engine.port.call(send(b"after"))
            except BrokerError:
                await asyncio.sleep(0.02)
    assert isinstance(sent, Sent)
    assert sent.messages[0].queue_offset == 1
    assert watcher.lost


async def test_a_second_engine_on_the_store_is_refused_with_a_sentence(engine: Engine, manage: Any) -> None:
    await engine.port.call(send())
    code, output = await asyncio.to_thread(
        manage.run, "runworker", "broker-engine", "--socket", "/tmp/unused.sock", GLASSMQ_BROKER_PORT="0"
    )
    assert code == 1
    assert "in use by another broker" in output
    assert "Traceback" not in output
    assert isinstance(await engine.port.call(send()), Sent)


def test_without_redis_it_ends_with_a_sentence(manage: Any, free_ports: list[int]) -> None:
    code, output = manage.run("runworker", "broker-engine", GLASSMQ_REDIS_URL=f"redis://127.0.0.1:{free_ports[7]}/0")
    assert code == 1
    assert "GLASSMQ_REDIS_URL" in output
    assert "Traceback" not in output


def test_with_an_in_memory_layer_it_ends_with_a_sentence(manage: Any) -> None:
    code, output = manage.run("runworker", "broker-engine")
    assert code == 1
    assert "--socket" in output


@pytest.mark.parametrize("channels", [("broker-engine.other",), ("broker-engine", "mail")])
def test_another_brokers_channel_is_refused_with_a_sentence(manage: Any, channels: tuple[str, ...]) -> None:
    code, output = manage.run("runworker", *channels)
    assert code == 1
    assert "This engine is broker-a" in output


async def test_a_store_that_cannot_be_opened_ends_it_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("not a folder")
    with pytest.raises(CannotStart):
        await open_store(new_host(tmp_path / "store"))


async def test_a_full_layer_is_reached(tmp_path: Path) -> None:
    layer = in_memory_layer(capacity=1)
    await layer.send("broker-engine.b", {"type": "engine.probe"})
    await reach(layer, "broker-engine.b", new_host(tmp_path / "store"))


async def test_the_engine_waits_for_a_late_layer(tmp_path: Path) -> None:
    class Late:
        tries = 0

        async def send(self, channel: str, message: object) -> None:
            self.tries += 1
            if self.tries < 4:
                raise OSError("starting")

    late = Late()
    await reach(late, "broker-engine.b", new_host(tmp_path / "store"))
    assert late.tries == 4


async def test_the_wait_for_a_layer_is_limited(tmp_path: Path) -> None:
    class Stuck:
        async def send(self, channel: str, message: object) -> None:
            await asyncio.Event().wait()

    with pytest.raises(CannotStart):
        await reach(Stuck(), "b", new_host(tmp_path / "store", msgspec.structs.replace(QUICK, connect_ms=10)))


async def test_the_first_signal_is_caught_and_the_second_is_not() -> None:
    stopped = catch_signals()
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(60):
        await stopped.wait()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
