"""The file of a broker's history."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from bridge.history.history_file import BLOCK, SHARD, HistoryFile, NotReadable, Series, read_series
from bridge.history.rollup import GROUP, KINDS, UNKNOWN, Step, Table, Tier

TIERS = (Tier(10, 120, 1 << 20), Tier(60, 120, 1 << 20), Tier(600, 120, 1 << 20))
KIND = KINDS.index(GROUP)


def step(at_s: int, lags: list[int]) -> Step:
    """A step in which the groups have these lags, and nothing else is known."""
    table: Table = [[[UNKNOWN] * len(lags) if kind is GROUP else [] for _ in kind.metrics] for kind in KINDS]
    table[KIND][2] = lags
    return Step(at_s, table)


def series_of(path: Path, name: str, from_s: int, to_s: int, tier: int = 0) -> Series:
    return read_series(path, GROUP, [name], tier, from_s, to_s)[name]


def lags(path: Path, name: str, from_s: int, to_s: int, tier: int = 0) -> list[int | None]:
    return series_of(path, name, from_s, to_s, tier).columns[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "broker-a.sqlite3"


def test_what_was_written_is_read_also_after_a_restart(path: Path) -> None:
    one = HistoryFile(path, TIERS)
    one.write([(0, step(0, [5, 0])), (1, step(0, [50, 1]))], [(KIND, 0, "a", 0), (KIND, 1, "b", 0)])
    one.write([(0, step(10, [5, UNKNOWN]))], [])
    one.close()
    one = HistoryFile(path, TIERS)
    assert one.names(KIND) == {"a": 0, "b": 1} and one.last_step() == 10
    one.write([(0, step(30, [7, 2000]))], [])
    one.close()
    assert lags(path, "a", 0, 50) == [5, 5, None, 7, None]
    assert lags(path, "b", 0, 50) == [0, None, None, 2000, None]
    assert lags(path, "b", 20, 40) == [None, 2000]
    assert lags(path, "a", 0, 120, 1) == [50, None]
    assert series_of(path, "a", 0, 50).since_s == 0
    assert series_of(path, "nobody", 0, 20) == ([[None, None]] * len(GROUP.metrics), None)
    assert series_of(path.with_name("none"), "a", 0, 20) == ([[None, None]] * len(GROUP.metrics), None)


def test_several_names_are_read_together(path: Path) -> None:
    one = HistoryFile(path, TIERS)
    names = [f"g-{row}" for row in range(SHARD + 2)]
    rows = [(KIND, row, name, 0) for row, name in enumerate(names)]
    one.write([(0, step(0, list(range(SHARD + 2))))], rows)
    for number in range(1, BLOCK + 5):  # more than one block
        one.write([(0, step(10 * number, [row + number for row in range(SHARD + 2)]))], [])
    one.close()
    asked = [names[SHARD + 1], "nobody", names[3], names[SHARD]]
    found = read_series(path, GROUP, asked, 0, 100, 10 * BLOCK + 40)
    assert list(found) == asked
    assert found == {name: series_of(path, name, 100, 10 * BLOCK + 40) for name in asked}
    assert found[names[3]].columns[2][:2] == [13, 14] and set(found["nobody"].columns[2]) == {None}


def test_only_one_process_writes(path: Path) -> None:
    one = HistoryFile(path, TIERS)
    with pytest.raises(BlockingIOError):
        HistoryFile(path, TIERS)
    one.close()
    HistoryFile(path, TIERS).close()


@pytest.mark.parametrize("content", [b"no database " * 100, None], ids=["foreign", "newer"])
def test_a_file_that_is_no_history_is_refused_and_not_changed(path: Path, content: bytes | None) -> None:
    if content is None:
        HistoryFile(path, TIERS).close()
        sqlite3.connect(path).execute("PRAGMA user_version = 9")
    else:
        path.write_bytes(content)
    for _ in range(2):
        with pytest.raises(NotReadable):
            HistoryFile(path, TIERS)
    assert content is None or path.read_bytes() == content


def test_a_group_that_gets_the_row_of_another_does_not_get_its_history(path: Path) -> None:
    one = HistoryFile(path, TIERS)
    one.write([(0, step(0, [5]))], [(KIND, 0, "old", 0)])
    one.write([(0, step(10, [6]))], [(KIND, 0, "new", 10)])
    one.close()
    assert lags(path, "new", 0, 20) == [None, 6]
    assert lags(path, "old", 0, 20) == [None, None]


def test_rows_of_several_shards_that_appear_in_the_middle_of_a_block(path: Path) -> None:
    one, most = HistoryFile(path, TIERS), 2 * SHARD + 3
    one.write([(0, step(0, [1]))], [(KIND, 0, "first", 0)])
    one.write([(0, step(10, list(range(most))))], [(KIND, most - 1, "last", 10), (KIND, SHARD, "middle", 10)])
    one.write([(0, step(20, [9] * most))], [])
    one.close()
    assert lags(path, "first", 0, 30) == [1, 0, 9]
    assert lags(path, "middle", 0, 30) == [None, SHARD, 9]
    assert lags(path, "last", 0, 30) == [None, rounded(most - 1), 9]


def rounded(value: int) -> int:
    return value if value < 1024 else value // 2 * 2


def pieces(one: HistoryFile) -> int:
    return int(one._database.execute("SELECT COUNT(*) FROM pieces").fetchone()[0])


def test_groups_that_do_not_change_need_no_rows(path: Path) -> None:
    one = HistoryFile(path, TIERS)
    for number in range(BLOCK):
        one.write([(0, step(number * 10, [5] * 3 * SHARD))], [])
    assert pieces(one) == BLOCK + 3, "a mark for each step, and one piece for each shard"
    one.close()


def test_a_tier_keeps_its_number_of_steps(path: Path) -> None:
    one = HistoryFile(path, TIERS)
    for number in range(300):
        one.write([(0, step(number * 10, [number % 7]))], [(KIND, 0, "a", 0)] if number == 0 else [])
    one.close()
    known = [value is not None for value in lags(path, "a", 0, 3000)]
    assert known == [False] * 180 + [True] * 120
    assert series_of(path, "a", 0, 3000).since_s == 1800


def test_a_tier_keeps_less_if_it_has_too_many_bytes(path: Path) -> None:
    small = (Tier(10, 120, 4000), *TIERS[1:])
    one = HistoryFile(path, small)
    for number in range(180):
        one.write([(0, step(number * 10, [(number * 7919 + row * 104_729) % 5003 for row in range(40)]))], [])
        assert sum(block.size for block in one._blocks[0]) <= 4000 + 100 * BLOCK
    assert len(one._blocks[0]) == 1
    blocks = list(one._blocks[0])
    one.close()
    one = HistoryFile(path, small)
    assert list(one._blocks[0]) == blocks, "the same is found when the file is opened"
    one.close()


def test_steps_of_the_future_are_deleted(path: Path) -> None:
    one = HistoryFile(path, TIERS)
    for at_s in range(3600, 7200, 60):
        one.write([(0, step(at_s, [1])), (1, step(at_s, [1]))], [(KIND, 0, "a", at_s)] if at_s == 3600 else [])
    one.delete_from(3690)
    assert one.last_step() == 3660
    one.write([(0, step(3690, [2]))], [])
    one.close()
    assert lags(path, "a", 3600, 3720) == [1, None, None, None, None, None, 1, None, None, 2, None, None]
    assert lags(path, "a", 3600, 3780, 1) == [1, None, None]


def test_names_of_a_deleted_future_have_a_history_at_once(path: Path) -> None:
    one = HistoryFile(path, TIERS)
    one.write([(0, step(7200, [1]))], [(KIND, 0, "a", 7200)])
    one.delete_from(3600)
    one.write([(0, step(3600, [2]))], [])
    one.close()
    assert lags(path, "a", 3600, 3610) == [2]


def test_a_full_disk_loses_nothing_that_was_written(path: Path) -> None:
    one = HistoryFile(path, TIERS)
    one.write([(0, step(0, [5]))], [(KIND, 0, "a", 0)])
    (pages,) = one._database.execute("PRAGMA page_count").fetchone()
    one._database.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        one.write([(0, step(10, noise(60 * SHARD)))], [])
    one._database.execute("PRAGMA max_page_count = 100000")
    one.write([(0, step(20, [6]))], [])
    one.close()
    assert lags(path, "a", 0, 30) == [5, None, 6]


def noise(rows: int) -> list[Any]:
    return [(row * 104_729 + row * row) % 1_000_003 for row in range(rows)]
