from pathlib import Path

import pytest

from broker_core.formats.commit_log_record import encode
from broker_core.store.message_store import MessageStore
from broker_core.store.queue.consume_queue import ConsumeQueue
from tests.fakes.engine import Bench, bodies, send
from tests.fakes.simulated_files import SimulatedFiles
from tests.fakes.store_cases import SMALL_SYNC, at, flush, message, open_store

ROOT = Path("/store")


def test_an_arrival_contains_a_range_and_the_tags_code_of_each_message() -> None:
    store = open_store(ROOT, files=SimulatedFiles())
    store.append([message(1, tag="TagA"), message(2, queue_id=1), message(3, tag="TagB")], at(1))
    store.append([message(4, tag="TagC")], at(1))
    arrivals = {arrival.queue_id: arrival for arrival in store.reput()}
    assert arrivals[0].tags_codes == [2_598_919, 2_598_920, 2_598_921]
    assert (arrivals[0].from_offset, arrivals[0].to_offset) == (0, 3)
    assert arrivals[1].tags_codes == [0]
    assert store.reput() == []


def test_an_arrival_read_from_the_log_equals_that_of_the_append() -> None:
    stores = [open_store(ROOT, files=SimulatedFiles()) for _ in range(2)]
    for store in stores:
        for number in range(6):
            store.append([message(number, queue_id=number % 2, tag="ab"[number % 2]), message(number)], at(number))
    stores[1]._reput._pending.clear()
    arrivals, read = (store.reput() for store in stores)
    assert [
        (a.topic, a.queue_id, a.from_offset, a.to_offset, a.store_timestamp, a.size, a.fields) for a in arrivals
    ] == [(a.topic, a.queue_id, a.from_offset, a.to_offset, a.store_timestamp, a.size, a.fields) for a in read]


def test_a_limit_leaves_the_rest_for_the_next_turn() -> None:
    store = open_store(ROOT, files=SimulatedFiles())
    for number in range(10):
        store.append([message(number), message(number)], at(1))
    assert [arrival.to_offset for arrival in store.reput(5)] == [6]
    assert store.dispatched_offset < store.confirmed_offset
    assert [arrival.to_offset for arrival in store.reput()] == [20]


def test_only_flushed_messages_are_dispatched_while_more_are_appended() -> None:
    store = open_store(ROOT, SMALL_SYNC, files=SimulatedFiles())
    store.append([message(1)], at(1))
    due = store.next_flush(at(1))
    assert due is not None
    store.append([message(2)], at(1))
    store.flushed(due.run(), at(2))
    assert [arrival.to_offset for arrival in store.reput()] == [1]
    flush(store)
    assert [(arrival.from_offset, arrival.to_offset) for arrival in store.reput()] == [(1, 2)]


def test_a_record_with_an_invalid_topic_name_stays_in_the_log() -> None:
    files = SimulatedFiles()
    open_store(ROOT, files=files)
    files.kill()
    record = encode(topic="a/b", queue_id=0, queue_offset=0, physical_offset=0, body=b"x")
    good = encode(topic="T", queue_id=0, queue_offset=0, physical_offset=len(record), body=b"y")
    files.write(ROOT / "commitlog" / ("0" * 20), (record + good).ljust(65_536, b"\0"))
    store = open_store(ROOT, files=files)
    assert store.queues() == [("T", 0)]
    assert any("damaged topic" in sentence for sentence in store.recovery)
    assert store.look_message_by_offset(0) == record


def test_a_rebuilt_schedule_queue_records_deliver_times_too() -> None:
    files = SimulatedFiles()
    store = open_store(ROOT, files=files)
    store.append([message(1, topic="SCHEDULE_TOPIC_XXXX", queue_id=2, extra={"DELAY": "3"})], at(500))
    assert store.reput()[0].tags_codes == [1_700_000_000_500 + 10_000]
    unit = store._queues.table["SCHEDULE_TOPIC_XXXX", 2].unit(0)
    store.close(at(1))
    files.remove_folder(ROOT / "consumequeue")
    again = open_store(ROOT, files=files)
    assert again._queues.table["SCHEDULE_TOPIC_XXXX", 2].unit(0) == unit


def test_a_queue_that_cannot_be_written_stops_the_store() -> None:
    files = SimulatedFiles()
    store = open_store(ROOT, files=files)
    _append_beyond_the_reserved(store)
    queue = store._queues.table["T", 0]
    queue.reserved = 0
    queue.mapped_files.all()[0].allocated = 0
    files.fail("allocate", 1, 5)
    assert store.reput() == []
    assert "cannot be written" in store.problem
    assert store.confirmed_offset == store.dispatched_offset == 0


@pytest.mark.parametrize("retry", ["append", "clean"])
def test_dispatching_is_tried_again_after_a_full_disk(retry: str) -> None:
    files = SimulatedFiles()
    store = open_store(ROOT, files=files)
    _append_beyond_the_reserved(store)
    queue = store._queues.table["T", 0]
    queue.reserved = 0
    queue.mapped_files.all()[0].allocated = 0
    files.fail("allocate", 1, 28)
    assert store.reput() == []
    assert store.confirmed_offset == store.dispatched_offset
    if retry == "append":
        store.append([message(2, queue_id=1)], at(1))
    else:
        store.next_clean(at(1))
    store.reput()
    assert store.dispatched_offset == store.appended_offset
    assert store.max_offset("T", 0) == 1


def _append_beyond_the_reserved(store: MessageStore) -> None:
    store.append([message(1)], at(1))


def test_a_failing_queue_does_not_hide_the_arrivals_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.send("first", b"1")
    bench.send("second", b"1")
    request = bench.pull("first", 1)
    put = ConsumeQueue.put

    def failing(queue: ConsumeQueue, offset: int, fields: list[int]) -> None:
        if queue.topic == "second":
            raise OSError(24, "Too many open files")
        put(queue, offset, fields)

    monkeypatch.setattr(ConsumeQueue, "put", failing)
    bench.submit(send("first", b"2"), send("second", b"2"))
    assert bodies(bench.pulled(request)) == [b"2"]
