"""Which parts of a lake are merged, and that what they say of log and journal stays said."""

from pathlib import Path

import pytest

from spark_jobs.errors import LakeError
from spark_jobs.lake import merge as lake_merge
from spark_jobs.lake.manifest import JournalPart, LakeFile, LogPart, Manifest
from spark_jobs.lake.merge import FEW, MANY, Files, Merge, due, put_together, rounds

DAY = 86_400_000
LAKE = "/lake"


def file(table: str, name: int, day: int, rows: int = 2, size: int = 100) -> LakeFile:
    return LakeFile(f"{table}/{day}/{name}", rows, size, day * DAY, day * DAY + 5)


def log_part(number: int, *on: int, start: int | None = None, with_bodies: bool = False, size: int = 100) -> LogPart:
    """Part ``number``, 10 bytes of the log, with files of these days."""
    begin = 10 * number if start is None else start
    return LogPart(
        begin,
        begin + 10,
        [file("messages", number, day, size=size) for day in on],
        1,
        3,
        with_bodies,
        [file("sums", number, day, 1) for day in on],
    )


def poll_part(number: int, start: int, *on: int, closed: bool = False, lost: int = 0) -> JournalPart:
    return JournalPart(
        number, 77, start, start + 10, closed, [file("polls", 1000 * number + start, day) for day in on], lost
    )


def log_of(*days: int) -> Manifest:
    """A lake with a part of each of these days."""
    return Manifest("s", messages=[log_part(number, day) for number, day in enumerate(days)])


def places(manifest: Manifest) -> list[tuple[int, int]]:
    return [(merge.parts.start, merge.parts.stop) for merge in due(manifest, LAKE)]


def written(merges: list[Merge], manifest: Manifest) -> Files:
    """As if all works were carried out: a file of each, with all rows."""
    rows = {found.path: found for table in ("messages", "sums", "polls") for found in manifest.of_table(table)}
    return {
        (work.table, work.name): [
            LakeFile(
                f"{work.table}/merged/{work.name}",
                sum(rows[path].rows for path in work.paths),
                50,
                min(rows[path].min_ms for path in work.paths),
                max(rows[path].max_ms for path in work.paths),
            )
        ]
        for merge in merges
        for work in merge.works
    }


def merged(manifest: Manifest) -> int:
    found = due(manifest, LAKE)
    return put_together(manifest, found, written(found, manifest), 9)


def test_a_day_is_merged_when_something_of_another_one_is_read() -> None:
    assert places(log_of(*[1] * 24)) == []
    assert places(log_of(*[1] * 24, 2)) == [(0, 24)]
    assert places(log_of(*[1] * 24, *[2] * 24, 3)) == [(0, 24), (24, 48)]


def test_a_few_files_are_left_as_they_are() -> None:
    assert places(log_of(*[1] * (FEW - 1), 2)) == []
    assert places(log_of(*[1] * FEW, 2)) == [(0, FEW)]


def test_many_files_of_a_day_that_is_not_over_are_merged_each_once() -> None:
    manifest = log_of(*[1] * (MANY - 1))
    assert places(manifest) == []
    manifest = log_of(*[1] * MANY)
    assert merged(manifest) == 2 * MANY
    assert [(part.start, part.end, part.merged) for part in manifest.messages] == [(0, 10 * MANY, True)]
    manifest.messages += [log_part(MANY + number, 1) for number in range(MANY - 1)]
    assert places(manifest) == []
    manifest.messages.append(log_part(2 * MANY - 1, 1))
    assert places(manifest) == [(1, MANY + 1)]
    manifest.messages.append(log_part(2 * MANY, 2))
    assert places(manifest) == [(0, MANY + 1)], "at the end of the day all of it becomes one"


def test_a_part_at_midnight_is_of_the_day_on_which_it_begins() -> None:
    manifest = log_of(1, 1, 1, 1, 2, 2, 2, 2, 3)
    manifest.messages[3] = log_part(3, 2, 1)
    assert places(manifest) == [(0, 4), (4, 8)]


def test_parts_without_files_go_with_those_before() -> None:
    manifest = log_of(1, 1, 1, 1, 1, 1, 2, 2)
    for empty in (0, 3, 5):
        manifest.messages[empty] = log_part(empty)
    assert places(manifest) == []
    manifest.messages[5] = log_part(5, 1)
    assert places(manifest) == [(0, 6)]
    manifest.messages[6] = log_part(6)
    assert places(manifest) == [(0, 7)]


def test_neither_gaps_nor_other_columns_are_merged_over() -> None:
    manifest = Manifest(
        "s",
        messages=[
            *(log_part(number, 1) for number in range(4)),
            *(log_part(number, 1, start=100 + 10 * number) for number in range(4)),
            *(log_part(number, 1, start=100 + 10 * number, with_bodies=True) for number in range(4, 8)),
            log_part(90, 2),
        ],
    )
    assert places(manifest) == [(0, 4), (4, 8), (8, 12)]
    assert [work.with_bodies for merge in due(manifest, LAKE) for work in merge.works] == [False] * 4 + [True] * 2


