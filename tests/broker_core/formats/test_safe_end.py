import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.formats import safe_end

position = st.integers(0, (1 << 63) - 1)
WRITTEN = safe_end.encode(safe_end.SafeEnd(9, 8, 7, 6, 5, 4, 3))


@given(st.builds(safe_end.SafeEnd, position, position, position, position, position, position, position))
def test_a_safe_end_round_trips(wanted: safe_end.SafeEnd) -> None:
    data = safe_end.encode(wanted)
    assert len(data) == safe_end.SIZE == 64
    assert safe_end.decode(data.ljust(safe_end.FILE_SIZE, b"\0")) == wanted


@pytest.mark.parametrize("length", range(safe_end.SIZE))
def test_a_truncated_file_reads_as_none(length: int) -> None:
    assert safe_end.decode(WRITTEN[:length]) is None


@given(st.integers(0, len(WRITTEN) * 8 - 1))
def test_a_half_written_file_reads_as_none(bit: int) -> None:
    damaged = bytearray(WRITTEN)
    damaged[bit // 8] ^= 1 << bit % 8
    assert safe_end.decode(bytes(damaged)) is None
