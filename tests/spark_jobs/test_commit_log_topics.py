"""Topics by the queues that name the records, and by the records where no queue does, or a wrong one."""

import numpy as np
import pytest

from broker_core.formats import commit_log_record
from spark_jobs.commit_log_headers import UNNAMED, Headers, Segment, read_headers, scan_magic
from spark_jobs.commit_log_topics import QueueTopics

TOPICS = ["a", "Größe", "orders-of-2026", "orders-of-2025", "a", "t" * 200, "no queue of mine"]
QUEUES = (("a", 0), ("a", 1), ("Größe", 0), ("orders-of-2026", 7), ("orders-of-2025", 0), ("t" * 200, 0))
RIGHT = [0, 2, 3, 4, 1, 5, UNNAMED]


def records(queue: list[int]) -> tuple[Segment, Headers]:
    data = b""
    for topic in TOPICS:
        data += commit_log_record.encode(topic=topic, queue_id=0, queue_offset=0, physical_offset=len(data), body=b"")
    segment = Segment(memoryview(data), 0, len(data), 0)
    return segment, read_headers(segment, scan_magic(segment, 0, len(data)), len(data), np.array(queue, np.int32))


@pytest.mark.parametrize("queue", [RIGHT, [UNNAMED] * 7, RIGHT[::-1], [3] * 7, [0] * 7])
def test_whatever_the_queues_say_the_topic_is_the_records(queue: list[int]) -> None:
    found = QueueTopics(QUEUES).of(*records(queue))
    assert found.to_pylist() == TOPICS
    names = found.dictionary.to_pylist()
    assert len(set(names)) == len(names)


def test_a_store_without_queues_has_topics_too() -> None:
    assert QueueTopics(()).of(*records([UNNAMED] * 7)).to_pylist() == TOPICS


def test_no_records_have_no_topics() -> None:
    segment, headers = records(RIGHT)
    assert QueueTopics(QUEUES).of(segment, headers.part(slice(0))).to_pylist() == []


def test_queues_whose_names_are_no_text_shift_no_others() -> None:
    queues = (("\udcff", 0), ("\udcfe", 0), ("a", 0))
    found = QueueTopics(queues).of(*records([2, UNNAMED, UNNAMED, UNNAMED, 2, UNNAMED, UNNAMED]))
    assert found.to_pylist() == TOPICS
