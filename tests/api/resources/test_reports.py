"""Reports over HTTP; what answers is a stand-in for the runs."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from django_celery_beat.models import CrontabSchedule, PeriodicTask

from spark_jobs.catalogue import REPORTS
from spark_jobs.hosting import runs, schedules
from spark_jobs.models import ReportRun, Status

WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
RUN = "/api/v1/reports/throughput/runs/7"


def run(**more: Any) -> ReportRun:
    return ReportRun(
        **{
            "pk": 7,
            "report": "throughput",
            "status": Status.RUNNING,
            "percent": 30,
            "doing": "reading",
            "parameters": {},
            "created": WHEN,
        }
        | more
    )


def answering(answer: Any) -> Callable[..., Any]:
    def answers(*_: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return answers


async def test_the_list_says_what_there_is(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = PeriodicTask(id=4, crontab=CrontabSchedule(minute="30", hour="2", timezone="UTC"))
    monkeypatch.setattr(runs, "take_up_lost_runs", answering(None))
    monkeypatch.setattr(runs, "last_runs", answering([run()]))
    monkeypatch.setattr(schedules, "schedules_of", answering([schedule]))
    monkeypatch.setattr(runs, "spark_problem", answering("pyspark is not installed here."))
    answer = (await client.get("/api/v1/reports")).json()
    assert answer["spark_problem"] == "pyspark is not installed here."
    assert [report["name"] for report in answer["reports"]] == list(REPORTS)
    report = answer["reports"][0]
    assert (report["name"], report["title"]) == ("throughput", "Throughput")
    everything = {"last_hours": None, "topic": None, "consumer_group": None, "broker": None}
    assert report["schedules"] == [
        {"id": 4, "cron": "30 2 * * *", "when": "At 02:30 AM UTC", "enabled": True, "last_run_ms": None}
        | {"parameters": everything}
    ]
    assert report["is_daily"] is False
    assert report["runs"] == [
        {
            "id": 7,
            "report": "throughput",
            "status": "running",
            "attempt": 1,
            "percent": 30,
            "doing": "reading",
            "error": "",
            "has_log": False,
            "cancel_requested": False,
            "requested_by": "person",
            "parameters": {},
            "messages": None,
            "words": [],
            "headlines": [],
            "notes": [],
            "created_ms": int(WHEN.timestamp() * 1000),
            "started_ms": None,
            "finished_ms": None,
            "files": [],
        }
    ]


async def test_a_run_is_started(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(runs, "start_run", lambda *args: asked.append(args) or run(status=Status.QUEUED))
    answer = await client.post("/api/v1/reports/throughput/runs", json={"from_ms": 60_000})
    assert (answer.status_code, answer.headers["location"], answer.json()["status"]) == (202, RUN, "queued")
    assert asked == [
        (
            "throughput",
            {
                "from_ms": 60_000,
                "to_ms": None,
                "topic": None,
                "consumer_group": None,
                "compare": False,
                "broker": None,
            },
        )
    ]
    answer = await client.post("/api/v1/reports/throughput/runs?broker=broker-b", json={})
    assert (answer.status_code, asked[-1][1]["broker"]) == (202, "broker-b")
    assert (await client.post("/api/v1/reports/throughput/runs", json={"source": "log"})).status_code == 400


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (runs.UnknownReportError("There is no report 'x'."), 404),
        (runs.RunActiveError("Run 3 is under way."), 409),
    ],
)
async def test_refusals(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    monkeypatch.setattr(runs, "start_run", answering(error))
    answer = await client.post("/api/v1/reports/throughput/runs", json={})
    assert (answer.status_code, answer.json()["detail"]) == (status, str(error))


@pytest.mark.parametrize("body", [{"from_ms": 60_000, "to_ms": 60_000}, {"from_ms": -60_000}, {"store": "/etc"}, []])
async def test_bad_windows_are_refused(client: httpx.AsyncClient, body: Any) -> None:
    assert (await client.post("/api/v1/reports/throughput/runs", json=body)).status_code == 400


@pytest.mark.parametrize("body", [{}, {"from_ms": 60_000}, {"to_ms": 60_000}])
async def test_a_comparison_needs_both_ends_of_a_window(client: httpx.AsyncClient, body: Any) -> None:
    answer = await client.post("/api/v1/reports/throughput/runs", json=body | {"compare": True})
    assert (answer.status_code, answer.json()["detail"]) == (
        400,
        "a comparison with the period before needs from_ms and to_ms",
    )


@pytest.mark.parametrize("name", ["from_ms", "to_ms"])
async def test_a_window_is_whole_minutes(client: httpx.AsyncClient, name: str) -> None:
    answer = await client.post("/api/v1/reports/throughput/runs", json={name: 90_000})
    assert (answer.status_code, answer.json()["detail"]) == (400, f"{name} must be a whole minute, a multiple of 60000")


async def test_runs_and_one_run(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "list_runs", answering([run()]))
    monkeypatch.setattr(runs, "find_run", answering(run()))
    one = (await client.get(RUN)).json()
    assert (await client.get("/api/v1/reports/throughput/runs")).json() == {"runs": [one]}
    assert one["percent"] == 30


async def test_a_run_is_cancelled_or_removed(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "cancel_or_remove", answering(run(cancel_requested=True)))
    cancelled = await client.delete(RUN)
    assert (cancelled.status_code, cancelled.json()["cancel_requested"]) == (202, True)
    monkeypatch.setattr(runs, "cancel_or_remove", answering(None))
    removed = await client.delete(RUN)
    assert (removed.status_code, removed.content) == (204, b"")


@pytest.mark.parametrize(
    ("name", "media_type", "saved"),
    [
        ("report.html", "text/html; charset=utf-8", None),
        ("summary.json", "application/json", 'attachment; filename="throughput-7-summary.json"'),
        ("by_topic.csv", "text/csv; charset=utf-8", 'attachment; filename="throughput-7-by_topic.csv"'),
        ("by_topic.parquet", "application/vnd.apache.parquet", 'attachment; filename="throughput-7-by_topic.parquet"'),
    ],
)
async def test_files_are_sent_whole(
    client: httpx.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
    media_type: str,
    saved: str | None,
) -> None:
    content = bytes(range(256)) * 3000
    (tmp_path / name).write_bytes(content)
    monkeypatch.setattr(runs, "file_of", answering(tmp_path / name))
    answer = await client.get(f"{RUN}/files/{name}")
    assert (answer.status_code, answer.content) == (200, content)
    assert answer.headers["content-type"] == media_type
    assert answer.headers.get("content-disposition") == saved


async def test_the_log_of_a_run_is_sent(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "7.log").write_text("Java said größer")
    monkeypatch.setattr(runs, "log_to_read", answering(tmp_path / "7.log"))
    answer = await client.get(f"{RUN}/log")
    assert (answer.status_code, answer.text) == (200, "Java said größer")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    monkeypatch.setattr(runs, "log_to_read", answering(runs.UnknownReportError("no log")))
    assert (await client.get(f"{RUN}/log")).status_code == 404


async def test_a_report_is_shown_as_a_page_of_nobodys(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "report.html").write_text("<!doctype html>")
    monkeypatch.setattr(runs, "file_of", answering(tmp_path / "report.html"))
    policy = (await client.get(f"{RUN}/files/report.html")).headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts; default-src 'none'")
    assert "allow-same-origin" not in policy


async def test_a_file_that_does_not_belong_to_the_run_is_404(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def refuse(*args: Any) -> Path:
        asked.append(args)
        raise runs.UnknownReportError("no such file")

    monkeypatch.setattr(runs, "file_of", refuse)
    assert (await client.get(f"{RUN}/files/..%2F..%2Fsecret-key")).status_code == 404
    assert asked == [("throughput", 7, "../../secret-key")]
