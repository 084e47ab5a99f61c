"""The rules, channels and silences in the database, as operators add, change and remove them.

Each function is a transaction. A rejected value raises BadRuleError, and nothing is stored.
"""

from typing import Any, TypeVar

import msgspec
from django.conf import settings
from django.db import IntegrityError, models, transaction

from alerts.models import AlertChannel, AlertRule, AlertSilence
from alerts.reports import check_figure
from alerts.rules import (
    MAX_CHANNELS,
    MAX_RULES,
    MAX_SILENCES,
    Channel,
    Rule,
    Silence,
    check_channel,
    check_rule,
    check_silence,
)

T = TypeVar("T", bound=msgspec.Struct)


class NoSuchError(LookupError):
    """There is no rule, channel or silence with that number. The message is a sentence."""


class RefusedError(RuntimeError):
    """The name is taken, or there are too many rules, channels or silences. The message is a sentence."""


def _struct(row: models.Model, shape: type[T]) -> T:
    values = {name: getattr(row, name) for name in shape.__struct_fields__}
    return msgspec.convert(values, shape)


def rules() -> list[Rule]:
    """All rules, oldest first."""
    return [_struct(row, Rule) for row in AlertRule.objects.order_by("id")[:MAX_RULES]]


def channels() -> list[Channel]:
    """All channels, with their secrets."""
    return [_struct(row, Channel) for row in AlertChannel.objects.order_by("id")[:MAX_CHANNELS]]


def silences(wall_ms: int) -> list[Silence]:
    """The silences that have not ended, oldest first."""
    rows = AlertSilence.objects.filter(to_ms__gt=wall_ms).order_by("id")[:MAX_SILENCES]
    return [_struct(row, Silence) for row in rows]


def _find(table: type[models.Model], what: str, number: int) -> Any:
    row = table._default_manager.filter(pk=number).first()
    if row is None:
        raise NoSuchError(f"there is no {what} {number}")
    return row


def _limit(table: type[models.Model], most: int, what: str) -> None:
    if table._default_manager.count() >= most:
        raise RefusedError(f"there are {most} {what}, the largest allowed number; delete one that is not used any more")


def _save(row: models.Model, values: dict[str, Any], what: str) -> None:
    for name, value in values.items():
        setattr(row, name, list(value) if isinstance(value, tuple) else value)
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError as error:
        raise RefusedError(f"another {what} has the name {values.get('name')!r}") from error


def _values(struct: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(struct, name) for name in struct.__struct_fields__ if name != "id"}


@transaction.atomic
def add_rule(**values: Any) -> Rule:
    """Add a rule. BadRuleError, RefusedError."""
    _limit(AlertRule, MAX_RULES, "rules")
    return _write_rule(AlertRule(), values)


@transaction.atomic
def change_rule(number: int, **values: Any) -> Rule:
    """Change the named fields of a rule. NoSuchError, BadRuleError, RefusedError."""
    return _write_rule(_find(AlertRule, "rule", number), values)


def _write_rule(row: AlertRule, values: dict[str, Any]) -> Rule:
    rule = msgspec.structs.replace(_struct(row, Rule) if row.pk else Rule(id=0, name="", what="lag"), **values)
    check_rule(rule, frozenset(AlertChannel.objects.values_list("pk", flat=True)))
    check_figure(rule)
    _save(row, _values(rule), "rule")
    return _struct(row, Rule)


def remove_rule(number: int) -> None:
    """Remove a rule. Its alerts end, and stay in the history. NoSuchError."""
    _find(AlertRule, "rule", number).delete()


@transaction.atomic
def add_channel(**values: Any) -> Channel:
    """Add a channel. BadRuleError, RefusedError."""
    _limit(AlertChannel, MAX_CHANNELS, "channels")
    return _write_channel(AlertChannel(), values)


@transaction.atomic
def change_channel(number: int, **values: Any) -> Channel:
    """Change the named fields of a channel. NoSuchError, BadRuleError, RefusedError."""
    return _write_channel(_find(AlertChannel, "channel", number), values)


def _write_channel(row: AlertChannel, values: dict[str, Any]) -> Channel:
    channel = msgspec.structs.replace(
        _struct(row, Channel) if row.pk else Channel(id=0, name="", kind="webhook"), **values
    )
    check_channel(channel, hosts=settings.GLASSMQ_ALERT_HOSTS, sends_mail=settings.GLASSMQ_SENDS_MAIL)
    _save(row, _values(channel), "channel")
    return _struct(row, Channel)


@transaction.atomic
def remove_channel(number: int) -> None:
    """Remove a channel, also from the rules that use it. NoSuchError."""
    _find(AlertChannel, "channel", number).delete()
    for row in AlertRule.objects.all():
        if number in row.channels:
            row.channels = [channel for channel in row.channels if channel != number]
            row.save(update_fields=["channels"])


@transaction.atomic
def add_silence(wall_ms: int, **values: Any) -> Silence:
    """Add a silence, and forget those that ended. BadRuleError, RefusedError."""
    AlertSilence.objects.filter(to_ms__lte=wall_ms).delete()
    _limit(AlertSilence, MAX_SILENCES, "silences")
    silence = Silence(id=0, **values)
    check_silence(silence, frozenset(AlertRule.objects.values_list("pk", flat=True)))
    row = AlertSilence()
    _save(row, _values(silence), "silence")
    return _struct(row, Silence)


def remove_silence(number: int) -> None:
    """End a silence. NoSuchError."""
    _find(AlertSilence, "silence", number).delete()


def channel_rows() -> list[AlertChannel]:
    """All channels, with what became of their last messages."""
    return list(AlertChannel.objects.order_by("id")[:MAX_CHANNELS])


def find_channel(number: int) -> Channel:
    """One channel. NoSuchError."""
    return _struct(_find(AlertChannel, "channel", number), Channel)
