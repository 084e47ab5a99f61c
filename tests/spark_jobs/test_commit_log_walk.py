"""Which records are found, by consume queues and without, and around places that hold none."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from spark_jobs.commit_log_headers import Segment, read_headers
from spark_jobs.commit_log_walk import Gap, RecordWalk, positions
from spark_jobs.consume_queues import ConsumeQueues
from tests.spark_jobs.stores import encode, make_store, segment_path, tear

SIZE = 1 << 16


class Walked(NamedTuple):
    """What a walk found."""

    at: list[int]
    end: int
    gaps: list[Gap]


def walked(root: Path, *, queues: bool, resume: bool, start: int = 0, stop: int = SIZE) -> Walked:
    segment = Segment.open(str(segment_path(root, 0)), 0, start, stop)
    walk = RecordWalk(segment, start, stop, ConsumeQueues.of(root) if queues else ConsumeQueues(), resume=resume)
    return Walked(positions(walk).tolist(), walk.end, walk.gaps)


@pytest.mark.parametrize("queues", [True, False])
@pytest.mark.parametrize("resume", [True, False])
def test_every_record_once(tmp_path: Path, queues: bool, resume: bool) -> None:
    written = make_store(tmp_path, 100, segment=SIZE)
    found = walked(tmp_path, queues=queues, resume=resume)
    assert found.at == [offset for _, _, offset, _ in written.records]
    assert found.end == written.end


@pytest.mark.parametrize("queues", [True, False])
def test_a_torn_record_ends_the_walk(tmp_path: Path, queues: bool) -> None:
    written = make_store(tmp_path, 20, segment=SIZE)
    torn = written.records[7][2]
    tear(tmp_path, torn, 12, SIZE)
    found = walked(tmp_path, queues=queues, resume=False)
    assert (len(found.at), found.end) == (7, torn)


@pytest.mark.parametrize("queues", [True, False])
def test_with_resume_only_the_torn_records_are_missing(tmp_path: Path, queues: bool) -> None:
    written = make_store(tmp_path, 20, segment=SIZE)
    for index in (0, 7, 8, 15):
        tear(tmp_path, written.records[index][2], 12, SIZE)
    found = walked(tmp_path, queues=queues, resume=True, stop=written.end)
    assert found.at == [record[2] for index, record in enumerate(written.records)
                                 if index not in (0, 7, 8, 15)]


def test_records_that_the_queues_do_not_have_yet_are_found(tmp_path: Path) -> None:
    written = make_store(tmp_path, 30, segment=SIZE)
    for path in (tmp_path / "consumequeue").rglob("0" * 20):
        path.write_bytes(path.read_bytes()[:60])
    assert len(walked(tmp_path, queues=True, resume=False).at) == len(written.records)


def test_a_copy_of_a_record_inside_a_body_is_no_record(tmp_path: Path) -> None:
    first = encode(0, "orders", 0, 0, 0)
    inside_at = len(first) + 88 + 10
    body = b"0123456789" + encode(9, "forged", 0, 0, inside_at) + b"tail"
    outer = encode(1, "orders", 0, 1, len(first), body=body)
    (tmp_path / "commitlog").mkdir()
    segment_path(tmp_path, 0).write_bytes(first + outer + bytes(500))
    segment = Segment.open(str(segment_path(tmp_path, 0)), 0, 0, SIZE)
    assert len(read_headers(segment, np.array([inside_at]), segment.size).at) == 1
    assert walked(tmp_path, queues=False, resume=True).at == [0, len(first)]


def test_a_range_holds_the_records_that_begin_in_it(tmp_path: Path) -> None:
    written = make_store(tmp_path, 20, segment=SIZE)
    start, stop = written.records[5][2], written.records[12][2]
    found = walked(tmp_path, queues=True, resume=True, start=start, stop=stop)
    assert found.at == [record[2] for record in written.records[5:12]]


def test_nothing_begins_where_nothing_was_written(tmp_path: Path) -> None:
    written = make_store(tmp_path, 2, segment=SIZE)
    found = walked(tmp_path, queues=True, resume=True, start=written.end)
    assert (found.at, found.end) == ([], written.end)
