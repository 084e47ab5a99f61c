"""Positions of records by consume queue, against the units that were written."""

from pathlib import Path

from broker_core.formats.consume_queue_unit import HOLE, encode_units
from spark_jobs.commit_log_headers import UNNAMED
from spark_jobs.consume_queues import ConsumeQueues
from tests.spark_jobs.stores import make_store


def write(root: Path, name: str, data: bytes) -> ConsumeQueues:
    folder = root / "consumequeue" / "t" / "0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    return ConsumeQueues.of(root)


def test_all_units_of_all_queues_in_order(tmp_path: Path) -> None:
    written = make_store(tmp_path, 50)
    queues = ConsumeQueues.of(tmp_path)
    found = queues.positions(0, written.end)
    assert found.at.tolist() == [offset for _, _, offset, _ in written.records]
    assert [queues.queues[place] for place in found.queue] == [(topic, queue) for topic, queue, _, _ in written.records]


def test_a_range_begins_with_its_start_and_ends_before_its_stop(tmp_path: Path) -> None:
    queues = write(tmp_path, f"{0:020d}", encode_units([10, 5, 0, 20, 5, 0, 30, 5, 0, 40, 5, 0]))
    assert queues.positions(20, 40).at.tolist() == [20, 30]
    assert queues.positions(21, 41).at.tolist() == [30, 40]
    assert queues.positions(41, 1000).at.tolist() == []


def test_holes_and_unwritten_units_are_no_positions(tmp_path: Path) -> None:
    queues = write(tmp_path, f"{0:020d}", HOLE * 3 + encode_units([0, 5, 0, 7, 5, 0]) + bytes(60))
    assert queues.positions(0, 100).at.tolist() == [0, 7]


def test_two_units_for_one_record_are_one_position(tmp_path: Path) -> None:
    write(tmp_path, f"{0:020d}", encode_units([5, 5, 0]))
    assert write(tmp_path, f"{20:020d}", encode_units([5, 5, 0])).positions(0, 10).at.tolist() == [5]


def test_of_two_queues_that_name_a_record_neither_is_taken(tmp_path: Path) -> None:
    write(tmp_path, f"{0:020d}", encode_units([5, 5, 0, 15, 5, 0]))
    light = tmp_path / "consumequeue" / "%LMQ%x" / "0"
    light.mkdir(parents=True)
    (light / f"{0:020d}").write_bytes(encode_units([5, 5, 0]))
    found = ConsumeQueues.of(tmp_path).positions(0, 20)
    assert (found.at.tolist(), found.queue.tolist()) == ([5, 15], [UNNAMED, 1])


def test_where_there_are_more_queues_than_is_worth_opening_none_is_asked(tmp_path: Path) -> None:
    queues = write(tmp_path, f"{0:020d}", encode_units([5, 5, 0]))
    many = ConsumeQueues(queues.queues, queues.files * 2000)
    assert many.positions(0, 1 << 26).at.tolist() == []
    assert many.positions(0, 1 << 30).at.tolist() == [5]


def test_of_a_store_elsewhere_the_queues_are_not_read() -> None:
    assert ConsumeQueues.of("memory://store") == ConsumeQueues()


def test_files_of_other_names_and_empty_ones_hold_nothing(tmp_path: Path) -> None:
    write(tmp_path, "notes.txt", encode_units([5, 5, 0]))
    assert write(tmp_path, f"{0:020d}", b"").positions(0, 10).at.tolist() == []


def test_a_store_without_queues_knows_no_position(tmp_path: Path) -> None:
    assert ConsumeQueues.of(tmp_path).positions(0, 10).at.tolist() == []
