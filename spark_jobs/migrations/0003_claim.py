# ruff: noqa: RUF012
"""The table of due times that have had their run."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_celery_beat", "0019_alter_periodictasks_options"),
        ("spark_jobs", "0002_throughput_of_a_day"),
    ]
    operations = [
        migrations.CreateModel(
            "Claim",
            [
                (
                    "schedule",
                    models.OneToOneField(
                        on_delete=models.CASCADE,
                        primary_key=True,
                        serialize=False,
                        to="django_celery_beat.periodictask",
                    ),
                ),
                ("until", models.DateTimeField()),
            ],
        ),
    ]
