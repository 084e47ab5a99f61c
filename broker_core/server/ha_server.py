"""The HA port: RocketMQ's slaves copy the commit log over it. RocketMQ's DefaultHAService.

    report   --> HAConnection (remoting) --> ReportSlaveMaxOffset through the engine's inbox --> senders are answered
    the log has grown (under SYNC_FLUSH: on the disk) --> each connection is sent what it lacks, as its socket takes it

Bytes are read from the log's mapped file when the socket is ready for them, one transfer at a time. So a slave that
reads nothing costs one transfer of memory, and holds back neither retention nor any other slave. Everything runs on the
loop's thread between two turns of the engine, when nobody else uses the log. Only what a slave far behind gets is read
in another thread, from the file, because it may have to come from the disk.
"""

import asyncio
import errno
import logging
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import cast

from broker_core.commands import RemoveSlave, ReportSlaveMaxOffset
from broker_core.remoting.ha_connection import HAConnection, LogRange, SlaveRefused
from broker_core.remoting.ha_transfer import TRANSFER
from broker_core.server.engine_runner import Connection, EngineRunner
from broker_core.server.remoting_limits import note
from broker_core.server.remoting_server import CannotServe
from broker_core.tasks import start_task

log = logging.getLogger(__name__)

HEARTBEAT_S = 5.0
"""RocketMQ's haSendHeartbeatInterval: after so long without a transfer, one without bytes is sent."""
SILENCE_S = 20.0
"""RocketMQ's haHousekeepingInterval: a slave that completed no report for so long is closed. It reports every 5 s."""
CHECK_S = 1.0
LAST_BYTES_S = 1.0
"""How long slaves may take for the last bytes when the broker stops."""
MAX_SLAVES = 16
COLD_BYTES = 64 << 20
"""What is older than these bytes of the log may be out of the page cache, so reading it may take milliseconds."""
BYTES_A_TURN = 128 << 10
"""Sent to one slave before other work of the loop has its turn."""

Network = IPv4Network | IPv6Network


def allowed_networks(text: str) -> list[Network]:
    """The networks in haAllowedAddresses. Raises CannotServe."""
    networks = []
    for part in filter(None, text.split(";")):
        try:
            networks.append(ip_network(part, strict=False))
        except ValueError as error:
            raise CannotServe(f"haAllowedAddresses contains {part!r}, which is no IP address or network") from error
    return networks


