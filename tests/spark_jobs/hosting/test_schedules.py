"""The schedule that is there from the beginning."""

import pytest
from django_celery_beat.models import PeriodicTask

from config.celery import app
from spark_jobs.hosting import runs
from spark_jobs.hosting.schedules import RUN_SCHEDULED_TASK, arguments_for, name_for


@pytest.mark.django_db
def test_throughput_runs_daily_and_can_be_changed() -> None:
    task = PeriodicTask.objects.get(name=name_for("throughput"))
    assert (task.task, task.args, task.enabled) == (RUN_SCHEDULED_TASK, arguments_for("throughput"), True)
    found = runs.schedules_of("throughput")
    assert [(schedule.when, schedule.enabled) for schedule in found] == [("At 02:30 AM UTC", True)]
    PeriodicTask.objects.filter(pk=task.pk).update(enabled=False)
    assert not runs.schedules_of("throughput")[0].enabled


def test_what_the_schedule_names_is_a_task() -> None:
    app.loader.import_default_modules()
    assert {RUN_SCHEDULED_TASK, runs.RUN_TASK} <= set(app.tasks)
