import errno
from pathlib import Path

import pytest

from broker_core import commands as c
from broker_core.formats.index_unit import key_hash
from broker_core.formats.message_properties import encode
from broker_core.store.commit_log import DispatchRequest
from broker_core.store.index.index_service import IndexService, index_words
from broker_core.store.mapped_file import OpenMaps
from tests.fakes.engine import ROOT, Bench
from tests.fakes.simulated_files import SimulatedFiles

FOLDER = Path("/index")
SMALL_INDEX = {"max_hash_slot_num": 8, "max_index_num": 16}
MESSAGES = 40
INDEX = ROOT / "index"
QUARANTINE = ROOT / "quarantine"


def make(files: SimulatedFiles, slots: int = 8, entries: int = 11) -> IndexService:
    service = IndexService(files, OpenMaps(4), FOLDER, slots, entries)
    assert service.load(mend=True) == []
    return service


def request(number: int, properties: str = "", tag: str = "", *, indexed: bool = True) -> DispatchRequest:
    return DispatchRequest(
        "T", 0, number, number * 100, 100, 1000 * number, properties or f"UNIQ_KEY\x01k{number}\x02", tag, indexed
    )


def offsets_found(service: IndexService, key: str, begin_ms: int = 0, end_ms: int = 1 << 40) -> list[int]:
    return list(service.find(key_hash("T", key), begin_ms, end_ms))


def test_index_words_are_rocketmqs_and_the_idempotency_key() -> None:
    assert index_words("UNIQ_KEY\x01u\x02KEYS\x01a  b\x02IDEMPOTENCY_KEY\x01i\x02") == [
        "u",
        "a",
        "b",
        "IDEMPOTENCY_KEY:i",
    ]
    assert index_words("X\x01y\x02") == []


def test_only_a_blank_separates_keys() -> None:
    """As in RocketMQ. The property string separates properties by 0x01 and 0x02, so no key contains them."""
    assert index_words("KEYS\x01a\tb c\u00a0d\u3000e  f#g \x02X\x01y\x02") == ["a\tb", "c\u00a0d\u3000e", "f#g"]


def test_files_roll_and_are_searched_from_the_newest() -> None:
    files = SimulatedFiles()
    service = make(files)
    service.put([request(number, f"KEYS\x01all k{number}\x02") for number in range(30)])
    assert len(files.names(FOLDER)) == 6
    assert offsets_found(service, "all") == [number * 100 for number in range(29, -1, -1)]
    assert offsets_found(service, "all", 20_000, 22_000)[-3:] == [2200, 2100, 2000]
    assert offsets_found(service, "k3") == [300]
    assert service.max_physical_offset == 2900
    again = make(files)
    assert offsets_found(again, "all") == offsets_found(service, "all")
    assert again.max_physical_offset == 2900


def test_a_search_ends_at_files_that_expire_between_its_pieces() -> None:
    service = make(SimulatedFiles())
    service.put([request(number, "KEYS\x01all\x02") for number in range(30)])
    search = service.find(key_hash("T", "all"), 0, 1 << 40)
    assert next(search) == 2900
    assert service.take_expired(2000) and service.index_files
    assert list(search) == [number * 100 for number in range(28, 19, -1)]


def test_tags_are_indexed_but_not_rolled_back_messages() -> None:
    service = make(SimulatedFiles())
    service.put([request(1, tag="a"), request(2, "X\x01y\x02"), request(3, indexed=False)])
    assert offsets_found(service, "T#a") == offsets_found(service, "k1") == [100]
    assert offsets_found(service, "k3") == []


def test_a_file_created_ahead_does_not_hide_the_last_entry() -> None:
    files = SimulatedFiles()
    service = make(files)
    service.put([request(number) for number in range(10)])
    service.reserve(99_000)
    assert len(files.names(FOLDER)) == 2
    assert service.max_physical_offset == 900
    assert service.last_count == 11
    assert offsets_found(service, "k5") == offsets_found(make(files), "k5") == [500]


def test_dirty_ranges_include_files_that_became_full() -> None:
    service = make(SimulatedFiles())
    service.put([request(number) for number in range(25)])
    assert len(service.take_dirty()) == 3
    assert service.take_dirty() == []


def test_a_cut_removes_files_and_entries_after_it() -> None:
    files = SimulatedFiles()
    service = make(files)
    service.put([request(number) for number in range(25)])
    service = make(files)
    assert service.cut(1550, None) == 9
    assert len(files.names(FOLDER)) == 2
    assert offsets_found(service, "k15") == [1500]
    assert offsets_found(service, "k16") == []
    service.put([request(number) for number in range(16, 25)])
    assert offsets_found(service, "k24") == [2400]


def test_files_of_expired_records_expire_except_for_the_last() -> None:
    service = make(SimulatedFiles())
    service.put([request(number) for number in range(25)])
    assert len(service.take_expired(1000)) == 1
    assert len(service.take_expired(1 << 40)) == 1
    assert service.take_expired(1 << 40) == []


def test_a_file_of_an_impossible_size_is_not_used() -> None:
    files = SimulatedFiles()
    files.write(FOLDER / "20260101000000000", b"short")
    files.write(FOLDER / "notes.txt", b"x")
    service = IndexService(files, OpenMaps(4), FOLDER, 8, 11)
    assert len(service.load(mend=False)) == 1
    assert files.read(FOLDER / "20260101000000000") == b"short"


def test_sizes_come_from_the_files() -> None:
    files = SimulatedFiles()
    make(files, 10, 40).put([request(1)])
    service = make(files, 999, 999)
    assert offsets_found(service, "k1") == [100]


