"""Positions of records by consume queue, against the units that were written."""

from pathlib import Path

from broker_core.formats.consume_queue_unit import HOLE, encode_units
from spark_jobs.consume_queues import ConsumeQueues
from tests.spark_jobs.stores import make_store


def write(root: Path, name: str, data: bytes) -> ConsumeQueues:
    folder = root / "consumequeue" / "t" / "0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    return ConsumeQueues.of(root)


def test_all_units_of_all_queues_in_order(tmp_path: Path) -> None:
    written = make_store(tmp_path, 50)
    found = ConsumeQueues.of(tmp_path).positions(0, written.end)
    assert found.tolist() == [offset for _, _, offset, _ in written.records]


def test_a_range_begins_with_its_start_and_ends_before_its_stop(tmp_path: Path) -> None:
    queues = write(tmp_path, f"{0:020d}", encode_units([10, 5, 0, 20, 5, 0, 30, 5, 0, 40, 5, 0]))
    assert queues.positions(20, 40).tolist() == [20, 30]
    assert queues.positions(21, 41).tolist() == [30, 40]
    assert queues.positions(41, 1000).tolist() == []


def test_holes_and_unwritten_units_are_no_positions(tmp_path: Path) -> None:
    queues = write(tmp_path, f"{0:020d}", HOLE * 3 + encode_units([0, 5, 0, 7, 5, 0]) + bytes(60))
    assert queues.positions(0, 100).tolist() == [0, 7]


def test_two_units_for_one_record_are_one_position(tmp_path: Path) -> None:
    write(tmp_path, f"{0:020d}", encode_units([5, 5, 0]))
    assert write(tmp_path, f"{20:020d}", encode_units([5, 5, 0])).positions(0, 10).tolist() == [5]


def test_files_of_other_names_and_empty_ones_hold_nothing(tmp_path: Path) -> None:
    write(tmp_path, "notes.txt", encode_units([5, 5, 0]))
    assert write(tmp_path, f"{0:020d}", b"").positions(0, 10).tolist() == []


def test_a_store_without_queues_knows_no_position(tmp_path: Path) -> None:
    assert ConsumeQueues.of(tmp_path).positions(0, 10).tolist() == []
