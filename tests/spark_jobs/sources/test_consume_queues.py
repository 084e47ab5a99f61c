"""What consume queues tell of queues and messages, and of the due times of delayed ones."""

from pathlib import Path

import numpy as np

from broker_core.formats import consume_queue_ext_unit, consume_queue_unit
from broker_core.formats.batch_consume_queue_unit import UNIT_SIZE, BatchUnit
from spark_jobs.sources.consume_queues import (
    MOST_LEVELS,
    SCHEDULE_TOPIC,
    UNKNOWN,
    consume_queue_ends,
    due_times,
    known_queues,
    store_time,
    unknown_queues,
)
from tests.fakes import golden_store
from tests.spark_jobs.driven import BEGIN_MS
from tests.spark_jobs.stores import write_topics


def test_the_golden_store_agrees_with_its_log(golden: Path) -> None:
    store = golden / "clean-shutdown"
    wanted = {
        (record.topic, record.queue_id): (record.queue_offset + 1, record.physical_offset)
        for record in golden_store.records(store)
    }
    found = {(end.topic, end.queue_id): tuple(end[2:]) for end in consume_queue_ends(store)}
    assert found.items() <= wanted.items()
    assert ("debian-packages", 0) in found
    for record in list(golden_store.records(store))[::50]:
        known = store_time(store, record.topic, record.queue_id, record.queue_offset)
        assert known in ((record.store_timestamp,) if (record.topic, record.queue_id) in found else (None,))


def test_a_batch_queue_ends_after_the_last_message_of_its_last_batch(tmp_path: Path) -> None:
    folder = tmp_path / "batchconsumequeue" / "batches" / "2"
    folder.mkdir(parents=True)
    units = [BatchUnit(0, 300, 0, 7, 0, 3), BatchUnit(300, 200, 0, 8, 3, 1), BatchUnit(500, 900, 0, 9, 4, 20)]
    content = b"".join(unit.encode() for unit in units)
    (folder / f"{0:020d}").write_bytes(content + bytes(4 * UNIT_SIZE))
    (folder / f"{7 * UNIT_SIZE:020d}").write_bytes(bytes(7 * UNIT_SIZE))
    assert list(consume_queue_ends(tmp_path)) == [("batches", 2, 24, 500)]
    for queue_id in (2, 3):  # queue 2 was an ordinary queue before
        old = tmp_path / "consumequeue" / "batches" / str(queue_id)
        old.mkdir(parents=True)
        (old / f"{0:020d}").write_bytes(consume_queue_unit.UNIT.pack(0, 300, 0) + bytes(20))
    assert sorted(consume_queue_ends(tmp_path)) == [("batches", 2, 24, 500), ("batches", 3, 1, 0)]


def test_the_time_of_a_missing_message_is_unknown(driven: Path, tmp_path: Path) -> None:
    assert list(consume_queue_ends(tmp_path)) == []
    assert store_time(driven, "orders", 1, 0) == BEGIN_MS + 30_000
    for topic, queue_id, queue_offset in (("orders", 1, 3), ("orders", 9, 0), ("nowhere", 0, 0), ("orders", 1, -1)):
        assert store_time(driven, topic, queue_id, queue_offset) is None


def test_a_unit_that_names_another_message_is_not_believed(driven: Path, tmp_path: Path) -> None:
    (tmp_path / "commitlog").symlink_to(driven / "commitlog")
    queue = tmp_path / "consumequeue" / "orders"
    queue.mkdir(parents=True)
    (queue / "0").symlink_to(driven / "consumequeue" / "orders" / "1")
    assert store_time(tmp_path, "orders", 0, 0) is None


