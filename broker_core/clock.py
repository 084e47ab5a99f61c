"""Time as an argument: the only two readings the engine knows.

``wall_ms`` is what records and people read (it may step); ``mono_ns`` is what deadlines and durations
use (it never goes back). Nothing else in the engine asks what time it is.
"""

import time
from typing import Protocol

import msgspec


class Now(msgspec.Struct, frozen=True, gc=False):
    """One reading of both clocks."""

    wall_ms: int
    mono_ns: int


class Clock(Protocol):
    """Where a reading comes from: the system's clocks, or a test's virtual ones."""

    def now(self) -> Now:
        """Both clocks, read together."""
        ...

    def mono_ns(self) -> int:
        """The monotonic clock alone, for measuring a duration inside a turn."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> Now:
        return Now(time.time_ns() // 1_000_000, time.monotonic_ns())

    mono_ns = staticmethod(time.monotonic_ns)
