"""The connection over which a master's commit log arrives."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from broker_core.remoting.auto_switch_transfer import AutoSwitchSlave
from broker_core.remoting.ha_transfer import Block, HaSlave
from broker_core.tasks import end_task, start_task

READ_BYTES = 256 << 10
CONNECT_S = 3.0
REPORT_PERIOD_S = 5.0
"""A master closes a connection from which it has read nothing for 20 s."""
SILENCE_S = 20.0
"""RocketMQ's haHousekeepingInterval. A master sends a heartbeat every 5 s."""
LONGEST_PAUSE_S = 1.0
"""The longest pause in reading. Meanwhile TCP holds the master's sender back, and reports go on."""

OnBlock = Callable[[Block], Awaitable[None]]


class HAClient:
    """RocketMQ's DefaultHAClient, except that it is never counted as a replica.

    Its first report says where to begin. Every later one is a large negative number: by RocketMQ's rules it
    acknowledges no message and is not in sync, whatever it has received.
    """

    def __init__(self, host: str, port: int, max_bytes_per_second: int, *, controller_mode: bool = False) -> None:
        """``controller_mode``: the broker's ``enableControllerMode``, by which its HA port speaks another protocol."""
        self._host = host
        self._port = port
        self._rate = max_bytes_per_second
        self._make_slave = AutoSwitchSlave if controller_mode else HaSlave
        self.slave: HaSlave | None = None
        """The log as far as it has arrived, while connected."""
        self.received_bytes = 0
        """Bytes received on all connections so far."""

    async def follow(self, begin: int, segment_size: int, on_block: OnBlock) -> None:
        """Pass the log from ``begin`` on to ``on_block``, in order, one block after the other. Never returns.

        Raises OSError when the connection fails or is silent, TransferError when the bytes cannot be followed, and
        what ``on_block`` raises.
        """
        slave = self._make_slave(begin, segment_size)
        try:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await asyncio.open_connection(self._host, self._port, limit=READ_BYTES)
        except TimeoutError:
            raise TimeoutError(f"no connection to {self._host}:{self._port} within {CONNECT_S:g} s") from None
        except (OverflowError, UnicodeError) as error:  # an impossible port or host name
            raise OSError(str(error)) from error
        reports: asyncio.Task[None] | None = None
        try:
            self.slave = slave
            while True:
                if slave.unsent:
                    writer.write(slave.take_unsent())
                data = await self._read(reader)
                try:
                    blocks = slave.feed(data)
                finally:
                    self.received_bytes += len(data)
                if reports is None and slave.has_begun:
                    reporting = _report(writer, slave.observer_report)
                    reports = start_task(reporting, "report to the HA master", expected=(OSError,))
                for block in blocks:
                    await on_block(block)
                await self._hold_back(len(data))
        finally:
            self.slave = None
            await end_task(reports)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        try:
            async with asyncio.timeout(SILENCE_S):
                data = await reader.read(READ_BYTES)
        except TimeoutError:
            raise TimeoutError(f"{self._host}:{self._port} has sent nothing for {SILENCE_S:g} s") from None
        if not data:
            raise ConnectionError(f"{self._host}:{self._port} closed the connection")
        return data

    async def _hold_back(self, size: int) -> None:
        """Pause so long that reading on average is not faster than allowed."""
        pause_s = size / self._rate
        if pause_s >= 0.001:
            await asyncio.sleep(min(pause_s, LONGEST_PAUSE_S))


async def _report(writer: asyncio.StreamWriter, report: bytes) -> None:
    while True:
        writer.write(report)
        await writer.drain()
        await asyncio.sleep(REPORT_PERIOD_S)
