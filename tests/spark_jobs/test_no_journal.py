"""Reports on pulls of a store without a poll journal."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from spark_jobs.catalogue import REPORTS
from spark_jobs.errors import NotAStoreError, WindowError
from spark_jobs.job import BrokerStore, Job
from spark_jobs.no_journal import report_without_journal
from tests.spark_jobs.journals import entry, make_journal
from tests.spark_jobs.stores import make_store


def now() -> datetime:
    return datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize("report", [info.name for info in REPORTS.values() if info.needs_journal])
def test_the_result_is_a_note_and_unknown_figures(tmp_path: Path, report: str) -> None:
    make_store(tmp_path / "store", 3)
    summary = report_without_journal(Job(report, (BrokerStore("a", tmp_path / "store"),), tmp_path / "out"), now)
    assert summary is not None
    assert summary == json.loads((tmp_path / "out" / "summary.json").read_text())
    [note] = summary["notes"]
    assert note.startswith("This store has no poll journal, so there is nothing to report:")
    assert {headline["value"] for headline in summary["headlines"]} == {None}
    assert note in (tmp_path / "out" / "report.html").read_text()


def test_the_notes_on_several_stores_name_their_brokers(tmp_path: Path) -> None:
    for broker in ("a", "b"):
        make_store(tmp_path / broker, 3)
    stores = tuple(BrokerStore(broker, tmp_path / broker) for broker in ("a", "b"))
    summary = report_without_journal(Job("hold_time", stores, tmp_path / "out"), now)
    assert summary is not None
    assert [note.partition(" store has")[0] for note in summary["notes"]] == ["a: This", "b: This"]


def test_reports_with_something_to_read_are_left_to_spark(tmp_path: Path) -> None:
    make_store(tmp_path / "store", 3)
    assert (
        report_without_journal(Job("throughput", (BrokerStore("a", tmp_path / "store"),), tmp_path / "out"), now)
        is None
    )
    make_journal(tmp_path / "store", [entry(1)])
    assert (
        report_without_journal(Job("hold_time", (BrokerStore("a", tmp_path / "store"),), tmp_path / "out"), now) is None
    )
    assert not (tmp_path / "out").exists()


def test_bad_paths_and_windows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError):
        report_without_journal(Job("hold_time", (BrokerStore("a", tmp_path),), tmp_path / "out"), now)
    with pytest.raises(WindowError):
        report_without_journal(Job("hold_time", (BrokerStore("a", tmp_path),), tmp_path / "out", from_ms=1), now)
