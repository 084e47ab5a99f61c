"""The lake over HTTP; what answers is a stand-in."""

import threading
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from django_celery_beat.models import CrontabSchedule, PeriodicTask

from spark_jobs.hosting import lake_state, runs
from spark_jobs.hosting.lake_state import StoredLake
from spark_jobs.hosting.runs import UnknownReportError
from spark_jobs.hosting.schedules import BadCronError
from spark_jobs.lake.lake import Dropped, Lake
from spark_jobs.lake.tasks import LakeFile
from spark_jobs.models import ReportRun, Status
from spark_jobs.sources.commit_log_damage import Gap

HOURLY = PeriodicTask(id=4, enabled=False, crontab=CrontabSchedule(minute="15", timezone="UTC"))
DAY = date(2026, 1, 1)
STORED = StoredLake(
    "broker-a",
    Path("/data/store"),
    Lake(
        "/data/lake",
        "broker-a",
        1000,
        None,
        None,
        [LakeFile("m/1", DAY, 5, 200, 0, 1), LakeFile("m/2", DAY, 2, 100, 0, 1)],
        [LakeFile("p/1", DAY, 1, 50, 0, 1)],
        [Gap("deleted", 0, 9, 9), Gap("deleted", 10, 19, 9), Gap("damaged", 20, 30, 10), Gap("unread", 0, 0, 3)],
        Dropped(86_400_000, 12, 3),
    ),
    "",
)
END = {"broker-a": {"ended_by": "invalid record", "segments_unread": 2}}
RUNNING = ReportRun(status=Status.RUNNING, percent=40, doing="writing")
FAILED = ReportRun(
    status=Status.FAILED, finished=datetime(2026, 1, 1, tzinfo=UTC), error="The disk is full.", result=END
)


