from pathlib import Path

import pytest

from broker_core.clock import Now
from broker_core.errors import RequestError
from broker_core.formats.consume_queue_ext_unit import ADDRESS_BASE, encode
from broker_core.formats.consume_queue_unit import HOLE, UNIT_SIZE
from broker_core.store.consume_queue_store import ConsumeQueueStore
from broker_core.store.mapped_file import OpenMaps
from broker_core.store.mapped_file_queue import file_name
from tests.fakes.simulated_files import SimulatedFiles

ROOT = Path("/store")


def make(files: SimulatedFiles) -> ConsumeQueueStore:
    return ConsumeQueueStore(files, OpenMaps(8), ROOT, 2000)


def test_queues_are_loaded_from_the_disk() -> None:
    files = SimulatedFiles()
    queues = make(files)
    for topic, queue_id, count in (("A", 0, 3), ("A", 7, 1), ("%RETRY%g", 0, 2)):
        queue = queues.find(topic, queue_id)
        assert queues.find(topic, queue_id) is queue
        for offset in range(count):
            queue.put(offset, [offset * 100, 100, 0])
    queues.find("empty", 0)
    assert (queues.queue_count, queues.unit_count) == (3, 6)
    files.write(ROOT / "consumequeue" / "A" / "notes.txt", b"x")
    again = make(files)
    assert again.load(clean=True) == []
    assert {key: queue.max_offset for key, queue in again.table.items()} == {
        ("A", 0): 3,
        ("A", 7): 1,
        ("%RETRY%g", 0): 2,
    }
    assert again.truncate(100) == 3
    assert again.unit_count == 3


def test_holes_are_on_the_disk_at_once() -> None:
    """No later flush includes them, since they may lie long before the end of their queue."""
    files = SimulatedFiles()
    queue = make(files).find("A", 0)
    for offset in range(250):
        queue.put(offset, [offset * 100, 100, 0])
    queues = make(files)
    queues.load(clean=True)
    assert queues.make_holes(500, lambda position: position < 700) == 2
    durable = files._names[ROOT / "consumequeue" / "A" / "0" / file_name(0)].durable
    assert durable[5 * UNIT_SIZE : 7 * UNIT_SIZE] == HOLE * 2


@pytest.mark.parametrize(
    ("topic", "queue_id"), [("", 0), ("..", 0), (".", 0), ("a/b", 0), ("a\0", 0), ("a", -1), ("t" * 256, 0)]
)
def test_a_topic_name_that_cannot_be_a_folder_is_refused(topic: str, queue_id: int) -> None:
    with pytest.raises(RequestError):
        make(SimulatedFiles()).find(topic, queue_id)


def test_tags_codes_come_from_the_ext_queue_if_there_is_one() -> None:
    files = SimulatedFiles()
    make(files).find("A", 0).put(0, [0, 100, ADDRESS_BASE])
    make(files).find("B", 0).put(0, [100, 100, ADDRESS_BASE])
    files.write(ROOT / "consumequeue_ext" / "A" / "0" / file_name(0), encode(77, 1).ljust(100, b"\0"))
    queues = make(files)
    queues.load(clean=True)
    assert queues.tags_code(queues.find("A", 0), 5) == 5
    assert queues.tags_code(queues.find("A", 0), ADDRESS_BASE) == 77
    assert queues.tags_code(queues.find("A", 0), ADDRESS_BASE + 50) is None
    assert queues.tags_code(queues.find("B", 0), ADDRESS_BASE) is None


def test_a_deleted_topic_leaves_no_files() -> None:
    files = SimulatedFiles()
    queues = make(files)
    queue = queues.find("A", 0)
    queue.put(0, [0, 100, 0])
    queues.find("B", 0).put(0, [100, 100, 0])
    queues.delete_topic("A")
    assert queue.deleted
    assert files.names(ROOT / "consumequeue") == ["B"]
    assert list(queues.table) == [("B", 0)]
    removal = queues.removed_folders.next_removal(Now(0, 0))
    assert removal is not None
    queues.removed_folders.removed(removal.run())
    assert files.names(ROOT / "deleted") == [] and queues.removed_folders.next_removal(Now(0, 0)) is None


@pytest.mark.parametrize(("log_begins_at", "first"), [(0, 0), (250, 3), (1000, 5)])
def test_a_moved_queue_keeps_its_offsets_though_messages_have_expired(log_begins_at: int, first: int) -> None:
    files = SimulatedFiles()
    queues = make(files)
    for offset in range(5):
        queues.find("A", 1).put(offset, [offset * 100, 100, offset])
    moved = queues.make_batch_queues("A", log_begins_at, lambda place: place, 100)
    assert moved is not None and [queue.max_offset for queue in moved] == [5]
    again = make(files)
    again.batch_topics.add("A")
    again.load(clean=True)
    for queue in (*moved, again.find("A", 1)):
        assert (queue.is_batch, queue.min_offset(log_begins_at), queue.max_offset) == (True, first, 5)
        assert [queue.unit(offset) for offset in range(first, 5)] == [(n * 100, 100, n) for n in range(first, 5)]
