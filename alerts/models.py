"""Rules, channels, silences, the history of alerts, and which process evaluates the rules."""

from typing import ClassVar

from django.db import models


class AlertChannel(models.Model):
    """A receiver. ``url`` and ``secret`` are secrets, which the API takes and never gives."""

    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=16, help_text="webhook, email, dingtalk or feishu")
    url = models.CharField(max_length=2000, blank=True)
    secret = models.CharField(max_length=500, blank=True)
    recipients = models.JSONField(default=list, blank=True)
    enabled = models.BooleanField(default=True)
    sent_ms = models.BigIntegerField(null=True, blank=True, help_text="when a message was accepted last")
    failed_ms = models.BigIntegerField(null=True, blank=True, help_text="when a try failed last")
    error = models.CharField(max_length=500, blank=True, help_text="why, a sentence")

    class Meta:
        ordering: ClassVar = ["id"]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class AlertRule(models.Model):
    """A rule, with the fields of ``alerts.rules.Rule``. ``channels`` are ids; one that was deleted is ignored."""

    name = models.CharField(max_length=100, unique=True)
    what = models.CharField(max_length=32)
    states = models.JSONField(default=list, blank=True)
    verdicts = models.JSONField(default=list, blank=True)
    verdict_severities = models.JSONField(default=list, blank=True)
    threshold = models.BigIntegerField(default=0)
    group = models.CharField(max_length=255, default="*")
    topic = models.CharField(max_length=255, default="*")
    report = models.CharField(max_length=64, blank=True, default="")
    figure = models.CharField(max_length=64, blank=True, default="")
    below = models.BooleanField(default=False)
    for_s = models.PositiveIntegerField(default=0)
    severity = models.CharField(max_length=16, default="warning")
    repeat_s = models.PositiveIntegerField(default=4 * 3600)
    send_resolved = models.BooleanField(default=True)
    channels = models.JSONField(default=list, blank=True)
    enabled = models.BooleanField(default=True)

    class Meta:
        ordering: ClassVar = ["id"]

    def __str__(self) -> str:
        return f"{self.name}: {self.what}"


class AlertSilence(models.Model):
    """A time without messages. ``rule`` is an id, or None for all rules."""

    rule = models.BigIntegerField(null=True, blank=True)
    group = models.CharField(max_length=255, default="*")
    from_ms = models.BigIntegerField()
    to_ms = models.BigIntegerField()
    comment = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering: ClassVar = ["id"]

    def __str__(self) -> str:
        return f"{self.group} until {self.to_ms}"


class AlertRecord(models.Model):
    """One alert that fired; ``resolved_ms`` None while it fires. It has the rule as it was at that time."""

    rule = models.BigIntegerField()
    rule_name = models.CharField(max_length=100)
    what = models.CharField(max_length=32)
    severity = models.CharField(max_length=16)
    broker = models.CharField(max_length=255)
    group = models.CharField(max_length=255, blank=True)
    topic = models.CharField(max_length=255, blank=True)
    text = models.CharField(max_length=500, help_text="the value in words, when it began to fire")
    since_ms = models.BigIntegerField(help_text="when the condition began to hold")
    fired_ms = models.BigIntegerField()
    resolved_ms = models.BigIntegerField(null=True, blank=True)
    notified_ms = models.BigIntegerField(null=True, blank=True, help_text="when a message about it was accepted last")

    class Meta:
        ordering: ClassVar = ["-id"]
        indexes: ClassVar = [models.Index(fields=["resolved_ms"], name="alerts_by_end")]

    def __str__(self) -> str:
        return f"{self.rule_name}: {self.broker} {self.group} {self.topic}"


class AlertEvaluator(models.Model):
    """The process that evaluates the rules, until ``until_ms``, and its last round. The table has one row."""

    ROW: ClassVar[int] = 1

    holder = models.CharField(max_length=64, blank=True)
    until_ms = models.BigIntegerField(default=0)
    evaluated_ms = models.BigIntegerField(null=True, blank=True)
    problems = models.JSONField(default=list, blank=True, help_text="what could not be looked at, sentences")

    def __str__(self) -> str:
        return f"{self.holder} until {self.until_ms}"
