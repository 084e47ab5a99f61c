"""What a lake has of a broker, and whether a store goes on where the lake ends."""

import re
from pathlib import Path

import pytest

from spark_jobs.errors import LakeError
from spark_jobs.lake.lake import find_lake, require_same
from spark_jobs.lake.tasks import digest_of
from spark_jobs.sources.poll_journal_files import JournalPosition
from tests.spark_jobs.journals import BEGIN_MS, entry, make_journal
from tests.spark_jobs.lakes import NOW, fill, lake_of
from tests.spark_jobs.stores import make_store, publish_end, segment_path, tear


def test_a_lake_has_rows_files_and_positions(tmp_path: Path) -> None:
    written = make_store(tmp_path / "store", 20)
    (path,) = make_journal(tmp_path / "store", [entry(number) for number in range(12)])
    assert find_lake(tmp_path / "lakes", "store") is None
    fill(tmp_path / "store", tmp_path / "lakes")
    lake = lake_of(tmp_path / "store", tmp_path / "lakes")
    assert (lake.folder, lake.broker, lake.position) == (str(tmp_path / "lakes"), "store", written.end)
    assert (sum(file.rows for file in lake.messages), sum(file.rows for file in lake.polls)) == (20, 12)
    assert lake.journal == JournalPosition(0, BEGIN_MS, path.stat().st_size, True)
    assert (lake.last_ms, lake.written_ms, lake.gaps) == (NOW + 19 * 20_000, NOW, [])
    _, _, at, size = written.records[-1]
    data = segment_path(tmp_path / "store", at // 4096).read_bytes()
    assert lake.last_record == (at, size, digest_of(data[at % 4096 : at % 4096 + size]))
    assert find_lake(tmp_path / "lakes", "other") is None


def test_a_store_goes_on_where_the_lake_ends_or_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "store"
    written = make_store(store, 60)
    publish_end(store, written.records[50][2])
    fill(store, tmp_path / "lakes")
    lake = lake_of(store, tmp_path / "lakes")
    require_same(store, lake)
    last = written.records[49][2]
    refusal = re.compile(rf"{store} .* of store: the record that was read last, at byte {last:,}, is not there")
    whole = {path: path.read_bytes() for path in (store / "commitlog").iterdir()}
    for index in range(last // 4096, len(whole)):
        segment_path(store, index).unlink()
    with pytest.raises(LakeError, match=refusal):  # the log ends before it
        require_same(store, lake)
    for path, data in whole.items():
        path.write_bytes(data)
    tear(store, last + 40, 1)
    with pytest.raises(LakeError, match=refusal):
        require_same(store, lake)
    segment_path(store, last // 4096).unlink()
    segment_path(store, last // 4096 + 1).write_bytes(bytes(4096))
    require_same(store, lake)  # the segment is missing, so nothing can be compared
    for path in (store / "commitlog").iterdir():
        path.unlink()
    segment_path(store, 100).write_bytes(bytes(4096))
    require_same(store, lake)  # retention has deleted it
    segment_path(store, 100).unlink()
    with pytest.raises(LakeError, match=refusal):
        require_same(store, lake)
