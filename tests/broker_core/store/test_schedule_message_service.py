"""When delayed messages are due, and how far each level is delivered."""

from collections.abc import Callable
from pathlib import Path

import pytest

from broker_core.errors import StoreCorruptError
from broker_core.formats import rocketmq_json
from broker_core.store.delay_level import SCHEDULE_TOPIC
from broker_core.store.message_store import MessageStore
from broker_core.store.schedule_message_service import LOOK_AGAIN_MS, RETRY_NS, DueMessage, ScheduleMessageService
from tests.fakes.simulated_files import SimulatedFiles
from tests.fakes.store_cases import SMALL, at, message, open_store

ROOT = Path("/store")
TABLE = ROOT / "config" / "delayOffset.json"


class Store:
    """A small store with delayed messages, given as (level, store time ms) in order."""

    def __init__(self, *delayed: tuple[int, int], table: str = "") -> None:
        self.files = SimulatedFiles()
        if table:
            self.files.write(TABLE, table.encode())
        self.store = self.open()
        for number, (level, ms) in enumerate(delayed):
            self.add(number, level, ms)

    def open(self, ms: int = 0) -> MessageStore:
        return open_store(ROOT, SMALL, files=self.files, ms=ms)

    def add(self, number: int, level: int, ms: int, **more: int) -> None:
        pending = message(number, topic=SCHEDULE_TOPIC, queue_id=level - 1, extra={"DELAY": str(level)}, **more)
        self.store.append([pending], at(ms))
        for arrival in self.store.reput():
            self.service.arrived(arrival.queue_id, at(ms))

    @property
    def service(self) -> ScheduleMessageService:
        return self.store.delayed

    def due(self, ms: int, count: int = 100, size: int = 1 << 20) -> list[tuple[int, int]]:
        return [(found.level, found.queue_offset) for found in self.service.due(at(ms), count, size)]

    def deliver(self, ms: int, count: int = 100) -> list[DueMessage]:
        found = self.service.due(at(ms), count, 1 << 20)
        self.service.delivered(found, self.store.appended_offset)
        self.service.look(at(ms))
        return found


def test_a_new_store_has_no_deadline() -> None:
    store = Store()
    assert store.service.next_deadline_ns is None and store.service.progress() == {} and store.due(1 << 40) == []


def test_the_deadline_is_the_first_deliver_time_or_a_clock_check_before_it() -> None:
    store = Store((1, 0))
    assert store.service.next_deadline_ns == at(1000).mono_ns
    assert store.due(999) == [] and store.due(1000) == [(1, 0)]
    far = Store((18, 0))
    assert far.service.next_deadline_ns == at(LOOK_AGAIN_MS).mono_ns
    far.add(1, 1, 500)
    assert far.service.next_deadline_ns == at(1000).mono_ns
    far.service.look(at(900))
    assert far.service.next_deadline_ns == at(1500).mono_ns


def test_messages_due_longest_come_first_within_the_requested_number() -> None:
    store = Store((2, 0), (1, 10), (1, 20), (3, 30), (2, 4000))
    assert store.due(4999) == [(1, 0), (1, 1)]
    assert store.due(60_000) == [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0)]
    assert store.due(60_000, count=3) == [(1, 0), (1, 1), (2, 0)]
    assert store.due(60_000, size=1) == [(1, 0)]
    assert [(found.level, found.deliver_ms - at(0).wall_ms) for found in store.deliver(60_000)] == [
        (1, 1010),
        (1, 1020),
        (2, 5000),
        (2, 9000),
        (3, 10_030),
    ]
    assert store.due(1 << 40) == [] and store.service.next_deadline_ns is None
    assert store.service.progress() == {1: (2, 2), 2: (2, 2), 3: (1, 1)}


def test_due_messages_are_complete_records() -> None:
    store = Store((1, 0))
    ((found,)) = store.service.due(at(1000), 1, 1)
    assert found.record is not None and (found.record.flag, found.record.topic) == (0, SCHEDULE_TOPIC)
    assert (found.next_offset, found.deliver_ms) == (1, at(1000).wall_ms)


def test_a_pause_delays_messages_that_arrive_meanwhile() -> None:
    store = Store((1, 0))
    store.service.pause(at(1000))
    store.add(1, 1, 1500)
    store.service.look(at(2000))
    assert store.service.next_deadline_ns == at(1000).mono_ns + RETRY_NS


@pytest.mark.parametrize(
    ("table", "offset", "steps"),
    [
        ("", 0, 0),
        ('{"offsetTable":{1:2}}', 2, 0),
        ('{"offsetTable":{"1":2}}', 2, 0),
        ('{"offsetTable":{1:3}}', 3, 0),
        ('{"offsetTable":{1:9}}', 3, 1),
        ('{"offsetTable":{1:-4}}', 0, 0),
        ('{"offsetTable":{2:1}}', 0, 1),
        ("{}", 0, 0),
    ],
)
def test_delivery_continues_from_the_table(table: str, offset: int, steps: int) -> None:
    store = Store((1, 0), (1, 0), (1, 0))
    store.files.kill()
    if table:
        store.files.write(TABLE, table.encode())
    store.store = store.open(5000)
    assert store.service.progress()[1] == (offset, 3)
    assert len([step for step, _ in store.store.recovery_steps if step == "delayed"]) == steps
    assert store.due(5000) == [(1, number) for number in range(offset, 3)]
    assert (store.service.next_deadline_ns == at(5000).mono_ns) is (offset < 3)


