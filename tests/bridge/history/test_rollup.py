"""Steps, recomputed from the raw samples."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bridge.history import rollup
from bridge.history.rollup import KINDS, TIERS, UNKNOWN, Rollup, Step, Table

MINUTE = TIERS[1]
numbers = st.integers(UNKNOWN, 1 << 40)


def table(stored: int, holds: int) -> Table:
    """A table of which only these two columns of the broker have a number."""
    columns: Table = [[[] for _ in kind.metrics] for kind in KINDS]
    columns[0][0], columns[0][3] = [stored], [holds]
    return columns


def values(step: Step) -> tuple[int, int]:
    """(stored, holds) of the broker."""
    return step.table[0][0][0], step.table[0][3][0]


@given(st.integers(0, 1 << 62))
def test_a_code_is_within_a_tenth_of_a_percent_and_keeps_the_order(value: int) -> None:
    code, back = rollup.code_of(value), rollup.value_of(rollup.code_of(value))
    assert 0 < code < 1 << 16 and back is not None
    assert back == value if value <= 1024 else abs(back - value) * 1000 <= value
    assert rollup.code_of(value + 1) >= code


def test_unknown_is_not_0() -> None:
    assert rollup.value_of(rollup.code_of(UNKNOWN)) is None
    assert rollup.value_of(rollup.code_of(0)) == 0
    assert rollup.value_of(rollup.code_of(1 << 80)) is not None


samples = st.lists(
    st.tuples(st.integers(1, 20), st.integers(0, 1 << 40), numbers, st.booleans()), min_size=1, max_size=40
)
"""(steps since the sample before, messages stored, holds, whether the counts are known)"""


@given(samples)
def test_steps_are_what_a_recomputation_from_the_raw_samples_gives(raw: list[Any]) -> None:
    one, at_s, finished = Rollup(MINUTE), 0, []
    taken: dict[int, list[tuple[int, int, bool]]] = {}
    for ahead, stored, holds, counted in raw:
        at_s += ahead * 10
        taken.setdefault(MINUTE.start(at_s), []).append((stored, holds, counted))
        step = one.add(at_s, table(stored if counted else UNKNOWN, holds), counted=counted)
        finished += [step] if step is not None else []
    assert [step.at_s for step in finished] == list(taken)[:-1], "the last step is not finished"
    for step in finished:
        rows = taken[step.at_s]
        counts = [stored for stored, _, counted in rows if counted]
        expected = (sum(counts) * 6 + len(counts) // 2) // len(counts) if counts else UNKNOWN
        assert values(step) == (expected, max(holds for _, holds, _ in rows))


def test_counts_of_a_part_of_a_step_are_extrapolated() -> None:
    one = Rollup(MINUTE)
    for at_s, counted in ((0, False), (10, True), (20, True)):
        assert one.add(at_s, table(7 if counted else UNKNOWN, 1), counted=counted) is None
    step = one.add(60, table(9, 1), counted=True)
    assert step is not None and values(step) == (42, 1)


def test_the_finest_tier_has_a_step_for_each_sample() -> None:
    one = Rollup(TIERS[0])
    assert one.add(10, table(3, 4), counted=True) == Step(10, table(3, 4))


def test_a_forgotten_row_is_in_no_step() -> None:
    one = Rollup(MINUTE)
    one.add(0, table(7, 9), counted=True)
    one.forget()
    one.add(10, table(1, 2), counted=True)
    one.clear_row(0, 0)
    one.add(20, table(1, 1), counted=True)
    step = one.add(60, table(0, 0), counted=True)
    assert step is not None and values(step) == (3, 1)


def test_differences_of_totals() -> None:
    before, now = [5, UNKNOWN, 3, 10, 4], [5, 7, UNKNOWN, 9, 6, 8]
    assert rollup.difference(now, before, is_complete=True) == [0, 7, UNKNOWN, UNKNOWN, 2, 8]
    assert rollup.difference(now, before, is_complete=False) == [0, UNKNOWN, UNKNOWN, UNKNOWN, 2, UNKNOWN]
