"""The HA protocol from the master's side: where a slave begins, what it is sent, and what is refused."""

import random

import pytest

from broker_core.remoting.ha_connection import TRANSFER_BYTES, HAConnection, LogRange, SlaveRefused
from broker_core.remoting.ha_transfer import REPORT, TRANSFER, HaSlave
from tests.fakes.followed import SEGMENT, log_of, master

LOG = LogRange(begin=SEGMENT, end=3 * SEGMENT + 1000, segment_size=SEGMENT)


def connected(report: int, log: LogRange = LOG) -> HAConnection:
    connection = HAConnection()
    assert connection.feed(REPORT.pack(report), log)
    return connection


def test_a_slave_is_sent_the_log_in_transfers_that_end_with_the_segments() -> None:
    connection, sent = connected(2 * SEGMENT - 100), []
    while (transfer := connection.next_transfer(LOG)) is not None:
        sent.append(transfer)
    assert sent[0] == (2 * SEGMENT - 100, 100)
    position = 2 * SEGMENT - 100
    for offset, size in sent:
        assert offset == position and 0 < size <= TRANSFER_BYTES
        assert offset // SEGMENT == (offset + size - 1) // SEGMENT
        position += size
    assert position == LOG.end == connection.transferred
    assert connection.heartbeat == TRANSFER.pack(LOG.end, 0)
    assert connection.next_transfer(LOG._replace(end=LOG.end + 7)) == (LOG.end, 7)


def test_nothing_is_sent_before_the_first_report_is_whole() -> None:
    connection = HAConnection()
    for byte in REPORT.pack(SEGMENT)[:-1]:
        assert not connection.feed(bytes([byte]), LOG)
        assert connection.next_transfer(LOG) is None and connection.heartbeat is None
    assert connection.feed(REPORT.pack(SEGMENT)[-1:], LOG)
    assert connection.next_transfer(LOG) == (SEGMENT, TRANSFER_BYTES)


@pytest.mark.parametrize(
    ("log", "begin"),
    [
        (LOG, 3 * SEGMENT),
        (LogRange(0, 0, SEGMENT), 0),
        (LogRange(0, 500, SEGMENT), 0),
        (LogRange(0, 2 * SEGMENT, SEGMENT), 2 * SEGMENT),
        (LogRange(SEGMENT + 500, SEGMENT + 700, SEGMENT), SEGMENT + 500),
    ],
)
def test_an_empty_slave_begins_at_the_last_segment_as_in_rocketmq(log: LogRange, begin: int) -> None:
    assert connected(0, log).transferred == begin


@pytest.mark.parametrize(
    ("report", "why"),
    [
        (-1, "its first report is -1"),
        (-(1 << 63), "its first report is"),
        (LOG.end + 1, f"its log ends at {LOG.end + 1}, but this broker's at {LOG.end}"),
        ((1 << 63) - 1, "a copy of another log"),
        (LOG.begin - 1, "retention has deleted it up to"),
        (1, "begin a slave with an empty store"),
    ],
)
def test_a_first_report_outside_the_log_is_refused(report: int, why: str) -> None:
    with pytest.raises(SlaveRefused, match=why):
        connected(report)


def test_a_report_above_what_was_sent_is_refused_also_when_the_log_has_it() -> None:
    connection = connected(SEGMENT)
    connection.next_transfer(LOG)
    assert connection.feed(REPORT.pack(SEGMENT + TRANSFER_BYTES), LOG)
    with pytest.raises(SlaveRefused, match="no slave of this broker alone"):
        connection.feed(REPORT.pack(SEGMENT + TRANSFER_BYTES + 1), LOG)
    assert connection.slave_ack_offset == SEGMENT + TRANSFER_BYTES


def test_a_follower_may_acknowledge_nothing_after_it_has_begun() -> None:
    connection = connected(SEGMENT)
    assert connection.feed(REPORT.pack(-(1 << 40)), LOG) and connection.slave_ack_offset == -(1 << 40)
    assert connection.next_transfer(LOG) == (SEGMENT, TRANSFER_BYTES)


def test_of_several_reports_in_one_read_the_last_counts() -> None:
    connection = HAConnection()
    assert connection.feed(REPORT.pack(SEGMENT) + REPORT.pack(2 * SEGMENT) + b"\0\0", LOG)
    assert (connection.slave_ack_offset, connection.transferred) == (2 * SEGMENT, 2 * SEGMENT)
    assert connection.feed(REPORT.pack(2 * SEGMENT)[2:], LOG)


@pytest.mark.covers("ha-behind")
def test_a_slave_that_retention_overtakes_is_refused() -> None:
    connection = connected(SEGMENT)
    with pytest.raises(SlaveRefused, match="retention has deleted it"):
        connection.next_transfer(LOG._replace(begin=2 * SEGMENT))


def test_random_bytes_are_refused_or_kept_below_one_report() -> None:
    generator = random.Random(4)
    for _ in range(2000):
        connection = HAConnection()
        try:
            while True:
                connection.feed(generator.randbytes(generator.randrange(1, 20)), LOG)
                assert len(connection._part) < REPORT.size
        except SlaveRefused:
            pass
        assert connection.slave_ack_offset is None or connection.slave_ack_offset <= connection.transferred <= LOG.end


def test_what_it_sends_is_what_a_slave_reads() -> None:
    bench = master(250)
    log, whole = bench.engine.commit_log, log_of(bench)
    log_range = LogRange(log.min_offset, log.max_offset, SEGMENT)
    slave = HaSlave(0, SEGMENT)
    connection, copy = HAConnection(), b""
    connection.feed(slave.take_unsent(), log_range)
    while (transfer := connection.next_transfer(log_range)) is not None:
        data = log.read(*transfer)
        assert data is not None
        copy += b"".join(block.data for block in slave.feed(TRANSFER.pack(*transfer) + data))
    assert copy == whole and len(whole) > 2 * SEGMENT
