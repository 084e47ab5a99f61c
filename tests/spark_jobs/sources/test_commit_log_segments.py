"""How far a store is read, and in which pieces."""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.formats.commit_log_record import decode
from spark_jobs.sources import commit_log_segments
from spark_jobs.sources.commit_log_files import find_segments
from spark_jobs.sources.commit_log_records import RecordWalk, Segment
from spark_jobs.sources.commit_log_segments import (
    LARGEST_SHARE,
    SMALLEST_SHARE,
    LogPlan,
    LogRange,
    filler_size,
    plan_log,
    read_safe_end,
    share,
)
from tests.spark_jobs.stores import SEGMENT, Written, make_store, publish_end, segment_path, tear


def test_without_a_safe_end_the_log_ends_where_nothing_is_written(tmp_path: Path) -> None:
    written = make_store(tmp_path, 40)
    plan = plan_log(tmp_path)
    assert (plan.start, plan.end, plan.ended_by) == (0, written.end, "unwritten space")
    assert [(r.start, r.stop) for r in plan.ranges][-1][1] == written.end
    assert plan.ranges[0].stop == SEGMENT


def test_the_log_continues_after_an_invalid_record(tmp_path: Path) -> None:
    written = make_store(tmp_path, 60)
    torn = next(offset for _, _, offset, _ in written.records if offset > SEGMENT + 500)
    tear(tmp_path, torn, 20)
    plan = plan_log(tmp_path)
    assert (plan.end, plan.ended_by, plan.segments_unread) == (written.end, "unwritten space", ())


def test_the_log_continues_after_damage_in_the_last_segment(tmp_path: Path) -> None:
    written = make_store(tmp_path, 20, segment=1 << 20)
    for index in (3, 4, 11):
        tear(tmp_path, written.records[index][2], 30, 1 << 20)
    assert plan_log(tmp_path)[2:5] == (0, written.end, "unwritten space")


def test_zeros_in_a_segment_that_others_follow_are_damage(tmp_path: Path) -> None:
    written = make_store(tmp_path, 60)
    data = bytearray(segment_path(tmp_path, 0).read_bytes())
    data[1000:] = bytes(len(data) - 1000)
    segment_path(tmp_path, 0).write_bytes(data)
    assert plan_log(tmp_path)[2:5] == (0, written.end, "unwritten space")


def test_zeros_in_the_last_segment_are_the_space_that_is_left(tmp_path: Path) -> None:
    _, _, offset, size = make_store(tmp_path, 20, segment=1 << 20).records[11]
    data = bytearray(segment_path(tmp_path, 0).read_bytes())
    data[offset : offset + size] = bytes(size)
    segment_path(tmp_path, 0).write_bytes(data)
    assert plan_log(tmp_path)[2:5] == (0, offset, "unwritten space")


def dispatch(store: Path, written: Written) -> None:
    """Write consume queues of all records, each in files of eight units, as preallocated as RocketMQ's."""
    units: dict[tuple[str, int], list[bytes]] = {}
    for topic, queue, offset, size in written.records:
        units.setdefault((topic, queue), []).append(struct.pack(">qiq", offset, size, 0))
    for (topic, queue), queued in units.items():
        folder = store / "consumequeue" / topic / str(queue)
        folder.mkdir(parents=True)
        for first in range(0, len(queued) + 8, 8):
            (folder / f"{first * 20:020d}").write_bytes(b"".join(queued[first : first + 8]).ljust(160, b"\0"))


def test_with_consume_queues_only_the_end_of_the_log_is_walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = make_store(tmp_path, 200)
    walks: list[int] = []

    def walk(segment: Segment, start: int, stop: int, **more: bool) -> RecordWalk:
        walks.append(segment.base + start)
        return RecordWalk(segment, start, stop, **more)

    monkeypatch.setattr(commit_log_segments, "RecordWalk", walk)
    monkeypatch.setattr(commit_log_segments, "TAIL_BYTES", 300)
    assert plan_log(tmp_path).end == written.end
    assert walks == [written.end // SEGMENT * SEGMENT], "without them: only the last segment"
    dispatch(tmp_path, written)
    walks.clear()
    assert plan_log(tmp_path)[2:5] == (0, written.end, "unwritten space")
    (begin,) = walks
    assert written.end - 800 < begin < written.end - 300


@pytest.mark.parametrize("hint", [-5, 0, 700, 1 << 50])
def test_wrong_consume_queues_do_not_change_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hint: int) -> None:
    written = make_store(tmp_path, 10, segment=1 << 14)
    queue = tmp_path / "consumequeue" / "orders" / "0"
    queue.mkdir(parents=True)
    (queue / f"{0:020d}").write_bytes(struct.pack(">qiq", hint if hint < 700 else written.end + hint, 1, 0))
    (queue / f"{20:020d}").write_bytes(b"")
    monkeypatch.setattr(commit_log_segments, "TAIL_BYTES", 10)
    assert plan_log(tmp_path)[2:5] == (0, written.end, "unwritten space")


