"""Records with implausible fields are left out, counted and said."""

import os
import struct
from collections import Counter
from collections.abc import Iterator
from mmap import mmap
from pathlib import Path

import pytest

from spark_jobs.sources.commit_log_bounds import DAY_MS, MOST_QUEUES, QUEUES, Bounds, implausible_note
from spark_jobs.sources.commit_log_damage import find_damage, left_out_of
from spark_jobs.sources.commit_log_files import find_segments
from spark_jobs.sources.commit_log_records import Headers, RecordWalk, Segment
from spark_jobs.sources.commit_log_segments import LogPlan, plan_log
from spark_jobs.sources.consume_queues import unknown_queues
from tests.spark_jobs.segments import headers_of, log_of, segment_of
from tests.spark_jobs.stores import make_store, segment_path, write_topics

FIRST_MS = 1_700_000_000_000
COUNT = 20
SIZE = 1 << 16
FIELDS_AT = {"queue id": 12, "queue offset": 20, "born time": 40, "store time": 56, "reconsume times": 72}


def kept(plan: LogPlan) -> Iterator[tuple[Headers, list[str]]]:
    """What reports read of a store of one segment: records and their topics."""
    segment = Segment.open(str(segment_path(Path(plan.store), 0, SIZE)), 0)
    for headers in RecordWalk(segment, 0, plan.end):
        found = plan.bounds.plausible(segment, headers, Counter())
        places = zip(found.topic_at.tolist(), found.topic_length.tolist(), strict=True)
        yield found, [segment.buffer[at : at + length].decode() for at, length in places]


def flip(store: Path, offset: int, bit: int) -> None:
    """Flip the bit of this place behind ``offset``, the first byte's highest being 0."""
    with segment_path(store, 0, SIZE).open("r+b") as file, mmap(file.fileno(), 0) as data:
        data[offset + bit // 8] ^= 0x80 >> bit % 8


@pytest.mark.parametrize("index", [0, 10, COUNT - 1])
def test_whatever_bit_of_a_record_is_flipped_fields_stay_plausible_and_what_is_missing_is_known(
    tmp_path: Path, index: int
) -> None:
    """A topic has one queue here, because nobody notices if a record moves to another queue of its topic."""
    written = make_store(tmp_path, COUNT, segment=SIZE, queues=1, body=b"?")
    write_topics(tmp_path, orders=1, stock=1)
    topic, _, offset, size = written.records[index]
    topic_at = segment_path(tmp_path, 0, SIZE).read_bytes().index(topic.encode(), offset)
    checked = [*range(8 * 12, 8 * 16), *range(8 * topic_at - 8 * offset, 8 * (topic_at - offset + len(topic)))]
    left_out: set[str] = set()
    changed_ms = segment_path(tmp_path, 0, SIZE).stat().st_mtime * 1000
    for bit in range(8 * size) if index == 10 else [*range(0, 8 * 88, 5), *checked]:
        flip(tmp_path, offset, bit)
        plan = plan_log(tmp_path)
        rows = list(kept(plan))
        found = Counter[tuple[str, int | None]]()
        for headers, topics in rows:
            found.update(zip(topics, headers.queue_id.tolist(), strict=True))
            assert headers.queue_id.min() >= 0
            assert headers.queue_id.max() < QUEUES
            assert headers.queue_offset.max() < SIZE
            assert headers.store_ts.min() >= FIRST_MS - DAY_MS
            assert headers.born_ts.min() > FIRST_MS - 2 * 366 * DAY_MS
            assert max(headers.store_ts.max(), headers.born_ts.max()) < changed_ms + 2 * DAY_MS
        assert plan.end == written.end or index == COUNT - 1, "the log goes on behind the damage"
        count = found.total()
        damage = find_damage(plan, [0])
        is_at_the_end = index == COUNT - 1 and plan.end == offset
        is_noticed = damage or is_at_the_end
        if bit in checked:
            is_noticed = is_noticed or unknown_queues(tmp_path, ((*key, number) for key, number in found.items()))
        assert is_noticed or (count == COUNT and bit not in checked), bit
        assert count >= COUNT - 2
        left_out |= set(left_out_of(damage))
        flip(tmp_path, offset, bit)
    assert left_out == {*FIELDS_AT, "topic"}


def test_the_note_names_all_fields_and_is_empty_without_any() -> None:
    assert implausible_note({}) == ""
    assert implausible_note({"topic": 1}) == "1 record with an implausible field was left out: topic (1)."
    assert implausible_note({"topic": 1200, "queue id": 1}) == (
        "1,201 records with implausible fields were left out: queue id (1), topic (1,200)."
    )


def test_topics_of_other_characters_than_rocketmqs_are_not_legal() -> None:
    topics = ["%RETRY%g-1_a|b", "Z", "09", "or ders", "gr\u00f6sse", "a/b", "a@b", "[", "{", "`", "\x7f"]
    segment = segment_of(log_of({"topic": topic} for topic in topics))
    wrong = Bounds().field_problems(segment, headers_of(segment))["topic"]
    assert wrong.tolist() == [False] * 3 + [True] * 8


@pytest.mark.parametrize(("count", "queues"), [(8, QUEUES), (10_000, 10_000), (1 << 30, MOST_QUEUES)])
def test_a_topic_with_more_queues_raises_the_bound(tmp_path: Path, count: int, queues: int) -> None:
    make_store(tmp_path, 3)
    write_topics(tmp_path, a=count, b=1)
    assert Bounds.of_store(tmp_path, find_segments(tmp_path)[0]).queues == queues


@pytest.mark.parametrize("first_ms", [0, 1 << 60])
def test_the_log_begins_with_most_of_its_first_records(tmp_path: Path, first_ms: int) -> None:
    written = make_store(tmp_path, COUNT, segment=SIZE)
    path = segment_path(tmp_path, 0, SIZE)
    data = bytearray(path.read_bytes())
    struct.pack_into(">q", data, written.records[0][2] + FIELDS_AT["store time"], first_ms)
    path.write_bytes(data)
    os.utime(path, (FIRST_MS / 1000 + 100, FIRST_MS / 1000 + 100))
    bounds = Bounds.of_store(tmp_path, find_segments(tmp_path)[0])
    assert bounds.from_ms is not None
    assert FIRST_MS <= bounds.from_ms + DAY_MS <= FIRST_MS + 60_000
    assert bounds.to_ms == FIRST_MS + 100_000 + DAY_MS
    assert left_out_of(find_damage(plan_log(tmp_path), [0])) == {"store time": 1}


def test_what_the_files_do_not_say_makes_no_record_implausible(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    assert Bounds.of_store(tmp_path, find_segments(tmp_path)[0]).from_ms is None
    make_store(tmp_path / "copy", COUNT, segment=SIZE)
    os.utime(segment_path(tmp_path / "copy", 0, SIZE), (0, 0))
    assert find_damage(plan_log(tmp_path / "copy"), [0]) == []
