"""The HA protocol from a slave's side: whatever way the stream is cut, the same records come out, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.formats.commit_log_record import store_timestamp_at
from broker_core.remoting import ha_transfer
from broker_core.remoting.ha_transfer import REPORT, TRANSFER, HaSlave, TransferError
from tests.fakes.followed import SEGMENT, log_of, master, received, transfers

LOG = log_of(master(250))
assert len(LOG) > 2 * SEGMENT


@given(
    st.lists(st.integers(0, 5000), max_size=20),
    st.lists(st.integers(0, 220_000), max_size=30),
    st.integers(0, 2000),
)
def test_any_cutting_of_the_stream_gives_the_same_log(sizes: list[int], cuts: list[int], missing: int) -> None:
    stream = b"".join(transfers(LOG, 1, sizes))
    blocks = received(stream[: len(stream) - missing], 0, [cut for cut in cuts if cut < len(stream) - missing])
    copy = b"".join(block.data for block in blocks)
    assert LOG.startswith(copy) and len(LOG) - len(copy) <= missing + 1000
    assert not missing <= 0 or copy == LOG
    position = 0
    for block in blocks:
        assert block.offset == position and block.offset // SEGMENT == (block.offset + len(block.data) - 1) // SEGMENT
        position += len(block.data)


def test_the_first_report_asks_for_byte_one_of_a_whole_log() -> None:
    slave = HaSlave(0, SEGMENT)
    assert (slave.take_unsent(), slave.take_unsent()) == (REPORT.pack(1), b"")
    assert HaSlave(SEGMENT, SEGMENT).unsent == REPORT.pack(SEGMENT)
    assert REPORT.unpack(slave.observer_report)[0] < -(1 << 30)


def test_bytes_are_received_before_they_are_confirmed() -> None:
    slave = HaSlave(0, SEGMENT)
    size = int.from_bytes(LOG[:4], "big")
    assert not slave.has_begun
    assert slave.feed(TRANSFER.pack(1, size - 2) + LOG[1 : size - 1]) == []
    assert (slave.received, slave.confirmed, slave.has_begun) == (size - 1, 0, True)
    (block,) = slave.feed(TRANSFER.pack(size - 1, 1) + LOG[size - 1 : size])
    assert block == (0, LOG[:size], store_timestamp_at(LOG, 0))
    assert (slave.received, slave.confirmed) == (size, size)


def test_a_heartbeat_carries_no_bytes() -> None:
    slave = HaSlave(SEGMENT, SEGMENT)
    assert slave.feed(TRANSFER.pack(SEGMENT, 0)) == [] and slave.has_begun and slave.received == SEGMENT


@pytest.mark.parametrize("size", [-1, -(1 << 31), ha_transfer.MAX_TRANSFER + 1, (1 << 31) - 1])
def test_an_impossible_size_is_refused(size: int) -> None:
    with pytest.raises(TransferError, match=f"announced {size} bytes at offset 1"):
        HaSlave(0, SEGMENT).feed(TRANSFER.pack(1, size))


@pytest.mark.parametrize("offset", [0, 2, -5, 1 << 40])
def test_a_gap_is_refused_also_in_a_heartbeat(offset: int) -> None:
    with pytest.raises(TransferError, match=f"sent offset {offset}, but the bytes from 1 on are next"):
        HaSlave(0, SEGMENT).feed(TRANSFER.pack(offset, 0))


def test_a_transfer_across_the_end_of_a_segment_is_refused() -> None:
    with pytest.raises(TransferError, match="mappedFileSizeCommitLog differs"):
        HaSlave(SEGMENT, SEGMENT).feed(TRANSFER.pack(SEGMENT, SEGMENT + 1))


@pytest.mark.parametrize(
    ("at", "problem"),
    [(1, "no record begins"), (5, "no record begins"), (30, "is damaged"), (95, "is damaged"), (35, "is damaged")],
)
def test_a_damaged_record_is_refused_and_what_is_before_it_is_kept(at: int, problem: str) -> None:
    first = int.from_bytes(LOG[:4], "big")
    second = first + int.from_bytes(LOG[first : first + 4], "big")
    damaged = bytearray(LOG[:second])
    damaged[first + at] ^= 0x55
    slave = HaSlave(0, SEGMENT)
    (block,) = slave.feed(TRANSFER.pack(1, first - 1) + bytes(damaged[1:first]))
    with pytest.raises(TransferError, match=f"{problem}.*|offset {first}"):
        slave.feed(TRANSFER.pack(first, second - first) + bytes(damaged[first:]))
    assert block.data == LOG[:first] and slave.confirmed == first


def test_a_record_too_large_for_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ha_transfer, "MAX_RECORD", 700)
    with pytest.raises(TransferError, match="at most 700 can be followed"):
        HaSlave(0, SEGMENT).feed(TRANSFER.pack(1, 100) + LOG[1:101])
