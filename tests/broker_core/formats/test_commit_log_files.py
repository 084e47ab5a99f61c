"""Reading a commit log from its files, with and without a safe end, while a broker writes to it."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_core.engine import Engine
from broker_core.formats import safe_end
from broker_core.formats.commit_log_files import read_records, read_safe_end
from broker_core.formats.commit_log_record import RecordError
from broker_core.formats.message_id import UniqKeyGenerator
from broker_core.options import Options
from broker_core.store.files import RealFiles
from tests.fakes.clock import VirtualClock
from tests.fakes.engine import SMALL, send

CLOCK = VirtualClock()
SEGMENT = 64 * 1024


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    options = Options(**SMALL | {"mapped_file_size_commit_log": SEGMENT})
    broker = Engine.open(tmp_path, options, RealFiles(), CLOCK, UniqKeyGenerator("127.0.0.1", 1, random.Random(1)).next)
    yield broker
    broker.close(CLOCK.now())


def write(engine: Engine, *bodies: bytes, flush: bool = True) -> None:
    engine.handle_batch([("p", 0, send("orders", *bodies))], CLOCK.now())
    if flush:
        CLOCK.advance(2000)  # more than flushIntervalConsumeQueue, with which the safe end moves
        due = engine.next_flush(CLOCK.now())
        assert due is not None
        due.run()
        engine.flushed(due, 0, CLOCK.now())


def bodies(store: Path, offset: int = 0) -> list[bytes]:
    return [record.body for record in read_records(store, offset)]


def files_of(store: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}


def test_all_segments_are_read_and_the_next_read_continues_at_the_end(engine: Engine, tmp_path: Path) -> None:
    sent = [bytes([65 + n]) * 20_000 for n in range(8)]
    for body in sent[:5]:
        write(engine, body)
    before = files_of(tmp_path)
    first = list(read_records(tmp_path))
    assert files_of(tmp_path) == before
    assert [record.body for record in first] == sent[:5]
    end = first[-1].physical_offset + first[-1].size
    assert end > SEGMENT and bodies(tmp_path, end) == []
    for body in sent[5:]:
        write(engine, body)
    assert bodies(tmp_path, end) == sent[5:]
    assert bodies(tmp_path, first[1].physical_offset) == sent[1:]


def test_nothing_above_the_safe_end_is_read(engine: Engine, tmp_path: Path) -> None:
    write(engine, b"flushed")
    write(engine, b"not flushed", flush=False)
    published = read_safe_end(tmp_path)
    assert published is not None and bodies(tmp_path) == [b"flushed"]
    (tmp_path / safe_end.FILE_NAME).write_bytes(
        safe_end.encode(published._replace(min_offset=published.flushed_offset))
    )
    assert bodies(tmp_path) == []


def test_a_store_without_a_safe_end_ends_at_its_first_invalid_record(engine: Engine, tmp_path: Path) -> None:
    write(engine, b"one", b"two", b"three")
    (tmp_path / safe_end.FILE_NAME).unlink()
    assert bodies(tmp_path) == [b"one", b"two", b"three"]
    log = tmp_path / "commitlog" / f"{0:020}"
    log.write_bytes(log.read_bytes().replace(b"three", b"threE"))
    assert bodies(tmp_path) == [b"one", b"two"]


def test_an_offset_inside_a_record_is_an_error(engine: Engine, tmp_path: Path) -> None:
    write(engine, b"one", b"two")
    with pytest.raises(RecordError, match="no valid record begins at physical offset 5"):
        bodies(tmp_path, 5)


def test_a_half_written_safe_end_counts_as_missing(tmp_path: Path) -> None:
    assert read_safe_end(tmp_path) is None
    (tmp_path / safe_end.FILE_NAME).write_bytes(b"GSE1" + bytes(100))
    assert read_safe_end(tmp_path) is None
    with pytest.raises(FileNotFoundError):
        bodies(tmp_path)
