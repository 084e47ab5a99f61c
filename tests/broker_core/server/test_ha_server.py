"""The HA port over real sockets: slaves that follow, and everything else that may connect."""

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from broker_core import commands as c
from broker_core.codes import ResponseCode
from broker_core.engine import Engine
from broker_core.formats.message_id import UniqKeyGenerator
from broker_core.options import Options
from broker_core.remoting.ha_connection import TRANSFER_BYTES
from broker_core.remoting.ha_transfer import REPORT, TRANSFER, HaSlave
from broker_core.server import ha_server
from broker_core.server.attach.engine_calls import EngineCalls
from broker_core.server.engine_runner import EngineRunner
from broker_core.server.ha_server import MAX_SLAVES, HAServer, allowed_networks
from broker_core.server.remoting_server import CannotServe
from broker_core.store.files import RealFiles
from tests.fakes.clock import VirtualClock
from tests.fakes.engine import ROOT, SMALL, context_of, send
from tests.fakes.followed import SEGMENT
from tests.fakes.simulated_files import SimulatedFiles

SECONDS = 60


class Master:
    """An engine in memory, its runner and its HA port."""

    def __init__(self, folder: Path = ROOT, files: Any = None, **options: Any) -> None:
        clock, files = VirtualClock(), files or SimulatedFiles(random.Random(1))
        keys = UniqKeyGenerator("127.0.0.1", 1, random.Random(1))
        values = Options(**(SMALL | {"mapped_file_size_commit_log": SEGMENT} | options))
        self.runner = EngineRunner(lambda: Engine.open(folder, values, files, clock, keys.next), clock)
        self.ha = HAServer(self.runner, "127.0.0.1", 0, "")
        self.calls = EngineCalls(self.runner)

    @property
    def end(self) -> int:
        return self.runner.engine.commit_log.max_offset

    async def send(self, count: int = 1, size: int = 700) -> c.Sent:
        reply = await self.calls.call(send("orders", *[b"x" * size for _ in range(count)]))
        assert isinstance(reply, c.Sent)
        return reply

    async def replication(self) -> c.Replication:
        view = await self.calls.call(c.GetBroker())
        assert isinstance(view, c.BrokerView)
        return view.replication

    async def until(self, condition: Callable[[c.Replication], object]) -> c.Replication:
        async with asyncio.timeout(SECONDS):
            while not condition(view := await self.replication()):
                await asyncio.sleep(0)
        return view

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.ha.port)


@asynccontextmanager
async def running(folder: Path = ROOT, files: Any = None, **options: Any) -> AsyncIterator[Master]:
    master = Master(folder, files, **options)
    await master.runner.start()
    await master.ha.start()
    try:
        yield master
    finally:
        await master.runner.stop()
        await master.ha.stop()


class Slave:
    """A slave that keeps what it gets and reports it."""

    def __init__(self, begin: int = 0) -> None:
        self.protocol = HaSlave(begin, SEGMENT)
        self.data = b""

    async def follow(self, master: Master, end: int) -> None:
        """Connect, and return when the copy ends there."""
        reader, writer = await master.connect()
        try:
            writer.write(self.protocol.take_unsent())
            async with asyncio.timeout(SECONDS):
                while self.protocol.confirmed < end:
                    data = await reader.read(65_536)
                    assert data, "the master closed the connection"
                    self.data += b"".join(block.data for block in self.protocol.feed(data))
                    writer.write(REPORT.pack(self.protocol.received))
        finally:
            writer.close()


async def ends(reader: asyncio.StreamReader) -> bytes:
    """What arrives until the connection ends."""
    data = b""
    async with asyncio.timeout(SECONDS):
        with suppress(ConnectionError):
            while part := await reader.read(65_536):
                data += part
    return data


def log_of(master: Master) -> bytes:
    files = context_of(master.runner.engine).store.commit_log.mapped_files
    return b"".join(bytes(file.buffer[: file.size]) for file in files.all())[: master.end]


async def test_a_slave_gets_the_log_byte_for_byte_and_goes_on_after_a_new_connection() -> None:
    async with running() as master:
        await master.send(200)
        slave = Slave()
        await slave.follow(master, master.end)
        await master.send(100)
        again = Slave(slave.protocol.confirmed)
        await again.follow(master, master.end)
        assert slave.data + again.data == log_of(master) and master.end > 3 * SEGMENT


async def test_a_slave_far_behind_is_sent_what_another_thread_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ha_server, "COLD_BYTES", SEGMENT)
    reads: list[int] = []
    read = ha_server._read

    def note(path: Path, position: int, size: int) -> bytes:
        reads.append(size)
        return read(path, position, size)

    monkeypatch.setattr(ha_server, "_read", note)
    async with running(tmp_path / "store", RealFiles()) as master:
        await master.send(300)
        slave = Slave()
        await slave.follow(master, master.end)
        assert slave.data == log_of(master)
        assert master.end - 2 * SEGMENT <= sum(reads) < master.end


