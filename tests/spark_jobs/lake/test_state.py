"""States of a broker, of which the commit of the rows names one."""

import os
from pathlib import Path

import pytest

from spark_jobs.errors import LakeError
from spark_jobs.lake import state as lake_state
from spark_jobs.lake.state import State, path_of, read_state, remove_states, thinned, write_state
from spark_jobs.lake.tasks import LOST
from spark_jobs.sources.commit_log_damage import DAMAGED, DELETED, Gap
from spark_jobs.sources.poll_journal_files import JournalPosition

LOG = State(900, (880, 20, 1 << 62), None, [Gap(DAMAGED, 0, 50, 50, None, 7), Gap(DELETED, 90, 100, 10, 7, 8)], 3, 5)
JOURNAL = State(journal=JournalPosition(3, 1_700_000_000_123, 70, True), gaps=[Gap(LOST, 0, 0, 3)])


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_state(tmp_path, "a", "messages", None) == State()
    numbers = {
        table: write_state(tmp_path, "a", table, state) for table, state in (("messages", LOG), ("polls", JOURNAL))
    }
    assert read_state(tmp_path, "a", "messages", numbers["messages"]) == LOG
    assert read_state(tmp_path, "a", "polls", numbers["polls"]) == JOURNAL
    Path(path_of(tmp_path, "a", "polls", numbers["polls"])).write_text("{")
    with pytest.raises(LakeError, match="is not the state of a lake"):
        read_state(tmp_path, "a", "polls", numbers["polls"])
    with pytest.raises(LakeError, match="is missing: the lake was filled while it was read"):
        read_state(tmp_path, "b", "polls", numbers["polls"])


def test_old_states_are_removed_but_for_the_one_that_counts_and_the_newest(tmp_path: Path) -> None:
    numbers = [write_state(tmp_path, "a", "messages", LOG) for _ in range(5)]
    other = write_state(tmp_path, "a", "polls", JOURNAL)
    paths = [Path(path_of(tmp_path, "a", "messages", number)) for number in numbers]
    for written_s, path in enumerate(paths[:4], 1000):
        os.utime(path, (written_s, written_s))
    remove_states(tmp_path, "a", "messages", numbers[1], 1_004_000)
    remove_states(tmp_path, "b", "messages", None, 1_004_000)
    assert [path.exists() for path in paths] == [False, True, False, True, True]
    assert read_state(tmp_path, "a", "polls", other) == JOURNAL


def test_of_many_gaps_neighbours_of_a_kind_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_state, "MOST", 4)
    many = [Gap(DAMAGED, 10 * n, 10 * n + 2, 2, n, n + 1) for n in range(7)]
    found = thinned([*many, Gap(DELETED, 15, 18, 3)])
    assert found == [
        Gap(DAMAGED, 0, 32, 8, 0, 4),
        Gap(DELETED, 15, 18, 3),
        Gap(DAMAGED, 40, 62, 6, 4, 7),
    ]
    assert sum(gap.amount for gap in found) == 17
