"""The states of an alert: ok, pending, firing, resolved. Pure: facts and times are arguments.

    condition holds ──> pending ── it held for_s ──> firing ── it no longer holds ──> resolved
                           └── it no longer holds ──> ok

An unknown value changes nothing: a firing alert stays firing, a pending one does not begin to fire.
"""

from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

import msgspec

from alerts.rules import Rule, Silence, Subject, matches

MAX_ALERTS = 1000
"""Alerts of one rule, pending and firing ones. Further subjects are only counted."""
GROUP_INTERVAL_MS = 60_000
"""A rule sends at most one message in this time; what happens in between waits for it."""


class Moment(NamedTuple):
    """Now: ``wall_ms`` is shown, ``mono_ms`` measures durations, whatever the wall clock does."""

    wall_ms: int
    mono_ms: int


class Readings:
    """What one rule's condition is at each subject. ``holding``: where it holds, with the value in words.

    ``known`` are the subjects of the rule's alerts.
    Where the value is unknown, the subject is in ``unknown``, or its group or broker in one of the other sets.
    Everywhere else the condition does not hold.
    """

    def __init__(self, known: Container[Subject] = ()) -> None:
        self._known = known
        self.holding: dict[Subject, str] = {}
        self.unknown: set[Subject] = set()
        self.unknown_groups: set[tuple[str, str]] = set()
        self.unknown_brokers: set[str] = set()
        self.left_out = 0

    def add(self, subject: Subject, text: str) -> None:
        """The condition holds at this subject. More than twice MAX_ALERTS subjects are only counted."""
        if len(self.holding) < 2 * MAX_ALERTS:
            self.holding[subject] = text
        else:
            self.left_out += 1

    def add_unknown(self, subject: Subject) -> None:
        """The value of this subject is unknown. Only a subject with an alert is noted."""
        if subject in self._known:
            self.unknown.add(subject)

    def is_unknown(self, subject: Subject) -> bool:
        return (
            subject in self.unknown
            or subject.broker in self.unknown_brokers
            or (subject.broker, subject.group) in self.unknown_groups
        )


class Alert(msgspec.Struct, kw_only=True):
    """One alert. ``fired`` is None while it is pending, ``notified_mono`` while no message about it was sent.

    ``record`` is its row in the history, 0 without one.
    """

    subject: Subject
    text: str
    since: Moment
    fired: Moment | None = None
    resolved: Moment | None = None
    notified_mono: int | None = None
    record: int = 0


class Changes(NamedTuple):
    """What a step changed."""

    fired: list[Alert]
    resolved: list[Alert]


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """One message about a rule: alerts that began to fire or still do, and those that ended."""

    rule: Rule
    firing: tuple[Alert, ...]
    resolved: tuple[Alert, ...]
    wall_ms: int
    is_test: bool = False


class RuleState:
    """The alerts of one rule."""

    def __init__(self) -> None:
        self.alerts: dict[Subject, Alert] = {}
        self.left_out = 0
        self._ended: dict[Subject, Alert] = {}
        """Resolved alerts whose beginning was sent, and whose end is not yet."""
        self._sent_mono: int | None = None

    @property
    def firing(self) -> list[Alert]:
        return [alert for alert in self.alerts.values() if alert.fired is not None]

    def restore(self, alerts: Iterable[Alert]) -> None:
        """Alerts that fired when the previous evaluator ended."""
        self.alerts |= {alert.subject: alert for alert in alerts}

    def step(self, rule: Rule, readings: Readings, now: Moment) -> Changes:
        """Take the readings of this moment."""
        changes = Changes([], [])
        for subject, alert in list(self.alerts.items()):
            if subject not in readings.holding and not readings.is_unknown(subject):
                del self.alerts[subject]
                if alert.fired is not None:
                    self._resolve(alert, rule, now)
                    changes.resolved.append(alert)
        self.left_out = readings.left_out
        for subject, text in readings.holding.items():
            held = self._alert(subject, text, now)
            if held is None:
                self.left_out += 1
            elif held.fired is None and now.mono_ms - held.since.mono_ms >= rule.for_s * 1000:
                self._fire(held, now)
                changes.fired.append(held)
        return changes

    def _alert(self, subject: Subject, text: str, now: Moment) -> Alert | None:
        """The alert of a subject, a new one if need be; None if there is no room."""
        alert = self.alerts.get(subject)
        if alert is None:
            if len(self.alerts) >= MAX_ALERTS:
                return None
            alert = self.alerts[subject] = Alert(subject=subject, text=text, since=now)
        alert.text = text
        return alert

    def _fire(self, alert: Alert, now: Moment) -> None:
        alert.fired = now
        ended = self._ended.pop(alert.subject, None)
        if ended is not None:  # it came back before anybody heard that it had ended
            alert.notified_mono = ended.notified_mono

    def _resolve(self, alert: Alert, rule: Rule, now: Moment) -> None:
        alert.resolved = now
        if alert.notified_mono is not None and rule.send_resolved:
            self._ended[alert.subject] = alert
            if len(self._ended) > MAX_ALERTS:
                del self._ended[next(iter(self._ended))]

    def notice(self, rule: Rule, silences: Iterable[Silence], now: Moment) -> Notice | None:
        """The message that is due now, if any; it counts as sent."""
        if not rule.channels:
            self._ended.clear()
            return None
        if self._sent_mono is not None and now.mono_ms - self._sent_mono < GROUP_INTERVAL_MS:
            return None
        silenced = {silence.group for silence in silences if silence.is_active(rule.id, now.wall_ms)}

        def is_heard(alert: Alert) -> bool:
            return not any(matches(pattern, alert.subject.group) for pattern in silenced)

        firing = [alert for alert in self.firing if is_heard(alert)]
        is_repeat = any(
            alert.notified_mono is not None and now.mono_ms - alert.notified_mono >= rule.repeat_s * 1000
            for alert in firing
        )
        due = firing if is_repeat else [alert for alert in firing if alert.notified_mono is None]
        ended = [alert for alert in self._ended.values() if is_heard(alert)]
        self._ended.clear()
        if not due and not ended:
            return None
        self._sent_mono = now.mono_ms
        for alert in due:
            alert.notified_mono = now.mono_ms
        return Notice(
            rule=rule,
            firing=tuple(msgspec.structs.replace(alert) for alert in due),
            resolved=tuple(ended),
            wall_ms=now.wall_ms,
        )


class NewEvents:
    """Counts the new events of a total that only grows, such as dead letters.

    After QUIET_MS without a new event the count begins at 0 again, so an alert ends then. A total that fell,
    because its process was restarted, is counted anew.
    """

    QUIET_MS = 10 * 60_000

    def __init__(self) -> None:
        self._last: dict[Subject, int] = {}
        self._series: dict[Subject, tuple[int, int]] = {}

    def count(self, subject: Subject, total: int, now: Moment) -> int:
        """The number of new events up to now."""
        previous = self._last.get(subject, total)
        self._last[subject] = total
        count, at = self._series.get(subject, (0, 0))
        if count and now.mono_ms - at >= self.QUIET_MS:
            count = 0
        if total > previous:
            count, at = count + total - previous, now.mono_ms
        if count:
            self._series[subject] = (count, at)
        else:
            self._series.pop(subject, None)
        return count

    def forget_others(self, subjects: Mapping[Subject, object], broker: str) -> None:
        """Forget the broker's other subjects, which it does not have any more."""
        for subject in [known for known in self._last if known.broker == broker and known not in subjects]:
            del self._last[subject]
            self._series.pop(subject, None)