def test_queues_are_known_by_the_table_of_topics_and_by_their_folders(tmp_path: Path) -> None:
    assert known_queues(tmp_path) == unknown_queues(tmp_path, [("any", 7, 1)]) == {}
    for queue in ("consumequeue/reduced/7", "batchconsumequeue/old/1", "consumequeue/orders/none"):
        (tmp_path / queue).mkdir(parents=True)
    assert known_queues(tmp_path) == {"reduced": 8, "old": 2}
    write_topics(tmp_path, orders=4, reduced=2, **{SCHEDULE_TOPIC: 18})
    known = {"orders": 4, "reduced": 8, "old": 2}
    assert known_queues(tmp_path) == known | {SCHEDULE_TOPIC: MOST_LEVELS}, "there may be more than 18 delay levels"
    (tmp_path / "consumequeue" / SCHEDULE_TOPIC / "29").mkdir(parents=True)
    assert known_queues(tmp_path) == known | {SCHEDULE_TOPIC: 30}
    found = [("orders", 3, 100), ("orders", 4, 7), ("oqders", 1, 2), ("oqders", 2, 1), ("reduced", None, 9)]
    assert list(unknown_queues(tmp_path, found).items()) == [("oqders", 3), ("orders queue 4", 7)]


DUE = 1_700_000_005_000
FILE_UNITS = 4


def write_queue(store: Path, queue_id: int, units: list[tuple[int, int, int]], first: int = 0) -> None:
    """Units from the queue offset ``first`` on, in files of four."""
    folder = store / "consumequeue" / SCHEDULE_TOPIC / str(queue_id)
    folder.mkdir(parents=True)
    for start in range(0, len(units), FILE_UNITS):
        data = b"".join(consume_queue_unit.UNIT.pack(*unit) for unit in units[start : start + FILE_UNITS])
        name = f"{(first + start) * consume_queue_unit.UNIT_SIZE:020d}"
        (folder / name).write_bytes(data.ljust(FILE_UNITS * consume_queue_unit.UNIT_SIZE, b"\0"))


def due(store: Path, *records: tuple[int, int, int]) -> list[int]:
    """Due times of records given as (queue id, queue offset, physical offset)."""
    return due_times(store, *np.array(records, np.int64).reshape(-1, 3).T).tolist()


def test_the_due_time_comes_from_the_unit_of_the_record(tmp_path: Path) -> None:
    write_queue(tmp_path, 0, [(100 * index, 90, DUE + index) for index in range(6)], first=8)
    write_queue(tmp_path, 3, [(5000, 90, DUE + 77)])
    assert due(tmp_path, (0, 13, 500), (3, 0, 5000), (0, 8, 0)) == [DUE + 5, DUE + 77, DUE]
    elsewhere, not_made_yet, deleted, no_queue = (0, 8, 101), (0, 14, 600), (0, 3, 100), (9, 8, 100)
    assert due(tmp_path, elsewhere, not_made_yet, deleted, no_queue) == [UNKNOWN] * 4
    assert due(tmp_path) == []


def test_the_due_time_comes_from_the_ext_unit_that_a_queue_refers_to(tmp_path: Path) -> None:
    folder = tmp_path / "consumequeue_ext" / SCHEDULE_TOPIC / "1"
    folder.mkdir(parents=True)
    first = consume_queue_ext_unit.encode(DUE + 1, 0, b"abc")
    (folder / f"{0:020d}").write_bytes((first + consume_queue_ext_unit.encode(DUE + 2, 0)).ljust(64, b"\0"))
    (folder / f"{64:020d}").write_bytes(consume_queue_ext_unit.encode(DUE + 3, 0))
    write_queue(
        tmp_path,
        1,
        [
            (100 * index, 90, consume_queue_ext_unit.ADDRESS_BASE + at)
            for index, at in enumerate((0, len(first), 64, 300))
        ],
    )
    assert due(tmp_path, (1, 0, 0), (1, 1, 100), (1, 2, 200), (1, 3, 300)) == [DUE + 1, DUE + 2, DUE + 3, UNKNOWN]
    for size in (1, 6, 19):  # too short for a unit
        (folder / f"{0:020d}").write_bytes(b"\1" * size)
        assert due(tmp_path, (1, 0, 0)) == [UNKNOWN]


def test_the_golden_store_has_them_in_ext_units(golden: Path) -> None:
    records = [(0, 0, 2070008), (1, 0, 2070327), (2, 0, 2070646), (2, 1, 2073747)]
    stored = [1795252821052, 1795252821055, 1795252821056, 1795252822717]
    assert due(golden / "clean-shutdown", *records) == [
        at + delay for at, delay in zip(stored, (1000, 2000, 3000, 3000), strict=True)
    ]
