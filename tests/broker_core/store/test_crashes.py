"""Random work and random crashes: what was flushed is never lost, and every message keeps its queue offset."""

from pathlib import Path
from random import Random

import pytest

from broker_core.errors import UnavailableError
from broker_core.formats.commit_log_record import decode, decode_all
from broker_core.store.message_store import MessageStore
from tests.fakes.simulated_files import SimulatedFiles
from tests.fakes.store_cases import SMALL, SMALL_SYNC, at, flush, message, open_store, query_message

ROOT = Path("/store")
QUEUES = (("T", 0), ("T", 1), ("U", 0))


class World:
    """A store on faulty files, and a list of the messages appended to it."""

    def __init__(self, seed: int, *, sync: bool) -> None:
        self.chance = Random(seed)
        self.files = SimulatedFiles(Random(seed + 1))
        self.options = SMALL_SYNC if sync else SMALL
        self.given: dict[tuple[str, int], list[tuple[int, bytes | None]]] = {queue: [] for queue in QUEUES}
        """By queue offset: end of the record, and body; None once a power cut has destroyed the record."""
        self.number = self.ms = self.starts = 0
        self.store = self.open()

    def open(self) -> MessageStore:
        self.starts += 1
        return open_store(ROOT, self.options, files=self.files, ms=self.ms)

    def append(self) -> None:
        batch = []
        for _ in range(self.chance.choice((1, 1, 3, 40))):
            topic, queue_id = self.chance.choice(QUEUES)
            self.number += 1
            batch.append(
                message(
                    self.number,
                    topic=topic,
                    queue_id=queue_id,
                    tag=self.chance.choice(("", "a")),
                    size=self.chance.choice((0, 20, 300, 5000)),
                )
            )
        for pending, stored in zip(batch, self.store.append(batch, at(self.ms)).requests, strict=True):
            row = self.given[pending.topic, pending.queue_id]
            assert stored.queue_offset == len(row)
            row.append((stored.physical_offset + stored.size, pending.body))

    def flush(self) -> None:
        flush(self.store, self.ms)

    def reput(self) -> None:
        self.store.reput(self.chance.choice((5, 10_000)))

    def half_flush(self) -> None:
        """A flush that reaches the disk, but is not reported to the store."""
        due = self.store.next_flush(at(self.ms))
        if due is not None:
            due.run()
            self.crash()

    def kill(self) -> None:
        self.files.kill()
        self.store = self.open()
        self.check(lost=False)

    def crash(self) -> None:
        flushed_offset = self.store.flushed_offset
        self.files.crash()
        self.store = self.open()
        self.check(lost=True, flushed_offset=flushed_offset)

    def restart(self) -> None:
        self.store.close(at(self.ms))
        assert not self.files.exists(ROOT / "abort")
        if self.chance.random() < 0.5:
            self.files.crash()
        self.store = self.open()
        self.check(lost=False)

    def check(self, *, lost: bool, flushed_offset: int = 0) -> None:
        """Every message has its offset; nothing that was on the disk is missing; without a power cut nothing is."""
        assert self.store.dispatched_offset == self.store.appended_offset
        for (topic, queue_id), row in self.given.items():
            found = self.read(topic, queue_id)
            assert len(found) <= len(row)
            for index, (end, body) in enumerate(row):
                now = found[index] if index < len(found) else None
                assert now == body or (now is None and lost and end > flushed_offset)
                row[index] = end, now
            del row[len(found) :]
        self.check_index()

    def read(self, topic: str, queue_id: int) -> list[bytes | None]:
        """What a consumer gets from offset 0 on; None for offsets that it is led past."""
        found: list[bytes | None] = []
        while True:
            result = self.store.get_message(topic, queue_id, len(found), 32, 1 << 20, None)
            for record in decode_all(result.records):
                found += [None] * (record.queue_offset - len(found))
                assert (record.topic, record.queue_id, record.queue_offset) == (topic, queue_id, len(found))
                found.append(record.body)
            assert len(found) <= result.next_begin_offset
            found += [None] * (result.next_begin_offset - len(found))
            if len(found) == self.store.max_offset(topic, queue_id):
                return found
            assert result.status in ("FOUND", "MESSAGE_WAS_REMOVING", "OFFSET_TOO_SMALL")

    def check_index(self) -> None:
        for topic, queue_id in QUEUES:
            for offset in range(0, self.store.max_offset(topic, queue_id), 7):
                data = self.store.get_message(topic, queue_id, offset, 1, 1 << 20, None).records
                if not data:
                    assert self.given[topic, queue_id][offset][1] is None
                    continue
                record = decode(data)
                assert query_message(self.store, topic, f"ID{record.flag:06d}", 9, 0, 1 << 62) == [data]


