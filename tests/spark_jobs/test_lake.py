"""Lakes on the disk: their names, their lock, what is swept, and whose store they are of."""

import multiprocessing
from pathlib import Path

import pytest

from spark_jobs.errors import LakeBusyError
from spark_jobs.lake import (
    find_lake,
    generations,
    is_same_store,
    keep_files,
    lake_name,
    locked,
    next_generation,
    sweep,
    witness_at,
)
from spark_jobs.lake_manifest import LakeFile, LogPart, Manifest, write_manifest
from tests.spark_jobs.stores import SEGMENT, make_store, segment_path, tear


def test_a_lake_is_named_by_the_stores_path(tmp_path: Path) -> None:
    store = tmp_path / "my store"
    assert lake_name(store).startswith("my-store-")
    assert lake_name(store) == lake_name(f"file://{tmp_path}/my%20store")
    assert lake_name(store) == lake_name(tmp_path / "x" / ".." / "my store")
    assert lake_name(store) != lake_name(tmp_path / "other" / "my store")
    assert lake_name("s3://bucket/stores/a").startswith("a-")


def test_the_newest_generation_with_a_manifest_is_the_lake(tmp_path: Path) -> None:
    lakes, store = tmp_path / "lakes", tmp_path / "store"
    assert find_lake(lakes, store) is None
    first = next_generation(lakes, store)
    first.mkdir(parents=True)
    assert next_generation(lakes, store) == first, "a folder without a manifest is taken up again"
    write_manifest(first, Manifest("first"))
    second = next_generation(lakes, store)
    assert second.name == f"{first.name}-2"
    second.mkdir()
    found = find_lake(lakes, store)
    assert found is not None and found.folder == first
    write_manifest(second, Manifest("second"))
    for number in range(3, 11):
        folder = next_generation(lakes, store)
        folder.mkdir()
        write_manifest(folder, Manifest(str(number)))
    (lakes / f"{first.name}-notes").mkdir()
    assert [folder.name for folder in generations(lakes, store)][1:] == [f"{first.name}-{n}" for n in range(2, 11)]
    found = find_lake(lakes, store)
    assert found is not None and found.manifest.store == "10"


def hold(lakes: Path, store: Path, has_it: "multiprocessing.synchronize.Event") -> None:
    with locked(lakes, store):
        has_it.set()
        multiprocessing.Event().wait()


def test_one_fills_a_lake_at_a_time_and_a_killed_one_gives_it_back(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    has_it = context.Event()
    other = context.Process(target=hold, args=(tmp_path, tmp_path / "store", has_it))
    other.start()
    try:
        assert has_it.wait(30)
        with pytest.raises(LakeBusyError, match="is being filled by another process"), \
                locked(tmp_path, tmp_path / "store"):
            pass
        with locked(tmp_path, tmp_path / "another store"):
            pass
    finally:
        other.kill()
        other.join()
    with locked(tmp_path, tmp_path / "store"):
        pass


def test_what_the_manifest_does_not_name_is_swept_away(tmp_path: Path) -> None:
    kept, names = tmp_path / "messages/date=2026-01-01/range=0-9.parquet", []
    for name in ("messages/date=2026-01-01/range=0-9.parquet", "messages/date=2026-01-01/range=9-20.parquet",
                 "messages/date=2026-01-02/range=9-20.parquet.1234.new", "polls/date=2026-01-01/file=1-0-9.parquet"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        names.append(path)
    write_manifest(tmp_path, Manifest("s", messages=[LogPart(0, 9, [LakeFile(
        kept.relative_to(tmp_path).as_posix(), 1, 1, 0, 0)])]))
    assert sweep(tmp_path) == 3
    assert [path.exists() for path in names] == [True, False, False, False]
    assert not (tmp_path / "messages/date=2026-01-02").exists()
    assert sweep(tmp_path / "nothing there") == 0


def test_files_get_their_names(tmp_path: Path) -> None:
    draft = tmp_path / "messages" / "d" / "x.new"
    draft.parent.mkdir(parents=True)
    draft.write_text("x")
    keep_files(tmp_path, {draft: "messages/d/x.parquet"})
    assert (tmp_path / "messages/d/x.parquet").read_text() == "x"
    assert not draft.exists()


def witnessed(store: Path, offset: int, size: int) -> Manifest:
    return Manifest(str(store), witness=witness_at(str(store), offset, size))


def test_a_store_is_known_by_the_last_record_that_was_read(tmp_path: Path) -> None:
    written = make_store(tmp_path / "a", 60)
    _, _, offset, size = written.records[-1]
    manifest = witnessed(tmp_path / "a", offset, size)
    assert manifest.witness is not None
    assert is_same_store(str(tmp_path / "a"), manifest)
    tear(tmp_path / "a", offset + 50, 4)
    assert not is_same_store(str(tmp_path / "a"), manifest), "something else lies there"
    make_store(tmp_path / "b", 5)
    assert not is_same_store(str(tmp_path / "b"), manifest), "its log does not reach so far"


def test_a_store_whose_read_segments_are_deleted_is_the_same(tmp_path: Path) -> None:
    written = make_store(tmp_path, 60)
    _, _, offset, size = written.records[3]
    manifest = witnessed(tmp_path, offset, size)
    segment_path(tmp_path, 0).unlink()
    assert is_same_store(str(tmp_path), manifest)
    assert witness_at(str(tmp_path), offset, size) is None
    assert witness_at(str(tmp_path), SEGMENT, 10) is not None


def test_a_lake_that_has_read_no_record_is_of_any_store(tmp_path: Path) -> None:
    make_store(tmp_path, 3)
    assert is_same_store(str(tmp_path), Manifest(str(tmp_path)))
