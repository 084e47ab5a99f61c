# ruff: noqa: RUF012
"""The nightly `throughput` reports the last 24 hours. Before, it read the whole log. Changed schedules stay."""

from django.db import migrations

NAME = "Report throughput, daily"
ALL = {"kwargs": "{}", "description": "Throughput over the stored commit log. Remove or change it as you like."}
DAY = {
    "kwargs": '{"last_hours":24}',
    "description": "Throughput of the last 24 hours. Remove or change it as you like.",
}


def replace(apps, before, after):
    tasks = apps.get_model("django_celery_beat", "PeriodicTask").objects
    tasks.filter(name=NAME, task="spark_jobs.run_scheduled", kwargs=before["kwargs"]).update(**after)


def limit(apps, schema_editor):
    replace(apps, ALL, DAY)


def unlimit(apps, schema_editor):
    replace(apps, DAY, ALL)


class Migration(migrations.Migration):
    dependencies = [("spark_jobs", "0001_squashed_0005")]
    operations = [migrations.RunPython(limit, unlimit)]
