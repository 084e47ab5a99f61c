"""Days that a lake drops, and what it still knows of them."""

from spark_jobs.lake.manifest import Dropped, JournalPart, LakeFile, LogGap, LogPart, Manifest, Witness
from spark_jobs.lake.retention import drop_before, first_kept_ms

DAY = 86_400_000


def file(table: str, day: int, rows: int = 2) -> LakeFile:
    return LakeFile(f"{table}/{day}", rows, 100, day * DAY, day * DAY + DAY - 1)


def test_whole_days_stay_beside_the_current_one() -> None:
    assert first_kept_ms(30 * DAY, 7) == first_kept_ms(31 * DAY - 1, 7) == 23 * DAY


def test_files_of_days_that_are_over_go_and_what_was_read_is_still_known() -> None:
    gap, witness = LogGap(20, 30, 1), Witness(35, 5, "ab")
    manifest = Manifest(
        "s",
        position=50,
        gaps=[gap],
        witnesses=[witness],
        missing_journal_files=[0],
        messages=[
            LogPart(0, 20, [file("messages", 1)], sums=[file("sums", 1, 1)]),
            LogPart(30, 40, [], 1, 10),
            LogPart(40, 50, [file("messages", 2), file("messages", 3)], 2, 9, sums=[file("sums", 2), file("sums", 3)]),
        ],
        polls=[JournalPart(1, 77, 0, 9, True, [file("polls", 1, 5)], 3), JournalPart(2, 78, 0, 9, False, [])],
    )
    assert not drop_before(manifest, DAY, 9)
    assert (manifest.dropped, manifest.retired) == (Dropped(), [])
    assert not drop_before(manifest, 2 * DAY - 1, 9), "its last millisecond is not over"
    assert drop_before(manifest, 2 * DAY, 9)
    assert manifest.dropped == Dropped(2 * DAY, 2, 5)
    assert [(part.start, part.end, len(part.files)) for part in manifest.messages] == [(30, 40, 0), (40, 50, 2)]
    assert [file.path for file in manifest.retired] == ["messages/1", "sums/1", "polls/1"]
    assert drop_before(manifest, 3 * DAY, 11)
    assert manifest.dropped == Dropped(3 * DAY, 4, 5)
    assert [(part.start, part.end) for part in manifest.messages] == [(30, 40), (40, 50)]
    assert manifest.files() == {"messages/3", "sums/3"}
    assert manifest.journal_ends() == {
        (1, 77): JournalPart(1, 77, 0, 9, True, [], 3),
        (2, 78): JournalPart(2, 78, 0, 9, False, []),
    }
    assert (manifest.position, manifest.gaps, manifest.witnesses) == (50, [gap], [witness])
    assert [file.at_ms for file in manifest.retired] == [9, 9, 9, 11, 11]
    assert not drop_before(manifest, 3 * DAY, 12)
    assert manifest.dropped == Dropped(3 * DAY, 4, 5)
