"""The stand-in's API answers for reports and the lake."""

import time
from typing import Any

REPORTS = {
    "throughput": "Throughput",
    "wakeup_latency": "Wake-up latency",
    "skew": "Skew",
    "hold_time": "Hold time",
    "consumer_lag": "Consumer lag",
}
LONG_PATH = "/var/lib/glassmq/a-long-name-of-a-folder/lakes/store-0a1b2c3d/messages/date=2026-01-31/range=0.parquet"
SCHEDULE_PARAMETERS = {"last_hours": 36, "topic": "orders", "consumer_group": None, "broker": None}
TABLE = {"rows": 0, "files": 0, "size": "0"}
SCHEDULE = {
    "id": 1,
    "cron": "*/5 1-4 1,15 * 1-5",
    "enabled": False,
    "last_run_ms": None,
    "parameters": {"last_hours": None, "topic": None, "consumer_group": None, "broker": None},
    "when": "Every 5 minutes, between 01:00 AM and 04:59 AM, on day 1 and 15 of the month, and Monday through Friday",
}
LAKE: dict[str, Any] = {
    "broker": "broker-a",
    "brokers": ["broker-a"],
    "folder": "",
    "position": "0",
    "behind_bytes": "0",
    "synced_ms": None,
    "messages": TABLE,
    "polls": TABLE,
    "gap_bytes": "0",
    "missing_journal_files": 0,
    "dropped_before_ms": None,
    "dropped_messages": 0,
    "dropped_polls": 0,
    "ended_by": "",
    "segments_unread": 0,
    "problem": "",
    "under_way": False,
    "status": "",
    "percent": 0,
    "doing": "",
    "cancel_requested": False,
    "last_try_ms": None,
    "last_failure": "",
    "schedule": SCHEDULE | {"cron": "15 * * * *", "when": "At 15 minutes past the hour UTC"},
}


def run(number: int, **more: Any) -> dict[str, Any]:
    now = int(time.time() * 1000)
    return {
        "id": number,
        "report": "throughput",
        "status": "done",
        "attempt": 1,
        "percent": 0,
        "doing": "",
        "error": "",
        "has_log": False,
        "cancel_requested": False,
        "requested_by": "person",
        "parameters": {},
        "messages": "1234567",
        "words": [],
        "headlines": [],
        "notes": [],
        "created_ms": str(now - 187_000),
        "started_ms": str(now - 187_000),
        "finished_ms": str(now - 100_000),
        "files": [],
    } | more


def earlier() -> list[dict[str, Any]]:
    """More runs of a report than the overview lists."""
    return [
        run(number, files=["report.html", "summary.json", "by_producer_and_minute.parquet"])
        for number in range(12, 0, -1)
    ]


def overview(runs: dict[str, list[dict[str, Any]]], spark_problem: str = "") -> dict[str, Any]:
    return {
        "spark_problem": spark_problem,
        "brokers": ["broker-a", "broker-b"],
        "reports": [
            {
                "name": name,
                "title": title,
                "description": f"What there is to say of {title.lower()}, in a sentence.",
                "is_daily": name == "consumer_lag",
                "look_back_ms": "0",
                "schedules": [SCHEDULE | {"parameters": SCHEDULE_PARAMETERS}] if name == "skew" else [],
                "runs": runs.get(name, []),
            }
            for name, title in REPORTS.items()
        ],
    }


def empty() -> tuple[dict[str, Any], dict[str, Any]]:
    """The answers of /reports and /lake before any run."""
    return overview({}), LAKE


def broken() -> tuple[dict[str, Any], dict[str, Any]]:
    """Runs in all states, long names and long failures; a run waits for a missing worker, another one for Spark."""
    files = ["report.html", "summary.json", *(f"by_producer_and_{what}.parquet" for what in ("topic", "minute"))]
    headlines = [
        {
            "name": "messages",
            "label": "Messages stored, all of them",
            "kind": "number",
            "value": "1234567",
            "before": "12345",
            "better": "more",
            "report": "",
        }
    ] * 3
    words = [f"There is one in {LONG_PATH}."]
    runs = {
        "throughput": [
            run(5, status="failed", has_log=True, attempt=3, error=f"{LONG_PATH}: Permission denied."),
            run(4, files=files, headlines=headlines, words=words, notes=words),
        ],
        "wakeup_latency": [run(6, status="queued", started_ms=None, finished_ms=None, messages=None)],
        "skew": [run(7, files=files, headlines=headlines, words=words), run(3, status="cancelled")],
        "hold_time": [run(8, status="waiting", started_ms=None, finished_ms=None, messages=None)],
    }
    spark_problem = f"Packages are being installed here. If Spark is among them, {LONG_PATH} shows the progress."
    lake = LAKE | {
        "folder": LONG_PATH,
        "messages": {"rows": 3_000_000, "files": 40, "size": "34000000"},
        "under_way": True,
        "status": "running",
        "percent": 12,
        "doing": f"writing {LONG_PATH}",
        "last_failure": f"No space is left for {LONG_PATH}.",
    }
    return overview(runs, spark_problem), lake
