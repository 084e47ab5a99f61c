"""The manifest: whole or not there."""

import os
from pathlib import Path

import pytest

from spark_jobs.errors import LakeError
from spark_jobs.lake import manifest as lake_manifest
from spark_jobs.lake.manifest import (
    JournalPart,
    LakeFile,
    LogGap,
    LogPart,
    Manifest,
    Retired,
    Witness,
    read_manifest,
    write_manifest,
    write_whole,
)

FILE = LakeFile("messages/date=2026-01-01/range=0-9.parquet", 3, 100, 5, 7)
OTHER = LakeFile("polls/date=2026-01-01/file=1-0-9.parquet", 1, 50, 5, 5)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    manifest = Manifest(
        "/store",
        position=9,
        messages=[LogPart(0, 9, [FILE], 1, 2, True)],
        gaps=[LogGap(3, 4, 5)],
        polls=[JournalPart(1, 77, 0, 9, False, [OTHER], 4)],
        missing_journal_files=[0],
        ended_by="invalid record",
        segments_unread=["7"],
        witnesses=[Witness(3, 4, "ab")],
    )
    manifest.retire([LakeFile("messages/gone", 3, 70, 5, 7)], 55)
    manifest.retire([LakeFile("polls/gone", 3, 80, 5, 7)], 66)
    write_manifest(tmp_path, manifest)
    assert read_manifest(tmp_path) == manifest
    assert manifest.files() == {FILE.path, OTHER.path}
    assert manifest.retired == [Retired("messages/gone", 70, 55), Retired("polls/gone", 80, 66)]
    assert [part.size for part in (*manifest.messages, *manifest.polls)] == [100, 50]


def test_of_a_journal_file_the_last_part_counts() -> None:
    parts = [
        JournalPart(1, 77, 0, 9, False, []),
        JournalPart(1, 77, 9, 20, True, []),
        JournalPart(1, 99, 0, 4, False, []),
    ]
    assert Manifest("/store", polls=parts).journal_ends() == {(1, 77): parts[1], (1, 99): parts[2]}


def test_where_there_is_none_there_is_none(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) is None


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"store":5}', b"\xff"])
def test_a_damaged_one_is_said_to_be_damaged(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "manifest.json").write_bytes(data)
    with pytest.raises(LakeError, match=r"manifest\.json is damaged"):
        read_manifest(tmp_path)


def test_one_of_a_later_version_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes(b'{"store":"/store","version":2}')
    with pytest.raises(LakeError, match="has version 2"):
        read_manifest(tmp_path)


def test_what_cannot_be_written_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_whole(path, b"before")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(lake_manifest.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, b"after")
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["file"]
    assert path.read_bytes() == b"before"
