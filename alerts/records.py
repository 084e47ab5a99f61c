"""The history of alerts in the database, and which of several web processes evaluates the rules."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from django.db import transaction
from django.db.models import Count, Q

from alerts import catalogue
from alerts.evaluation import Alert, Changes, Moment
from alerts.models import AlertChannel, AlertEvaluator, AlertRecord
from alerts.rules import DAY_MS, Channel, Rule, Silence, Subject
from alerts.sending import Outcome

LEASE_MS = 90_000
"""After this time without a round, another web process takes over."""
KEPT_RECORDS = 10_000
KEPT_MS = 90 * DAY_MS
MAX_TEXT = 500
BATCH = 500


class Declared(NamedTuple):
    """What operators declared."""

    rules: list[Rule]
    silences: list[Silence]
    channels: dict[int, Channel]


def declared(wall_ms: int) -> Declared:
    """The rules and channels that are enabled, and the silences that have not ended."""
    return Declared(
        [rule for rule in catalogue.rules() if rule.enabled],
        catalogue.silences(wall_ms),
        {channel.id: channel for channel in catalogue.channels() if channel.enabled},
    )


def take_turn(holder: str, wall_ms: int) -> bool:
    """Take or renew the lease for LEASE_MS. Returns whether ``holder`` has it and evaluates the rules.

    A lease that ends after more than twice LEASE_MS counts as ended: a clock must have been set back.
    """
    AlertEvaluator.objects.get_or_create(pk=AlertEvaluator.ROW)
    is_free = Q(holder=holder) | Q(until_ms__lt=wall_ms) | Q(until_ms__gt=wall_ms + 2 * LEASE_MS)
    mine = AlertEvaluator.objects.filter(is_free, pk=AlertEvaluator.ROW)
    return mine.update(holder=holder, until_ms=wall_ms + LEASE_MS) == 1


def give_up_turn(holder: str) -> None:
    """Let another process take over at once."""
    AlertEvaluator.objects.filter(pk=AlertEvaluator.ROW, holder=holder).update(until_ms=0)


def note_round(wall_ms: int, problems: Sequence[str]) -> None:
    """Record that a round has ended."""
    texts = [problem[:MAX_TEXT] for problem in problems[:20]]
    AlertEvaluator.objects.filter(pk=AlertEvaluator.ROW).update(evaluated_ms=wall_ms, problems=texts)


def firing_alerts(now: Moment) -> dict[int, list[Alert]]:
    """The alerts that fire according to the history, by rule. Times of the past are moved to this process's clock."""
    alerts: dict[int, list[Alert]] = {}
    for row in AlertRecord.objects.filter(resolved_ms=None).order_by("pk"):

        def moment(wall_ms: int) -> Moment:
            return Moment(wall_ms, now.mono_ms - max(0, now.wall_ms - wall_ms))

        alerts.setdefault(row.rule, []).append(
            Alert(
                subject=Subject(row.broker, row.group, row.topic),
                text=row.text,
                since=moment(row.since_ms),
                fired=moment(row.fired_ms),
                notified_mono=None if row.notified_ms is None else moment(row.notified_ms).mono_ms,
                record=row.pk,
            )
        )
    return alerts


@transaction.atomic
def write(changes: Sequence[tuple[Rule, Changes]], running: Collection[int], wall_ms: int) -> None:
    """Write what a round changed, and end the alerts of rules that are not ``running`` any more."""
    for rule, change in changes:
        rows = AlertRecord.objects.bulk_create(
            [_row(rule, alert) for alert in change.fired if not alert.record], batch_size=BATCH
        )
        for alert, row in zip([alert for alert in change.fired if not alert.record], rows, strict=True):
            alert.record = row.pk
        ended = [alert.record for alert in change.resolved if alert.record]
        for start in range(0, len(ended), BATCH):
            AlertRecord.objects.filter(pk__in=ended[start : start + BATCH]).update(resolved_ms=wall_ms)
    AlertRecord.objects.filter(resolved_ms=None).exclude(rule__in=running).update(resolved_ms=wall_ms)


@transaction.atomic
def repair(firing: Sequence[tuple[Rule, Sequence[Alert]]], wall_ms: int) -> None:
    """After writes that failed: add the alerts that fire without a row, and end the rows of those that do not fire."""
    unended = set(AlertRecord.objects.filter(resolved_ms=None).values_list("pk", flat=True))
    for _, alerts in firing:
        for alert in alerts:
            if alert.record not in unended:
                alert.record = 0
    write([(rule, Changes(list(alerts), [])) for rule, alerts in firing], [rule.id for rule, _ in firing], wall_ms)
    ended = list(unended - {alert.record for _, alerts in firing for alert in alerts})
    for start in range(0, len(ended), BATCH):
        AlertRecord.objects.filter(pk__in=ended[start : start + BATCH]).update(resolved_ms=wall_ms)


def _row(rule: Rule, alert: Alert) -> AlertRecord:
    fired = alert.fired or alert.since
    return AlertRecord(
        rule=rule.id,
        rule_name=rule.name,
        what=rule.what,
        severity=rule.severity,
        broker=alert.subject.broker[:255],
        group=alert.subject.group[:255],
        topic=alert.subject.topic[:255],
        text=alert.text[:MAX_TEXT],
        since_ms=min(alert.since.wall_ms, fired.wall_ms),
        fired_ms=fired.wall_ms,
    )


def forget_old(wall_ms: int) -> None:
    """Keep the newest KEPT_RECORDS alerts that ended, for KEPT_MS at most."""
    ended = AlertRecord.objects.exclude(resolved_ms=None)
    oldest = ended.order_by("-pk").values_list("pk", flat=True)[KEPT_RECORDS : KEPT_RECORDS + 1]
    for number in oldest:
        ended.filter(pk__lte=number).delete()
    ended.filter(resolved_ms__lt=wall_ms - KEPT_MS).delete()


def note_outcome(outcome: Outcome, wall_ms: int) -> None:
    """What became of a message: at its channel, and if it was accepted, at its alerts."""
    row = AlertChannel.objects.filter(pk=outcome.channel.id)
    if outcome.error:
        row.update(failed_ms=wall_ms, error=outcome.error[:MAX_TEXT])
        return
    row.update(sent_ms=wall_ms, error="")
    numbers = [alert.record for alert in (*outcome.notice.firing, *outcome.notice.resolved) if alert.record]
    for start in range(0, len(numbers), BATCH):
        AlertRecord.objects.filter(pk__in=numbers[start : start + BATCH]).update(notified_ms=wall_ms)


class Page(NamedTuple):
    """Alerts, newest first. ``next`` is the ``before`` of the next page, None on the last one."""

    rows: list[AlertRecord]
    next: int | None


def page(*, firing: bool | None, before: int | None, limit: int) -> Page:
    """Alerts that fire, those that ended, or with None both."""
    rows = AlertRecord.objects.order_by("-pk")
    if firing is not None:
        rows = rows.filter(resolved_ms__isnull=firing)
    if before is not None:
        rows = rows.filter(pk__lt=before)
    wanted = list(rows[: limit + 1])
    return Page(wanted[:limit], wanted[limit - 1].pk if len(wanted) > limit else None)


def firing_counts() -> dict[str, int]:
    """How many alerts fire, by severity."""
    firing = AlertRecord.objects.filter(resolved_ms=None)
    return dict(firing.values_list("severity").annotate(Count("pk")).order_by())


def evaluator() -> AlertEvaluator | None:
    """The last round."""
    return AlertEvaluator.objects.filter(pk=AlertEvaluator.ROW).first()
