"""A clock that a test moves."""

from broker_core.clock import Now


class VirtualClock:
    """Stands still until ``advance`` is called, which moves wall and monotonic time together."""

    def __init__(self, wall_ms: int = 1_700_000_000_000, mono_ns: int = 1_000_000_000) -> None:
        self._wall_ns = wall_ms * 1_000_000
        self._mono_ns = mono_ns

    def now(self) -> Now:
        return Now(self._wall_ns // 1_000_000, self._mono_ns)

    def mono_ns(self) -> int:
        return self._mono_ns

    def advance(self, ms: float) -> Now:
        self._wall_ns += round(ms * 1_000_000)
        self._mono_ns += round(ms * 1_000_000)
        return self.now()

    def step_wall(self, ms: int) -> None:
        """Move the wall clock only, as when it is set."""
        self._wall_ns += ms * 1_000_000
