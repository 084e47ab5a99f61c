"""The system clock gives both readings, and the monotonic one does not go back."""

from broker_core.clock import SystemClock


def test_readings() -> None:
    clock = SystemClock()
    first, second = clock.now(), clock.now()
    assert second.mono_ns >= first.mono_ns
    assert clock.mono_ns() >= second.mono_ns
    assert first.wall_ms > 1_600_000_000_000