@pytest.mark.parametrize(
    "table",
    [
        '{"offsetTable":[1]}',
        '{"offsetTable":{"a":1}}',
        '{"offsetTable":{1:"x"}}',
        '{"offsetTable":{1:null}}',
        '{"dataVersion":7}',
        '{"dataVersion":{"counter":"x"}}',
    ],
)
def test_a_file_that_is_no_offset_table_is_reported_and_not_changed(table: str) -> None:
    files = SimulatedFiles()
    files.write(TABLE, table.encode())
    with pytest.raises(StoreCorruptError, match="delayOffset"):
        open_store(ROOT, SMALL, files=files)
    assert files.read(TABLE) == table.encode()
    files.remove(TABLE)
    assert open_store(ROOT, SMALL, files=files)  # the lock was released


def test_the_table_has_rocketmqs_form_and_keeps_unknown_fields() -> None:
    store = Store((1, 0), (3, 0), table='{"dataVersion":{"counter":4,"stateVersion":2},"offsetTable":{7:0},"new":1}')
    assert store.service.next_write(1 << 62, at(1)) is None
    store.deliver(1000)
    assert store.service.next_write(0, at(2)) is None  # the copies are not on the disk
    work = store.service.next_write(store.store.appended_offset, at(2))
    assert work is not None
    work.run()
    assert rocketmq_json.decode(store.files.read(TABLE) or b"") == {
        "dataVersion": {"counter": 5, "stateVersion": 2, "timestamp": at(2).wall_ms},
        "offsetTable": {1: 1, 7: 0},
        "new": 1,
    }
    assert store.service.next_write(1 << 62, at(3)) is None
    store.service.write_failed()
    assert store.service.next_write(1 << 62, at(3)) is not None


def test_a_store_that_never_delayed_anything_has_no_table() -> None:
    store = Store()
    store.store.append([message(1)], at(1))
    store.store.close(at(2))
    assert not store.files.exists(TABLE)


def test_closing_writes_the_delivered_offsets() -> None:
    store = Store((1, 0), (1, 0))
    store.deliver(1000, count=1)
    store.store.close(at(1001))
    assert rocketmq_json.decode(store.files.read(TABLE) or b"")["offsetTable"] == {1: 1}


def damage_record(store: Store) -> None:
    _flip(store, 4)


def _flip(store: Store, byte: int) -> None:
    physical_offset = store.store._queues.table[SCHEDULE_TOPIC, 0].unit(1)[0]
    file = store.store._log.mapped_files.find(0)
    assert file is not None
    file.buffer[physical_offset + byte] ^= 0xFF


def damage_body(store: Store) -> None:
    _flip(store, 90)


def misplace(store: Store) -> None:
    """The unit points to another message's record."""
    queue = store.store._queues.table[SCHEDULE_TOPIC, 0]
    file = queue.mapped_files.find(20)
    assert file is not None
    file.buffer[20:28] = (0).to_bytes(8, "big")


def empty_unit(store: Store) -> None:
    file = store.store._queues.table[SCHEDULE_TOPIC, 0].mapped_files.find(20)
    assert file is not None
    file.buffer[20:40] = bytes(20)


def hole(store: Store) -> None:
    file = store.store._queues.table[SCHEDULE_TOPIC, 0].mapped_files.find(20)
    assert file is not None
    file.buffer[20:40] = (0).to_bytes(8, "big") + (0x7FFFFFFF).to_bytes(4, "big") + bytes(8)


@pytest.mark.parametrize("harm", [damage_record, damage_body, misplace, empty_unit, hole])
def test_an_unreadable_message_is_due_and_reported_as_lost(harm: Callable[[Store], None]) -> None:
    store = Store((1, 0), (1, 0), (1, 0))
    harm(store)
    found = store.deliver(7_200_000)
    assert [(one.queue_offset, one.next_offset, one.record is None) for one in found] == [
        (0, 1, False),
        (1, 2, True),
        (2, 3, False),
    ]


def test_messages_removed_by_retention_are_reported_as_one_range() -> None:
    store = Store()
    for number in range(40):
        store.add(number, 1, 0, size=5000)
    log = store.store._log.mapped_files
    for _ in range(2):
        first = log.first
        assert first is not None
        log.take_out(first)
    low = store.store.min_offset(SCHEDULE_TOPIC, 0)
    found = store.deliver(1000)
    assert 10 < low < 40
    assert [(one.queue_offset, one.next_offset, one.record is None) for one in found] == [(0, low, True)] + [
        (offset, offset + 1, False) for offset in range(low, 40)
    ]