def state(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> None:
    """Have ``lake_state`` answer this."""
    known = {"behind_bytes": 24, "synced_ms": 5, "find_active": RUNNING, "find_ended": FAILED, "read_schedule": HOURLY}
    for name, answer in (known | answers).items():
        monkeypatch.setattr(lake_state, name, lambda *_, answer=answer: answer)


@pytest.fixture(autouse=True)
def read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The brokers whose lakes were read, with the threads that read them."""
    calls: list[tuple[str, str]] = []

    def read_stored(broker: str) -> StoredLake:
        calls.append((broker, threading.current_thread().name))
        return STORED._replace(broker=broker)

    monkeypatch.setattr(lake_state, "read_stored", read_stored)
    return calls


async def test_lakes_are_not_read_in_the_thread_of_django(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, read: list[tuple[str, str]]
) -> None:
    """Storage that does not answer would stop every other request there."""
    django: list[str] = []
    state(monkeypatch)
    monkeypatch.setattr(lake_state, "find_active", lambda: django.append(threading.current_thread().name))
    monkeypatch.setattr(lake_state, "cancel_sync", lambda: None)
    assert (await client.get("/api/v1/lake")).status_code == 200
    assert (await client.delete("/api/v1/lake/sync")).status_code == 202
    assert len(read) == len(django) == 2
    assert not {thread for _, thread in read} & set(django)


async def test_get_shows_the_state_of_the_lake(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    state(monkeypatch)
    monkeypatch.setattr(runs, "stores", lambda broker="": [(name, Path(name)) for name in ("broker-a", "broker-b")])
    assert (await client.get("/api/v1/lake?broker=broker-b")).json()["broker"] == "broker-b"
    assert (await client.get("/api/v1/lake?broker=broker-a")).json() == {
        "broker": "broker-a",
        "brokers": ["broker-a", "broker-b"],
        "folder": "/data/lake",
        "position": 1000,
        "behind_bytes": 24,
        "synced_ms": 5,
        "messages": {"rows": 7, "files": 2, "size": 300},
        "polls": {"rows": 1, "files": 1, "size": 50},
        "gap_bytes": 18,
        "missing_journal_files": 3,
        "dropped_before_ms": 86_400_000,
        "dropped_messages": 12,
        "dropped_polls": 3,
        "ended_by": "invalid record",
        "segments_unread": 2,
        "problem": "",
        "under_way": True,
        "status": "running",
        "percent": 40,
        "doing": "writing",
        "cancel_requested": False,
        "last_try_ms": 1_767_225_600_000,
        "last_failure": "The disk is full.",
        "schedule": {
            "id": 4,
            "cron": "15 * * * *",
            "when": "At 15 minutes past the hour UTC",
            "enabled": False,
            "last_run_ms": None,
        }
        | {"parameters": {"last_hours": None, "topic": None, "consumer_group": None, "broker": None}},
    }
    nothing = StoredLake("broker-a", Path("/data/store"), None, "The lake cannot be read.")
    monkeypatch.setattr(lake_state, "read_stored", lambda broker: nothing)
    state(monkeypatch, synced_ms=None, find_active=None, find_ended=None, read_schedule=None)
    answer = (await client.get("/api/v1/lake")).json()
    assert all(answer[name] is None for name in ("schedule", "last_try_ms", "dropped_before_ms", "synced_ms"))
    assert all(answer[name] == "" for name in ("folder", "status", "doing", "last_failure"))
    assert (answer["problem"], answer["under_way"], answer["percent"], answer["gap_bytes"]) == (
        "The lake cannot be read.",
        False,
        0,
        0,
    )


async def test_post_starts_a_fill(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[bool, str]] = []
    monkeypatch.setattr(lake_state, "begin_sync", lambda *, with_bodies, broker: asked.append((with_bodies, broker)))
    assert (await client.post("/api/v1/lake/sync", json={})).status_code == 202
    assert (await client.post("/api/v1/lake/sync", json={"bodies": True})).status_code == 202
    assert (await client.post("/api/v1/lake/sync")).status_code == 202, "as curl -X POST sends it"
    assert asked == [(False, ""), (True, ""), (False, "")]
    form = await client.post("/api/v1/lake/sync", headers={"content-type": "application/x-www-form-urlencoded"})
    assert (form.status_code, len(asked)) == (415, 3)
    assert (await client.post("/api/v1/lake/sync", content=b"{}")).status_code == 415
    empty = await client.post("/api/v1/lake/sync", content=b"", headers={"content-type": "application/json"})
    assert (empty.status_code, len(asked)) == (202, 4), "as curl sends it with a header for JSON and no body"


async def test_a_fill_is_cancelled(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ReportRun(status=Status.RUNNING, cancel_requested=True)
    state(monkeypatch, find_active=asked)
    monkeypatch.setattr(lake_state, "cancel_sync", lambda: None)
    answer = await client.delete("/api/v1/lake/sync")
    assert (answer.status_code, answer.json()["status"], answer.json()["cancel_requested"]) == (202, "running", True)
    state(monkeypatch, find_active=None, find_ended=ReportRun(status=Status.CANCELLED))
    assert (await client.get("/api/v1/lake")).json()["status"] == "cancelled"

    def nothing() -> None:
        raise UnknownReportError("The report worker is not filling the lake.")

    monkeypatch.setattr(lake_state, "cancel_sync", nothing)
    answer = await client.delete("/api/v1/lake/sync")
    assert (answer.status_code, answer.json()["detail"]) == (404, "The report worker is not filling the lake.")


async def test_patch_changes_the_schedule(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def change(cron: str | None, enabled: bool | None) -> PeriodicTask:
        asked.append((cron, enabled))
        if cron == "x":
            raise BadCronError("'x' is no cron expression.")
        return HOURLY

    monkeypatch.setattr(lake_state, "change_schedule", change)
    assert (await client.patch("/api/v1/lake/schedule", json={"enabled": True})).json()["id"] == 4
    assert (await client.patch("/api/v1/lake/schedule", json={"cron": "x"})).status_code == 400
    assert (await client.patch("/api/v1/lake/schedule", json={})).status_code == 400
    assert asked == [(None, True), ("x", None)]