async def test_a_slave_that_needs_a_segment_which_is_gone_from_the_disk_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ha_server, "COLD_BYTES", SEGMENT)
    async with running(tmp_path / "store", RealFiles()) as master:
        await master.send(300)
        (tmp_path / "store" / "commitlog" / f"{0:020d}").unlink()
        reader, writer = await master.connect()
        writer.write(REPORT.pack(1))
        assert await ends(reader) == b""
        view = await master.until(lambda view: view.last_refused)
        assert view.last_refused is not None and "no segment with offset 1" in view.last_refused.reason
        writer.close()


async def test_a_disk_that_cannot_be_read_is_no_reason_to_empty_a_slave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, position: int, size: int) -> bytes:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(ha_server, "COLD_BYTES", SEGMENT)
    monkeypatch.setattr(ha_server, "_read", fail)
    async with running(tmp_path / "store", RealFiles()) as master:
        await master.send(300)
        reader, writer = await master.connect()
        writer.write(REPORT.pack(1))
        assert await ends(reader) == b""
        refused = (await master.until(lambda view: view.last_refused)).last_refused
        assert refused is not None and "Too many open files" in refused.reason and "empty store" not in refused.reason
        writer.close()


@pytest.mark.covers("ha-at-once")
async def test_new_messages_are_sent_at_once_and_senders_are_answered_when_the_slave_has_them() -> None:
    async with running(broker_role="SYNC_MASTER", in_sync_replicas=2) as master:
        reader, writer = await master.connect()
        writer.write(REPORT.pack(0))
        await master.until(lambda view: view.slaves)
        sending = asyncio.ensure_future(master.send())
        async with asyncio.timeout(SECONDS):
            offset, size = TRANSFER.unpack(await reader.readexactly(TRANSFER.size))
            data = await reader.readexactly(size)
            assert (offset, data) == (0, log_of(master)) and not sending.done()
            writer.write(REPORT.pack(size - 1))
            await master.until(lambda view: view.slaves[0].slave_ack_offset == size - 1)
            assert not sending.done()
            writer.write(REPORT.pack(size))
            assert (await sending).code == ResponseCode.SUCCESS
        writer.close()
        await master.until(lambda view: not view.slaves)


@pytest.mark.covers("ha-flush")
@pytest.mark.parametrize("flush_disk_type", ["SYNC_FLUSH", "ASYNC_FLUSH"])
async def test_under_sync_flush_slaves_get_what_is_on_the_disk(flush_disk_type: str) -> None:
    async with running(flush_disk_type=flush_disk_type) as master:
        await master.send()
        reader, writer = await master.connect()
        writer.write(REPORT.pack(master.end))
        await master.until(lambda view: view.slaves)
        store, end = context_of(master.runner.engine).store, master.end
        flushed, seen = store.flushed_offset, list[tuple[int, int]]()
        append = store.commit_log.append

        def note(*args: Any) -> Any:
            batch = append(*args)
            (connection,) = master.ha.connections
            connection.send()
            seen.append((connection._slave.transferred, store.flushed_offset))
            return batch

        store.commit_log.append = note  # type: ignore[method-assign]
        await master.send()
        async with asyncio.timeout(SECONDS):
            offset, size = TRANSFER.unpack(await reader.readexactly(TRANSFER.size))
        assert (offset, size) == (end, master.end - end)
        [(transferred, on_disk)] = seen
        assert transferred == (end if flush_disk_type == "SYNC_FLUSH" else master.end)
        assert flushed <= on_disk <= end
        writer.close()


async def test_a_slave_that_reads_nothing_costs_one_transfer_and_delays_nobody() -> None:
    async with running() as master:
        await master.send(200)
        reader, writer = await master.connect()
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(REPORT.pack(1))
        await master.until(lambda view: view.slaves)
        (silent,) = master.ha.connections
        await Slave().follow(master, master.end)
        await master.send(20_000, 700)
        assert silent._transport.get_write_buffer_size() <= TRANSFER.size + TRANSFER_BYTES
        assert silent.is_behind
        writer.close()


@pytest.mark.covers("ha-ahead")
@pytest.mark.parametrize("report", [-1, 1 << 62])
async def test_a_slave_with_an_impossible_offset_is_refused_and_shown(report: int) -> None:
    async with running() as master:
        await master.send()
        reader, writer = await master.connect()
        writer.write(REPORT.pack(report))
        assert await ends(reader) == b""
        view = await master.until(lambda view: view.refused)
        assert view.last_refused is not None and str(report) in view.last_refused.reason and view.slaves == []
        writer.close()


