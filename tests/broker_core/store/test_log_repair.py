from copy import deepcopy
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from broker_core.errors import UnavailableError
from broker_core.formats.commit_log_files import read_records
from broker_core.formats.commit_log_record import (
    RECORD_SIZE_MIN,
    decode,
    decode_all,
    encode,
    is_rolled_back,
    measure,
    placeholders,
)
from broker_core.store.get_message import MESSAGE_WAS_REMOVING, OFFSET_TOO_SMALL
from broker_core.store.mapped_file import MappedFile
from broker_core.store.message_store import MessageStore
from tests.fakes.simulated_files import SimulatedFiles
from tests.fakes.store_cases import BEGIN_MS, at, flush, message, open_store, query_message

ROOT = Path("/store")
SEGMENT = 65_536
COUNT = 300
FLUSHED = 60
QUEUES = (("T", 0), ("T", 1), ("U", 0))
SIZES = (20, 300, 1200, 2500)


class Stored(NamedTuple):
    """Where a message is: its queue, its offset there, and its record in the log."""

    topic: str
    queue_id: int
    queue_offset: int
    start: int
    end: int


class Killed(NamedTuple):
    files: SimulatedFiles
    messages: list[Stored]


def kill_store() -> Killed:
    """A store of several segments, killed with everything in its files, of which only the first part was flushed."""
    files, chance, messages = SimulatedFiles(), Random(7), []
    store = open_store(ROOT, files=files)
    for number in range(COUNT):
        topic, queue_id = chance.choice(QUEUES)
        pending = message(number, topic=topic, queue_id=queue_id, size=chance.choice(SIZES))
        (request,) = store.append([pending], at(10 * number)).requests
        end = request.physical_offset + request.size
        messages.append(Stored(topic, queue_id, request.queue_offset, request.physical_offset, end))
        store.reput()
        if number == FLUSHED:
            flush(store)
    files.kill()
    return Killed(files, messages)


@pytest.fixture(scope="module")
def killed() -> Killed:
    return kill_store()


def damage(files: SimulatedFiles, position: int, data: bytes) -> None:
    """Write bytes at a physical offset, across segments."""
    while data:
        start = position % SEGMENT
        part, data = data[: SEGMENT - start], data[SEGMENT - start :]
        files._names[segment_of(position)].volatile[start : start + len(part)] = part
        position += len(part)


def segment_of(position: int) -> Path:
    return ROOT / "commitlog" / f"{position - position % SEGMENT:020d}"


def byte_at(files: SimulatedFiles, position: int) -> int:
    return files._names[segment_of(position)].volatile[position % SEGMENT]


def consume(store: MessageStore) -> dict[tuple[str, int, int], int]:
    """The messages that a consumer gets from offset 0 on: place -> number. Fails if a pull does not advance."""
    found = {}
    for topic, queue_id in store.queues():
        offset = 0
        while offset < store.max_offset(topic, queue_id):
            result = store.get_message(topic, queue_id, offset, 32, 1 << 20, None)
            for record in decode_all(result.records):
                found.setdefault((topic, queue_id, record.queue_offset), record.flag)
            assert result.status in ("FOUND", MESSAGE_WAS_REMOVING, OFFSET_TOO_SMALL)
            assert result.next_begin_offset > offset
            offset = result.next_begin_offset
    return found


def check(store: MessageStore, killed: Killed, lost: set[int], *, altered: bool = False) -> None:
    """Every message is at its offset, except for the ``lost`` ones. ``altered``: they may be there, but changed."""
    found = consume(store)
    expected = {
        (stored.topic, stored.queue_id, stored.queue_offset): number
        for number, stored in enumerate(killed.messages)
        if number not in lost
    }
    assert {place: found.get(place) for place in expected} == expected
    assert altered or len(found) == len(expected)
    walk(store)


def walk(store: MessageStore) -> None:
    """Read the log from record to record, as other readers do."""
    position = store.min_physical_offset
    while position < store.appended_offset:
        file = store._log.mapped_files.find(position)
        if file is None:
            after = store._log.mapped_files.next_after(position)
            assert after is not None
            position = after.base
            continue
        size = measure(file.buffer, position - file.base, file.size, position)
        if not size:
            left, magic = file.buffer[position - file.base :][:4], file.buffer[position - file.base + 4 :][:4]
            assert (int.from_bytes(left, "big"), magic.hex()) == (file.base + file.size - position, "cbd43194")
            size = file.base + file.size - position
        position += size


