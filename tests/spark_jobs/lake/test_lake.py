"""Lakes on the disk: their names, their lock, what is swept, and whose store they are of."""

import multiprocessing
from pathlib import Path

import msgspec
import pytest

from spark_jobs.errors import LakeBusyError, LakeError
from spark_jobs.lake.folders import generations
from spark_jobs.lake.lake import (
    READ_ON_MS,
    Fit,
    clean_up,
    find_lake,
    fit,
    keep_files,
    locked,
    next_generation,
    round_open,
    still_read,
    sweep,
    witness_at,
)
from spark_jobs.lake.manifest import LakeFile, LogPart, Manifest, Retired, write_manifest
from tests.spark_jobs.stores import SEGMENT, make_store, segment_path, tear


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
        with (
            pytest.raises(LakeBusyError, match="is being filled by another process"),
            locked(tmp_path, tmp_path / "store"),
        ):
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
    for name in (
        "messages/date=2026-01-01/range=0-9.parquet",
        "messages/date=2026-01-01/range=9-20.parquet",
        "messages/date=2026-01-02/range=9-20.parquet.1234.new",
        "polls/date=2026-01-01/file=1-0-9.parquet",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        names.append(path)
    write_manifest(
        tmp_path, Manifest("s", messages=[LogPart(0, 9, [LakeFile(kept.relative_to(tmp_path).as_posix(), 1, 1, 0, 0)])])
    )
    assert sweep(tmp_path) == 3
    assert [path.exists() for path in names] == [True, False, False, False]
    assert not (tmp_path / "messages/date=2026-01-02").exists()
    assert sweep(tmp_path / "nothing there") == 0


def test_retired_files_stay_until_nobody_reads_them(tmp_path: Path) -> None:
    paths = [tmp_path / "messages" / "date=2026-01-01" / name for name in ("a", "b", "c")]
    paths[0].parent.mkdir(parents=True)
    for path in paths:
        path.touch()
    manifest = Manifest(
        "s",
        retired=[
            Retired(path.relative_to(tmp_path).as_posix(), 1, at_ms)
            for path, at_ms in zip(paths, (1000, 2000, 9000), strict=True)
        ],
    )
    write_manifest(tmp_path, manifest)
    assert sweep(tmp_path) == sweep(tmp_path, 1000) == sweep(tmp_path, READ_ON_MS + 999) == 0
    assert sweep(tmp_path, READ_ON_MS + 1000) == 1
    assert still_read(manifest, READ_ON_MS + 1000) == manifest.retired[1:]
    assert [path.exists() for path in paths] == [False, True, True]
    assert sweep(tmp_path, READ_ON_MS + 9000) == 2
    assert still_read(manifest, READ_ON_MS + 9000) == []


def test_where_a_file_is_missing_only_drafts_go(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "messages" / "date=2026-01-01"
    folder.mkdir(parents=True)
    merged, draft, old = folder / "range=0-20.parquet", folder / "range=20-30.parquet.12.new", folder / "old.parquet"
    for path in (merged, draft, old):
        path.touch()
    retired = Retired(old.relative_to(tmp_path).as_posix(), 1, 0)
    write_manifest(
        tmp_path,
        Manifest(
            "s",
            messages=[LogPart(0, 9, [LakeFile("messages/date=2026-01-01/range=0-9.parquet", 1, 1, 0, 0)])],
            retired=[retired],
        ),
    )
    assert sweep(tmp_path, READ_ON_MS) == 1
    assert (merged.exists(), draft.exists(), old.exists()) == (True, False, True)
    assert "has no messages/date=2026-01-01/range=0-9.parquet, which its manifest names" in caplog.text
    (folder / "range=0-9.parquet").touch()
    assert sweep(tmp_path, READ_ON_MS) == 2
    assert not merged.exists() and not old.exists()


def test_files_get_their_names(tmp_path: Path) -> None:
    draft = tmp_path / "messages" / "d" / "x.new"
    draft.parent.mkdir(parents=True)
    draft.write_text("x")
    keep_files(tmp_path, {draft: "messages/d/x.parquet"})
    assert (tmp_path / "messages/d/x.parquet").read_text() == "x"
    assert not draft.exists()


def witnessed(store: Path, *records: tuple[str, int, int, int]) -> Manifest:
    found = [witness_at(str(store), offset, size) for _, _, offset, size in records]
    return Manifest(str(store), witnesses=[witness for witness in found if witness])


def test_a_store_is_known_by_the_last_records_that_were_read(tmp_path: Path) -> None:
    written = make_store(tmp_path / "a", 60)
    manifest = witnessed(tmp_path / "a", *written.records[-2:])
    assert len(manifest.witnesses) == 2
    assert fit(str(tmp_path / "a"), manifest) is Fit.SAME
    tear(tmp_path / "a", written.records[-1][2] + 50, 4)
    assert fit(str(tmp_path / "a"), manifest) is Fit.SAME, "one is damaged, the other is there"
    tear(tmp_path / "a", written.records[-2][2] + 50, 4)
    assert fit(str(tmp_path / "a"), manifest) is Fit.OTHER, "something else lies there"
    make_store(tmp_path / "b", 5)
    assert fit(str(tmp_path / "b"), manifest) is Fit.OTHER, "its log does not reach so far"


def test_a_store_whose_read_segments_are_deleted_may_be_the_same(tmp_path: Path) -> None:
    written = make_store(tmp_path, 60)
    _, _, offset, size = written.records[3]
    manifest = witnessed(tmp_path, written.records[3])
    segment_path(tmp_path, 0).unlink()
    assert fit(str(tmp_path), manifest) is Fit.UNKNOWN
    assert witness_at(str(tmp_path), offset, size) is None
    assert witness_at(str(tmp_path), SEGMENT, 10) is not None


def test_a_round_has_a_mark_while_it_is_open(tmp_path: Path) -> None:
    with round_open(tmp_path) as first, round_open(tmp_path) as second:
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted((first.name, second.name))
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_writer_left_is_removed_unless_another_one_writes(tmp_path: Path) -> None:
    lakes, store = tmp_path / "lakes", tmp_path / "store"
    folder = next_generation(lakes, store)
    draft = folder / "messages" / "date=2026-01-01" / "range.parquet.1.new"
    draft.parent.mkdir(parents=True)
    draft.touch()
    with round_open(folder) as mark:
        with locked(lakes, store), pytest.raises(LakeBusyError):
            clean_up(lakes, store)
        assert draft.exists() and mark.exists()
        clean_up(lakes, store)
        assert not draft.exists() and not mark.exists()


def test_a_lake_that_somebody_mends_is_left_alone(tmp_path: Path) -> None:
    lakes, store = tmp_path / "lakes", tmp_path / "store"
    old = next_generation(lakes, store)
    table = old / "messages" / "date=2026-01-01"
    table.mkdir(parents=True)
    write_manifest(old, Manifest("s"))
    new = next_generation(lakes, store)
    draft = new / "messages" / "date=2026-01-01" / "range.parquet.1.new"
    draft.parent.mkdir(parents=True)
    draft.touch()
    (old / "manifest.json").rename(old / "manifest.away")
    (table / "range.parquet").touch()
    clean_up(lakes, store)
    assert (table / "range.parquet").exists() and not draft.exists()
    (old / "manifest.json").write_text("damaged")
    draft.parent.mkdir(parents=True)
    draft.touch()
    with round_open(old), round_open(new):
        clean_up(lakes, store)
    assert (table / "range.parquet").exists() and not draft.exists()


def test_a_lake_that_has_read_no_record_may_be_of_any_store(tmp_path: Path) -> None:
    make_store(tmp_path, 3)
    assert fit(str(tmp_path), Manifest(str(tmp_path))) is Fit.UNKNOWN


def test_of_the_lakes_the_one_that_fits_is_taken(tmp_path: Path) -> None:
    lakes, store = tmp_path / "lakes", tmp_path / "store"
    records = make_store(store, 60).records
    manifests = {1: witnessed(store, records[-1]), 2: witnessed(store, records[3]), 3: witnessed(store, records[-1])}
    manifests[3].witnesses = [msgspec.structs.replace(manifests[3].witnesses[0], digest="another")]
    folders = {}
    for number, manifest in manifests.items():
        folders[number] = next_generation(lakes, store)
        folders[number].mkdir(parents=True)
        write_manifest(folders[number], manifest)

    def found() -> Path | None:
        lake = find_lake(lakes, store)
        return lake.folder if lake else None

    assert found() == folders[2], "both fit, and this one is newer"
    segment_path(store, 0).unlink()
    assert found() == folders[1], "of the newer one nothing is left to be compared"
    (folders[1] / "manifest.json").unlink()
    assert found() == folders[2]
    (folders[3] / "manifest.json").write_text("{")
    with pytest.raises(LakeError, match="is damaged"):
        found()
    write_manifest(folders[1], manifests[1])
    assert found() == folders[1], "that one is it, whatever the damaged one is"
    (folders[3] / "manifest.json").unlink()
    make_store(tmp_path / "new", 5, body=b"new")
    segment_path(store, 1).parent.rename(tmp_path / "log")
    (tmp_path / "new" / "commitlog").rename(store / "commitlog")
    assert found() is None