def work_and_crash(seed: int, *, sync: bool) -> World:
    """Sixty random steps, every fourth of them about a crash. AssertionError if a promise is broken."""
    world = World(seed, sync=sync)
    for _ in range(60):
        world.ms += world.chance.choice((1, 50, 2000))
        step = world.chance.choice(
            (world.append,) * 6
            + (world.flush,) * 3
            + (world.reput,) * 3
            + (world.kill, world.crash, world.half_flush, world.restart)
        )
        step()
    world.restart()
    return world


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.seeds(60)
def test_nothing_acknowledged_is_lost(seed: int, sync: bool) -> None:
    work_and_crash(seed, sync=sync)


@pytest.mark.parametrize("call", ["create", "allocate"])
@pytest.mark.parametrize("nth", range(1, 7))
def test_a_message_refused_by_a_full_disk_leaves_no_trace(call: str, nth: int) -> None:
    world = World(nth, sync=False)
    world.append()
    world.files.fail(call, nth, 28)
    refused = 0
    for _ in range(60):
        before = world.store.appended_offset
        try:
            world.append()
        except UnavailableError as error:
            assert "accepts no more messages" in error.remark
            assert world.store.appended_offset == before
            refused += 1
        world.reput()
    assert refused <= 1
    while world.store.dispatched_offset < world.store.confirmed_offset:
        world.reput()
    assert world.store.dispatched_offset == world.store.appended_offset
    world.restart()


@pytest.mark.parametrize("call", ["flush", "sync_folder"])
def test_a_disk_that_fails_a_flush_is_not_trusted_again(call: str) -> None:
    world = World(1, sync=True)
    world.append()
    world.flush()
    world.store.reput()
    world.append()
    world.ms += 2000  # the queues and their new folders are due too
    world.files.fail(call, 1, 5)
    due = world.store.next_flush(at(world.ms))
    assert due is not None
    with pytest.raises(OSError, match="simulated") as raised:
        due.run()
    world.store.flush_failed(raised.value)
    with pytest.raises(UnavailableError):
        world.append()
    assert world.store.reput() == []
    world.crash()
    world.append()
    world.restart()


@pytest.mark.parametrize("lost", ["checkpoint", "safe_end"])
@pytest.mark.parametrize("cut", [None, b"", b"\x07" * 30])
def test_the_store_opens_without_its_checkpoint_files(lost: str, cut: bytes | None) -> None:
    world = World(3, sync=True)
    for _ in range(20):
        world.append()
        world.flush()
        world.reput()
    world.files.kill()
    if cut is None:
        world.files.remove(ROOT / lost)
    else:
        world.files.write(ROOT / lost, cut)
    world.store = world.open()
    world.check(lost=False)


def test_recovery_survives_crashes_of_itself() -> None:
    for seed in range(12):
        world = World(seed, sync=True)
        for _ in range(15):
            world.append()
            world.flush()
        flushed_offset = world.store.flushed_offset
        world.append()
        for call in ("flush", "write", "sync_folder", "flush"):
            world.files.crash()
            world.files.fail(call, 1 + seed % 4, 5)
            try:
                world.store = world.open()
            except Exception as error:
                assert "cannot be opened" in str(error)
        world.files.mend()
        world.files.crash()
        world.store = world.open()
        world.check(lost=True, flushed_offset=flushed_offset)