def overlapping(killed: Killed, start: int, end: int) -> set[int]:
    return {number for number, stored in enumerate(killed.messages) if stored.start < end and start < stored.end}


def test_one_flipped_bit_costs_at_most_its_record(killed: Killed) -> None:
    """One bit of every byte of a record, with and without queues on the disk."""
    chance = Random(1)
    number = next(n for n in range(FLUSHED + 100, COUNT) if killed.messages[n].end - killed.messages[n].start < 140)
    stored = killed.messages[number]
    for position in range(stored.start, stored.end):
        for with_queues in (True, False):
            files = deepcopy(killed.files)
            damage(files, position, bytes([byte_at(files, position) ^ 1 << chance.randrange(8)]))
            if not with_queues:
                files.remove_folder(ROOT / "consumequeue")
            store = open_store(ROOT, files=files, ms=20_000)
            check(store, killed, {number}, altered=True)
            assert store.append([message(COUNT)], at(30_000)).requests[0].queue_offset >= store.max_offset("T", 0)


@pytest.mark.parametrize("seed", range(25))
def test_random_damage_costs_only_the_records_that_it_touches(killed: Killed, seed: int) -> None:
    chance, files = Random(seed), deepcopy(killed.files)
    low, high = killed.messages[FLUSHED + 1].start, killed.messages[-1].start
    lost: set[int] = set()
    for _ in range(chance.choice((1, 1, 2, 5))):
        size = chance.choice((1, 8, 100, 512, 4096, 20_000, 70_000))
        position = chance.randrange(low, high - size) if size < high - low else low
        filling = chance.choice((bytes(size), b"\xff" * size, chance.randbytes(size)))
        damage(files, position, filling)
        lost |= overlapping(killed, position, position + size)
    if chance.random() < 0.3:
        files.remove_folder(ROOT / "consumequeue")
    store = open_store(ROOT, files=files, ms=20_000)
    check(store, killed, lost, altered=True)
    store.close(at(20_001))
    check(open_store(ROOT, files=files, ms=20_002), killed, lost, altered=True)


def test_a_missing_page_costs_only_its_records(killed: Killed) -> None:
    files = deepcopy(killed.files)
    page = killed.messages[200].start // 4096 * 4096 + 4096
    damage(files, page, bytes(4096))
    check(open_store(ROOT, files=files, ms=20_000), killed, overlapping(killed, page, page + 4096))


@pytest.mark.parametrize("zeros", [True, False])
def test_damage_at_the_first_record_of_a_segment(killed: Killed, zeros: bool) -> None:
    files = deepcopy(killed.files)
    number = next(n for n, stored in enumerate(killed.messages) if stored.start == 2 * SEGMENT)
    damage(files, 2 * SEGMENT, bytes(8) if zeros else b"\xff" * 8)
    check(open_store(ROOT, files=files, ms=20_000), killed, {number})


def test_damage_across_two_records_and_across_two_segments(killed: Killed) -> None:
    files = deepcopy(killed.files)
    number = next(n for n, stored in enumerate(killed.messages) if stored.start == 2 * SEGMENT)
    damage(files, killed.messages[170].end - 5, b"\xff" * 10)
    damage(files, killed.messages[number - 1].end - 5, b"\xff" * (2 * SEGMENT - killed.messages[number - 1].end + 10))
    check(open_store(ROOT, files=files, ms=20_000), killed, {170, 171, number - 1, number}, altered=True)


def test_a_damaged_filler_and_a_whole_damaged_segment(killed: Killed) -> None:
    files = deepcopy(killed.files)
    first = next(n for n, stored in enumerate(killed.messages) if stored.start == 2 * SEGMENT)
    damage(files, killed.messages[first - 1].end, bytes(8))
    damage(files, 2 * SEGMENT, bytes(SEGMENT))
    check(open_store(ROOT, files=files, ms=20_000), killed, overlapping(killed, 2 * SEGMENT, 3 * SEGMENT))