class HAServer:
    """Serves slaves on ``port`` from ``start`` to ``stop``.

    Only this machine may connect, unless ``allowed``, the option haAllowedAddresses, has other addresses. The engine
    must run.
    """

    def __init__(self, runner: EngineRunner, host: str, port: int, allowed: str) -> None:
        self.runner = runner
        self.port = port
        self.connections: dict[SlaveConnection, None] = {}
        """Open ones, the oldest first."""
        self._host = host if allowed else "127.0.0.1"
        self._allowed_addresses = allowed
        self._allowed: list[Network] = []
        self._server: asyncio.Server | None = None
        self._end = -1
        self._check_timer: asyncio.TimerHandle | None = None
        self._last_sent: asyncio.Event | None = None  # set when slaves have the whole log of a broker that stops
        self.last_reason = ""
        """Why a slave was refused last."""
        self._strangers = 0
        self._too_many = 0

    loop: asyncio.AbstractEventLoop

    async def start(self) -> None:
        """Listen. Raises CannotServe."""
        self.loop = asyncio.get_running_loop()
        self._allowed = allowed_networks(self._allowed_addresses)
        try:
            self._server = await self.loop.create_server(lambda: SlaveConnection(self), self._host, self.port)
            if None in self._server.sockets:  # uvloop's only sign that it does not listen
                raise OSError(errno.EADDRINUSE, "address already in use")
        except OSError as error:
            raise CannotServe(
                f"Slaves cannot be served on {self._host}:{self.port} ({error.strerror or error}): choose another port "
                "with haListenPort"
            ) from error
        self.port = self._server.sockets[0].getsockname()[1]
        self.runner.turn_listeners.append(self._on_turn)
        self._check()

    async def stop(self) -> None:
        """Send slaves the rest of the log, as far as they take it soon, and close their connections."""
        if self._server is None:
            return
        self._server.close()
        if self._check_timer is not None:
            self._check_timer.cancel()
        self._last_sent = asyncio.Event()
        self._end = -1
        self._on_turn()
        self.note_progress()
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_BYTES_S):
                await self._last_sent.wait()
        for connection in list(self.connections):
            connection.close("the broker was stopped")
        await asyncio.sleep(0)

    def _on_turn(self) -> None:
        """After a turn of the engine or a flush: send what is new."""
        end = self.runner.engine.sendable_offset
        if end != self._end:
            self._end = end
            for connection in list(self.connections):
                connection.send()

    def _check(self) -> None:
        now = self.loop.time()
        for connection in list(self.connections):
            connection.check(now)
        self._check_timer = self.loop.call_later(CHECK_S, self._check)

    def note_progress(self) -> None:
        """Bytes were sent, or a connection has ended: perhaps the broker's stop need not wait any more."""
        if self._last_sent is not None and not any(one.is_behind for one in self.connections):
            self._last_sent.set()

    def opened(self, connection: "SlaveConnection", host: str) -> bool:
        """Whether a new connection may stay. It may take the place of one that has reported nothing yet."""
        if not self._may_connect(host):
            self._strangers += 1
            note(self._strangers, "%s may not use haListenPort: haAllowedAddresses does not contain it", host)
            return False
        if len(self.connections) >= MAX_SLAVES:
            silent = next((one for one in self.connections if not one.has_reported), None)
            self._too_many += 1
            note(self._too_many, "%s connects to haListenPort, which serves %d connections at most", host, MAX_SLAVES)
            if silent is None:
                return False
            silent.close("another connection took its place before its first report")
        self.connections[connection] = None
        return True

    def _may_connect(self, host: str) -> bool:
        try:
            address = ip_address(host.partition("%")[0])
        except ValueError:
            return False
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return address.is_loopback or any(address in network for network in self._allowed)


def _read(path: Path, position: int, size: int) -> bytes:
    """Bytes of a segment. What its file lacks at the end reads as zeros."""
    with path.open("rb") as file:
        file.seek(position)
        return file.read(size).ljust(size, b"\0")


def _no_segment(offset: int) -> str:
    return f"the log has no segment with offset {offset}: begin a slave with an empty store"


