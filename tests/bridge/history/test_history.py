"""A broker's history on virtual clocks."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.history import history as module
from bridge.history.history import History, Rows
from bridge.history.rollup import BROKER, GROUP, TIERS, TOPIC, Kind
from broker_core.clock import Now
from broker_core.commands import HistorySample

START_S = 1_800_000_000


def sample(stored: int = 0, lag: int | None = 0, **changes: Any) -> HistorySample:
    """A sample of a broker with one topic and one group."""
    fields: dict[str, Any] = {
        "broker": "broker-a",
        "epoch": 1,
        "stored": stored,
        "delivered": stored,
        "woken": stored,
        "holds": 2,
        "wake_p99_us": 10,
        "lag": lag,
        "groups": ["g"],
        "group_columns": [[stored], [stored], [1], [20], [lag]],
        "topics": ["t"],
        "topic_columns": [[stored], [stored], [stored], [1], [30], [lag]],
        "groups_left_out": 0,
        "topics_left_out": 0,
    }
    return HistorySample(**fields | changes)


class Machine:
    """A history and two clocks. Its disk is full while ``full``."""

    def __init__(self, path: Path) -> None:
        self.history = History(path)
        self.wall_s = START_S
        self.mono_s = 1000

    def pass_time(self, seconds: int = 10) -> None:
        self.wall_s += seconds
        self.mono_s += seconds

    def record(self, one: HistorySample) -> None:
        """Let 10 s pass and record a sample of them."""
        self.pass_time()
        self.history.record(one, Now(self.wall_s * 1000, self.mono_s * 1_000_000_000))

    def restart(self) -> None:
        self.history.close()
        self.history = History(self.history.path)
        self.mono_s = 1

    def values(
        self, metric: str, kind: Kind = BROKER, name: str = "", *, tier: int = 0, since: int = START_S, until: int = 0
    ) -> list[int | None]:
        """The values since ``since``, the newest last; steps that are not over are left out."""
        one = TIERS[tier]
        default = {BROKER: "broker-a", TOPIC: "t", GROUP: "g"}[kind]
        series = self.history.read(kind, [name or default], tier, one.start(since), one.start(until or self.wall_s))[
            name or default
        ]
        return series.columns[[metric.name for metric in kind.metrics].index(metric)]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    one = Machine(tmp_path / "broker-a.sqlite3")
    yield one
    one.history.close()


def test_counts_are_differences_and_the_first_is_unknown(machine: Machine) -> None:
    for stored in (100, 107, 107, 110):
        machine.record(sample(stored, lag=stored - 90))
    assert machine.values("stored") == [None, 7, 0, 3]
    assert machine.values("stored", TOPIC) == [None, 7, 0, 3]
    assert machine.values("delivered", GROUP) == [None, 7, 0, 3]
    assert machine.values("lag", GROUP) == [10, 17, 17, 20]
    assert machine.values("lag") == [10, 17, 17, 20]
    assert machine.values("woken", GROUP) == machine.values("woken", TOPIC) == [None, 7, 0, 3]
    for kind, p99_us in ((BROKER, 10), (GROUP, 20), (TOPIC, 30)):
        assert machine.values("wake_p99_us", kind) == [p99_us] * 4


def test_a_sample_that_is_missing_is_a_gap(machine: Machine) -> None:
    machine.record(sample(1))
    machine.record(sample(2))
    machine.pass_time()
    machine.record(sample(9))
    machine.record(sample(10))
    assert machine.values("stored") == [None, 1, None, None, 1]
    assert machine.values("holds") == [2, 2, None, 2, 2]


def test_an_engine_that_starts_again_is_no_negative_count(machine: Machine) -> None:
    machine.record(sample(50))
    machine.record(sample(3, epoch=2))
    machine.record(sample(4, epoch=2))
    assert machine.values("stored") == [None, None, 1]
    machine.record(sample(2, epoch=2))
    machine.record(sample(80, epoch=3))
    assert machine.values("stored")[-2:] == [None, None]


def test_unknown_is_not_0(machine: Machine) -> None:
    machine.record(sample(1, lag=None))
    machine.record(sample(1, lag=0))
    machine.record(sample(1, lag=None))
    assert machine.values("lag", GROUP) == [None, 0, None]


def test_a_restart_keeps_the_history(machine: Machine) -> None:
    for stored in range(5):
        machine.record(sample(stored))
    machine.restart()
    machine.record(sample(5))
    machine.record(sample(6))
    assert machine.values("stored") == [None, 1, 1, 1, 1, None, 1]


def test_a_new_group_began_at_0_and_one_that_is_gone_is_unknown(machine: Machine) -> None:
    machine.record(sample())
    machine.record(sample(groups=["g", "new"], group_columns=[[0, 4], [0, 1], [1, 1], [None, 50], [0, 1]]))
    machine.record(sample(groups=["new"], group_columns=[[6], [1], [1], [None], [1]]))
    assert machine.values("delivered", GROUP, "new") == [None, 4, 2]
    assert machine.values("delivered", GROUP, "g") == [None, 0, None]
    assert machine.values("woken", GROUP, "new") == [None, 1, 0]
    assert machine.values("wake_p99_us", GROUP, "new") == [None, 50, None]
    assert machine.values("delivered", GROUP, "nobody") == [None, None, None]


def test_minutes_and_ten_minutes(machine: Machine) -> None:
    for number in range(121):
        machine.record(sample(number * 2, lag=number))
    assert machine.values("stored", tier=1)[:3] == [12, 12, 12], "the first minute is extrapolated from 50 s"
    assert machine.values("lag", tier=1)[:3] == [5, 11, 17]
    assert machine.values("stored", tier=2)[:2] == [120, 120]


def test_a_clock_that_goes_ahead_leaves_a_gap(machine: Machine) -> None:
    machine.record(sample(1))
    machine.wall_s += 3600
    machine.record(sample(4))
    assert machine.values("stored")[-1] == 3, "the monotonic clock says that it is 10 s"
    assert machine.values("stored")[1:-1] == [None] * 360
    assert machine.values("holds")[0] == 2, "and nothing is deleted"


def test_a_clock_that_goes_back_an_hour_deletes_steps_of_the_future(machine: Machine) -> None:
    for stored in range(10):
        machine.record(sample(stored))
    machine.wall_s += 3600
    machine.record(sample(10))
    machine.wall_s -= 3600
    machine.record(sample(11))
    machine.record(sample(12))
    assert machine.values("stored", until=START_S + 7200)[:13] == [None, *[1] * 9, None, 1, 1]
    assert all(value is None for value in machine.values("stored", until=START_S + 7200)[13:])
    machine.wall_s -= 90
    machine.record(sample(15))
    assert machine.values("stored", until=START_S + 7200)[3:6] == [1, 3, None], "the time repeats"


def test_a_clock_that_goes_back_a_little_waits(machine: Machine) -> None:
    for stored in range(4):
        machine.record(sample(stored))
    machine.wall_s -= 20
    for stored in range(4, 8):
        machine.record(sample(stored))
    assert machine.values("stored") == [None, 1, 1, 1, None, 1]


jumps = st.lists(st.tuples(st.sampled_from((0, 0, 0, 10, -10, 3600, -3600, 90, -90)), st.integers(0, 9)), max_size=30)


@settings(max_examples=25)
@given(jumps)
def test_clock_jumps_never_invent_a_number(tmp_path_factory: pytest.TempPathFactory, jumped: list[Any]) -> None:
    """Each step has the count of a sample that was recorded at its time, the last one if there were several."""
    machine = Machine(tmp_path_factory.mktemp("jumps") / "broker-a.sqlite3")
    stored, taken, last = 0, {}, None
    try:
        for jump, more in jumped:
            machine.wall_s += jump
            stored += more
            machine.record(sample(stored))
            at_s = TIERS[0].start(machine.wall_s - 5)
            if last is not None and last - 60 < at_s <= last:
                continue
            taken = {start: count for start, count in taken.items() if start < at_s} | {at_s: more}
            last = at_s
        begin = START_S - 40 * 3700
        found = machine.values("stored", since=begin, until=START_S + 40 * 3700)
        for number, value in enumerate(found):
            if value is not None:
                assert value == taken[begin + number * 10]
        holds = machine.values("holds", since=begin, until=START_S + 40 * 3700)
        assert [begin + 10 * number for number, value in enumerate(holds) if value is not None] == sorted(taken)
    finally:
        machine.history.close()


def test_a_full_disk_stops_the_history_and_is_tried_again(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.record(sample(1))

    def fail(*_: Any) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(module.HistoryFile, "write", fail)
        machine.record(sample(2))
    assert "disk is full" in machine.history.problem
    for stored in range(3, 9):
        machine.record(sample(stored))
    assert machine.history.problem == "" and machine.values("holds") == [2, *[None] * 6, 2]


def test_a_folder_that_does_not_exist_is_a_problem_and_no_error(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "nowhere" / "broker-a.sqlite3")
    machine.record(sample(1))
    assert "No such file" in machine.history.problem
    assert machine.values("holds") == [None]


def test_a_file_that_is_no_history_is_put_aside(machine: Machine) -> None:
    machine.history.path.write_bytes(b"no history " * 1000)
    assert machine.history.read(BROKER, ["broker-a"], 0, START_S, START_S + 10)["broker-a"].columns[0] == [None]
    machine.record(sample(1))
    machine.record(sample(2))
    assert machine.values("stored") == [None, 1] and machine.history.problem == ""
    assert machine.history.path.with_suffix(".unreadable").read_bytes().startswith(b"no history")


def test_a_second_process_records_nothing_and_reads(machine: Machine) -> None:
    machine.record(sample(1))
    other = Machine(machine.history.path)
    other.record(sample(1))
    other.record(sample(2))
    assert other.history.problem == "" and other.values("holds") == [2, None]


def test_a_name_gets_the_row_of_the_one_that_is_absent_longest() -> None:
    rows = Rows(Kind("three", (), 3), {})
    assert rows.assign(["a", "b", "c"]) == ([0, 1, 2], [("a", 0), ("b", 1), ("c", 2)])
    assert rows.assign(["a", "c"]) == ([0, 2], [])
    assert rows.assign(["a"]) == ([0], [])
    assert rows.assign(["a", "d", "e", "f"]) == ([0, 1, 2, -1], [("d", 1), ("e", 2)])


def test_a_new_group_that_gets_a_row_has_none_of_the_old_numbers(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KINDS", (BROKER, TOPIC, GROUP._replace(most=1)))
    for _ in range(8):
        machine.record(sample(100, lag=500))
    columns = [[2, 1], [0, 0], [1, 1], [None, None], [3, 3]]
    other = sample(100, lag=3, groups=["other", "third"], group_columns=columns)
    machine.record(other)
    assert machine.history.left_out == 1
    for _ in range(6):
        machine.record(other)
    assert machine.values("delivered", GROUP, "other")[7:10] == [None, 2, 0]
    assert machine.values("lag", GROUP, "other", tier=1) == [None, 3]
    assert machine.values("lag", GROUP) == [None] * 15
