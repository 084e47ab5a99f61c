"""The history of alerts, and the turn of a web process."""

from typing import Any

import pytest

from alerts import catalogue, records
from alerts.evaluation import Alert, Changes, Moment, Notice
from alerts.models import AlertChannel, AlertRecord
from alerts.records import LEASE_MS
from alerts.rules import Rule, Subject
from alerts.sending import Outcome
from tests.alerts.receivers import add_first_rules

pytestmark = pytest.mark.django_db
NOW = Moment(wall_ms=1_000_000_000, mono_ms=5_000)


def fired(group: str = "g", at: Moment = NOW) -> Alert:
    return Alert(subject=Subject("broker-a", group), text="stalled", since=at, fired=at)


@pytest.fixture(autouse=True)
def rules() -> None:
    add_first_rules()


def some_rule() -> Rule:
    return next(rule for rule in catalogue.rules() if rule.name == "Group stalled")


def write(*alerts: Alert, resolved: tuple[Alert, ...] = (), at: int = NOW.wall_ms) -> None:
    rule = some_rule()
    records.write([(rule, Changes(list(alerts), list(resolved)))], [rule.id], at)


def test_one_process_at_a_time_has_the_turn() -> None:
    assert records.take_turn("a", 1000)
    assert not records.take_turn("b", 1001)
    assert records.take_turn("a", 1002)
    assert not records.take_turn("b", 1002 + LEASE_MS)
    assert records.take_turn("b", 1003 + LEASE_MS)
    assert not records.take_turn("a", 1004 + LEASE_MS)


def test_a_turn_is_given_up_at_once() -> None:
    records.take_turn("a", 1000)
    records.give_up_turn("b")
    assert not records.take_turn("b", 1001)
    records.give_up_turn("a")
    assert records.take_turn("b", 1002)


def test_a_clock_that_goes_back_an_hour_stops_nobody_for_an_hour() -> None:
    records.take_turn("a", 10_000_000)
    assert records.take_turn("b", 10_000_000 - 3_600_000)


def test_a_firing_alert_is_found_again_by_the_next_process() -> None:
    alert = fired()
    write(alert, fired("h"))
    outcome = Outcome(
        catalogue.add_channel(name="c", kind="webhook", url="http://x.example"),
        Notice(rule=some_rule(), firing=(alert,), resolved=(), wall_ms=0),
        "",
    )
    records.note_outcome(outcome, NOW.wall_ms + 1000)
    later = Moment(NOW.wall_ms + 60_000, 7)
    heard, unheard = records.firing_alerts(later)[some_rule().id]
    assert heard.subject == alert.subject
    assert heard.fired == Moment(NOW.wall_ms, 7 - 60_000)
    assert heard.notified_mono == 7 - 59_000
    assert (unheard.subject.group, unheard.notified_mono) == ("h", None)


def test_an_alert_ends_in_the_history_and_is_written_once() -> None:
    alert = fired()
    write(alert)
    write(alert)
    assert records.firing_counts() == {"critical": 1}
    write(resolved=(alert,), at=NOW.wall_ms + 5)
    assert records.firing_counts() == {}
    [row] = records.page(firing=False, before=None, limit=10).rows
    assert (row.group, row.resolved_ms, row.rule_name) == ("g", NOW.wall_ms + 5, "Group stalled")


def test_alerts_of_a_rule_that_is_gone_end() -> None:
    write(fired())
    records.write([], [], NOW.wall_ms + 9)
    assert AlertRecord.objects.get().resolved_ms == NOW.wall_ms + 9


def test_pages_have_every_alert_once() -> None:
    write(*(fired(f"g{number}") for number in range(5)))
    seen: list[str] = []
    before = None
    while True:
        page = records.page(firing=None, before=before, limit=2)
        seen += [row.group for row in page.rows]
        before = page.next
        if before is None:
            break
    assert seen == ["g4", "g3", "g2", "g1", "g0"]


def test_the_history_is_cut_and_firing_alerts_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "KEPT_RECORDS", 2)
    alerts = [fired(f"g{number}") for number in range(5)]
    write(*alerts)
    write(resolved=tuple(alerts[1:]))
    records.forget_old(NOW.wall_ms)
    assert [row.group for row in records.page(firing=None, before=None, limit=10).rows] == ["g4", "g3", "g0"]
    records.forget_old(NOW.wall_ms + records.KEPT_MS + 1)
    assert [row.group for row in records.page(firing=None, before=None, limit=10).rows] == ["g0"]


def test_a_try_that_failed_is_noted_at_its_channel(settings: Any) -> None:
    channel = catalogue.add_channel(name="c", kind="webhook", url="http://x.example")
    alert = fired()
    write(alert)
    notice = Notice(rule=some_rule(), firing=(alert,), resolved=(), wall_ms=0)
    records.note_outcome(Outcome(channel, notice, "it answered 503"), 77)
    row = AlertChannel.objects.get()
    assert (row.failed_ms, row.error, row.sent_ms) == (77, "it answered 503", None)
    assert AlertRecord.objects.get().notified_ms is None
    records.note_outcome(Outcome(channel, notice, ""), 78)
    row.refresh_from_db()
    assert (row.failed_ms, row.error, row.sent_ms) == (77, "", 78)


def test_what_is_declared_leaves_out_what_is_switched_off() -> None:
    hook = catalogue.add_channel(name="c", kind="webhook", url="http://x.example", enabled=False)
    rule = catalogue.change_rule(some_rule().id, enabled=False)
    declared = records.declared(0)
    assert rule.id not in [one.id for one in declared.rules]
    assert hook.id not in declared.channels


def test_a_round_is_noted() -> None:
    records.take_turn("a", 1)
    records.note_round(5, ["a problem " * 100])
    row = records.evaluator()
    assert row is not None
    assert row.evaluated_ms == 5
    assert len(row.problems[0]) == 500
