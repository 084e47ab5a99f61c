"""Starting, finding, cancelling and removing runs, as the web does it."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from kombu.exceptions import OperationalError

from spark_jobs.hosting import runs
from spark_jobs.models import ReportRun, Status

pytestmark = pytest.mark.django_db


@pytest.fixture
def reports_dir(tmp_path: Path, settings: Any) -> Path:
    settings.GLASSMQ_REPORTS_DIR = tmp_path
    return tmp_path


def done(reports_dir: Path, *files: str) -> ReportRun:
    run = ReportRun.objects.create(report="throughput", status=Status.DONE)
    run.folder = f"throughput/{run.pk}"
    run.save()
    (reports_dir / run.folder).mkdir(parents=True)
    for file in files:
        (reports_dir / run.folder / file).write_text(file)
    return run


def test_a_new_run_is_handed_over_once(sent: list[tuple[int, float]]) -> None:
    run = runs.start_run("throughput", {"from_ms": 5, "to_ms": None})
    assert (run.status, run.parameters) == (Status.QUEUED, {"from_ms": 5, "to_ms": None})
    with pytest.raises(runs.RunActiveError, match=f"Run {run.pk} of throughput is under way"):
        runs.start_run("throughput", {})
    assert sent == [(run.pk, 0)]


def test_a_broker_without_a_store_here(sent: list[tuple[int, float]], settings: Any, tmp_path: Path) -> None:
    settings.GLASSMQ_DATA_DIR = tmp_path
    (tmp_path / "brokers" / "broker-b" / "store" / "commitlog").mkdir(parents=True)
    with pytest.raises(runs.UnknownBrokerError, match="'broker-z' here, but of broker-a, broker-b"):
        runs.start_run("throughput", {"broker": "broker-z"})
    assert runs.start_run("throughput", {"broker": "broker-b"}).pk == sent[-1][0]


def test_an_unknown_report_or_run_is_refused(sent: list[tuple[int, float]]) -> None:
    with pytest.raises(runs.UnknownReportError, match="There is no report 'nix'; the reports are throughput"):
        runs.start_run("nix", {})
    other = runs.start_run("skew", {})
    for number in (other.pk, other.pk + 1):
        with pytest.raises(
            runs.UnknownReportError,
            match=f"throughput has no run {number}. It was removed, belongs to another report, or never existed.",
        ):
            runs.find_run("throughput", number)


def lost(**more: Any) -> ReportRun:
    ago = timezone.now() - runs.LOST_AFTER - timedelta(seconds=1)
    return ReportRun.objects.create(report="throughput", status=Status.RUNNING, percent=50, heartbeat=ago, **more)


GONE = "The report worker ended while it ran this report."


@pytest.mark.parametrize(
    ("found", "status", "attempt", "doing", "error"),
    [
        ({}, Status.QUEUED, 2, f"tried again in 5 s: {GONE}", ""),
        ({"attempt": 3}, Status.FAILED, 3, "", f"{GONE} (It was tried 3 times.)"),
        ({"cancel_requested": True}, Status.CANCELLED, 1, "", ""),
    ],
)
def test_what_becomes_of_a_run_whose_worker_is_gone(
    sent: list[tuple[int, float]], found: dict[str, Any], status: Status, attempt: int, doing: str, error: str
) -> None:
    run = lost(**found)
    seen_by_another = ReportRun.objects.get(pk=run.pk)
    run = runs.find_run("throughput", run.pk)
    assert (run.status, run.attempt, run.doing, run.error) == (status, attempt, doing, error)
    runs.end_attempt(seen_by_another, GONE, passing=True)
    assert sent == [(run.pk, 5)] * (status == Status.QUEUED), "it is taken up once"
    if status == Status.QUEUED:
        assert run.percent == 0
        with pytest.raises(runs.RunActiveError):
            runs.start_run("throughput", {})
    else:
        assert runs.start_run("throughput", {}).pk > run.pk


def test_without_a_queue_runs_wait(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OperationalError("no queue")

    monkeypatch.setattr(runs.current_app, "send_task", refuse)
    runs.start_run("skew", {})
    lost()
    runs.take_up_lost_runs()
    assert set(ReportRun.objects.values_list("status", flat=True)) == {Status.QUEUED}
    assert caplog.text.count("could not be handed to the report worker; it waits.") == 2


@pytest.mark.parametrize("status", [Status.QUEUED, Status.WAITING])
def test_a_run_that_waits_for_long_is_handed_over_again_once(sent: list[tuple[int, float]], status: Status) -> None:
    """Its message may have been in a queue that was lost, or with a worker that was killed."""
    just = ReportRun.objects.create(report="skew", status=status, heartbeat=timezone.now())
    ago = timezone.now() - runs.SEND_AGAIN_AFTER - timedelta(seconds=1)
    run = ReportRun.objects.create(report="throughput", status=status, heartbeat=ago)
    for _ in range(2):
        runs.take_up_lost_runs()
    assert sent == [(run.pk, 0)]
    run.refresh_from_db()
    assert (run.status, run.attempt) == (status, 1)
    ReportRun.objects.create(report="retries", status=Status.DONE, heartbeat=ago)
    runs.take_up_lost_runs(waited=timedelta(0))
    assert {number for number, _ in sent[1:]} == {just.pk, run.pk}, "as a worker does when it starts"


def test_the_stores_are_the_copies_of_attached_brokers(settings: Any, tmp_path: Path) -> None:
    settings.GLASSMQ_DATA_DIR, settings.GLASSMQ_STORE_DIR = tmp_path, tmp_path / "store"
    for store in ("store", "attached/broker-b/store", "attached/broker-a/store"):
        (tmp_path / store / "commitlog").mkdir(parents=True)
    (tmp_path / "attached" / "broker-c").mkdir()
    assert runs.stores() == [(settings.GLASSMQ_CLUSTER_NAMES[0], tmp_path / "store")]
    settings.GLASSMQ_ATTACH = "10.0.0.1:9876"
    copies = [(name, tmp_path / "attached" / name / "store") for name in ("broker-a", "broker-b")]
    assert runs.stores() == copies and runs.stores("broker-b") == copies[1:] and runs.stores("broker-c") == []


def test_stores_of_brokers_that_no_setting_names_are_left_out(settings: Any, tmp_path: Path) -> None:
    settings.GLASSMQ_DATA_DIR, settings.GLASSMQ_STORE_DIR = tmp_path, tmp_path / "store"
    settings.GLASSMQ_CLUSTER_NAMES = ["broker-a", "broker-b", "broker-c"]
    for name in ("broker-b", "broker-d", "old-b"):
        (tmp_path / "brokers" / name / "store" / "commitlog").mkdir(parents=True)
    assert runs.stores() == [
        ("broker-a", tmp_path / "store"),
        ("broker-b", tmp_path / "brokers" / "broker-b" / "store"),
    ]
    assert runs.stores("broker-d") == []


def test_a_run_that_has_ended_is_removed_with_its_files_and_its_log(reports_dir: Path) -> None:
    run = ReportRun.objects.create(report="throughput", status=Status.FAILED)
    (reports_dir / runs.folder_of(run)).mkdir(parents=True)  # as a killed attempt may leave it
    (reports_dir / runs.folder_of(run) / "summary.json").write_text("{}")
    for text in (None, ""):
        if text is not None:
            runs.log_of(run).write_text(text)
        with pytest.raises(runs.UnknownReportError, match="has no log"):
            runs.log_to_read("throughput", run.pk)
    runs.log_of(run).write_text("Java said this")
    assert runs.log_to_read("throughput", run.pk) == runs.log_of(run)
    assert runs.cancel_or_remove("throughput", run.pk) is None
    assert list((reports_dir / "throughput").iterdir()) == []
    with pytest.raises(runs.UnknownReportError):
        runs.find_run("throughput", run.pk)


@pytest.mark.parametrize(
    ("status", "expected"),
    [(Status.QUEUED, (Status.CANCELLED, False)), (Status.RUNNING, (Status.RUNNING, True))],
)
def test_a_cancelled_run_ends_at_once_or_is_ended_by_its_worker(status: Status, expected: tuple[Status, bool]) -> None:
    run = ReportRun.objects.create(report="throughput", status=status, heartbeat=timezone.now())
    asked = runs.cancel_or_remove("throughput", run.pk)
    assert asked is not None
    assert (asked.status, asked.cancel_requested) == expected


def test_only_a_runs_own_files_are_found(reports_dir: Path) -> None:
    run = done(reports_dir, "summary.json", "report.html", "by_topic.csv", "passwd", "Mine.json")
    (reports_dir / "secret.json").write_text("secret")
    assert runs.files_of(run) == ["by_topic.csv", "report.html", "summary.json"]
    assert runs.file_of("throughput", run.pk, "summary.json").read_text() == "summary.json"
    for name in ("passwd", "../../secret.json", "", ".", "nix.csv"):
        with pytest.raises(runs.UnknownReportError, match="has no file"):
            runs.file_of("throughput", run.pk, name)


def test_the_last_result_is_among_the_last_runs_however_many_have_failed_since(reports_dir: Path) -> None:
    made = [done(reports_dir) for _ in range(runs.LAST_RUNS + 2)][::-1]
    assert runs.list_runs("throughput") == made
    assert runs.last_runs("throughput") == made[: runs.LAST_RUNS]
    ReportRun.objects.filter(pk__in=[run.pk for run in made[: runs.LAST_RUNS]]).update(status=Status.FAILED)
    assert runs.last_runs("throughput") == made[: runs.LAST_RUNS + 1]
