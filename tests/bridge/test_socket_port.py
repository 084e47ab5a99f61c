import asyncio
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest

from bridge import wire
from bridge.engine_host import EngineHost
from bridge.port import PortUnavailable
from bridge.socket_port import LENGTH, EngineSocket, SocketPort
from broker_core.commands import GetBroker, GetHolds, Held, Holds, Pulled, Sent
from tests.bridge.conftest import new_host, pull, send, until
from tests.fakes.fake_engine import QUICK, NotingWatcher


@pytest.fixture
def path() -> Iterator[Path]:
    with TemporaryDirectory(prefix="glassmq-") as folder:  # a Unix socket's path has to be short
        yield Path(folder) / "engine.sock"


@pytest.fixture
async def server(host: EngineHost, path: Path) -> AsyncIterator[EngineSocket]:
    server = EngineSocket(host, path)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def port(server: EngineSocket, path: Path) -> AsyncIterator[SocketPort]:
    port = SocketPort(path, limits=QUICK)
    await port.start()
    yield port
    await port.stop()


async def held(port: SocketPort) -> "asyncio.Task[object]":
    reported: asyncio.Future[Held] = asyncio.get_running_loop().create_future()
    call = asyncio.create_task(port.connection().call(pull(1, report_hold=True), on_held=reported.set_result))
    await reported
    return call


async def holds(port: SocketPort) -> int:
    reply = await port.call(GetHolds())
    assert isinstance(reply, Holds)
    return reply.total


async def test_only_this_user_can_open_the_socket(server: EngineSocket, path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_readers_whose_answers_exceed_the_room_together_all_get_theirs(tmp_path: Path, path: Path) -> None:
    host = new_host(tmp_path / "store", msgspec.structs.replace(QUICK, reply_bytes=50_000))
    await host.start()
    server, port = EngineSocket(host, path), SocketPort(path, limits=QUICK)
    await server.start()
    await port.start()
    await port.call(send(b"x" * 20_000))
    answers = await asyncio.gather(*(port.connection().call(pull(0, wait_ms=0)) for _ in range(40)))
    assert all(isinstance(answer, Pulled) and b"x" * 20_000 in answer.records for answer in answers)
    await port.stop()
    await server.stop()
    await host.stop()


async def test_calls_holds_and_large_bodies(port: SocketPort) -> None:
    body = b"x" * 3_000_000
    limits = port.limits
    assert isinstance(await port.call(send()), Sent)
    call = await held(port)
    assert await holds(port) == 1
    await asyncio.gather(*(port.call(send(body[:900_000])) for _ in range(8)))
    pulled = await call
    assert isinstance(pulled, Pulled)
    assert body[:900_000] in pulled.records
    assert limits.message_bytes > len(pulled.records)


async def test_a_closed_connection_ends_calls_and_holds_and_is_reopened(
    port: SocketPort, server: EngineSocket, host: EngineHost
) -> None:
    watcher = NotingWatcher()
    port.watch(watcher, deltas=True)
    await port.call(send())
    call = await held(port)
    for link in list(server._links):
        link.cut()
    with pytest.raises(PortUnavailable):
        await call
    await watcher.until(lambda: len(watcher.lost) >= 2)
    assert await holds(port) == 0
    await watcher.until(lambda: bool(watcher.deltas))


async def test_a_closed_web_process_leaves_no_hold(port: SocketPort, path: Path) -> None:
    other = SocketPort(path, limits=QUICK)
    await other.start()
    await port.call(send())
    call = await held(other)
    assert await holds(port) == 1
    other._transport._writer.transport.abort()  # type: ignore[attr-defined]
    with pytest.raises(PortUnavailable):
        await call
    while await holds(port):
        await asyncio.sleep(0)
    await other.stop()


async def test_without_an_engine_calls_are_refused_until_it_is_there(host: EngineHost, path: Path) -> None:
    port = SocketPort(path, limits=msgspec.structs.replace(QUICK, start_wait_ms=1))
    await port.start()
    with pytest.raises(PortUnavailable):
        await port.call(GetBroker())
    path.write_text("left by an engine that was killed")
    server = EngineSocket(host, path)
    await server.start()
    await port._heard.wait()
    await port.call(GetBroker())
    await port.stop()
    await server.stop()
    assert not path.exists()


@pytest.mark.parametrize(
    "nonsense", [b"GET / HTTP/1.1\r\n\r\n", LENGTH.pack(3) + b"\xc1\xc1\xc1", LENGTH.pack(9) + b"cut"]
)
async def test_malformed_bytes_on_the_socket_are_ignored(port: SocketPort, path: Path, nonsense: bytes) -> None:
    _, writer = await asyncio.open_unix_connection(str(path))
    writer.write(nonsense)
    await writer.drain()
    writer.close()
    await port.call(GetBroker())


async def test_a_web_process_that_does_not_read_is_cut_off(path: Path, tmp_path: Path) -> None:
    host = new_host(tmp_path / "store", msgspec.structs.replace(QUICK, reply_retry_ms=50))
    await host.start()
    server = EngineSocket(host, path)
    await server.start()
    port = SocketPort(path, limits=QUICK)
    await port.start()
    await port.call(send(b"x" * 900_000))
    reader, writer = await asyncio.open_unix_connection(str(path))
    requests = [(7, number, 1 << 62, pull(0, wait_ms=0)) for number in range(1, 40)]
    requests.append((7, 99, 1 << 62, pull(1)))
    data = wire.encode_to_engine(wire.Requests("deaf", "", 1, [], requests))  # type: ignore[arg-type]
    writer.write(LENGTH.pack(len(data)) + data)
    await until(lambda: "deaf" in host._processes)
    await until(lambda: "deaf" not in host._processes)
    assert await holds(port) == 0
    writer.transport.abort()
    assert reader is not None
    await port.stop()
    await host.stop()
    await server.stop()


async def test_stopping_answers_the_holds(host: EngineHost, server: EngineSocket, port: SocketPort) -> None:
    await port.call(send())
    call = await held(port)
    server.stop_listening()
    await host.stop()
    await server.stop()
    pulled = await call
    assert isinstance(pulled, Pulled)
    assert pulled.hold is not None
    assert pulled.hold.wake_cause == "shutdown"