def test_the_log_ends_at_an_invalid_record_that_no_valid_one_follows(tmp_path: Path) -> None:
    written = make_store(tmp_path, 60)
    last = written.records[-1][2]
    tear(tmp_path, last, 20)
    plan = plan_log(tmp_path)
    assert (plan.end, plan.ended_by) == (last, "invalid record")


def test_a_torn_body_at_the_end_is_seen_by_its_checksum(tmp_path: Path) -> None:
    written = make_store(tmp_path, 10)
    last = written.records[-1][2]
    tear(tmp_path, last + 88, 3)
    assert plan_log(tmp_path).end == last


def test_the_safe_end_wins_over_what_is_written_behind_it(tmp_path: Path) -> None:
    written = make_store(tmp_path, 40)
    safe = written.records[25][2]
    publish_end(tmp_path, safe)
    plan = plan_log(tmp_path)
    assert (plan.end, plan.ended_by) == (safe, "safe end")
    assert plan.ranges[-1].stop == safe


def test_a_half_written_safe_end_does_not_count(tmp_path: Path) -> None:
    make_store(tmp_path, 4)
    publish_end(tmp_path, 10)
    path = tmp_path / "safe_end"
    path.write_bytes(path.read_bytes()[:20] + b"x" + path.read_bytes()[21:])
    assert read_safe_end(tmp_path) is None
    assert plan_log(tmp_path).ended_by == "unwritten space"


def test_splits_begin_with_records_and_leave_nothing_out(tmp_path: Path) -> None:
    written = make_store(tmp_path, 200, segment=1 << 20)
    starts = {offset for _, _, offset, _ in written.records}
    for published in (False, True):
        if published:
            publish_end(tmp_path, written.end)
        plan = plan_log(tmp_path, split_bytes=3000)
        assert len(plan.ranges) > 5
        assert {r.start for r in plan.ranges} <= starts
        assert [r.stop for r in plan.ranges] == [*[r.start for r in plan.ranges][1:], written.end]