def test_a_record_inside_a_message_body_never_becomes_a_message() -> None:
    """Not even if the header of the record around it is damaged."""
    files = SimulatedFiles()
    store = open_store(ROOT, files=files)
    store.append([message(1)], at(0))
    outer_at = store.appended_offset
    inner_at = outer_at + 88 + 20
    inner = encode(topic="forged", queue_id=0, queue_offset=0, physical_offset=inner_at, body=b"x" * 50)
    outer = message(2)
    outer.body = bytes(20) + inner
    store.append([outer, message(3)], at(0))
    store.reput()
    files.kill()
    damage(files, outer_at + 28, bytes([byte_at(files, outer_at + 28) ^ 1]))
    store = open_store(ROOT, files=files, ms=1000)
    assert store.queues() == [("T", 0)]
    assert consume(store) == {("T", 0, 0): 1, ("T", 0, 2): 3}


def test_the_end_of_a_segments_data_is_searched_once(killed: Killed, monkeypatch: pytest.MonkeyPatch) -> None:
    """To look for it means reading the rest of the segment, which may be 1 GiB, and thousands of records."""
    searches = []
    data_end = MappedFile.data_end
    monkeypatch.setattr(MappedFile, "data_end", lambda file, start: searches.append(start) or data_end(file, start))
    counts = []
    candidates = [number for number, stored in enumerate(killed.messages) if stored.start // SEGMENT == 2]
    for lost in (candidates[1:2], candidates[1:-1:2]):
        files = deepcopy(killed.files)
        for number in lost:
            damage(files, killed.messages[number].start + 95, b"\xff\xff")
        searches.clear()
        check(open_store(ROOT, files=files, ms=20_000), killed, set(lost))
        counts.append(len(searches))
    assert len(candidates) > 10
    assert counts[0] == counts[1]


def test_skipped_bytes_are_copied_reported_and_counted(killed: Killed) -> None:
    files = deepcopy(killed.files)
    stored = killed.messages[200]
    damage(files, stored.start + 100, b"\xff\xff")
    damaged = bytes(byte_at(files, position) for position in range(stored.start, stored.end))
    store = open_store(ROOT, files=files, ms=20_000)
    (name,) = files.names(ROOT / "quarantine")
    assert name == f"{stored.start:020d}-{BEGIN_MS + 20_000}.damaged"
    assert files.read(ROOT / "quarantine" / name) == damaged
    sentences = [sentence for step, sentence in store.recovery_steps if step == "damage"]
    assert any(f"{len(damaged)} bytes at {stored.start}" in sentence and name in sentence for sentence in sentences)
    assert any("1 messages in queues were damaged" in sentence for sentence in sentences)
    assert store.damaged == (1, len(damaged))
    store.close(at(20_001))
    store = open_store(ROOT, files=files, ms=30_000)
    assert store.damaged == (1, len(damaged))
    assert not [step for step, _ in store.recovery_steps if step == "damage"]


def test_a_consumer_at_the_lost_offset_continues_after_it(killed: Killed) -> None:
    files = deepcopy(killed.files)
    stored = killed.messages[200]
    damage(files, stored.start + 100, b"\xff\xff")
    store = open_store(ROOT, files=files, ms=20_000)
    lost = stored.queue_offset
    for count in (1, 32):
        result = store.get_message(stored.topic, stored.queue_id, lost, count, 1 << 20, None)
        assert [record.queue_offset for record in decode_all(result.records)][:1] == [lost + 1][: count - 1]
        assert result.next_begin_offset > lost
    before = store.get_message(stored.topic, stored.queue_id, lost - 2, 32, 1 << 20, None)
    assert [record.queue_offset for record in decode_all(before.records)][:2] == [lost - 2, lost - 1]
    assert store.look_message_by_offset(stored.start) is None
    assert query_message(store, stored.topic, "ID000200", 9, 0, 1 << 62) == []


def test_searches_by_time_and_by_offset_pass_over_holes(killed: Killed) -> None:
    files = deepcopy(killed.files)
    lost = {number for number in range(100, COUNT) if number % 3}
    for number in lost:
        damage(files, killed.messages[number].start + 95, b"\xff\xff")
    store = open_store(ROOT, files=files, ms=20_000)
    check(store, killed, lost)
    for number in range(102, COUNT - 3, 3):
        stored = killed.messages[number]
        place = stored.topic, stored.queue_id
        assert store.offset_by_time(*place, BEGIN_MS + 10 * number, "lower") == stored.queue_offset
        assert store.store_time(*place, stored.queue_offset) == BEGIN_MS + 10 * number
        queue = store._queues.table[place]
        queue._min_for = 0
        assert queue.min_offset(stored.start) == stored.queue_offset


def test_the_placeholders_are_records_that_no_queue_contains() -> None:
    for size in (RECORD_SIZE_MIN, 92, 5000, (4 << 20) + 5, (8 << 20) + 200):
        data = b"".join(placeholders(1000, 1000 + size, BEGIN_MS))
        assert len(data) == size
        at_byte = 0
        while at_byte < size:
            length = measure(data, at_byte, size, 1000 + at_byte)
            assert length >= RECORD_SIZE_MIN
            assert is_rolled_back(data, at_byte)
            assert (decode(data, at_byte).topic, decode(data, at_byte).store_timestamp) == ("", BEGIN_MS)
            at_byte += length


def test_a_reader_beside_the_broker_walks_over_the_damage(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for number in range(50):
        store.append([message(number)], at(number))
        store.reput()
    third = decode_all(store.get_message("T", 0, 3, 1, 1 << 20, None).records)[0].physical_offset
    assert store._lock is not None
    store._lock.release()
    with (tmp_path / "commitlog" / ("0" * 20)).open("r+b") as file:
        file.seek(third + 95)
        file.write(b"\xff\xff")
    store = open_store(tmp_path, ms=1000)
    store.close(at(1001))
    flags = [record.flag for record in read_records(tmp_path) if record.topic]
    assert flags == [number for number in range(50) if number != 3]


def test_old_records_of_another_broker_behind_its_log_stay_dead() -> None:
    """RocketMQ cuts its log without clearing what follows, so older records may follow the end."""
    files = SimulatedFiles()
    records, position = [], 0
    for number in range(6):
        stored_ms = BEGIN_MS + 1000 if number < 2 else BEGIN_MS + number
        record = encode(
            topic="T",
            queue_id=0,
            queue_offset=number,
            physical_offset=position,
            body=b"%d" % number,
            store_timestamp=stored_ms,
        )
        records.append(record)
        position += len(record)
    records[2] = records[2][:10] + bytes(len(records[2]) - 10)
    files.write(ROOT / "commitlog" / ("0" * 20), b"".join(records).ljust(SEGMENT, b"\0"))
    for adopt in (False, True):
        store = open_store(ROOT, files=files, ms=2000, adopt=adopt)
        assert store.max_offset("T", 0) == 2
        assert store.appended_offset == len(records[0]) + len(records[1])
        store.close(at(2001))


def test_a_store_that_is_only_read_is_repaired_in_memory_only(killed: Killed) -> None:
    files = deepcopy(killed.files)
    damage(files, killed.messages[200].start + 100, b"\xff\xff")
    files.remove(ROOT / "glassmq")
    before = {path: bytes(file.volatile) for path, file in files._names.items()}
    store = open_store(ROOT, files=files, ms=20_000)
    assert store.read_only
    check(store, killed, {200})
    assert {path: bytes(file.volatile) for path, file in files._names.items()} == before


def test_queues_that_are_rebuilt_from_a_damaged_log_keep_their_offsets(killed: Killed) -> None:
    """Units are missing, so the log is read again from its beginning, where it is damaged too."""
    files = deepcopy(killed.files)
    damage(files, killed.messages[50].start + 100, b"\xff\xff")
    for name in files.names(ROOT / "consumequeue" / "T" / "1"):
        files._names[ROOT / "consumequeue" / "T" / "1" / name].volatile[:] = bytes(2000)
    check(open_store(ROOT, files=files, ms=20_000), killed, {50})


def test_a_queue_offset_that_cannot_be_right_is_not_dispatched(killed: Killed) -> None:
    """Otherwise the queue would be filled with holes up to it."""
    files = deepcopy(killed.files)
    damage(files, killed.messages[200].start + 21, b"\x01")
    files.remove_folder(ROOT / "consumequeue")
    store = open_store(ROOT, files=files, ms=20_000)
    check(store, killed, {200})
    assert any("1 records have a damaged topic or queue offset" in sentence for sentence in store.recovery)


@pytest.mark.parametrize("with_queues", [True, False])
@pytest.mark.parametrize("gap", [(1,), (2,), (1, 2, 3), (1, 3)])
def test_a_missing_segment_costs_only_its_messages(killed: Killed, gap: tuple[int, ...], with_queues: bool) -> None:
    files = deepcopy(killed.files)
    end = killed.messages[-1].end
    lost: set[int] = set()
    for number in gap:
        files.remove(segment_of(number * SEGMENT))
        lost |= overlapping(killed, number * SEGMENT, (number + 1) * SEGMENT)
    if not with_queues:
        files.remove_folder(ROOT / "consumequeue")
    store = open_store(ROOT, files=files, ms=20_000)
    check(store, killed, lost)
    assert store.append([message(COUNT)], at(30_000)).start == end
    (sentence, *others) = [sentence for step, sentence in store.recovery_steps if "missing in the middle" in sentence]
    assert segment_of(gap[0] * SEGMENT).name in sentence and "bytes" in sentence
    assert len(others) == len(store._log.mapped_files.gaps()) - 1
    assert store.damaged == (len(others) + 1, len(gap) * SEGMENT)
    store.reput()
    store.close(at(30_001))
    store = open_store(ROOT, files=files, ms=40_000)
    assert len(consume(store)) == COUNT + 1 - len(lost)
    assert any("missing in the middle" in sentence for sentence in store.recovery)


def test_a_segment_that_is_put_back_can_be_read_again(killed: Killed) -> None:
    files = deepcopy(killed.files)
    segment = segment_of(2 * SEGMENT)
    elsewhere = files._names.pop(segment)
    open_store(ROOT, files=files, ms=20_000).close(at(20_001))
    files._names[segment] = elsewhere
    store = open_store(ROOT, files=files, ms=30_000)
    check(store, killed, set())
    assert store.damaged == (0, 0)


def test_a_missing_segment_in_which_the_log_ended_is_not_written_again(killed: Killed) -> None:
    """Queue units point at positions in it. Other messages there would be delivered under wrong offsets."""
    files = deepcopy(killed.files)
    last = segment_of(killed.messages[-1].start)
    after = segment_of(int(last.name) + SEGMENT)
    files.write(after, bytes(SEGMENT))
    files.remove(last)
    store = open_store(ROOT, files=files, ms=20_000)
    assert store.append([message(COUNT)], at(30_000)).start == int(after.name)


def test_damage_beside_a_missing_segment_costs_only_its_records(killed: Killed) -> None:
    files = deepcopy(killed.files)
    files.remove(segment_of(2 * SEGMENT))
    low, high = 2 * SEGMENT - 300, 3 * SEGMENT + 300
    damage(files, low, b"\xff" * 300)
    damage(files, 3 * SEGMENT, b"\xff" * 300)
    store = open_store(ROOT, files=files, ms=20_000)
    check(store, killed, overlapping(killed, low, high))


def test_searches_by_time_pass_over_a_missing_segment(killed: Killed) -> None:
    files = deepcopy(killed.files)
    files.remove(segment_of(2 * SEGMENT))
    store = open_store(ROOT, files=files, ms=20_000)
    gone = overlapping(killed, 2 * SEGMENT, 3 * SEGMENT)
    for number, stored in enumerate(killed.messages):
        if number not in gone:
            place = stored.topic, stored.queue_id
            lower = store.offset_by_time(*place, BEGIN_MS + 10 * number, "lower")
            between = {offset for *queue, offset, _, _ in map(killed.messages.__getitem__, gone) if queue == [*place]}
            assert set(range(lower, stored.queue_offset)) <= between
            assert store.offset_by_time(*place, BEGIN_MS + 10 * number, "upper") == stored.queue_offset


def test_a_segment_far_behind_the_others_is_reached_at_once(killed: Killed) -> None:
    """Not by counting the segments that are missing before it."""
    files = deepcopy(killed.files)
    base = 1 << 62
    record = encode(
        topic="T",
        queue_id=0,
        queue_offset=1000,
        physical_offset=base,
        body=b"far",
        store_timestamp=BEGIN_MS + 10 * COUNT,
    )
    files.write(segment_of(base), record.ljust(SEGMENT, b"\0"))
    store = open_store(ROOT, files=files, ms=20_000)
    assert store.appended_offset == base + len(record)
    assert store.get_message("T", 0, 1000, 1, 1 << 20, None).records == record
    flush(store)


def test_many_damaged_ranges_are_reported_in_bounded_memory(killed: Killed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_core.store.log_repair.FILES_MAX", 30)
    files = deepcopy(killed.files)
    lost = set(range(100, COUNT - 1, 2))
    for number in lost:
        damage(files, killed.messages[number].start + 95, b"\xff\xff")
    store = open_store(ROOT, files=files, ms=20_000)
    check(store, killed, lost)
    sentences = [sentence for step, sentence in store.recovery_steps if step == "damage"]
    assert len(sentences) == 20 + 3
    assert f"{len(lost) - 20} more ranges of the log are damaged" in sentences[20]
    not_copied = sorted(lost)[30:]
    size = sum(killed.messages[number].end - killed.messages[number].start for number in not_copied)
    assert f"{size} damaged bytes were not copied and are lost" in sentences[21]
    assert len(files.names(ROOT / "quarantine")) == 30


def test_a_scarce_disk_is_not_filled_with_a_part_of_a_copy(killed: Killed) -> None:
    files = deepcopy(killed.files)
    damage(files, killed.messages[FLUSHED + 20].start + 95, b"\xff\xff")
    files.free_bytes = 10
    store = open_store(ROOT, files=files, ms=20_000)
    assert "for a copy of" in store.problem and "10 are free" in store.problem
    assert files.names(ROOT / "quarantine") == []
    files.free_bytes = 1 << 30
    assert store.next_clean(at(40_000)) is None
    assert store.problem == "" and len(files.names(ROOT / "quarantine")) == 1


def test_damage_waits_on_a_full_disk_and_is_covered_when_there_is_space(killed: Killed) -> None:
    files = deepcopy(killed.files)
    lost = {FLUSHED + 20, 200, 201}
    for number in lost:
        damage(files, killed.messages[number].start + 95, b"\xff\xff")
    log = {path: bytes(file.volatile) for path, file in files._names.items() if path.parent.name == "commitlog"}
    files.full = True
    for ms in (20_000, 21_000):  # a broker that is killed meanwhile recovers again
        store = open_store(ROOT, files=files, ms=ms)
        assert len(consume(store)) == COUNT - len(lost)
        assert {path: bytes(files._names[path].volatile) for path in log} == log
        assert "recovery waits for space" in store.problem
        with pytest.raises(UnavailableError, match="recovery waits for space"):
            store.append([message(COUNT)], at(ms))
        if ms == 20_000:
            store.close(at(ms))
            assert files.exists(ROOT / "abort")
    files.full = False
    assert store.next_clean(at(40_000)) is None
    with pytest.raises(UnavailableError, match="recovery is being finished"):  # one step is done, another is left
        store.append([message(COUNT)], at(40_001))
    assert store.next_step_ns == at(40_010).mono_ns
    store.look_for_room(at(40_009))
    assert "recovery is being finished" in store.problem
    store.look_for_room(at(40_010))
    assert store.problem == "" and store.next_step_ns is None
    check(store, killed, lost)
    assert store.damaged[0] == len(files.names(ROOT / "quarantine")) == 2
    assert store.append([message(COUNT)], at(50_000)).start == killed.messages[-1].end
    store.close(at(50_001))
    assert not files.exists(ROOT / "abort")


@pytest.mark.seeds(30)
def test_power_cuts_during_the_repair_lose_nothing_more(killed: Killed, seed: int) -> None:
    chance = Random(seed)
    files = deepcopy(killed.files)
    for file in files._names.values():
        file.durable = bytes(file.volatile)
    files._durable_names = dict(files._names)
    files._unsynced.clear()
    files._chance = chance
    lost: set[int] = set()
    for _ in range(3):
        size = chance.choice((1, 300, 5000))
        position = chance.randrange(killed.messages[FLUSHED + 1].start, killed.messages[-1].start - size)
        damage(files, position, b"\xff" * size)
        lost |= overlapping(killed, position, position + size)
    for file in files._names.values():
        file.durable = bytes(file.volatile)
    for attempt in range(4):
        files.fail(chance.choice(("flush", "write", "sync_folder")), chance.randrange(1, 12), 5)
        try:
            open_store(ROOT, files=files, ms=20_000 + attempt)
        except Exception as error:
            assert "cannot be opened" in str(error)
        files.mend()
        files.crash()
    store = open_store(ROOT, files=files, ms=30_000)
    check(store, killed, lost, altered=True)
