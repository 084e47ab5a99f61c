"""``manage.py lake`` as people type it, and reports of what it has filled."""

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from spark_jobs.management.commands import lake
from tests.fakes import golden_store
from tests.spark_jobs import lakes
from tests.spark_jobs.sources.test_commit_log_source import COUNTS
from tests.spark_jobs.stores import make_store


def called(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out, stderr=StringIO())
    return out.getvalue()


@pytest.mark.usefixtures("spark")
def test_a_lake_from_the_command_line_and_a_report_of_it(golden: Path, tmp_path: Path) -> None:
    before = golden_store.fingerprint(golden)
    where = ("--store", str(golden / "clean-shutdown"), "--lake", str(tmp_path / "lakes"))
    assert called("lake", "sync", *where).startswith("3,319 messages and 0 ends of pulls of clean-shutdown ")
    assert called("lake", "sync", *where).startswith("0 messages and 0 ends of pulls of clean-shutdown ")
    folder, messages, polls = called("lake", "status", *where).splitlines()
    assert folder.startswith(f"{tmp_path / 'lakes'}, broker clean-shutdown, ")
    assert messages.split()[:5] == ["messages", "3,319", "in", messages.split()[3], "files,"]
    assert folder.endswith("of the log up to byte 2,075,752")
    assert polls.split()[:2] == ["polls", "0"]
    called("report", "run", "throughput", *where, "--out", str(tmp_path / "out"))
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert {row["topic"]: row["messages"] for row in summary["rows"]} == COUNTS
    assert summary["inputs"][0]["lake"]["messages"] == 3319
    assert golden_store.fingerprint(golden) == before


def test_ctrl_c_before_spark_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_store(tmp_path / "store", 3)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(lake, "get_session", interrupted)
    with pytest.raises(CommandError, match="goes on from there") as raised:
        called("lake", "sync", "--store", str(tmp_path / "store"), "--lake", str(tmp_path / "lakes"))
    assert raised.value.returncode == 130


def test_the_files_that_count_are_printed(tmp_path: Path) -> None:
    store, folder = tmp_path / "store", tmp_path / "lakes"
    make_store(store, 20)
    done = lakes.fill(store, folder)
    more = Path(done.lake) / "messages" / "date=2023-11-14" / f"broker={done.broker}" / "of-a-killed-writer.parquet"
    more.write_bytes(b"")
    for table, count in (("messages", 1), ("polls", 0)):
        printed = called("lake", "files", table, "--store", str(store), "--lake", str(folder)).splitlines()
        assert len(printed) == count
        assert all(Path(path).is_file() and Path(done.lake) / table in Path(path).parents for path in printed)
        assert str(more) not in printed


def test_status_shows_dropped_rows(tmp_path: Path) -> None:
    store, folder = tmp_path / "store", tmp_path / "lakes"
    make_store(store, 20)
    for now_ms in (5, 1_701_000_000_000):
        lakes.fill(store, folder, now_ms=now_ms, keep_days=3)
    *_, dropped = called("lake", "status", "--store", str(store), "--lake", str(folder)).splitlines()
    assert dropped.startswith("The lake has dropped what it had of before 2023-11-23 (UTC), as GLASSMQ_LAKE_KEEP_DAYS")


@pytest.mark.usefixtures("spark")
def test_sync_prints_what_it_drops_and_merges(tmp_path: Path, settings: Any) -> None:
    where = ("--store", str(tmp_path / "store"), "--lake", str(tmp_path / "lakes"))
    make_store(tmp_path / "store", 60, segment=1024, step_ms=3_600_000)
    said = called("lake", "sync", *where).splitlines()
    assert re.fullmatch(r"The fill compacted \d+ files into larger ones\.", said[1])
    settings.GLASSMQ_LAKE_KEEP_DAYS = 30
    assert called("lake", "sync", *where).splitlines()[1:] == [
        "The fill dropped 60 messages, older than GLASSMQ_LAKE_KEEP_DAYS."
    ]


@pytest.mark.parametrize(
    ("action", "store", "lake", "said"),
    [
        ("sync", "empty", "lakes", "is not a store: it has no commitlog folder"),
        ("sync", "store", "gs://b/lake", r"gs://b/lake cannot be used for a lake.*or s3://BUCKET/FOLDER"),
        ("status", "store", "gs://b/lake", r"gs://b/lake cannot be used for a lake"),
        ("files", "store", "gs://b/lake", r"gs://b/lake cannot be used for a lake"),
        ("status", "store", "lakes", r"There is no lake of .*; `.venv/bin/python manage.py lake sync` makes one"),
        ("files", "store", "lakes", r"There is no lake of .*; `.venv/bin/python manage.py lake sync` makes one"),
    ],
)
def test_what_cannot_be_filled_or_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str, store: str, lake: str, said: str
) -> None:
    make_store(tmp_path / "store", 3)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CommandError, match=said):
        called("lake", action, "--store", store, "--lake", lake)
    assert {path.name for path in tmp_path.iterdir()} == {"empty", "store"}
