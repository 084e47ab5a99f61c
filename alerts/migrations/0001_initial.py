# ruff: noqa: RUF012
"""The tables, and rules to begin with. No message is sent before somebody adds a channel to a rule."""

from django.db import migrations, models

RULES = (
    {"name": "Engine does not answer", "what": "engine_down", "for_s": 60, "severity": "critical"},
    {"name": "Group stalled", "what": "group_state", "states": ["stalled"], "for_s": 120, "severity": "critical"},
    {"name": "New dead letters", "what": "dead_letters"},
    {"name": "Missed arrival", "what": "missed_arrivals", "severity": "critical"},
    {"name": "Disk fills", "what": "disk_used", "threshold": 75, "for_s": 600},
)


def add(apps, schema_editor):
    for rule in RULES:
        apps.get_model("alerts", "AlertRule").objects.get_or_create(name=rule["name"], defaults=rule)


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="AlertChannel",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=100, unique=True)),
                ("kind", models.CharField(help_text="webhook, email, dingtalk or feishu", max_length=16)),
                ("url", models.CharField(blank=True, max_length=2000)),
                ("secret", models.CharField(blank=True, max_length=500)),
                ("recipients", models.JSONField(blank=True, default=list)),
                ("enabled", models.BooleanField(default=True)),
                (
                    "sent_ms",
                    models.BigIntegerField(blank=True, help_text="when a message was accepted last", null=True),
                ),
                ("failed_ms", models.BigIntegerField(blank=True, help_text="when a try failed last", null=True)),
                ("error", models.CharField(blank=True, help_text="why, a sentence", max_length=500)),
            ],
            options={
                "ordering": ["id"],
            },
        ),
        migrations.CreateModel(
            name="AlertEvaluator",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("holder", models.CharField(blank=True, max_length=64)),
                ("until_ms", models.BigIntegerField(default=0)),
                ("evaluated_ms", models.BigIntegerField(blank=True, null=True)),
                (
                    "problems",
                    models.JSONField(blank=True, default=list, help_text="what could not be looked at, sentences"),
                ),
            ],
        ),
        migrations.CreateModel(
            name="AlertRule",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=100, unique=True)),
                ("what", models.CharField(max_length=32)),
                ("states", models.JSONField(blank=True, default=list)),
                ("threshold", models.BigIntegerField(default=0)),
                ("group", models.CharField(default="*", max_length=255)),
                ("topic", models.CharField(default="*", max_length=255)),
                ("for_s", models.PositiveIntegerField(default=0)),
                ("severity", models.CharField(default="warning", max_length=16)),
                ("repeat_s", models.PositiveIntegerField(default=14400)),
                ("send_resolved", models.BooleanField(default=True)),
                ("channels", models.JSONField(blank=True, default=list)),
                ("enabled", models.BooleanField(default=True)),
            ],
            options={
                "ordering": ["id"],
            },
        ),
        migrations.CreateModel(
            name="AlertSilence",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("rule", models.BigIntegerField(blank=True, null=True)),
                ("group", models.CharField(default="*", max_length=255)),
                ("from_ms", models.BigIntegerField()),
                ("to_ms", models.BigIntegerField()),
                ("comment", models.CharField(blank=True, max_length=500)),
            ],
            options={
                "ordering": ["id"],
            },
        ),
        migrations.CreateModel(
            name="AlertRecord",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("rule", models.BigIntegerField()),
                ("rule_name", models.CharField(max_length=100)),
                ("what", models.CharField(max_length=32)),
                ("severity", models.CharField(max_length=16)),
                ("broker", models.CharField(max_length=255)),
                ("group", models.CharField(blank=True, max_length=255)),
                ("topic", models.CharField(blank=True, max_length=255)),
                ("text", models.CharField(help_text="the value in words, when it began to fire", max_length=500)),
                ("since_ms", models.BigIntegerField(help_text="when the condition began to hold")),
                ("fired_ms", models.BigIntegerField()),
                ("resolved_ms", models.BigIntegerField(blank=True, null=True)),
                (
                    "notified_ms",
                    models.BigIntegerField(
                        blank=True, help_text="when a message about it was accepted last", null=True
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
                "indexes": [models.Index(fields=["resolved_ms"], name="alerts_by_end")],
            },
        ),
        migrations.RunPython(add, migrations.RunPython.noop),
    ]
