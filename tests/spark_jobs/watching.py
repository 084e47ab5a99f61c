"""Whoever waits for a report in Spark's process, does something in its middle, and looks at what came of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any


class Watching:
    """A watcher that does one thing when some of the scan is done, and some is left."""

    def __init__(self, in_the_middle: Callable[[], Any] = lambda: None) -> None:
        self.steps: list[int] = []
        self.is_over = False
        self._waiting = [in_the_middle]

    def __call__(self, percent: int, doing: str) -> bool:
        self.steps.append(percent)
        if 5 < percent < 70 and self._waiting:
            self._waiting.pop()()
        return not self.is_over

    def give_up(self) -> None:
        self.is_over = True

    @property
    def is_done(self) -> bool:
        """Whether there was a middle in which to do it."""
        return not self._waiting


def tables_of(folder: Path) -> dict[str, bytes]:
    """The tables of a report, by the names of their files."""
    return {path.name: path.read_bytes() for path in folder.glob("*.csv")}
