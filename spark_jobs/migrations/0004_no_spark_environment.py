# ruff: noqa: RUF012
"""Runs that wait for Spark say why, so the state of Spark needs no table of its own."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("spark_jobs", "0003_claim")]
    operations = [
        migrations.DeleteModel("SparkEnvironment"),
        migrations.AlterField(
            "ReportRun",
            "doing",
            models.TextField(blank=True, help_text="what it is doing now, or what it waits for, in words"),
        ),
    ]
