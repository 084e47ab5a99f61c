"""The connection to a master: what it sends, how fast it reads, how it ends."""

import asyncio

import pytest

from broker_core.remoting.ha_transfer import TRANSFER, Block
from broker_core.server.attach import ha_client
from broker_core.server.attach.ha_client import HAClient
from tests.fakes.fake_master import fake_master
from tests.fakes.followed import SEGMENT, log_of, master


async def test_blocks_come_one_after_the_other() -> None:
    bench, blocks, under_way = master(120), list[Block](), 0

    async def take(block: Block) -> None:
        nonlocal under_way
        under_way += 1
        assert under_way == 1
        await asyncio.sleep(0)
        under_way -= 1
        blocks.append(block)
        if block.offset + len(block.data) == len(log_of(bench)):
            raise ConnectionError("that is all")

    async with fake_master(bench) as leader:
        client = HAClient("127.0.0.1", leader.ha_port, 1 << 40)
        with pytest.raises(ConnectionError, match="that is all"):
            await client.follow(0, SEGMENT, take)
    assert b"".join(block.data for block in blocks) == log_of(bench)
    assert client.received_bytes > len(log_of(bench)) and client.slave is None


async def test_a_silent_master_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ha_client, "SILENCE_S", 0.02)
    async with fake_master(master(1)) as leader:
        leader.spoiled = b""
        with pytest.raises(TimeoutError, match="has sent nothing for"):
            await HAClient("127.0.0.1", leader.ha_port, 1 << 40).follow(0, SEGMENT, None)  # type: ignore[arg-type]
    assert leader.reports == [1]


async def test_nothing_is_reported_before_a_whole_header_has_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ha_client, "SILENCE_S", 0.02)
    reporting: list[bool] = []

    async def note(writer: asyncio.StreamWriter, report: bytes) -> None:
        reporting.append(True)

    monkeypatch.setattr(ha_client, "_report", note)
    async with fake_master(master(1)) as leader:
        for size, expected in ((TRANSFER.size - 1, []), (TRANSFER.size, [True])):
            leader.spoiled = TRANSFER.pack(1, 0)[:size]
            with pytest.raises(TimeoutError, match="has sent nothing for"):
                await HAClient("127.0.0.1", leader.ha_port, 1 << 40).follow(0, SEGMENT, None)  # type: ignore[arg-type]
            assert reporting == expected


async def test_an_address_where_nobody_listens_is_an_os_error() -> None:
    for port in (1, 70_000):
        with pytest.raises(OSError, match=r".+"):
            await HAClient("127.0.0.1", port, 1 << 40).follow(0, SEGMENT, None)  # type: ignore[arg-type]


async def test_reading_pauses_by_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def note(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(ha_client.asyncio, "sleep", note)
    client = HAClient("127.0.0.1", 1, 1_000_000)
    await client._hold_back(20_000)
    await client._hold_back(50_000_000)
    await client._hold_back(12)
    assert pauses == [0.02, ha_client.LONGEST_PAUSE_S]
