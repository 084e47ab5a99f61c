"""The HA protocol of controller mode from a learner's side: wherever the stream is cut, the same log comes out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.remoting.auto_switch_transfer import (
    HANDSHAKE_ANSWER,
    HANDSHAKE_REQUEST,
    LEARNER_ID,
    MAX_EPOCHS,
    REPORT,
    TRANSFER_HEADER,
    AutoSwitchSlave,
)
from broker_core.remoting.ha_transfer import TransferError
from tests.fakes.followed import SEGMENT, handshake, in_controller_mode, log_of, master, transfers

LOG = log_of(master(250))


@given(
    st.integers(0, MAX_EPOCHS),
    st.lists(st.integers(0, 5000), max_size=20),
    st.lists(st.integers(0, 220_000), max_size=30),
)
def test_any_cutting_of_the_stream_gives_the_same_log(epochs: int, sizes: list[int], cuts: list[int]) -> None:
    stream = handshake(epochs) + b"".join(map(in_controller_mode, transfers(LOG, 1, sizes)))
    slave, copy, start = AutoSwitchSlave(0, SEGMENT), b"", 0
    for cut in (*sorted(cut for cut in cuts if cut < len(stream)), len(stream)):
        copy += b"".join(block.data for block in slave.feed(stream[start:cut]))
        start = cut
    assert copy == LOG and slave.confirmed == slave.received == len(LOG)


def test_a_learner_shakes_hands_before_it_reports_where_to_begin() -> None:
    slave = AutoSwitchSlave(SEGMENT, SEGMENT)
    assert HANDSHAKE_REQUEST.unpack(slave.take_unsent()) == (1, 0, 1, LEARNER_ID)
    answer = handshake()
    assert slave.feed(answer[:-1]) == [] and slave.take_unsent() == b""
    assert slave.feed(answer[-1:]) == [] and REPORT.unpack(slave.take_unsent()) == (2, SEGMENT)
    assert not slave.has_begun
    assert slave.feed(TRANSFER_HEADER.pack(2, 0, SEGMENT, 1, 0, 0)) == [] and slave.has_begun
    assert REPORT.unpack(slave.observer_report)[1] < -(1 << 30)


@pytest.mark.parametrize(("state", "size"), [(0, 12), (2, 12), (1, -12), (1, 13), (1, 12 * (MAX_EPOCHS + 1))])
def test_another_answer_to_the_handshake_is_refused(state: int, size: int) -> None:
    with pytest.raises(TransferError, match=f"handshake with state {state} and {size} bytes"):
        AutoSwitchSlave(0, SEGMENT).feed(HANDSHAKE_ANSWER.pack(state, size, 0, 1))


@pytest.mark.parametrize("state", [0, 1, 4, -1])
def test_another_state_than_transfer_is_refused(state: int) -> None:
    slave = AutoSwitchSlave(0, SEGMENT)
    with pytest.raises(TransferError, match=f"sent state {state} instead of a transfer after offset 1"):
        slave.feed(handshake() + TRANSFER_HEADER.pack(state, 0, 1, 1, 0, 0))


@pytest.mark.parametrize("size", [-1, 1 << 30])
def test_an_impossible_size_is_refused(size: int) -> None:
    with pytest.raises(TransferError, match=f"announced {size} bytes at offset 1"):
        AutoSwitchSlave(0, SEGMENT).feed(handshake(0) + TRANSFER_HEADER.pack(2, size, 1, 1, 0, 0))
