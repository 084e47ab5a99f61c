# ruff: noqa: RUF012
"""A schedule that fills the lake every hour, switched off: whoever wants a lake switches it on in the admin."""

from django.db import migrations

SYNC_TASK, SCHEDULE_NAME = "spark_jobs.lake_sync", "Lake, hourly"


def add(apps, schema_editor):
    crontab, _ = apps.get_model("django_celery_beat", "CrontabSchedule").objects.get_or_create(
        minute="15", hour="*", day_of_week="*", day_of_month="*", month_of_year="*", timezone="UTC"
    )
    apps.get_model("django_celery_beat", "PeriodicTask").objects.get_or_create(
        name=SCHEDULE_NAME,
        defaults={
            "task": SYNC_TASK,
            "kwargs": '{"with_bodies": false}',
            "crontab": crontab,
            "enabled": False,
            "description": "Writes new messages and ends of pulls into Parquet files, for reports over weeks and for "
            "other tools. The broker then keeps segments until they are in there, within limits.",
        },
    )


def remove(apps, schema_editor):
    apps.get_model("django_celery_beat", "PeriodicTask").objects.filter(name=SCHEDULE_NAME).delete()


class Migration(migrations.Migration):
    dependencies = [("spark_jobs", "0004_results"), ("django_celery_beat", "0019_alter_periodictasks_options")]
    operations = [migrations.RunPython(add, remove)]