async def test_random_bytes_end_the_connection_and_nothing_else() -> None:
    async with running() as master:
        await master.send()
        noise = random.Random(7)
        for _ in range(20):
            reader, writer = await master.connect()
            with suppress(ConnectionError):
                writer.write(noise.randbytes(500_000))
                await writer.drain()
            await ends(reader)
            writer.close()
        assert (await master.replication()).slaves == [] and not master.ha.connections
        await Slave().follow(master, master.end)


async def test_a_hundred_connections_leave_room_for_a_slave_that_reports() -> None:
    async with running() as master:
        await master.send()
        idle = [await master.connect() for _ in range(100)]
        await Slave().follow(master, master.end)
        assert len(master.ha.connections) <= MAX_SLAVES
        for _, writer in idle:
            writer.close()


async def test_slaves_that_report_are_not_pushed_out() -> None:
    async with running() as master:
        await master.send()
        slaves = [await master.connect() for _ in range(MAX_SLAVES)]
        for _, writer in slaves:
            writer.write(REPORT.pack(1))
        await master.until(lambda view: len(view.slaves) == MAX_SLAVES)
        reader, writer = await master.connect()
        assert await ends(reader) == b""
        assert len((await master.replication()).slaves) == MAX_SLAVES
        for _, one in [*slaves, (reader, writer)]:
            one.close()


async def test_a_silent_slave_gets_heartbeats_and_is_closed_after_20_s() -> None:
    async with running() as master:
        await master.send()
        reader, writer = await master.connect()
        writer.write(REPORT.pack(master.end))
        await master.until(lambda view: view.slaves)
        (connection,) = master.ha.connections
        now = master.ha.loop.time()
        connection.check(now + ha_server.HEARTBEAT_S + 1)
        connection.check(now + ha_server.HEARTBEAT_S + 2)
        connection.check(now + ha_server.SILENCE_S + 1)
        assert await ends(reader) == TRANSFER.pack(master.end, 0)
        view = await master.until(lambda view: not view.slaves)
        assert view.refused == 0
        writer.close()


async def test_a_slow_drip_is_no_report() -> None:
    async with running() as master:
        reader, writer = await master.connect()
        writer.write(b"\0\0\0\0")
        async with asyncio.timeout(SECONDS):
            while not master.ha.connections:
                await asyncio.sleep(0)
        (connection,) = master.ha.connections
        now = master.ha.loop.time()
        writer.write(b"\0")
        await asyncio.sleep(0)
        connection.check(now + ha_server.SILENCE_S + 1)
        assert await ends(reader) == b"" and not master.ha.connections
        writer.close()


async def test_a_broker_that_stops_sends_the_rest_of_its_log() -> None:
    master = Master()
    await master.runner.start()
    await master.ha.start()
    await master.send(500)
    slave = Slave()
    following = asyncio.ensure_future(slave.follow(master, master.end))
    await master.until(lambda view: view.slaves)
    await master.runner.stop()
    await master.ha.stop()
    await following
    assert slave.data == log_of(master)


@pytest.mark.covers("ha-port")
async def test_only_this_machine_and_named_addresses_may_connect() -> None:
    def may(allowed: str, host: str) -> bool:
        server = HAServer(None, "0.0.0.0", 0, allowed)  # type: ignore[arg-type]
        server._allowed = allowed_networks(allowed)
        return server._may_connect(host)

    assert may("", "127.0.0.1") and may("", "::1") and not may("", "10.0.0.7") and not may("", "")
    allowed = "10.0.0.7;10.1.0.0/16;fd00::/8"
    assert may(allowed, "10.0.0.7") and may(allowed, "10.1.2.3") and may(allowed, "::ffff:10.0.0.7")
    assert may(allowed, "fd00::5%eth0") and not may(allowed, "10.0.0.8") and not may(allowed, "fe80::1")


async def test_a_wrong_address_or_a_port_in_use_is_reported_with_its_option() -> None:
    async with running() as master:
        with pytest.raises(CannotServe, match=r"haAllowedAddresses contains '10\.0\.0\.300'"):
            await HAServer(master.runner, "127.0.0.1", 0, "10.0.0.300").start()
        with pytest.raises(CannotServe, match="choose another port with haListenPort"):
            await HAServer(master.runner, "127.0.0.1", master.ha.port, "").start()


async def test_a_stranger_is_closed_before_it_can_report(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as master:
        await master.send()
        monkeypatch.setattr(master.ha, "_may_connect", lambda host: False)
        reader, writer = await master.connect()
        with suppress(ConnectionError):
            writer.write(REPORT.pack(1))
        assert await ends(reader) == b"" and not master.ha.connections
        writer.close()
