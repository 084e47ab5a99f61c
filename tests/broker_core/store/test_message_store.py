from pathlib import Path

import pytest

from broker_core.codes import ResponseCode
from broker_core.errors import RequestError, StoreError, StoreLockedError, StoreReadOnlyError, UnavailableError
from broker_core.formats.commit_log_record import decode, decode_all
from broker_core.options import change_options
from broker_core.store.files import RealFiles
from broker_core.store.message_store import MessageStore
from tests.fakes.golden_store import fingerprint, unpack
from tests.fakes.store_cases import BEGIN_MS, SMALL, SMALL_SYNC, at, body_of, flush, message, open_store, query_message


def bodies(store: MessageStore, queue_id: int = 0, topic: str = "T") -> list[bytes]:
    """Every body of a queue, read as a consumer reads."""
    read, offset = [], store.min_offset(topic, queue_id)
    while (result := store.get_message(topic, queue_id, offset, 32, 1 << 20, None)).status == "FOUND":
        read += [record.body for record in decode_all(result.records)]
        offset = result.next_begin_offset
    assert result.status in ("OFFSET_OVERFLOW_ONE", "NO_MESSAGE_IN_QUEUE", "NO_MATCHED_LOGIC_QUEUE")
    return read


def test_an_appended_message_is_visible_once_dispatched(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    appended = store.append([message(number, queue_id=number % 2) for number in range(10)], at(5)).requests
    assert [stored.queue_offset for stored in appended] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert appended[1].physical_offset == appended[0].size
    assert bodies(store) == []
    arrivals = store.reput()
    assert [(a.topic, a.queue_id, a.from_offset, a.to_offset) for a in arrivals] == [("T", 0, 0, 5), ("T", 1, 0, 5)]
    assert bodies(store, 1) == [body_of(number) for number in range(1, 10, 2)]
    assert store.dispatched_offset == store.confirmed_offset == store.appended_offset == sum(a.size for a in appended)


def test_a_record_contains_all_fields_of_the_message(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    stored = store.append([message(7, tag="TagA", sys_flag=0x31)], at(5)).requests[0]
    data = store.look_message_by_offset(stored.physical_offset)
    assert data is not None
    record = decode(data)
    assert (record.body, record.flag, record.sys_flag, record.topic) == (body_of(7), 7, 1, "T")
    assert (record.born_host, record.born_port, record.store_host, record.store_port) == (
        "10.1.2.3",
        4567,
        "127.0.0.1",
        10_911,
    )
    assert (record.store_timestamp, record.born_timestamp) == (BEGIN_MS + 5, BEGIN_MS)
    assert store.look_message_by_offset(1) is None
    assert store.look_message_by_offset(-1) is None
    assert store.look_message_by_offset(1 << 40) is None


def test_all_messages_survive_a_clean_shutdown(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.append([message(number, queue_id=number % 3) for number in range(1000)], at(5))
    store.close(at(6))
    assert not (tmp_path / "abort").exists()
    again = open_store(tmp_path, ms=7)
    assert [body for queue_id in range(3) for body in bodies(again, queue_id)] == [
        body_of(number) for queue_id in range(3) for number in range(queue_id, 1000, 3)
    ]
    assert again.append([message(1)], at(8)).requests[0].queue_offset == 334
    assert len(list((tmp_path / "commitlog").iterdir())) > 1


def test_a_sync_flush_store_shows_only_what_is_on_the_disk(tmp_path: Path) -> None:
    store = open_store(tmp_path, SMALL_SYNC)
    end = store.append([message(1)], at(1)).requests[0].size
    assert store.reput() == []
    assert (store.confirmed_offset, store.flushed_offset, store.appended_offset) == (0, 0, end)
    assert store.next_deadline_ns(at(1)) == 0
    assert flush(store, 1)
    assert store.reput()[0].to_offset == 1
    assert store.flushed_offset == end


def test_async_flush_waits_for_pages_or_the_thorough_interval(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    flush(store)
    store = open_store(tmp_path / "second", change_options(SMALL, {}))
    store.append([message(1)], at(10))
    assert store.next_deadline_ns(at(10)) == 10_000 * 1_000_000
    assert store.next_flush(at(499)) is None
    store.append([message(2, size=4 * 4096)], at(20))
    assert store.next_deadline_ns(at(20)) == 500 * 1_000_000
    due = store.next_flush(at(500))
    assert due is not None
    assert store.next_flush(at(100_000)) is None
    store.flushed(due.run(), at(501))
    assert store.flushed_offset == store.appended_offset


def test_after_a_failed_flush_no_message_is_accepted(tmp_path: Path) -> None:
    store = open_store(tmp_path, SMALL_SYNC)
    store.append([message(1)], at(1))
    store.flush_failed(OSError(5, "Input/output error"))
    assert "Input/output error" in store.problem
    assert store.next_flush(at(100_000)) is None
    with pytest.raises(UnavailableError, match="flush failed") as raised:
        store.append([message(2)], at(2))
    assert raised.value.code is ResponseCode.SERVICE_NOT_AVAILABLE
    store.close(at(3))
    assert (tmp_path / "abort").exists()


def test_a_second_broker_is_locked_out_until_the_store_is_closed(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    with pytest.raises(StoreLockedError):
        open_store(tmp_path)
    store.close(at(1))
    open_store(tmp_path).close(at(2))


def test_a_store_of_a_later_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "glassmq").write_text("2\n")
    with pytest.raises(StoreError, match="format"):
        open_store(tmp_path)


def test_reading_a_foreign_store_changes_nothing(tmp_path: Path) -> None:
    root = unpack(tmp_path) / "abort-file-present"
    before = fingerprint(root)
    store = open_store(root)
    assert store.read_only
    assert "another broker" in store.problem
    assert store.max_offset("debian-packages", 0) == 810
    with pytest.raises(StoreReadOnlyError):
        store.append([message(1)], at(1))
    with pytest.raises(StoreReadOnlyError):
        store.delete_topic("debian-packages")
    assert store.next_flush(at(1 << 40)) is None
    assert store.next_clean(at(1 << 40)) is None
    store.close(at(2))
    assert fingerprint(root) == before


def test_a_foreign_store_in_use_is_not_opened(tmp_path: Path) -> None:
    root = unpack(tmp_path) / "clean-shutdown"
    (root / "lock").touch()
    lock = RealFiles().lock(root / "lock", shared=False)
    assert lock is not None
    with pytest.raises(StoreLockedError):
        open_store(root)
    lock.release()
    assert open_store(root).read_only


def test_a_message_that_does_not_fit_leaves_no_trace(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for refused in (
        message(1, size=65_536),
        message(1, topic="t" * 256),
        message(1, topic="../x"),
        message(1, extra={"p": "x" * 32_768}),
    ):
        with pytest.raises(RequestError):
            store.append([message(0), refused], at(1))
        assert store.appended_offset == 0
    assert store.append([message(2)], at(1)).requests[0].queue_offset == 0
    assert store.reput()[0].to_offset == 1


def test_prepared_messages_have_no_queue_unit_and_rolled_back_ones_no_key(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.append([message(1, sys_flag=4), message(2, sys_flag=12), message(3, sys_flag=8)], at(1))
    assert [arrival.to_offset for arrival in store.reput()] == [1]
    assert bodies(store) == [body_of(3)]
    assert len(query_message(store, "T", "ID000001", 9, 0, 1 << 62)) == 1
    assert query_message(store, "T", "ID000002", 9, 0, 1 << 62) == []


def test_a_deleted_topic_can_be_created_again(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.append([message(1), message(2, topic="U")], at(1))
    store.reput()
    store.append([message(3)], at(1))
    store.delete_topic("T")
    assert store.reput() == []
    assert store.queues() == [("U", 0)]
    assert not (tmp_path / "consumequeue" / "T").exists()
    store.append([message(4)], at(2))
    store.reput()
    assert bodies(store) == [body_of(4)]
    store.close(at(3))
    assert bodies(open_store(tmp_path)) == [body_of(4)]


def test_a_slow_disk_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_core.store.reput_message.PENDING_BYTES", 2500)
    store = open_store(tmp_path, SMALL_SYNC)
    for number in range(100):
        store.append([message(number)], at(1))
        assert len(store._reput._pending) < 25
    flush(store, 2)
    for number in range(100, 110):
        store.append([message(number)], at(1))
    while store.dispatched_offset < store.confirmed_offset:
        store.reput(7)
    flush(store, 3)
    while store.dispatched_offset < store.confirmed_offset:
        store.reput(7)
    assert bodies(store) == [body_of(number) for number in range(110)]
