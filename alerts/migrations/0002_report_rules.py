# ruff: noqa: RUF012
"""Rules about a figure of a report."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("alerts", "0001_initial")]

    operations = [
        migrations.AddField("alertrule", "report", models.CharField(blank=True, max_length=64, default="")),
        migrations.AddField("alertrule", "figure", models.CharField(blank=True, max_length=64, default="")),
        migrations.AddField("alertrule", "below", models.BooleanField(default=False)),
    ]
