from hypothesis import given
from hypothesis import strategies as st

from broker_core.formats import checkpoint

moment = st.integers(0, (1 << 63) - 1)


@given(st.builds(checkpoint.Checkpoint, moment, moment, moment, moment, moment))
def test_a_checkpoint_round_trips(wanted: checkpoint.Checkpoint) -> None:
    data = checkpoint.encode(wanted)
    assert len(data) == 4096
    assert checkpoint.decode(data) == wanted


def test_a_missing_or_damaged_checkpoint_reads_as_zeros() -> None:
    assert checkpoint.decode(b"") == checkpoint.decode(b"\xff" * 4096) == checkpoint.Checkpoint()
    assert checkpoint.decode(checkpoint.encode(checkpoint.Checkpoint(5000, 5000))[:39]).recovery_timestamp == 0


def test_recovery_goes_back_three_seconds_before_the_older_flush() -> None:
    assert checkpoint.Checkpoint(10_000, 9_000).recovery_timestamp == 6_000
    assert checkpoint.Checkpoint(1, 1).recovery_timestamp == 0
