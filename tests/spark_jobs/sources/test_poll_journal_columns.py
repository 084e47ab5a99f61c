"""Columns against the same entries read one by one."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from broker_core.formats import poll_journal
from broker_core.formats.poll_journal import BlockEncoder, JournalEntry, decode_entries
from spark_jobs.sources import poll_journal_columns
from spark_jobs.sources.poll_journal_columns import COLUMN_TYPES, TABLE, entry_type, record_batches
from tests.broker_core.formats.test_poll_journal import with_schema
from tests.conftest import PROJECT
from tests.spark_jobs.journals import BEGIN_MS, block_ends, entry, make_journal


def rows_of(data: bytes, *names: str, **more: Any) -> list[dict[str, Any]]:
    return [row for batch in record_batches(data, names or tuple(COLUMN_TYPES), **more) for row in batch.to_pylist()]


def as_row(found: JournalEntry) -> dict[str, Any]:
    """What Spark is to see of an entry."""
    row: dict[str, Any] = {}
    for name in found.__struct_fields__:
        value = getattr(found, name)
        absent = name not in ("topic", "group", "client_id") and value in (-1, "")
        row[name] = None if absent else value
    oldest = found.oldest_store_ms
    return row | {
        "latency_ms": None if oldest == -1 else max(0, found.at_ms - oldest),
        "broker": "broker-a",
        "epoch": 42,
        "file": 0,
    }


def test_every_column_is_what_the_format_reads(tmp_path: Path) -> None:
    entries = [entry(number) for number in range(60)]
    entries += [entry(60, group="", oldest_store_ms=BEGIN_MS + 90_000_000), entry(61, kind="odd", cause="?")]
    (path,) = make_journal(tmp_path, entries)
    rows = rows_of(path.read_bytes())
    assert rows == [as_row(found) for found in decode_entries(path.read_bytes())]
    assert rows[60]["latency_ms"] == 0 and rows[60]["group"] == "" and rows[61]["kind"] == "other"
    assert rows[1] | {"client_id": None} == {
        "at_ms": BEGIN_MS + 1000,
        "kind": "woken",
        "cause": "arrival",
        "status": "FOUND",
        "protocol": "remoting",
        "topic": "Größe",
        "queue_id": 1,
        "group": "g1",
        "client_id": None,
        "from_offset": 1,
        "next_offset": 3,
        "max_offset": 6,
        "messages": 2,
        "bytes": 640,
        "held_us": 1000,
        "wake_us": 1,
        "granted_ms": 15_000,
        "oldest_store_ms": BEGIN_MS + 999,
        "latency_ms": 1,
        "broker": "broker-a",
        "epoch": 42,
        "file": 0,
    }


def test_batches_have_the_schema_that_spark_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll_journal_columns, "BATCH_ROWS", 25)
    (path,) = make_journal(tmp_path, map(entry, range(100)))
    names = ("group", "at_ms", "latency_ms")
    batches = list(record_batches(path.read_bytes(), names))
    assert [batch.num_rows for batch in batches] == [30, 30, 30, 10]
    assert all(batch.schema.equals(TABLE.arrow(names)) for batch in batches)
    assert [str(field.type) for field in TABLE.arrow(names)] == ["string", "int64", "int64"]
    assert pa.Table.from_batches(batches)["at_ms"].to_pylist() == [BEGIN_MS + 1000 * number for number in range(100)]


@pytest.mark.parametrize("from_ms", [None, 0, 30_000, 30_001, 50_000, 1_000_000])
@pytest.mark.parametrize("to_ms", [None, 30_000, 30_001, 47_500])
def test_a_window_of_time_takes_what_is_in_it(tmp_path: Path, from_ms: int | None, to_ms: int | None) -> None:
    times = list(range(0, 60_000, 1000))
    random.Random(1).shuffle(times)  # a clock that went back and forth
    (path,) = make_journal(tmp_path, [entry(0, at_ms=at) for at in times], block=3)
    found = [row["at_ms"] for row in rows_of(path.read_bytes(), "at_ms", from_ms=from_ms, to_ms=to_ms)]
    assert found == [at for at in times if (from_ms is None or at >= from_ms) and (to_ms is None or at < to_ms)]


def test_blocks_outside_of_the_window_are_passed_over(tmp_path: Path) -> None:
    (path,) = make_journal(tmp_path, map(entry, range(100)))
    found = rows_of(path.read_bytes(), "client_id", from_ms=BEGIN_MS + 85_000, to_ms=BEGIN_MS + 88_000)
    assert [row["client_id"] for row in found] == ["c85", "c86", "c87"], "strings of blocks that are passed over count"


def test_a_file_is_read_in_pieces_from_where_the_last_one_ended(tmp_path: Path) -> None:
    (path,) = make_journal(tmp_path, map(entry, range(95)))
    data = path.read_bytes()
    ends = block_ends(data)
    pieces = [(0, ends[2]), (ends[2], ends[3]), (ends[3], ends[3]), (ends[3], ends[3] + 7), (ends[3], len(data))]
    found = [[row["client_id"] for row in rows_of(data[:stop], "client_id", start=start)] for start, stop in pieces]
    assert [len(part) for part in found] == [30, 10, 0, 0, 55]
    assert [name for part in found for name in part] == [f"c{number}" for number in range(95)]


def test_a_torn_tail_is_left_out_wherever_it_is_torn(tmp_path: Path) -> None:
    (path,) = make_journal(tmp_path, map(entry, range(20)), closed=False)
    data = path.read_bytes()
    for length in range(0, len(data) + 1, 7):
        assert len(rows_of(data[:length], "at_ms")) == sum(10 for end in block_ends(data) if end <= length)
    assert rows_of(b"x" * 1000) == []


def test_other_schemas() -> None:
    (first, _) = rows_of(with_schema(2, 96, b"more of the header, and more"))
    assert (first["at_ms"], first["topic"], first["kind"], first["protocol"]) == (100, "t", "woken", "other")
    (first, second) = rows_of(with_schema(0, 36))
    assert (first["at_ms"], second["at_ms"], first["max_offset"]) == (100, 200, 3)
    assert all(first[name] is None for name in ("oldest_store_ms", "latency_ms", "held_us", "topic", "kind"))
    assert entry_type(80).itemsize == poll_journal.ENTRY.size


def test_a_number_of_no_string_is_null(tmp_path: Path) -> None:
    (path,) = make_journal(tmp_path, [])
    encoder = BlockEncoder()
    encoder.add(entry(0))
    encoder.take()
    encoder.add(entry(0))  # its strings are in the block before, which is not written
    assert rows_of(path.read_bytes()[:-40] + encoder.take(), "topic", "queue_id") == [{"topic": None, "queue_id": 0}]


def test_the_program_of_the_documentation_reads_the_same_rows(tmp_path: Path) -> None:
    (path,) = make_journal(tmp_path, map(entry, range(95)))
    path.write_bytes(path.read_bytes() + b"torn" * 20)
    _, _, page = (PROJECT / "docs" / "reports.md").read_text(encoding="utf-8").partition("## The poll journal")
    shown: dict[str, Any] = {"__name__": "shown"}
    exec(page.partition("```python\n")[2].partition("```")[0], shown)
    found = shown["read"](path)
    for name in ("at_ms", "from_offset", "max_offset", "queue_id", "topic", "group", "client_id", "kind"):
        assert found[name].tolist() == [row[name] for row in rows_of(path.read_bytes(), name)], name
    assert found["held_us"].tolist() == [
        row["held_us"] if row["held_us"] is not None else -1 for row in rows_of(path.read_bytes(), "held_us")
    ]
    path.write_bytes(path.read_bytes()[:100])
    assert len(shown["read"](path)) == 0