def test_space_is_reserved_again_after_a_file_is_full_or_was_cut() -> None:
    service = make(SimulatedFiles())
    assert not service.has_room
    service.reserve(1000)
    assert service.has_room
    service.put([request(number) for number in range(10)])
    assert not service.has_room
    service.reserve(99_000)
    assert service.has_room
    service.cut(500, None)
    assert not service.has_room


def test_a_full_disk_leaves_no_new_file() -> None:
    files = SimulatedFiles()
    service = make(files)
    service.put([request(number) for number in range(10)])
    before = files.names(FOLDER)
    for _ in range(3):
        files.fail("allocate", 1, errno.ENOSPC)
        with pytest.raises(OSError, match="allocate"):
            service.reserve(99_000)
        assert not service.has_room
    assert files.names(FOLDER) == before
    assert len(service.take_dirty()) == 1
    service.put([request(number) for number in range(10, 12)])
    assert offsets_found(service, "k11") == [1100]
    assert len(service.take_dirty()) == 2


def with_keys() -> Bench:
    """A broker whose three index files are on the disk."""
    bench = Bench(**SMALL_INDEX)
    for number in range(MESSAGES):
        bench.send("orders", b"x", properties=encode({"UNIQ_KEY": f"U{number}"}))
    bench.tick()
    while bench.flush():
        bench.tick(1000)
    assert len(bench.files.names(INDEX)) == 3
    return bench


def reopened(bench: Bench, seed: int = 2) -> Bench:
    return Bench(files=bench.files, clock=bench.clock, seed=seed, **SMALL_INDEX)


def not_found(bench: Bench) -> list[int]:
    return [
        number
        for number in range(MESSAGES)
        if not bench.call(c.QueryMessage(topic="orders", key=f"U{number}")).records  # type: ignore[union-attr]
    ]


def cut(bench: Bench, which: int, size: int) -> str:
    name = bench.files.names(INDEX)[which]
    data = bench.files.read(INDEX / name)
    assert data is not None and len(data) > size
    bench.files.write(INDEX / name, data[:size])
    return name


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(("which", "size"), [(0, 0), (1, 39), (1, 300), (2, 10), (2, 124), (2, 391)])
def test_messages_of_a_cut_file_are_indexed_again(which: int, size: int, clean: bool) -> None:
    bench = with_keys()
    if clean:
        bench.engine.close(bench.clock.now())
    name = cut(bench, which, size)
    bench.files.kill()
    bench = reopened(bench)
    assert any(f"index file {name} is not used" in sentence for sentence in bench.context.store.recovery)
    assert not_found(bench) == []
    assert bench.files.names(QUARANTINE) == [f"index-{name}"]
    assert bench.files.size(QUARANTINE / f"index-{name}") == size
    bench.send("orders", b"x", properties=encode({"UNIQ_KEY": "new"}))
    bench.engine.close(bench.clock.now())
    bench = reopened(bench, 3)
    assert not any("index file" in sentence for sentence in bench.context.store.recovery)
    assert not_found(bench) == []


@pytest.mark.parametrize("call", [("rename", 1), ("remove", 1), ("sync_folder", 1)])
def test_the_next_start_finishes_what_an_interrupted_start_began(call: tuple[str, int]) -> None:
    bench = with_keys()
    bench.engine.close(bench.clock.now())
    cut(bench, 1, 100)
    bench.files.fail(*call, 5)
    with pytest.raises(Exception, match=r"simulated|cannot be opened"):
        reopened(bench)
    bench.files.mend()
    bench.files.crash()
    bench = reopened(bench, 3)
    assert not_found(bench) == []
    bench.engine.close(bench.clock.now())
    assert not any(name.endswith(".unfinished") for name in bench.files.names(QUARANTINE))


def test_a_disk_that_refuses_the_last_step_is_asked_again() -> None:
    bench = with_keys()
    bench.engine.close(bench.clock.now())
    name = cut(bench, 1, 100)
    bench.files.fail("rename", 2, errno.EIO)
    bench = reopened(bench)
    assert bench.files.names(QUARANTINE) == [f"index-{name}.unfinished"] and not_found(bench) == []
    bench.files.mend()
    bench.send("orders", b"x")
    bench.tick(1000)
    bench.flush()
    assert bench.files.names(QUARANTINE) == [f"index-{name}"]


def test_messages_are_indexed_again_once_although_the_log_is_damaged_too() -> None:
    bench = with_keys()
    cut(bench, 1, 100)
    segment = ROOT / "commitlog" / f"{0:020d}"
    log = bytearray(bench.files.read(segment) or b"")
    log[log.rindex(b"x\x06orders", 0, log.index(b"U37"))] ^= 1
    bench.files.write(segment, bytes(log))
    bench.files.kill()
    bench = reopened(bench)
    assert any("are indexed again" in sentence for sentence in bench.context.store.recovery)
    assert bench.context.store.damaged[0] == 1 and not_found(bench) == [37]
    bench.files.kill()
    bench = reopened(bench, 3)
    assert not any("index file" in sentence for sentence in bench.context.store.recovery)
    assert not_found(bench) == [37]


def test_the_store_of_another_broker_is_not_changed() -> None:
    bench = with_keys()
    bench.engine.close(bench.clock.now())
    name = cut(bench, 1, 100)
    bench.files.remove(ROOT / "glassmq")
    bench = reopened(bench)
    assert bench.engine.read_only
    assert any(f"index file {name} is not used" in sentence for sentence in bench.context.store.recovery)
    assert bench.files.names(QUARANTINE) == [] and bench.files.size(INDEX / name) == 100
    assert 0 not in not_found(bench)
