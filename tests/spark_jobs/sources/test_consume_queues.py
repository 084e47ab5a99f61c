"""What consume queues tell of queues and messages."""

from pathlib import Path

from spark_jobs.sources.consume_queues import consume_queue_ends, store_time
from tests.fakes import golden_store
from tests.spark_jobs.driven import BEGIN_MS


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
