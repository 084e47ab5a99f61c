"""Gaps as rows of a Delta table, of which the commit of the other tables names a version."""

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from spark_jobs.errors import LakeBusyError, LakeError
from spark_jobs.lake import gaps as gaps_module
from spark_jobs.lake.gaps import read_gaps, thinned, write_gaps
from spark_jobs.lake.tasks import DAMAGED, DELETED, LOST, Gap

FIRST, SECOND = Gap(DAMAGED, 0, 50, 50, None, 7), Gap(DELETED, 90, 100, 10, 7, 1_700_000_000_123)


def test_each_version_has_all_gaps_of_one_source(tmp_path: Path) -> None:
    assert read_gaps(tmp_path, "a", "messages", 0) == []
    assert write_gaps(tmp_path, "a", "messages", 0, [FIRST]) == 1
    assert write_gaps(tmp_path, "a", "messages", 1, [SECOND, FIRST]) == 2
    assert write_gaps(tmp_path, "a", "polls", 0, [Gap(LOST, 0, 0, 3)]) == 1
    assert write_gaps(tmp_path, "b", "messages", 0, [SECOND]) == 1
    assert read_gaps(tmp_path, "a", "messages", 1) == [FIRST]
    assert read_gaps(tmp_path, "a", "messages", 2) == [FIRST, SECOND]
    assert read_gaps(tmp_path, "a", "polls", 1) == [Gap(LOST, 0, 0, 3)]
    assert read_gaps(tmp_path, "b", "messages", 1) == [SECOND]


def test_versions_before_the_one_that_counts_are_removed_and_numbers_never_used_again(tmp_path: Path) -> None:
    write_gaps(tmp_path, "a", "messages", 0, [FIRST])
    assert write_gaps(tmp_path, "a", "messages", 0, [SECOND]) == 2, "the first was not named: its fill was killed"
    assert write_gaps(tmp_path, "a", "messages", 2, [FIRST, SECOND]) == 3
    with pytest.raises(LakeError, match="lacks version 1 of a: the lake was filled while it was read"):
        read_gaps(tmp_path, "a", "messages", 1)
    assert read_gaps(tmp_path, "a", "messages", 2) == [SECOND]


def test_of_two_that_write_a_version_one_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_gaps(tmp_path, "a", "messages", 0, [FIRST])
    real = DeltaTable.delete

    def overtaken(table: DeltaTable, predicate: str) -> None:
        monkeypatch.setattr(DeltaTable, "delete", real)
        assert write_gaps(tmp_path, "a", "messages", 1, [SECOND]) == 2

    monkeypatch.setattr(DeltaTable, "delete", overtaken)
    with pytest.raises(LakeBusyError, match="Another process has filled the lake of a meanwhile"):
        write_gaps(tmp_path, "a", "messages", 1, [FIRST])
    assert read_gaps(tmp_path, "a", "messages", 2) == [SECOND]


def test_another_broker_s_gaps_that_are_removed_meanwhile_are_not_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for broker in "aabb":
        write_gaps(tmp_path, broker, "messages", 0, [FIRST])
    real = gaps_module.write_deltalake

    def meanwhile(*given: Any, **named: Any) -> None:
        monkeypatch.setattr(gaps_module, "write_deltalake", real)
        assert write_gaps(tmp_path, "b", "messages", 2, [SECOND]) == 3
        real(*given, **named)

    monkeypatch.setattr(gaps_module, "write_deltalake", meanwhile)
    assert write_gaps(tmp_path, "a", "messages", 2, [SECOND]) == 3
    assert [read_gaps(tmp_path, broker, "messages", 3) for broker in "ab"] == [[SECOND], [SECOND]]
    with pytest.raises(LakeError, match="lacks version 1 of a"):
        read_gaps(tmp_path, "a", "messages", 1)


def test_of_many_gaps_neighbours_of_a_kind_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaps_module, "MOST", 4)
    many = [Gap(DAMAGED, 10 * n, 10 * n + 2, 2, n, n + 1) for n in range(7)]
    found = thinned([*many, Gap(DELETED, 15, 18, 3)])
    assert found == [
        Gap(DAMAGED, 0, 32, 8, 0, 4),
        Gap(DELETED, 15, 18, 3),
        Gap(DAMAGED, 40, 62, 6, 4, 7),
    ]
    assert sum(gap.amount for gap in found) == 17
