"""The tables as people see them."""

import pytest
from django.core.management import call_command

from alerts.models import AlertChannel, AlertEvaluator, AlertRecord, AlertRule, AlertSilence


def test_rows_name_themselves_without_their_secrets() -> None:
    channel = AlertChannel(name="hook", kind="webhook", url="https://x.example/s3cret", secret="s3cret")
    assert str(channel) == "webhook hook"
    assert str(AlertRule(name="r", what="lag")) == "r: lag"
    assert str(AlertSilence(group="g", to_ms=5)) == "g until 5"
    assert str(AlertRecord(rule_name="r", broker="b", group="g", topic="t")) == "r: b g t"
    assert str(AlertEvaluator(holder="h", until_ms=5)) == "h until 5"


@pytest.mark.django_db
def test_the_migration_has_every_field() -> None:
    call_command("makemigrations", "alerts", check=True, dry_run=True, verbosity=0)
