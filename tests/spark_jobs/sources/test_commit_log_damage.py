"""Damaged places of a log, with the times around them."""

from pathlib import Path

from broker_core.formats.commit_log_record import placeholders
from spark_jobs.sources.commit_log_damage import Damage, find_damage
from spark_jobs.sources.commit_log_segments import plan_log
from tests.spark_jobs.stores import SEGMENT, Written, make_store, segment_path, tear


def time_of(number: int) -> int:
    return 1_700_000_000_000 + 20_000 * number


def index_of(written: Written, offset: int) -> int:
    return [at for _, _, at, _ in written.records].index(offset)


def test_an_intact_log_has_none(tmp_path: Path) -> None:
    make_store(tmp_path, 60)
    plan = plan_log(tmp_path)
    assert find_damage(plan, ()) == find_damage(plan, [0, SEGMENT]) == ([], {})


def test_torn_records_with_the_times_of_their_neighbours(tmp_path: Path) -> None:
    written = make_store(tmp_path, 60)
    for index in (3, 4, 30):
        tear(tmp_path, written.records[index][2], 30)
    torn = {written.records[index][2] // SEGMENT * SEGMENT for index in (3, 30)}
    first, second = written.records[3], written.records[30]
    assert find_damage(plan_log(tmp_path), torn).places == [
        Damage(first[2], written.records[5][2], time_of(2), time_of(5)),
        Damage(second[2], second[2] + second[3], time_of(29), time_of(31)),
    ]


def test_a_missing_segment(tmp_path: Path) -> None:
    written = make_store(tmp_path, 60)
    segment_path(tmp_path, 1).unlink()
    inside = [index for index, record in enumerate(written.records) if record[2] // SEGMENT == 1]
    assert find_damage(plan_log(tmp_path), ()).places == [
        Damage(SEGMENT, 2 * SEGMENT, time_of(inside[0] - 1), time_of(inside[-1] + 1))
    ]


def test_a_segment_that_is_cut_off(tmp_path: Path) -> None:
    written = make_store(tmp_path, 60)
    cut = written.records[5][2]
    path = segment_path(tmp_path, 0)
    path.write_bytes(path.read_bytes()[:cut])
    behind = next(index for index, record in enumerate(written.records) if record[2] >= SEGMENT)
    assert find_damage(plan_log(tmp_path), ()).places == [Damage(cut, SEGMENT, time_of(4), time_of(behind))]


def test_a_segment_that_is_deleted_meanwhile_is_passed_over(tmp_path: Path) -> None:
    make_store(tmp_path, 60)
    plan = plan_log(tmp_path)
    segment_path(tmp_path, 0).unlink()
    assert find_damage(plan, [0]).places == []


def test_a_placeholder_is_damage_and_no_message(tmp_path: Path) -> None:
    """Recovery covers what it could not read by a record without a topic."""
    written = make_store(tmp_path, 60)
    _, _, start, size = written.records[3]
    with segment_path(tmp_path, 0).open("r+b") as file:
        file.seek(start)
        file.write(b"".join(placeholders(start, start + size, time_of(4))))
    assert find_damage(plan_log(tmp_path), [0]).places == [Damage(start, start + size, time_of(2), time_of(4))]
