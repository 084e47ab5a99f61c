"""Time as an argument. The engine reads no clock anywhere else.

``wall_ms`` is for records and for people; it may jump. ``mono_ns`` is for deadlines and durations; it never goes back.
"""

import time
from typing import Protocol

import msgspec


class Now(msgspec.Struct, frozen=True, gc=False):
    """One reading of both clocks."""

    wall_ms: int
    mono_ns: int


class Clock(Protocol):
    """A source of readings: the system's clocks, or the virtual clocks of a test."""

    def now(self) -> Now:
        """A reading of both clocks."""
        ...

    def mono_ns(self) -> int:
        """A reading of the monotonic clock alone, for measuring a duration inside a turn."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> Now:
        return Now(time.time_ns() // 1_000_000, time.monotonic_ns())

    mono_ns = staticmethod(time.monotonic_ns)
