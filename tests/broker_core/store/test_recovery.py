import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_core.errors import StoreError, StoreLockedError, UnavailableError
from broker_core.formats.checkpoint import Checkpoint
from broker_core.formats.checkpoint import encode as encode_checkpoint
from broker_core.formats.commit_log_record import SYS_FLAG_AT, TRANSACTION_ROLLBACK, decode_all
from broker_core.formats.commit_log_record import encode as encode_record
from broker_core.formats.message_properties import encode
from broker_core.options import Options
from broker_core.store.log_repair import has_lost_sector
from broker_core.store.message_store import MessageStore
from tests.fakes.simulated_files import SimulatedFiles
from tests.fakes.store_cases import BEGIN_MS, at, body_of, flush, message, open_store, query_message

COUNT = 300
ROOT = Path("/store")


def bodies(store: MessageStore) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < store.max_offset("T", 0):
        found += [r.body for r in decode_all(store.get_message("T", 0, len(found), 32, 1 << 20, None).records)]
    return found


def kill(store: MessageStore) -> None:
    """Leave the store as kill -9 does: everything in the files, nothing closed."""
    assert store._lock is not None
    store._lock.release()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store that was killed with 300 messages, of which the last 100 were not flushed."""
    store = open_store(tmp_path)
    for number in range(COUNT):
        store.append([message(number, size=500)], at(number))
        store.reput()
        if number == 199:
            flush(store)
    kill(store)
    return tmp_path


def segment(root: Path, index: int = -1) -> Path:
    return sorted((root / "commitlog").iterdir())[index]


def end_of_log(path: Path) -> int:
    return len(path.read_bytes().rstrip(b"\0"))


def change(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def drop_checkpoint(root: Path) -> None:
    (root / "checkpoint").unlink()


def cut_checkpoint(root: Path) -> None:
    (root / "checkpoint").write_bytes(b"\0\0\0")


def drop_safe_end(root: Path) -> None:
    (root / "safe_end").unlink()


def drop_all_queues(root: Path) -> None:
    shutil.rmtree(root / "consumequeue")


def drop_one_queue(root: Path) -> None:
    shutil.rmtree(root / "consumequeue" / "T" / "0")


def drop_a_queue_file(root: Path) -> None:
    sorted((root / "consumequeue" / "T" / "0").iterdir())[0].unlink()


def damage_a_queue(root: Path) -> None:
    change(sorted((root / "consumequeue" / "T" / "0").iterdir())[1], 200, bytes(400))


def drop_index(root: Path) -> None:
    shutil.rmtree(root / "index")


def add_an_empty_segment(root: Path) -> None:
    last = segment(root)
    (root / "commitlog" / f"{int(last.name) + 65_536:020d}").touch()


def add_strange_files(root: Path) -> None:
    for folder in ("commitlog", "index", "consumequeue", "consumequeue/T"):
        (root / folder / "notes.txt").write_text("hello")
    (root / "index" / "20260101000000000").write_bytes(b"short")


@pytest.mark.parametrize(
    "harm",
    [
        lambda root: None,
        drop_checkpoint,
        cut_checkpoint,
        drop_safe_end,
        drop_all_queues,
        drop_one_queue,
        drop_index,
        add_an_empty_segment,
        add_strange_files,
        damage_a_queue,
    ],
)
def test_every_message_in_the_log_is_recovered(root: Path, harm: Callable[[Path], None]) -> None:
    harm(root)
    store = open_store(root, ms=1000)
    assert bodies(store) == [body_of(number, 500) for number in range(COUNT)]
    assert len(query_message(store, "T", "ID000005", 9, 0, 1 << 62)) == 1
    assert len(query_message(store, "T", "ID000299", 9, 0, 1 << 62)) == 1
    assert store.recovery
    assert store.append([message(1)], at(2000)).requests[0].queue_offset == COUNT
    store.close(at(2001))
    assert len(bodies(open_store(root, ms=3000))) == COUNT + 1


@pytest.mark.parametrize("damage", ["torn", "body", "magic", "length"])
def test_a_damaged_last_record_is_cut_off_and_kept_in_a_file(root: Path, damage: str) -> None:
    last = segment(root)
    end = end_of_log(last)
    start = end - (88 + 500 + 2 + 2 + len(encode({"UNIQ_KEY": "ID000299"})))
    if damage == "torn":
        change(last, end - 200, bytes(200))
    elif damage == "body":
        change(last, start + 100, b"\xff")
    elif damage == "magic":
        change(last, start + 4, b"\xff\xff\xff\xff")
    else:
        change(last, start, b"\x7f\xff\xff\xff")
    damaged = last.read_bytes()[start:].rstrip(b"\0")
    store = open_store(root, ms=1000)
    assert bodies(store) == [body_of(number, 500) for number in range(COUNT - 1)]
    tail = next((root / "quarantine").iterdir())
    assert tail.read_bytes() == damaged
    assert tail.name == f"{int(last.name) + start:020d}-{BEGIN_MS + 1000}.tail"
    assert int(last.name) + start == store.appended_offset
    assert any("are not valid records" in sentence for sentence in store.recovery)
    assert end_of_log(last) == start
    store.append([message(299)], at(2000))
    store.close(at(2001))
    assert len(bodies(open_store(root, ms=3000))) == COUNT


def test_garbage_after_the_end_never_becomes_a_message(root: Path) -> None:
    last = segment(root)
    end = end_of_log(last)
    change(last, end, b"garbage")
    change(last, end + 3000, last.read_bytes()[:700])
    store = open_store(root, ms=1000)
    assert len(bodies(store)) == COUNT
    kill(store)
    again = open_store(root, ms=2000)
    assert len(bodies(again)) == COUNT
    assert len(list((root / "quarantine").iterdir())) == 1


def test_segments_without_any_whole_record_are_moved_not_deleted(root: Path) -> None:
    (root / "safe_end").unlink()
    second, third = segment(root, 1), segment(root, 2)
    content = b"\xff" * 65_536
    second.write_bytes(content)
    third.write_bytes(content)
    store = open_store(root, ms=1000)
    assert store.appended_offset == int(second.name)
    assert (root / "quarantine" / f"{third.name}-{BEGIN_MS + 1000}").read_bytes() == content
    assert not third.exists()
    assert any(third.name in sentence for sentence in store.recovery)
    assert store.max_offset("T", 0) == len(bodies(store)) < COUNT


def test_a_later_recovery_keeps_the_copies_of_an_earlier_one(root: Path) -> None:
    """Their names contain positions in the log, which a later recovery may meet again."""
    (root / "safe_end").unlink()
    second, third = segment(root, 1), segment(root, 2)
    valid = second.read_bytes()[:30_000]
    for attempt, letter in enumerate((b"A", b"B")):
        second.write_bytes(valid + letter * 35_536)
        third.write_bytes(letter * 65_536)
        kill(open_store(root, ms=1000 + attempt))
    for suffix in (".tail", ""):
        copies = [path for path in sorted((root / "quarantine").iterdir()) if path.suffix == suffix]
        assert [path.read_bytes()[-35_536:] for path in copies] == [b"A" * 35_536, b"B" * 35_536]


def test_a_recovery_that_is_repeated_makes_one_copy_of_a_tail() -> None:
    files = SimulatedFiles()
    store = open_store(ROOT, files=files)
    store.append([message(1)], at(0))
    flush(store)
    end = store.appended_offset
    files.kill()
    files._names[ROOT / "commitlog" / ("0" * 20)].volatile[end : end + 5] = b"wrong"
    for attempt in range(3):
        files.fail("allocate" if attempt == 2 else "sync_folder", 1, errno.EIO)
        with pytest.raises(StoreError):
            open_store(ROOT, files=files, ms=1000 + attempt)
        files.kill()
        files.mend()
    open_store(ROOT, files=files, ms=2000)
    (name,) = files.names(ROOT / "quarantine")
    assert files.read(ROOT / "quarantine" / name) == b"wrong"


def test_space_for_the_zeros_over_a_tail_is_reserved_before_anything_changes() -> None:
    """A page that a power cut lost has none, and a mapped write to it kills the process if the disk is full."""
    files = SimulatedFiles()
    store = open_store(ROOT, files=files)
    store.append([message(1)], at(0))
    flush(store)
    end = store.appended_offset
    files.kill()
    log = files._names[ROOT / "commitlog" / ("0" * 20)]
    log.volatile[end : end + 5] = b"wrong"
    log.reserved = 0
    files.fail("write", 1, errno.EIO)
    with pytest.raises(StoreError):
        open_store(ROOT, files=files, ms=1000)
    assert log.reserved >= end + 5


def torn_store() -> tuple[SimulatedFiles, Path, int]:
    """(files, last segment, end of the log) of a killed store with one message and torn bytes after it."""
    files = SimulatedFiles()
    store = open_store(ROOT, files=files)
    store.append([message(1)], at(0))
    flush(store)
    files.kill()
    path = ROOT / "commitlog" / ("0" * 20)
    files._names[path].volatile[store.appended_offset : store.appended_offset + 5] = b"wrong"
    return files, path, store.appended_offset


def test_a_torn_tail_stays_on_a_full_disk_and_is_cut_when_there_is_space() -> None:
    files, path, end = torn_store()
    content = bytes(files._names[path].volatile)
    files.full = True
    for ms in (1000, 2000):
        store = open_store(ROOT, files=files, ms=ms)
        assert bodies(store) == [body_of(1)]
        assert "No space left" in store.problem
        with pytest.raises(UnavailableError, match="recovery waits for space"):
            store.append([message(2)], at(ms))
        assert files.names(ROOT / "quarantine") == []
        assert bytes(files._names[path].volatile) == content
        assert any("waits until the disk has space" in sentence for sentence in store.recovery)
        store.close(at(ms + 1))
    store = open_store(ROOT, files=files, ms=3000)
    files.full = False
    with pytest.raises(UnavailableError, match="recovery waits for space"):
        store.append([message(2)], at(3001))  # over bytes that are not copied yet
    store.next_clean(at(9000))
    assert store.problem == ""
    assert store.append([message(2)], at(9001)).start == end
    (name,) = files.names(ROOT / "quarantine")
    assert files.read(ROOT / "quarantine" / name) == b"wrong"
    assert any(name in sentence for sentence in store.recovery)


def test_a_store_is_not_adopted_on_a_full_disk_and_the_error_names_the_remedy() -> None:
    files, path, end = torn_store()
    files.remove(ROOT / "glassmq")
    content = bytes(files._names[path].volatile)
    files.full = True
    with pytest.raises(StoreError, match="Free some space and start the broker again"):
        open_store(ROOT, files=files, ms=1000, adopt=True)
    assert bytes(files._names[path].volatile) == content
    files.full = False
    store = open_store(ROOT, files=files, ms=2000, adopt=True)
    assert (bodies(store), store.appended_offset) == ([body_of(1)], end)


def test_a_record_in_a_torn_tail_does_not_come_back_after_a_shutdown_on_a_full_disk() -> None:
    """A lost sector is looked for only after an unclean stop. So such a shutdown is not marked as clean."""
    files = SimulatedFiles()
    store = open_store(ROOT, files=files)
    store.append([message(1)], at(0))
    flush(store)
    end = store.appended_offset
    store.append([message(2, extra={"long": "x" * 2000})], at(1))
    files.kill()
    log = files._names[ROOT / "commitlog" / ("0" * 20)].volatile
    sector = end - end % 512 + 1024
    log[sector : sector + 512] = bytes(512)
    files.full = True
    for ms in (1000, 2000):
        store = open_store(ROOT, files=files, ms=ms)
        assert bodies(store) == [body_of(1)]
        store.close(at(ms + 1))


def test_queue_units_that_a_full_disk_refuses_are_written_later() -> None:
    files = SimulatedFiles()
    store = open_store(ROOT, files=files)
    for number in range(150):
        store.append([message(number)], at(0))
        store.reput()
    files.kill()
    files.remove_folder(ROOT / "consumequeue")
    files.full = True
    store = open_store(ROOT, files=files, ms=1000)
    assert store.max_offset("T", 0) == 0
    assert "recovery waits for space" in store.problem
    files.full = False
    store.next_clean(at(9000))
    while store.dispatched_offset < store.confirmed_offset:
        store.reput()
    store.next_clean(at(20_000))
    assert store.problem == ""
    assert bodies(store) == [body_of(number) for number in range(150)]
    assert store.append([message(150)], at(20_001)).requests[0].queue_offset == 150


def test_a_start_after_a_clean_shutdown_needs_no_space() -> None:
    files = SimulatedFiles()
    store = open_store(ROOT, files=files)
    store.append([message(1)], at(0))
    store.close(at(1))
    files.fail("write", 1, errno.ENOSPC)
    store = open_store(ROOT, files=files, ms=1000)
    assert bodies(store) == [body_of(1)]
    assert files.exists(ROOT / "abort")


def test_queue_units_of_rolled_back_transactions_become_holes() -> None:
    files = SimulatedFiles()
    store = open_store(ROOT, files=files)
    for number in range(7):
        store.append([message(number)], at(0))
        store.reput()
    flush(store)
    files.kill()
    files.remove(ROOT / "safe_end")
    log = files._names[ROOT / "commitlog" / ("0" * 20)]
    size = store.appended_offset // 7
    for number in (2, 3, 5):
        log.volatile[number * size + SYS_FLAG_AT + 3] |= TRANSACTION_ROLLBACK
    store = open_store(ROOT, files=files, ms=1000)
    assert [store._queues.find("T", 0).unit(offset)[1] == size for offset in range(7)] == [
        True, True, False, False, True, False, True,
    ]  # fmt: skip


def test_a_tail_is_copied_up_to_a_limit_and_the_rest_is_reported(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_core.store.recovery.COPY_MAX", 100)
    last = segment(root)
    change(last, end_of_log(last), b"\xff" * 150)
    store = open_store(root, ms=1000)
    assert next((root / "quarantine").iterdir()).stat().st_size == 100
    assert any("except for the last 50" in sentence for sentence in store.recovery)


def test_a_large_log_is_read_from_the_segment_before_the_checkpoint(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker_core.store.recovery.FULL_SCAN_MAX", 0)
    (root / "safe_end").unlink()
    (root / "checkpoint").write_bytes(encode_checkpoint(Checkpoint(BEGIN_MS + 3150, BEGIN_MS + 3150)))
    store = open_store(root, ms=1000)
    assert "older than the checkpoint" in store.recovery[0]
    assert "read from 0" not in store.recovery[0]
    assert len(bodies(store)) == COUNT


def test_a_queue_that_lacks_units_makes_a_large_log_be_read_from_its_beginning(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker_core.store.recovery.FULL_SCAN_MAX", 0)
    store = open_store(root, ms=1000)
    store.append([message(1, queue_id=1)], at(1000))
    store.close(at(1001))
    (root / "safe_end").unlink()
    shutil.rmtree(root / "consumequeue" / "T" / "0")
    store = open_store(root, ms=1000)
    assert len(bodies(store)) == COUNT
    assert any("lacks units" in sentence for sentence in store.recovery)


def test_a_queue_without_its_first_file_begins_after_it(root: Path) -> None:
    drop_a_queue_file(root)
    store = open_store(root, ms=1000)
    assert store.max_offset("T", 0) == COUNT
    assert store.min_offset("T", 0) == 100


def test_queues_begin_later_if_the_oldest_segments_are_lost(root: Path) -> None:
    segment(root, 0).unlink()
    drop_all_queues(root)
    store = open_store(root, ms=1000)
    low = store.min_offset("T", 0)
    assert 0 < low < store.max_offset("T", 0) == COUNT
    result = store.get_message("T", 0, low, 1, 1 << 20, None)
    assert decode_all(result.records)[0].body == body_of(low, 500)
    assert store.get_message("T", 0, 0, 1, 1 << 20, None).status == "OFFSET_TOO_SMALL"


def test_a_last_record_that_lost_a_sector_of_its_properties_is_cut(root: Path) -> None:
    path = segment(root)
    end = end_of_log(path)
    lost = max((end - 1) // 512 * 512, end - len(message(0).properties))
    change(path, lost, bytes(end - lost))
    store = open_store(root, ms=1000)
    assert bodies(store) == [body_of(number, 500) for number in range(COUNT - 1)]


def test_a_store_without_any_segment_starts_empty(root: Path) -> None:
    shutil.rmtree(root / "commitlog")
    store = open_store(root, ms=1000)
    assert store.appended_offset == store.max_offset("T", 0) == 0
    assert any("without a record were dropped" in sentence for sentence in store.recovery)


def test_a_failed_opening_releases_the_lock(tmp_path: Path) -> None:
    (tmp_path / "abort").mkdir()
    for _ in range(2):
        with pytest.raises(StoreError, match="cannot be opened") as raised:
            open_store(tmp_path)
        assert not isinstance(raised.value, StoreLockedError)
    (tmp_path / "abort").rmdir()
    open_store(tmp_path)


@pytest.mark.parametrize(
    ("start", "lost", "expected"),
    [(0, (512, 600), True), (0, (500, 512), False), (0, (550, 560), False), (400, (512, 700), True), (0, None, False)],
)
def test_a_lost_sector_is_distinguished_from_zeros_in_a_value(
    start: int, lost: tuple[int, int] | None, expected: bool
) -> None:
    record = encode_record(topic="T", queue_id=0, queue_offset=0, physical_offset=0, body=b"", properties="p" * 1000)
    data = bytearray(start) + record
    if lost is not None:
        low, high = lost
        end = start + len(record) if expected else high
        data[low:end] = bytes(end - low)
    assert has_lost_sector(memoryview(data), start, len(record)) is expected


def test_the_marks_are_found_after_a_power_cut() -> None:
    """A file whose name is not on the disk is gone with the power, however well its content was flushed."""
    files = SimulatedFiles()
    MessageStore.open(ROOT, Options(), files, at(0))
    assert {ROOT / "safe_end", ROOT / "checkpoint"} <= files._durable_names.keys()
