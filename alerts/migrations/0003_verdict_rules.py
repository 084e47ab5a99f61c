# ruff: noqa: RUF012
"""The fields of rules on verdicts, and a first rule of this kind."""

from django.db import migrations, models

RULE = {
    "name": "Group does not get all messages",
    "what": "group_verdict",
    "verdicts": ["subscriptions_disagree", "filter_rejects_all", "may_not_consume"],
    "for_s": 300,
}


def add(apps, schema_editor):
    apps.get_model("alerts", "AlertRule").objects.get_or_create(name=RULE["name"], defaults=RULE)


class Migration(migrations.Migration):
    dependencies = [("alerts", "0002_report_rules")]

    operations = [
        migrations.AddField("alertrule", "verdicts", models.JSONField(blank=True, default=list)),
        migrations.AddField("alertrule", "verdict_severities", models.JSONField(blank=True, default=list)),
        migrations.RunPython(add, migrations.RunPython.noop),
    ]