class SlaveConnection(asyncio.Protocol):
    """One connection of a slave, on the loop's thread."""

    def __init__(self, server: HAServer) -> None:
        self._server = server
        self._slave = HAConnection()
        self._engine_side = Connection(lambda replies: None)
        self._is_full = False
        self._is_open = False
        self._is_sending = False
        self._address = ""
        self._heard_at = self._sent_at = server.loop.time()

    _transport: asyncio.Transport

    @property
    def has_reported(self) -> bool:
        return self._slave.slave_ack_offset is not None

    @property
    def is_behind(self) -> bool:
        """Whether it was not sent the whole log."""
        return self.has_reported and (self._is_full or self._slave.transferred < self._log_range().end)

    # --- asyncio --------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's have another base
        host, port = (self._transport.get_extra_info("peername") or ("", 0))[:2]
        self._address = f"{host}:{port}"
        if not self._server.opened(self, host):
            self._transport.abort()
            return
        self._is_open = True
        self._transport.set_write_buffer_limits(0)  # ``pause_writing`` as soon as the socket does not take all

    def connection_lost(self, error: Exception | None) -> None:
        self._leave(f"the connection was lost: {error}" if error is not None else "the slave closed the connection")

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self.send()
        self._server.note_progress()

    def data_received(self, data: bytes) -> None:
        if not self._is_open or not self._server.runner.is_log_readable:
            return
        slave = self._slave
        try:
            is_whole = slave.feed(data, self._log_range())
        except SlaveRefused as error:
            self._refuse(str(error))
            return
        if not is_whole:
            return
        self._heard_at = self._server.loop.time()
        assert slave.slave_ack_offset is not None
        self._server.runner.submit(
            self._engine_side,
            0,
            ReportSlaveMaxOffset(
                address=self._address, slave_ack_offset=slave.slave_ack_offset, transferred=slave.transferred
            ),
        )
        self.send()

    # --- sending --------------------------------------------------------------------------------------------------

    def _log_range(self) -> LogRange:
        engine = self._server.runner.engine
        commit_log = engine.commit_log
        return LogRange(commit_log.min_offset, engine.sendable_offset, commit_log.mapped_files.file_size)

    def send(self) -> None:
        """Send transfers while there is something new and the socket takes it."""
        if self._is_sending or not self._server.runner.is_log_readable:
            return
        log_range, left = self._log_range(), BYTES_A_TURN
        try:
            while self._is_open and not self._is_full and left > 0:
                transfer = self._slave.next_transfer(log_range)
                if transfer is None:
                    return
                offset, size = transfer
                if log_range.end - offset > COLD_BYTES:
                    self._is_sending = True
                    start_task(self._send_cold(offset, size), "send a slave the older part of the log")
                    return
                data = self._server.runner.engine.commit_log.read(offset, size)
                if data is None:
                    raise SlaveRefused(_no_segment(offset))
                self._write(offset, data)
                left -= size
        except SlaveRefused as error:
            self._refuse(str(error))
            return
        if left <= 0 and not self._is_full:
            self._is_sending = True
            self._server.loop.call_soon(self._send_more)

    def _write(self, offset: int, data: bytes) -> None:
        self._transport.write(TRANSFER.pack(offset, len(data)) + data)
        self._sent_at = self._server.loop.time()

    async def _send_cold(self, offset: int, size: int) -> None:
        """Send bytes from the disk, then go on. Nothing else is sent meanwhile."""
        file = self._server.runner.engine.commit_log.mapped_files.find(offset)
        try:
            if file is None:
                raise FileNotFoundError
            data = await asyncio.to_thread(_read, file.path, offset - file.base, size)
        except FileNotFoundError:
            problem = _no_segment(offset)
        except OSError as error:
            problem = f"offset {offset} of the log cannot be read from the disk now: {error}"
        else:
            if self._is_open:
                self._write(offset, data)
                self._send_more()
            return
        if self._is_open:
            self._refuse(problem)

    def _send_more(self) -> None:
        self._is_sending = False
        self.send()
        self._server.note_progress()

    def check(self, now: float) -> None:
        """Send a heartbeat if one is due; close the connection of a slave that has been silent for too long."""
        if now - self._heard_at >= SILENCE_S:
            self.close(f"it reported nothing for {SILENCE_S:g} s")
        elif now - self._sent_at >= HEARTBEAT_S and not self._is_full:
            heartbeat = self._slave.heartbeat
            if heartbeat is not None:
                self._transport.write(heartbeat)
                self._sent_at = now

    # --- the end --------------------------------------------------------------------------------------------------

    def _refuse(self, reason: str) -> None:
        if reason != self._server.last_reason:  # a slave tries again every 5 s
            log.warning("slave %s is refused: %s", self._address, reason)
            self._server.last_reason = reason
        self._leave(reason, refused=True)
        self._transport.abort()

    def close(self, reason: str) -> None:
        """End the connection after what was written."""
        self._leave(reason)
        if self._is_full:
            self._transport.abort()
        else:
            self._transport.close()

    def _leave(self, reason: str, *, refused: bool = False) -> None:
        if self._is_open:
            self._is_open = False
            self._server.connections.pop(self, None)
            self._server.note_progress()
            self._server.runner.submit(
                self._engine_side, 0, RemoveSlave(address=self._address, reason=reason, refused=refused)
            )
