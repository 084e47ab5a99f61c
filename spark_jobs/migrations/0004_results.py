# ruff: noqa: RUF012
"""Runs keep what their reports say in short; the daily summary is made every day from the beginning."""

from django.db import migrations, models

NAME = "Report daily_summary, daily"


def add(apps, schema_editor):
    crontab, _ = apps.get_model("django_celery_beat", "CrontabSchedule").objects.get_or_create(
        minute="30", hour="2", day_of_week="*", day_of_month="*", month_of_year="*", timezone="UTC"
    )
    apps.get_model("django_celery_beat", "PeriodicTask").objects.get_or_create(
        name=NAME,
        defaults={
            "task": "spark_jobs.run_scheduled",
            "args": '["daily_summary"]',
            "crontab": crontab,
            "description": "The summary of the day before, beside that of the day before it.",
        },
    )


def remove(apps, schema_editor):
    apps.get_model("django_celery_beat", "PeriodicTask").objects.filter(name=NAME).delete()


class Migration(migrations.Migration):
    dependencies = [("spark_jobs", "0003_attempts")]
    operations = [
        migrations.AddField(
            model_name="reportrun",
            name="result",
            field=models.JSONField(
                blank=True, default=dict, help_text="words, headlines, notes of its summary, if done"
            ),
        ),
        migrations.RunPython(add, remove),
    ]