def test_tasks_read_equal_parts_of_the_log_whatever_its_segments(tmp_path: Path) -> None:
    written = make_store(tmp_path, 300)
    for tasks in (1, 2, 3, 7):
        share = -(-written.end // tasks)
        found = [(part.task, part.start) for part in plan_log(tmp_path, split_bytes=share).ranges]
        assert found == sorted(found)
        assert {task for task, _ in found} == set(range(tasks))
        assert all(start // share == task for task, start in found)


def test_a_missing_segment_does_not_end_a_log(tmp_path: Path) -> None:
    written = make_store(tmp_path, 60)
    segment_path(tmp_path, 1).unlink()
    others = {0, *range(2 * SEGMENT, written.end, SEGMENT)}
    plan = plan_log(tmp_path)
    assert ({found.base for found in plan.ranges}, plan.end) == (others, written.end)
    publish_end(tmp_path, written.end)
    assert {found.base for found in plan_log(tmp_path).ranges} == others


def test_segments_made_in_advance_are_not_called_unread(tmp_path: Path) -> None:
    make_store(tmp_path, 5)
    segment_path(tmp_path, 1).write_bytes(bytes(SEGMENT))
    assert plan_log(tmp_path).segments_unread == ()


def test_an_empty_store_has_nothing_to_read(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    assert plan_log(tmp_path).ranges == ()
    assert plan_log(tmp_path).ended_by == "no segment"
    segment_path(tmp_path, 0).write_bytes(b"")
    assert plan_log(tmp_path).ranges == ()


def test_a_requested_range_is_used_unchanged(tmp_path: Path) -> None:
    written = make_store(tmp_path, 40)
    start, end = written.records[10][2], written.records[20][2]
    plan = plan_log(tmp_path, start=start, end=end)
    assert (plan.ranges[0].start, plan.ranges[-1].stop) == (start, end)


def test_fillers_are_distinguished_from_torn_space(tmp_path: Path) -> None:
    written = make_store(tmp_path, 40)
    last, size = next(
        (offset, size)
        for (_, _, offset, size), after in zip(written.records, written.records[1:], strict=False)
        if after[2] >= SEGMENT
    )
    span = LogRange(str(segment_path(tmp_path, 0)), 0, 0, SEGMENT)
    assert filler_size(span, last + size) == SEGMENT - last - size
    assert filler_size(span, SEGMENT) == 0
    tear(tmp_path, last + size, 8)
    assert filler_size(span, last + size) == 0
    segment_path(tmp_path, 0).unlink()
    assert filler_size(span, 0) is None


def test_each_core_reads_one_part_of_a_small_log_and_several_of_a_large_one() -> None:
    mib, gib = 1 << 20, 1 << 30
    assert share(0, 2) == share(10 * mib, 2) == share(32 * mib, 2) == SMALLEST_SHARE
    assert share(gib, 2) == gib // 2
    assert share(gib - 1, 2) * 2 >= gib - 1
    assert share(2 * gib, 2) == gib
    assert gib < share(2 * gib + mib, 2) < LARGEST_SHARE, "the beginning of a third segment is no reason for more tasks"
    assert share(3 * gib, 2) == 3 * gib // 4
    assert share(100 * gib, 16) == -(-100 * gib // 96)


@given(size=st.integers(0, 1 << 45), cores=st.integers(1, 500))
def test_no_core_reads_more_than_the_others(size: int, cores: int) -> None:
    found = share(size, cores)
    assert SMALLEST_SHARE <= found <= max(LARGEST_SHARE, SMALLEST_SHARE)
    tasks = -(-size // found)
    assert tasks <= cores or tasks % cores == 0 or found == SMALLEST_SHARE


HOUR = 3_600_000
FIRST_MS = 1_700_000_000_000


def store_of_hours(root: Path, hours: int) -> list[int]:
    """A store with some six records an hour, and one segment for some two hours; returns the segments' first times."""
    make_store(root, 6 * hours, segment=2048, step_ms=HOUR // 6)
    return [
        decode(segment_path(root, index, 2048).read_bytes()).store_timestamp
        for index in range(len(find_segments(root)[0]))
    ]


def planned(plan: LogPlan) -> list[int]:
    """The numbers of the segments that are read."""
    return [part.base // 2048 for part in plan.ranges]


def test_a_window_reads_only_its_segments(tmp_path: Path) -> None:
    begins = store_of_hours(tmp_path, 100)
    whole = plan_log(tmp_path)
    assert len(whole.ranges) == len(begins) > 40
    from_ms = FIRST_MS + 50 * HOUR
    plan = plan_log(tmp_path, from_ms=from_ms, to_ms=from_ms + 60_000)
    # The slack is an hour at both ends.
    wanted = [
        index
        for index, begin in enumerate(begins)
        if begin < from_ms + 60_000 + HOUR and begins[index + 1 : index + 2] >= [from_ms - HOUR]
    ]
    assert planned(plan) == wanted
    assert sum(part.stop - part.start for part in plan.ranges) == 2048 * len(wanted) < whole.end / 10
    assert (plan.start, plan.end) == (2048 * wanted[0], 2048 * (wanted[-1] + 1))
    assert (plan.log_start, plan.log_end, plan.ended_by) == (0, whole.end, "end of the window")
    assert plan.segments_outside == len(begins) - len(wanted)
    assert planned(plan_log(tmp_path, from_ms=from_ms)) == list(range(wanted[0], len(begins)))
    assert planned(plan_log(tmp_path, to_ms=from_ms)) == [
        index for index, begin in enumerate(begins) if begin < from_ms + HOUR
    ]


@pytest.mark.parametrize("offset_h", [-1000, 1000])
def test_a_window_outside_the_log_reads_at_most_its_end(tmp_path: Path, offset_h: int) -> None:
    begins = store_of_hours(tmp_path, 10)
    at_ms = FIRST_MS + offset_h * HOUR
    plan = plan_log(tmp_path, from_ms=at_ms, to_ms=at_ms + 60_000)
    assert planned(plan) == ([len(begins) - 1] if offset_h > 0 else [])
    assert plan.end >= plan.start


def test_a_clock_that_was_far_ahead_makes_a_window_read_more_and_not_less(tmp_path: Path) -> None:
    make_store(tmp_path, 300, segment=2048, step_ms=HOUR // 6)
    path = segment_path(tmp_path, 2, 2048)
    data = bytearray(path.read_bytes())
    for number in reversed(range(300)):
        ahead = struct.pack(">q", FIRST_MS + number * (HOUR // 6) + 40 * HOUR)
        data = data.replace(struct.pack(">q", FIRST_MS + number * (HOUR // 6)), ahead)
    assert decode(data).store_timestamp > FIRST_MS + 40 * HOUR
    path.write_bytes(data)
    from_ms = FIRST_MS + 43 * HOUR
    assert planned(plan_log(tmp_path, from_ms=from_ms, to_ms=from_ms + HOUR))[0] <= 2
    early = planned(plan_log(tmp_path, to_ms=FIRST_MS + HOUR))
    assert early[-1] < 2


def test_a_segment_that_begins_with_damage_is_no_border_of_a_window(tmp_path: Path) -> None:
    begins = store_of_hours(tmp_path, 100)
    from_ms = begins[20] + 2 * HOUR
    assert planned(plan_log(tmp_path, from_ms=from_ms))[0] >= 20
    for index in (20, 21, 22):
        tear(tmp_path, 2048 * index, 2048, 2048)
    assert planned(plan_log(tmp_path, from_ms=from_ms))[0] == 19
