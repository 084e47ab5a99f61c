"""``manage.py report`` as people type it, and the refusals without a Spark."""

import re
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from spark_jobs.catalogue import REPORTS
from spark_jobs.job import Job
from spark_jobs.management.commands import report
from spark_jobs.spark import session
from tests.spark_jobs.journals import entry, make_journal
from tests.spark_jobs.stores import make_store


def test_list_prints_the_reports() -> None:
    out = StringIO()
    call_command("report", "list", stdout=out)
    assert out.getvalue().startswith("throughput ")


@pytest.mark.parametrize(
    ("out", "lake", "said"),
    [("file/out", "", r"file/out cannot be written: "), ("out", "lakes", r"There is no lake of .* in .*lakes")],
)
def test_a_run_that_cannot_end_well_is_refused_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str, lake: str, said: str
) -> None:
    make_store(tmp_path / "store", 3)
    (tmp_path / "file").touch()
    monkeypatch.setattr(report, "get_session", lambda *_: pytest.fail("Spark starts"))
    where = ["--store", str(tmp_path / "store"), "--out", str(tmp_path / out)]
    with pytest.raises(CommandError, match=said):
        call_command("report", "run", "throughput", *where, *(["--lake", str(tmp_path / lake)] if lake else []))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "store"]


NOW = datetime(2026, 2, 1, 12, 34, 56, tzinfo=UTC)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Job]:
    """The jobs that were run, without a Spark, at NOW; ``skew`` fails. Each reads some facts again."""
    jobs: list[Job] = []

    def run_report(job: Job, start_spark: Any, now: Any, progress: Any) -> dict[str, Any]:
        with start_spark(True) as spark:
            assert spark is session
        jobs.append(job)
        for percent in (1, 40, 20, 95):
            progress(percent, "reading")
        if job.report == "skew":
            raise ValueError("not this one")
        log = {"broker": "a", "messages": 3, "end_offset": 900, "ended_by": "unwritten space"}
        return {"notes": [], "title": job.report, "inputs": [log], "duration_s": 1.0}

    session = object()
    monkeypatch.setattr("spark_jobs.run.run_report", run_report)
    monkeypatch.setattr(report, "get_session", lambda *_: session)
    monkeypatch.setattr(report.timezone, "now", lambda: NOW)
    make_store(tmp_path / "store", 3)
    return jobs


def run(tmp_path: Path, *arguments: str, err: StringIO | None = None) -> str:
    out = StringIO()
    where = ("--store", str(tmp_path / "store"), "--out", str(tmp_path / "out"))
    call_command("report", "run", *where, *arguments, stdout=out, stderr=err or StringIO())
    return out.getvalue()


def test_several_reports_each_have_a_folder(ran: list[Job], tmp_path: Path) -> None:
    err = StringIO()
    said = run(tmp_path, "throughput", "retries", "throughput", err=err).splitlines()
    percents = [int(percent) for percent in re.findall(r"(\d+) %", err.getvalue())]
    assert percents == [1, 40, 40, 95] * 2, "the percentage of a report never goes back"
    assert said[0] == (
        "throughput: read 3 messages of a, up to byte 900 (unwritten space), in 1.0 s: "
        f"{tmp_path / 'out' / 'throughput' / 'report.html'}"
    )
    assert [(job.report, job.folder) for job in ran] == [
        ("throughput", tmp_path / "out" / "throughput"),
        ("retries", tmp_path / "out" / "retries"),
    ]


def test_what_was_read_of_a_store_with_a_journal() -> None:
    log = {"broker": "a", "messages": 1, "end_offset": 900, "ended_by": "safe end", "journal": {"entries": 2}}
    assert report.describe_input(log) == "1 message of a, up to byte 900 (safe end), and 2 entries of its poll journal"


def test_one_report_that_fails_does_not_stop_the_others(ran: list[Job], tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"^1 of 11 reports failed: skew\.$"):
        run(tmp_path, "--all")
    assert [job.report for job in ran] == list(REPORTS)
    with pytest.raises(CommandError, match="not this one"):
        run(tmp_path, "skew")


def test_a_store_without_a_journal_is_answered_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_store(tmp_path / "store", 3)
    monkeypatch.setattr(report, "get_session", lambda *_: pytest.fail("Spark was started"))
    said = run(tmp_path, "hold_time", "empty_polls")
    assert said.startswith("Hold time: read 0 entries of the poll journal of store, in ")
    for name in ("hold_time", "empty_polls"):
        assert (tmp_path / "out" / name / "summary.json").exists()
    make_journal(tmp_path / "store", [entry(1)])
    with pytest.raises(pytest.fail.Exception, match="Spark was started"):
        run(tmp_path, "hold_time")


@pytest.mark.parametrize(
    ("arguments", "window"),
    [
        ((), (None, None)),
        (("--last", "90m"), ("2026-02-01T11:04", "2026-02-01T12:34")),
        (("--last", "7d", "--compare"), ("2026-01-25T12:34", "2026-02-01T12:34")),
        (("--from", "2026-01-31"), ("2026-01-31T00:00", None)),
        (("--from", "2026-01-31T10:30", "--to", "2026-01-31T12:00+01:00"), ("2026-01-31T10:30", "2026-01-31T11:00")),
    ],
)
def test_windows(ran: list[Job], tmp_path: Path, arguments: tuple[str, ...], window: tuple[str | None, ...]) -> None:
    run(tmp_path, "throughput", *arguments, "--topic", "orders", "--group", "g")
    [job] = ran
    found = (
        None if at_ms is None else f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%dT%H:%M}"
        for at_ms in (job.from_ms, job.to_ms)
    )
    assert (tuple(found), job.compare) == (window, "--compare" in arguments)
    assert (job.topic, job.consumer_group) == ("orders", "g")


def test_without_spark_it_says_what_to_install(ran: list[Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "lack_of", lambda name: "is not installed")
    with pytest.raises(CommandError, match="pyspark is not installed here"):
        run(tmp_path, "throughput")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--last", "24"), "'24' is no span of time: give minutes, hours or days, as in 30m, 24h or 7d"),
        (("--last", "0h"), "no span of time"),
        (("--last", "9999999d"), "no span of time"),
        (("--from", "yesterday"), "'yesterday' is no time: give 2026-01-31 or 2026-01-31T10:30, UTC"),
        (("--last", "1h", "--from", "2026-01-31"), "either --last, or --from and --to"),
        (("--from", "2026-01-31", "--to", "2026-01-31"), "must be later than its beginning"),
        (("--to", "2026-01-31T10:00:30"), "whole minute: a multiple of 60,000 ms"),
        (("--compare",), "needs the beginning and the end"),
        (("--all",), "Name the reports to run, or give --all"),
        (("--store", "/nowhere"), "/nowhere is not a store: it has no commitlog folder"),
        (("--store", "gs://bucket/a"), "gs://bucket/a cannot be used"),
        (("--lake", "gs://bucket/a"), "gs://bucket/a cannot be used"),
        (("nix",), "There is no report 'nix'; the reports are throughput"),
    ],
)
def test_bad_arguments_are_refused(ran: list[Job], tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(CommandError, match=re.escape(said)):
        run(tmp_path, "throughput", *arguments)
    assert ran == []
    assert not (tmp_path / "out").exists()


def test_a_broker_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="There is no broker 'broker-z' in this installation, but broker-a"):
        call_command("report", "run", "throughput", "--broker", "broker-z", "--out", str(tmp_path / "out"))
