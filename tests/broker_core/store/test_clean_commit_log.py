from datetime import datetime
from errno import ENOSPC
from pathlib import Path

import msgspec
import pytest

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.errors import UnavailableError
from broker_core.formats.lake_position import LakePosition, encode
from broker_core.options import Options
from broker_core.store.message_store import MessageStore
from tests.fakes.simulated_files import SimulatedFiles
from tests.fakes.store_cases import BEGIN_MS, message, open_store, query_message

ROOT = Path("/store")
HOUR = 3_600_000
HERE = datetime.fromtimestamp(BEGIN_MS / 1000).hour
OTHER = (HERE + 5) % 24


def options(hour: int) -> Options:
    return Options(
        mapped_file_size_commit_log=65_536,
        mapped_file_size_consume_queue=2000,
        max_hash_slot_num=50,
        max_index_num=200,
        delete_when=str(hour),
        file_reserved_time=48,
    )


def store_with_old_segments(files: SimulatedFiles, hour: int = HERE) -> MessageStore:
    """Five segments; all but the last two are 49 hours old."""
    store = open_store(ROOT, options(hour), files=files)
    for number in range(600):
        files.wall_ms = BEGIN_MS - (49 if number < 360 else 1) * HOUR
        store.append([message(number, size=400, queue_id=number % 2)], now())
    store.reput()
    assert len(files.names(ROOT / "commitlog")) == 5
    return store


def now(seconds: int = 0) -> Now:
    return Now(BEGIN_MS + seconds * 1000, seconds * 1_000_000_000)


def test_old_segments_are_removed_at_the_hour_with_their_queue_and_index_files() -> None:
    files = SimulatedFiles()
    store = store_with_old_segments(files)
    clean = store.next_clean(now())
    assert clean is not None
    assert len(files.names(ROOT / "commitlog")) == 5
    assert store.cleaned(clean.run(), now()) == [
        (0, "older than fileReservedTime, 48 hours"),
        (65_536, "older than fileReservedTime, 48 hours"),
        (131_072, "older than fileReservedTime, 48 hours"),
    ]
    assert len(files.names(ROOT / "commitlog")) == 2
    assert store.min_physical_offset == 196_608
    low = store.min_offset("T", 0)
    assert low > 100
    assert store.get_message("T", 0, 0, 1, 1000, None).status == "OFFSET_TOO_SMALL"
    assert store.get_message("T", 0, low, 1, 1000, None).status == "FOUND"
    assert files.names(ROOT / "consumequeue" / "T" / "0")[0] == "00000000000000002000"
    assert len(files.names(ROOT / "index")) < 4
    assert query_message(store, "T", "ID000001", 9, 0, 1 << 62) == []
    assert store.next_clean(now(1)) is None
    assert store.next_clean(now(20)) is None
    files.kill()
    again = open_store(ROOT, options(HERE), files=files)
    assert (again.min_offset("T", 0), again.max_offset("T", 0)) == (low, 300)


def test_at_other_hours_nothing_is_removed_unless_the_disk_is_full() -> None:
    files = SimulatedFiles()
    store = store_with_old_segments(files, OTHER)
    assert store.next_clean(now()) is None
    files.used_percent = 80
    clean = store.next_clean(now(10))
    assert clean is not None
    assert len(clean.segments) == 3


def test_a_nearly_full_disk_loses_young_segments_too_but_never_the_last() -> None:
    files = SimulatedFiles()
    store = store_with_old_segments(files, OTHER)
    files.used_percent = 86
    clean = store.next_clean(now())
    assert clean is not None
    assert [reason.split()[0] for _, reason, _ in clean.segments] == ["older", "older", "older", "the"]
    store.cleaned(clean.run(), now())
    assert len(files.names(ROOT / "commitlog")) == 1
    assert store.next_clean(now(20)) is None


def test_the_segment_in_which_the_log_ends_stays_if_a_later_one_was_created() -> None:
    """A full disk may refuse a message after the file for it was created: that file is not the end of the log."""
    files = SimulatedFiles()
    store = store_with_old_segments(files, OTHER)
    last = store.appended_offset // 65_536 * 65_536
    number = 600
    while store.appended_offset < last + 65_536 - 1000:
        store.append([message(number, size=400, queue_id=number % 2)], now())
        number += 1
    store.reput()
    files.fail("allocate", 1, ENOSPC)
    with pytest.raises(UnavailableError):
        store.append([message(number, size=4000)], now())
    assert int(files.names(ROOT / "commitlog")[-1]) == last + 65_536
    files.used_percent = 86
    assert clean(store, now())
    assert store.min_physical_offset == last
    assert store.get_message("T", 0, store.min_offset("T", 0), 1, 1000, None).status == "FOUND"
    assert store.appended_offset > last
    files.used_percent = 50
    assert store.append([message(number, size=4000)], now()).requests


