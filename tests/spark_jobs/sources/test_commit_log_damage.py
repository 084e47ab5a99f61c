"""Damaged places of a log, with the times around them."""

from collections.abc import Iterator
from pathlib import Path

from broker_core.formats.commit_log_record import placeholders
from spark_jobs.sources.commit_log_damage import DAMAGED, DELETED, Gap, find_damage
from spark_jobs.sources.commit_log_segments import plan_log
from tests.spark_jobs.stores import SEGMENT, Written, make_store, segment_path, tear


def gap(written: Written, what: str, first: int, last: int) -> Gap:
    """The gap in place of these records, which ends where the next record begins."""
    start, end = (written.records[number][2] for number in (first, last + 1))
    times = (1_700_000_000_000 + 20_000 * number for number in (first - 1, last + 1))
    return Gap(what, start, end, end - start, *times)


def numbers(written: Written, segment: int) -> Iterator[int]:
    """The numbers of a segment's records."""
    return (number for number, record in enumerate(written.records) if record[2] // SEGMENT == segment)


def test_damage_is_found_with_the_times_of_its_neighbours(tmp_path: Path) -> None:
    """Torn records, a placeholder of the broker's recovery, a segment that is cut off, and one that is missing."""
    written = make_store(tmp_path, 120)
    assert find_damage(plan_log(tmp_path), [0, SEGMENT]) == []
    for index in (3, 4):
        tear(tmp_path, written.records[index][2], 30)
    covered = gap(written, DAMAGED, 10, 10)
    with segment_path(tmp_path, 0).open("r+b") as file:
        file.seek(covered.start)
        file.write(b"".join(placeholders(covered.start, covered.end, covered.to_ms or 0)))
    _, second, *_, last = numbers(written, 1)
    with segment_path(tmp_path, 1).open("r+b") as file:
        file.truncate(written.records[second][2] - SEGMENT)
    (first, *_, gone) = numbers(written, 3)
    segment_path(tmp_path, 3).unlink()
    assert find_damage(plan_log(tmp_path), [0]) == [
        gap(written, DAMAGED, 3, 4),
        covered,
        gap(written, DELETED, second, last),
        gap(written, DELETED, first, gone),
    ]


def test_a_segment_that_is_deleted_meanwhile_is_passed_over(tmp_path: Path) -> None:
    make_store(tmp_path, 60)
    plan = plan_log(tmp_path)
    segment_path(tmp_path, 0).unlink()
    assert find_damage(plan, [0]) == []