def test_what_is_large_enough_is_a_file_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_merge, "ENOUGH_BYTES", 1000)
    assert places(log_of(*[1] * 12, 2)) == [(0, 5), (5, 10)]
    large = Manifest("s", messages=[*(log_part(number, 1, size=1000) for number in range(20)), log_part(20, 2)])
    assert places(large) == []


def test_what_is_merged_is_cut_into_rounds_by_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_merge, "ROUND_BYTES", 1500)
    found = due(log_of(*[day for day in range(5) for _ in range(4)], 9), LAKE)
    assert [merge.size for merge in found] == [800] * 5
    assert [len(together) for together in rounds(found)] == [2, 2, 1]
    assert list(rounds([])) == []


def test_the_log_is_covered_as_before_and_the_files_in_their_order() -> None:
    manifest = log_of(1, 1, 1, 1, 1, 2, 2, 2, 2, 3)
    manifest.messages[4] = log_part(4, 1, 2)
    found = due(manifest, LAKE)
    assert [(work.table, work.name) for work in found[0].works] == [
        (table, f"range={0:020d}-{50:020d}") for table in ("messages", "sums")
    ]
    assert found[0].works[0].paths == [
        "messages/1/0",
        "messages/1/1",
        "messages/1/2",
        "messages/1/3",
        "messages/1/4",
        "messages/2/4",
    ]
    rows, paths = sum(each.rows for each in manifest.of_table("messages")), manifest.files()
    assert put_together(manifest, found, written(found, manifest), 9) == 20
    assert [(part.start, part.end) for part in manifest.messages] == [(0, 50), (50, 90), (90, 100)]
    assert sum(part.torn_places for part in manifest.messages) == 10
    assert sum(part.torn_bytes for part in manifest.messages) == 30
    assert sum(each.rows for each in manifest.of_table("messages")) == rows
    assert len(manifest.of_table("messages")) == len(manifest.of_table("sums")) == 3
    assert {each.path for each in manifest.retired} == paths - manifest.files()
    assert {each.at_ms for each in manifest.retired} == {9}
    assert due(manifest, LAKE) == []


def test_files_of_the_journal_are_merged_and_each_is_still_known() -> None:
    parts = [
        poll_part(1, 0, 1),
        poll_part(1, 10, 1, lost=2),
        poll_part(1, 20, 1, closed=True, lost=1),
        poll_part(2, 0, 1),
        poll_part(2, 10, 1, 2),
        poll_part(2, 20, 2),
    ]
    manifest = Manifest("s", polls=[*parts])
    (merge,) = due(manifest, LAKE)
    assert [work.name for work in merge.works] == [f"file={1:020d}-{77:013d}-{0:010d}-{2:020d}-{77:013d}-{20:010d}"]
    before = manifest.journal_ends()
    assert put_together(manifest, [merge], written([merge], manifest), 9) == 6
    found = [(part.number, part.start, part.end, part.closed, len(part.files), part.lost) for part in manifest.polls]
    assert found == [(1, 0, 30, True, 1, 3), (2, 0, 20, False, 0, 0), (2, 20, 30, False, 1, 0)]
    assert {known: (part.end, part.closed) for known, part in manifest.journal_ends().items()} == {
        known: (part.end, part.closed) for known, part in before.items()
    }
    assert due(manifest, LAKE) == []


def test_rows_that_are_missing_are_not_done_without() -> None:
    for manifest in (
        log_of(1, 1, 1, 1, 2),
        Manifest("s", polls=[*(poll_part(1, 10 * number, 1) for number in range(4)), poll_part(1, 40, 2)]),
    ):
        (merge,) = due(manifest, LAKE)
        files = {name: [LakeFile("x", 7, 1, DAY, DAY)] for name in written([merge], manifest)}
        with pytest.raises(LakeError, match="Of 8 rows that were to be merged 7 were written; what was there stays"):
            put_together(manifest, [merge], files, 9)
        assert manifest.retired == []
        assert len(manifest.messages) + len(manifest.polls) == 5


def test_a_manifest_of_before_is_merged(tmp_path: Path) -> None:
    from spark_jobs.lake.manifest import read_manifest

    (tmp_path / "manifest.json").write_text(
        '{"store": "s", "version": 1, "position": 50, "messages": ['
        + ", ".join(
            f'{{"start": {at}, "end": {at + 10}, "files": [{{"path": "messages/{at}", "rows": 2, "size": 9, '
            f'"min_ms": {at}, "max_ms": {at}}}]}}'
            for at in range(0, 40, 10)
        )
        + f', {{"start": 40, "end": 50, "files": [{{"path": "n", "rows": 1, "size": 9, "min_ms": {DAY}, "max_ms": {DAY}'
        "}]}]}"
    )
    manifest = read_manifest(tmp_path)
    assert manifest is not None and manifest.retired == []
    assert merged(manifest) == 4
    assert [(part.start, part.end, part.sums) for part in manifest.messages] == [(0, 40, []), (40, 50, [])]