def test_messages_are_refused_while_the_disk_is_above_the_warning_ratio() -> None:
    files = SimulatedFiles()
    store = store_with_old_segments(files)
    files.used_percent = 91
    store.next_clean(now())
    with pytest.raises(UnavailableError, match="91 % full") as raised:
        store.append([message(1)], now())
    assert raised.value.code is ResponseCode.SERVICE_NOT_AVAILABLE
    files.used_percent = 50
    store.next_clean(now(10))
    assert store.append([message(1)], now())


def test_a_file_that_could_not_be_removed_is_tried_again() -> None:
    files = SimulatedFiles()
    store = store_with_old_segments(files)
    clean = store.next_clean(now())
    assert clean is not None
    files.fail("remove", 2, 5)
    with pytest.raises(OSError, match="simulated"):
        clean.run()
    assert store.next_clean(now(1)) is None
    again = store.next_clean(now(10))
    assert again is clean
    assert len(store.cleaned(again.run(), now(11))) == 3
    assert len(files.names(ROOT / "commitlog")) == 2
    assert store.next_clean(now(30)) is None


def test_a_young_segment_protects_all_newer_ones() -> None:
    files = SimulatedFiles()
    store = store_with_old_segments(files)
    files._names[ROOT / "commitlog" / ("0" * 20)].modified_ms = BEGIN_MS
    assert store.next_clean(now()) is None


def lake_at(files: SimulatedFiles, offset: int) -> None:
    """A lake has read the log up to there."""
    first = files._names.get(ROOT / "commitlog" / ("0" * 20))
    if first is not None:
        first.modified_ms = BEGIN_MS - 49 * HOUR
    files.write(ROOT / "lakePosition", encode(LakePosition(offset, BEGIN_MS, "/lakes/store")))


def clean(store: MessageStore, when: Now) -> list[tuple[int, str]]:
    clean = store.next_clean(when)
    return [] if clean is None else store.cleaned(clean.run(), when)


def test_segments_that_the_lake_has_not_read_are_kept() -> None:
    files = SimulatedFiles()
    store = store_with_old_segments(files)
    lake_at(files, 65_535)
    assert clean(store, now()) == []
    lake_at(files, 131_071)
    assert [offset for offset, _ in clean(store, now(10))] == [0]
    lake_at(files, 1 << 40)
    assert [offset for offset, _ in clean(store, now(20))] == [65_536, 131_072]


def test_retention_waits_for_no_lake_if_there_is_none_or_waiting_is_off() -> None:
    files = SimulatedFiles()
    store = store_with_old_segments(files)
    lake_at(files, 0)
    files.write(ROOT / "lakePosition", b'{"version":1,"physi')
    assert len(clean(store, now())) == 3
    files = SimulatedFiles()
    store = store_with_old_segments(files)
    lake_at(files, 0)
    store.change_options(msgspec.structs.replace(options(HERE), lake_wait_enable=False))
    assert len(clean(store, now())) == 3


def test_waiting_for_a_lake_is_limited() -> None:
    files = SimulatedFiles()
    store = store_with_old_segments(files)
    lake_at(files, 70_000)
    store.change_options(msgspec.structs.replace(options(HERE), lake_wait_max_hours=50))
    assert clean(store, now()) == [(0, "older than fileReservedTime, 48 hours")]
    assert clean(store, now(10)) == []
    assert clean(store, now(20)) == []
    store.change_options(msgspec.structs.replace(options(HERE), lake_wait_max_hours=1))
    assert clean(store, now(30)) == [
        (65_536, "older than lakeWaitMaxHours, 1 hours; the lake has not read it"),
        (131_072, "older than lakeWaitMaxHours, 1 hours; the lake has not read it"),
    ]


def test_a_full_disk_does_not_wait_for_the_lake() -> None:
    files = SimulatedFiles()
    store = store_with_old_segments(files, OTHER)
    lake_at(files, 0)
    files.used_percent = 80
    assert clean(store, now()) == []
    files.used_percent = 81
    assert [reason.split()[0] for _, reason in clean(store, now(10))] == ["older"] * 3
    files.used_percent = 86
    assert len(clean(store, now(20))) == 1
