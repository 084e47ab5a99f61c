"""``manage.py report`` as people type it, and the refusals without a Spark."""

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from spark_jobs.spark import session
from tests.fakes import golden_store
from tests.spark_jobs.sources.test_commit_log_source import COUNTS


def test_it_lists_the_reports() -> None:
    out = StringIO()
    call_command("report", "list", stdout=out)
    assert out.getvalue().startswith("throughput ")


def test_a_report_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="There is no report 'nix', but throughput"):
        call_command("report", "run", "nix", "--out", str(tmp_path))


def test_a_path_that_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="is not a store: it has no commitlog folder"):
        call_command("report", "run", "throughput", "--store", str(tmp_path), "--out", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", ["--store", "--lake"])
def test_an_unsupported_url_is_refused(option: str, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"s3://bucket/a cannot be used here.*a path or a file:// URL"):
        call_command("report", "run", "throughput", option, "s3://bucket/a", "--out", str(tmp_path / "out"))


def test_a_window_that_is_not_of_whole_minutes(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="whole minute: a multiple of 60,000 ms"):
        call_command("report", "run", "throughput", "--out", str(tmp_path / "out"), "--to-ms", "1700000000000")
    assert not (tmp_path / "out").exists()


def test_without_spark_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_spec", lambda name: None)
    with pytest.raises(CommandError, match="pyspark is not installed here"):
        call_command("report", "run", "throughput", "--out", str(tmp_path))


@pytest.mark.usefixtures("spark")
def test_the_golden_store_from_the_command_line(golden: Path, tmp_path: Path) -> None:
    before, out = golden_store.fingerprint(golden), StringIO()
    call_command(
        "report",
        "run",
        "throughput",
        "--store",
        str(golden / "clean-shutdown"),
        "--out",
        str(tmp_path / "out"),
        stdout=out,
        stderr=StringIO(),
    )
    assert out.getvalue().startswith("Throughput of 3319 messages, up to byte 2075752 (unwritten space), in ")
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert {row["topic"]: row["messages"] for row in summary["rows"]} == COUNTS
    assert golden_store.fingerprint(golden) == before
