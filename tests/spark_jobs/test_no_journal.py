"""Reports on pulls of a store without a poll journal."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.catalogue import REPORTS
from spark_jobs.errors import NotAStoreError, WindowError
from spark_jobs.job import BrokerStore, Job
from spark_jobs.no_journal import report_without_journal
from tests.spark_jobs.journals import entry, make_journal
from tests.spark_jobs.stores import make_store


def report_of(report: str, out: Path, *stores: Path, **more: Any) -> dict[str, Any] | None:
    job = Job(report, tuple(BrokerStore(store.name, store) for store in stores), out, **more)
    return report_without_journal(job, lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))


@pytest.mark.parametrize("report", [info.name for info in REPORTS.values() if info.needs_journal])
def test_the_result_is_a_note_and_unknown_figures(tmp_path: Path, report: str) -> None:
    make_store(tmp_path / "store", 3)
    summary = report_of(report, tmp_path / "out", tmp_path / "store")
    assert summary is not None
    assert summary == json.loads((tmp_path / "out" / "summary.json").read_text())
    [note] = summary["notes"]
    assert note.startswith("This store has no poll journal, so there is nothing to report:")
    assert {headline["value"] for headline in summary["headlines"]} == {None}
    assert note in (tmp_path / "out" / "report.html").read_text()


def test_the_notes_on_several_stores_name_their_brokers(tmp_path: Path) -> None:
    for broker in ("a", "b"):
        make_store(tmp_path / broker, 3)
    summary = report_of("hold_time", tmp_path / "out", tmp_path / "a", tmp_path / "b")
    assert summary is not None
    assert [note.partition(" store has")[0] for note in summary["notes"]] == ["a: This", "b: This"]


def test_reports_with_something_to_read_are_left_to_spark(tmp_path: Path) -> None:
    make_store(tmp_path / "store", 3)
    assert report_of("throughput", tmp_path / "out", tmp_path / "store") is None
    make_journal(tmp_path / "store", [entry(1)])
    assert report_of("hold_time", tmp_path / "out", tmp_path / "store") is None
    assert not (tmp_path / "out").exists()


def test_bad_paths_and_windows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError):
        report_of("hold_time", tmp_path / "out", tmp_path)
    with pytest.raises(WindowError):
        report_of("hold_time", tmp_path / "out", tmp_path, from_ms=1)
