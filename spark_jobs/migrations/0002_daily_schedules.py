# ruff: noqa: RUF012
"""Every report runs once a day from the beginning; in the admin people change that, or remove it for good."""

from django.db import migrations

NAME = "Report throughput, daily"


def add(apps, schema_editor):
    crontab, _ = apps.get_model("django_celery_beat", "CrontabSchedule").objects.get_or_create(
        minute="30", hour="2", day_of_week="*", day_of_month="*", month_of_year="*", timezone="UTC"
    )
    apps.get_model("django_celery_beat", "PeriodicTask").objects.get_or_create(
        name=NAME,
        defaults={
            "task": "spark_jobs.run_scheduled",
            "args": '["throughput"]',
            "crontab": crontab,
            "description": "Throughput over the stored commit log. Remove or change it as you like.",
        },
    )


def remove(apps, schema_editor):
    apps.get_model("django_celery_beat", "PeriodicTask").objects.filter(name=NAME).delete()


class Migration(migrations.Migration):
    dependencies = [("spark_jobs", "0001_initial"), ("django_celery_beat", "0019_alter_periodictasks_options")]
    operations = [migrations.RunPython(add, remove)]
