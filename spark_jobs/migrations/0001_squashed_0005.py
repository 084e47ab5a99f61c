# ruff: noqa: RUF012
"""The tables, and three schedules: two daily reports, and a fill of the lake every hour, which is switched off."""

from django.db import migrations, models

SCHEDULES = (
    (
        "Report throughput, daily",
        {"minute": "30", "hour": "2"},
        {
            "task": "spark_jobs.run_scheduled",
            "args": '["throughput"]',
            "description": "Throughput over the stored commit log. Remove or change it as you like.",
        },
    ),
    (
        "Report daily_summary, daily",
        {"minute": "30", "hour": "2"},
        {
            "task": "spark_jobs.run_scheduled",
            "args": '["daily_summary"]',
            "description": "The summary of the day before, beside that of the day before it.",
        },
    ),
    (
        "Lake, hourly",
        {"minute": "15", "hour": "*"},
        {
            "task": "spark_jobs.lake_sync",
            "kwargs": '{"with_bodies": false}',
            "enabled": False,
            "description": "Writes new messages and ends of pulls into Parquet files, for reports over weeks and for "
            "other tools. The broker then keeps segments until they are in there, within limits.",
        },
    ),
)


def add(apps, schema_editor):
    every_day = {"day_of_week": "*", "day_of_month": "*", "month_of_year": "*", "timezone": "UTC"}
    for name, when, task in SCHEDULES:
        crontab, _ = apps.get_model("django_celery_beat", "CrontabSchedule").objects.get_or_create(**when, **every_day)
        apps.get_model("django_celery_beat", "PeriodicTask").objects.get_or_create(
            name=name, defaults=task | {"crontab": crontab}
        )


def remove(apps, schema_editor):
    names = [name for name, _, _ in SCHEDULES]
    apps.get_model("django_celery_beat", "PeriodicTask").objects.filter(name__in=names).delete()


ID = models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")
SPARK_STATES = [(name, name) for name in ("absent", "installing", "ready", "failed")]
STATUSES = [
    ("queued", "queued"),
    ("waiting", "waiting for Spark"),
    *((name, name) for name in ("running", "done", "failed", "cancelled")),
]


class Migration(migrations.Migration):
    initial = True
    replaces = [
        ("spark_jobs", name)
        for name in ("0001_initial", "0002_daily_schedules", "0003_attempts", "0004_results", "0005_lake_schedule")
    ]
    dependencies = [("django_celery_beat", "0019_alter_periodictasks_options")]
    operations = [
        migrations.CreateModel(
            "SparkEnvironment",
            [
                ("id", ID),
                ("state", models.CharField(choices=SPARK_STATES, default="absent", max_length=16)),
                (
                    "text",
                    models.TextField(blank=True, help_text="progress of an installation, or why there is no Spark"),
                ),
                ("updated", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            "ReportRun",
            [
                ("id", ID.clone()),
                ("report", models.CharField(max_length=64)),
                ("parameters", models.JSONField(default=dict)),
                ("requested_by", models.CharField(default="person", help_text="person or schedule", max_length=16)),
                ("status", models.CharField(choices=STATUSES, default="queued", max_length=16)),
                ("attempt", models.PositiveSmallIntegerField(default=1, help_text="which try this is, from 1 on")),
                ("percent", models.PositiveSmallIntegerField(default=0, help_text="never goes back within an attempt")),
                ("doing", models.CharField(blank=True, help_text="what it is doing now, in words", max_length=200)),
                ("error", models.TextField(blank=True, help_text="why it failed, a sentence")),
                ("cancel_requested", models.BooleanField(default=False)),
                (
                    "folder",
                    models.CharField(blank=True, help_text="of its files, below GLASSMQ_REPORTS_DIR", max_length=400),
                ),
                ("messages", models.BigIntegerField(blank=True, help_text="read, once it is done", null=True)),
                (
                    "result",
                    models.JSONField(
                        blank=True, default=dict, help_text="words, headlines, notes of its summary, if done"
                    ),
                ),
                ("created", models.DateTimeField(auto_now_add=True)),
                ("started", models.DateTimeField(blank=True, null=True)),
                ("finished", models.DateTimeField(blank=True, null=True)),
                ("heartbeat", models.DateTimeField(blank=True, help_text="last sign of life of its worker", null=True)),
            ],
            {
                "ordering": ["-id"],
                "indexes": [models.Index(fields=["report", "-id"], name="report_runs_by_report")],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("status__in", ("queued", "waiting", "running"))),
                        fields=("report",),
                        name="one_active_run_per_report",
                    )
                ],
            },
        ),
        migrations.RunPython(add, remove),
    ]
