"""Samples, and the steps of fixed length that they are gathered into. Pure: no clock, no file.

There are three tiers: steps of 10 s for an hour, of a minute for a day, of 10 minutes for 30 days. A step has a column
of numbers for each metric, with one row for each group, topic or broker. A number is UNKNOWN when it could not be
measured; a step without any sample does not exist.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

UNKNOWN = -1
SAMPLE_S = 10
EXACT = 1 << 10
LARGEST = (1 << 63) - 1

Column = list[int]


class Tier(NamedTuple):
    """``slots`` steps of ``step_s`` seconds are kept, in ``max_bytes`` at most."""

    step_s: int
    slots: int
    max_bytes: int

    def start(self, at_s: int) -> int:
        """The beginning of the step that contains ``at_s``."""
        return at_s - at_s % self.step_s


MIB = 1 << 20
TIERS = (Tier(SAMPLE_S, 360, 19 * MIB), Tier(60, 1440, 38 * MIB), Tier(600, 4320, 25 * MIB))
"""Together below 100 MB with the overhead of the file."""


class Metric(NamedTuple):
    """``is_count``: a number of events, which add up. Otherwise the largest value of a step is kept."""

    name: str
    is_count: bool


class Kind(NamedTuple):
    """What has a history: the broker, or up to ``most`` topics or groups."""

    name: str
    metrics: tuple[Metric, ...]
    most: int


STORED = Metric("stored", True)
OF_GROUPS = (
    Metric("delivered", True),
    Metric("woken", True),
    Metric("holds", False),
    Metric("wake_p99_us", False),
    Metric("lag", False),
)
BROKER = Kind("broker", (STORED, *OF_GROUPS), 1)
TOPIC = Kind("topic", (STORED, *OF_GROUPS), 5000)
GROUP = Kind("group", OF_GROUPS, 20_000)
KINDS = (BROKER, TOPIC, GROUP)

Table = list[list[Column]]
"""[kind][metric][row]"""


def code_of(value: int) -> int:
    """A number in 16 bits: 0 for UNKNOWN, exact up to 1024, and within 0.1 % above."""
    if value < EXACT:
        return value + 1
    shift = min(value, LARGEST).bit_length() - 10
    rounded = (min(value, LARGEST) + (1 << (shift - 1))) >> shift
    return 513 + shift * 512 + rounded - 512


def value_of(code: int) -> int | None:
    """The number of a code; None if it is unknown."""
    if code <= EXACT:
        return code - 1 if code else None
    shift, rounded = divmod(code - 513, 512)
    return (rounded + 512) << shift


def difference(totals: Sequence[int], before: Sequence[int], *, is_complete: bool) -> Column:
    """What was added to each total. UNKNOWN for a total that is unknown or decreased.

    If ``before`` is complete, a row without a total in it began at 0, as a new group or topic does.
    """
    known = [*before, *[UNKNOWN] * (len(totals) - len(before))]
    first = 0 if is_complete else LARGEST
    return [
        total - old if 0 <= old <= total else total - first if old < 0 and total >= first else UNKNOWN
        for total, old in zip(totals, known, strict=True)
    ]


def added(sums: Sequence[int], more: Sequence[int]) -> Column:
    """The sums of two columns; a number that is unknown in one of them is left out."""
    return [a if b < 0 else b if a < 0 else a + b for a, b in _rows(sums, more)]


def largest(values: Sequence[int], more: Sequence[int]) -> Column:
    """The larger number of each row."""
    return [a if a > b else b for a, b in _rows(values, more)]


def _rows(a: Sequence[int], b: Sequence[int]) -> Iterator[tuple[int, int]]:
    width = max(len(a), len(b))
    return zip(
        [*a, *[UNKNOWN] * (width - len(a))],
        [*b, *[UNKNOWN] * (width - len(b))],
        strict=True,
    )


class Step(NamedTuple):
    """A finished step of one tier, which begins at ``at_s`` (seconds since 1970)."""

    at_s: int
    table: Table


class Rollup:
    """Gathers samples into the steps of one tier. The last step is finished by the first sample after it."""

    def __init__(self, tier: Tier) -> None:
        self.tier = tier
        self.forget()

    def forget(self) -> None:
        """Drop the unfinished step: the clock went back."""
        self._at_s: int | None = None
        self._table: Table = [[[] for _ in kind.metrics] for kind in KINDS]
        self._counted = 0

    def clear_row(self, kind: int, row: int) -> None:
        """Forget a row's numbers, because something else has this row from now on."""
        for column in self._table[kind]:
            if row < len(column):
                column[row] = UNKNOWN

    def add(self, at_s: int, table: Table, *, counted: bool) -> Step | None:
        """Add the sample of the 10 s from ``at_s``. Returns the step that it finishes.

        ``counted``: whether its counts are known, which needs a sample before it.
        """
        if self.tier.step_s == SAMPLE_S:
            return Step(at_s, table)
        start, finished = self.tier.start(at_s), None
        if self._at_s is not None and self._at_s != start:
            finished = Step(self._at_s, self._scaled())
            self.forget()
        self._at_s = start
        self._counted += counted
        for kind, old, new in zip(KINDS, self._table, table, strict=True):
            for number, metric in enumerate(kind.metrics):
                old[number] = (added if metric.is_count else largest)(old[number], new[number])
        return finished

    def _scaled(self) -> Table:
        """The step's table. Counts of a part of the step are extrapolated to all of it."""
        samples, counted = self.tier.step_s // SAMPLE_S, self._counted
        if counted in (0, samples):
            return self._table
        return [
            [
                [value if value < 0 else (value * samples + counted // 2) // counted for value in column]
                if metric.is_count
                else column
                for metric, column in zip(kind.metrics, columns, strict=True)
            ]
            for kind, columns in zip(KINDS, self._table, strict=True)
        ]
