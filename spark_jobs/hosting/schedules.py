"""How a schedule of django-celery-beat says which report it runs, and of what time such a run is."""

import json
from datetime import datetime
from typing import Any

from spark_jobs.catalogue import REPORTS

_DAY_MS = 86_400_000

RUN_SCHEDULED_TASK = "spark_jobs.run_scheduled"
DAILY_HOUR = "2"
DAILY_MINUTE = "30"
"""When the schedules that are there from the beginning run, UTC; people change them in the admin."""


def arguments_for(report: str) -> str:
    """The task's arguments as the schedule keeps them."""
    return json.dumps([report])


def parameters_at(report: str, now: datetime) -> dict[str, Any]:
    """What a run by schedule is about: everything there is, or the last whole day (UTC) beside the one before it."""
    if not REPORTS[report].is_daily:
        return {}
    today = int(now.timestamp() * 1000) // _DAY_MS * _DAY_MS
    return {"from_ms": today - _DAY_MS, "to_ms": today, "compare": True}


def name_for(report: str) -> str:
    """The name of the schedule that is there from the beginning."""
    return f"Report {report}, daily"
