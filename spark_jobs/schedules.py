"""How a schedule of django-celery-beat says which report it runs."""

import json

RUN_SCHEDULED_TASK = "spark_jobs.run_scheduled"
DAILY_HOUR = "2"
DAILY_MINUTE = "30"
"""When the schedules that are there from the beginning run, UTC; people change them in the admin."""


def arguments_for(report: str) -> str:
    """The task's arguments as the schedule keeps them."""
    return json.dumps([report])


def name_for(report: str) -> str:
    """The name of the schedule that is there from the beginning."""
    return f"Report {report}, daily"
