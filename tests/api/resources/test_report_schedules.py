"""Schedules over HTTP; what answers is a stand-in for the schedules."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask

from spark_jobs.hosting import runs, schedules
from spark_jobs.hosting.schedules import BadCronError, Parameters, ScheduleExistsError

SCHEDULES = "/api/v1/reports/throughput/schedules"
DAILY = PeriodicTask(id=4, crontab=CrontabSchedule(minute="30", hour="2", timezone="UTC"))
VIEW = {"id": 4, "cron": "30 2 * * *", "when": "At 02:30 AM UTC", "enabled": True, "last_run_ms": None} | {
    "parameters": {"last_hours": None, "topic": None, "consumer_group": None, "broker": None}
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls of the functions of ``schedules``."""
    calls: list[Any] = []
    for name in ("schedules_of", "add", "change", "remove"):

        def answer(*args: Any, _name: str = name, **more: Any) -> Any:
            calls.append((_name, *args, more))
            return [DAILY] if _name == "schedules_of" else DAILY

        monkeypatch.setattr(schedules, name, answer)
    return calls


async def test_schedules_are_listed(client: httpx.AsyncClient, asked: list[Any]) -> None:
    assert (await client.get(SCHEDULES)).json() == {"schedules": [VIEW]}


async def test_a_schedule_names_a_broker_with_a_store_here(client: httpx.AsyncClient, asked: list[Any]) -> None:
    parameters = {"broker": "nobody"}
    added = await client.post(SCHEDULES, json={"cron": "30 2 * * *", "parameters": parameters})
    changed = await client.patch(f"{SCHEDULES}/4", json={"parameters": parameters})
    for answer in (added, changed):
        assert answer.status_code == 404
        assert "no store of a broker 'nobody'" in answer.text
    assert asked == []


async def test_a_schedule_is_added(
    client: httpx.AsyncClient, asked: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(runs, "stores", lambda broker="": [(name, tmp_path) for name in "ab" if broker in ("", name)])
    answer = await client.post(SCHEDULES, json={"cron": "30 2 * * *"})
    assert (answer.status_code, answer.json()) == (201, VIEW)
    assert answer.headers["location"] == f"{SCHEDULES}/4"
    more = {
        "cron": "0 * * * *",
        "parameters": {"last_hours": 24, "topic": "orders", "consumer_group": "g", "broker": "b"},
    }
    assert (await client.post(SCHEDULES, json=more)).status_code == 201
    assert asked == [
        ("add", "throughput", "30 2 * * *", {"enabled": True, "parameters": Parameters()}),
        ("add", "throughput", "0 * * * *", {"enabled": True, "parameters": Parameters(24, "orders", "g", "b")}),
    ]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"kwargs": '{"topic": "orders"}', "crontab": DAILY.crontab}, ("30 2 * * *", "At 02:30 AM UTC", "orders")),
        ({"interval": IntervalSchedule(every=6, period="hours")}, (None, "every 6 hours", None)),
        (
            {"crontab": CrontabSchedule(minute="0", hour="4", timezone="Europe/Berlin")},
            (None, "At 04:00 AM Europe/Berlin", None),
        ),
    ],
)
async def test_schedules_made_in_the_admin_are_shown(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, entry: dict[str, Any], expected: tuple[str | None, ...]
) -> None:
    monkeypatch.setattr(schedules, "schedules_of", lambda report: [PeriodicTask(id=4, **entry)])
    [view] = (await client.get(SCHEDULES)).json()["schedules"]
    assert (view["cron"], view["when"], view["parameters"]["topic"]) == expected


async def test_a_schedule_is_changed_and_removed(client: httpx.AsyncClient, asked: list[Any]) -> None:
    assert (await client.patch(f"{SCHEDULES}/4", json={"enabled": False})).json() == VIEW
    removed = await client.delete(f"{SCHEDULES}/4")
    assert (removed.status_code, removed.content) == (204, b"")
    topic = {"parameters": {"topic": "orders"}}
    assert (await client.patch(f"{SCHEDULES}/4", json=topic)).json() == VIEW
    assert asked == [
        ("change", "throughput", 4, {"cron": None, "enabled": False, "parameters": None}),
        ("remove", "throughput", 4, {}),
        ("change", "throughput", 4, {"cron": None, "enabled": None, "parameters": Parameters(topic="orders")}),
    ]


async def test_schedules_of_an_unknown_report_are_404(client: httpx.AsyncClient, asked: list[Any]) -> None:
    wrong = "/api/v1/reports/nothing/schedules"
    answers = [
        await client.get(wrong),
        await client.post(wrong, json={"cron": "* * * * *"}),
        await client.patch(f"{wrong}/4", json={"enabled": True}),
        await client.delete(f"{wrong}/4"),
    ]
    assert [answer.status_code for answer in answers] == [404] * 4
    assert "There is no report 'nothing'" in answers[0].json()["detail"]
    assert asked == []


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (runs.UnknownReportError("throughput has no schedule 4."), 404),
        (BadCronError("'x' is no cron expression."), 400),
        (ScheduleExistsError("throughput has that schedule already."), 409),
    ],
)
async def test_refusals(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(schedules, "change", refuse)
    answer = await client.patch(f"{SCHEDULES}/4", json={"cron": "x"})
    assert (answer.status_code, answer.json()["detail"]) == (status, str(error))


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", SCHEDULES, {}),
        ("POST", SCHEDULES, {"cron": "1" * 121}),
        ("POST", SCHEDULES, {"cron": "* * * * *", "x": 1}),
        ("PATCH", f"{SCHEDULES}/4", {}),
        ("PATCH", f"{SCHEDULES}/4", {"parameters": {"last_hours": 0}}),
        ("POST", SCHEDULES, {"cron": "* * * * *", "parameters": {"last_hours": 24 * 366 + 1}}),
        ("POST", SCHEDULES, {"cron": "* * * * *", "parameters": {"topic": ""}}),
        ("PATCH", f"{SCHEDULES}/0", {"enabled": True}),
        ("PATCH", f"{SCHEDULES}/4", {"enabled": "yes"}),
    ],
)
async def test_bodies_that_say_nothing_usable(
    client: httpx.AsyncClient, asked: list[Any], method: str, path: str, body: Any
) -> None:
    assert (await client.request(method, path, json=body)).status_code == 400
    assert asked == []
