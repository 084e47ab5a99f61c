"""How far a store is read, and in which pieces."""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.formats.commit_log_record import decode
from spark_jobs.sources import commit_log_segments
from spark_jobs.sources.commit_log_files import CLOCK_SLACK_MS, range_of_window
from spark_jobs.sources.commit_log_records import RecordWalk, Segment
from spark_jobs.sources.commit_log_segments import (
    LARGEST_SHARE,
    SMALLEST_SHARE,
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
    assert plan[2:5] == (0, written.end, "unwritten space")
    assert (plan.ranges[0].stop, plan.ranges[-1].stop) == (SEGMENT, written.end)


LARGE, LAST = 1 << 20, 59
"""The size of a segment that holds all records, and the number of the last one."""


@pytest.mark.parametrize(
    ("segment", "harmed", "place", "octets", "end", "ended_by"),
    [
        (SEGMENT, (30,), 0, b"\xff" * 20, None, "unwritten space"),
        (LARGE, (3, 4, 11), 0, b"\xff" * 30, None, "unwritten space"),
        (SEGMENT, (8,), 0, bytes(SEGMENT), None, "unwritten space"),
        (LARGE, (11,), 0, bytes(100), 11, "unwritten space"),
        (SEGMENT, (LAST,), 0, b"\xff" * 20, LAST, "invalid record"),
        (SEGMENT, (LAST,), 88, b"\xff" * 3, LAST, "invalid record"),
    ],
    ids=[
        "damage",
        "damage in the last segment",
        "zeros before a segment",
        "zeros at the end",
        "last record",
        "its body",
    ],
)
def test_the_log_ends_behind_its_last_valid_record(
    tmp_path: Path, segment: int, harmed: tuple[int, ...], place: int, octets: bytes, end: int | None, ended_by: str
) -> None:
    """``octets`` from a ``place`` of some records on, as far as their segment goes."""
    written = make_store(tmp_path, LAST + 1, segment=segment)
    for index in harmed:
        number, at = divmod(written.records[index][2] + place, segment)
        with segment_path(tmp_path, number, segment).open("r+b") as file:
            file.seek(at)
            file.write(octets[: segment - at])
    wanted = written.end if end is None else written.records[end][2]
    assert plan_log(tmp_path)[2:5] == (0, wanted, ended_by)


def dispatch(store: Path, written: Written) -> None:
    """Write consume queues of all records."""
    for topic, queue, offset, size in written.records:
        path = store / "consumequeue" / topic / str(queue) / f"{0:020d}"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(struct.pack(">qiq", offset, size, 0))


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


def test_a_safe_end_that_is_whole_wins_over_what_is_written_behind_it(tmp_path: Path) -> None:
    written = make_store(tmp_path, 40)
    safe = written.records[25][2]
    publish_end(tmp_path, safe)
    plan = plan_log(tmp_path)
    assert (plan.end, plan.ended_by, plan.ranges[-1].stop) == (safe, "safe end", safe)
    start, end = written.records[10][2], written.records[20][2]
    wanted = plan_log(tmp_path, start=start, end=end)
    assert (wanted.ranges[0].start, wanted.ranges[-1].stop, wanted.ended_by) == (start, end, "the end asked for")
    path = tmp_path / "safe_end"
    path.write_bytes(path.read_bytes()[:20] + b"x" + path.read_bytes()[21:])
    assert read_safe_end(tmp_path) is None
    assert plan_log(tmp_path)[2:5] == (0, written.end, "unwritten space")


@pytest.mark.parametrize("is_published", [False, True])
def test_splits_begin_with_records_and_leave_nothing_out(tmp_path: Path, is_published: bool) -> None:
    written = make_store(tmp_path, 200, segment=LARGE)
    if is_published:
        publish_end(tmp_path, written.end)
    starts = [part.start for part in plan_log(tmp_path, split_bytes=3000).ranges]
    assert len(starts) > 5 and {*starts} <= {offset for _, _, offset, _ in written.records}
    assert [part.stop for part in plan_log(tmp_path, split_bytes=3000).ranges] == [*starts[1:], written.end]


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


def test_segments_without_a_record_are_not_read(tmp_path: Path) -> None:
    """None at all, an empty one, and one that was made in advance."""
    (tmp_path / "commitlog").mkdir()
    assert plan_log(tmp_path)[1:5] == ((), 0, 0, "no segment")
    segment_path(tmp_path, 0).write_bytes(b"")
    assert plan_log(tmp_path).ranges == ()
    make_store(tmp_path / "used", 5)
    segment_path(tmp_path / "used", 1).write_bytes(bytes(SEGMENT))
    assert plan_log(tmp_path / "used").segments_unread == ()


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


def test_a_window_reads_only_its_segments(tmp_path: Path) -> None:
    """A record every ten minutes, and a segment for about two hours."""
    make_store(tmp_path, 600, segment=2048, step_ms=CLOCK_SLACK_MS // 6)
    whole = plan_log(tmp_path)
    begins = [decode(Path(part.path).read_bytes()).store_timestamp for part in whole.ranges]
    middle = begins[0] + 50 * CLOCK_SLACK_MS
    for from_ms, to_ms in ((middle, middle + 60_000), (middle, None), (None, middle)):
        plan = plan_log(tmp_path, from_ms=from_ms, to_ms=to_ms)
        low, high = range_of_window(begins, int, from_ms, to_ms)
        assert plan.ranges == tuple(part._replace(task=0) for part in whole.ranges[low:high])
        assert (plan.start, plan.end) == (plan.ranges[0].start, plan.ranges[-1].stop)
        assert (plan.log_start, plan.log_end) == (0, whole.end)
        assert plan.ended_by == (whole.ended_by if to_ms is None else "end of the window")
        assert plan.segments_outside == len(begins) - (high - low) > 15
