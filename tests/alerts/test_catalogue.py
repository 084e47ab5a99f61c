"""Rules, channels and silences in the database."""

from typing import Any

import pytest

from alerts import catalogue
from alerts.catalogue import NoSuchError, RefusedError
from alerts.models import AlertRule
from alerts.rules import BadRuleError, check_rule
from tests.alerts.receivers import add_first_rules

pytestmark = pytest.mark.django_db
HOOK: dict[str, Any] = {"name": "hook", "kind": "webhook", "url": "https://hooks.example/s3cret", "secret": "s"}


def test_the_initial_rules_send_nothing() -> None:
    AlertRule.objects.all().delete()
    add_first_rules()
    rules = catalogue.rules()
    for rule in rules:
        check_rule(rule, frozenset())
    assert [rule.what for rule in rules] == [
        "engine_down",
        "group_state",
        "dead_letters",
        "missed_arrivals",
        "disk_used",
    ]
    assert not any(rule.channels for rule in rules)


def test_a_rule_is_added_changed_and_removed() -> None:
    rule = catalogue.add_rule(name="lag", what="lag", threshold=1000, group="bill*")
    assert rule in catalogue.rules()
    changed = catalogue.change_rule(rule.id, threshold=2000, enabled=False)
    assert (changed.threshold, changed.enabled, changed.group) == (2000, False, "bill*")
    catalogue.remove_rule(rule.id)
    assert rule.id not in [one.id for one in catalogue.rules()]
    for call in (lambda: catalogue.change_rule(rule.id, name="x"), lambda: catalogue.remove_rule(rule.id)):
        with pytest.raises(NoSuchError, match=f"there is no rule {rule.id}"):
            call()


def test_invalid_values_are_refused_and_not_stored() -> None:
    add_first_rules()
    before = catalogue.rules()
    with pytest.raises(BadRuleError, match="states"):
        catalogue.add_rule(name="bad", what="group_state")
    with pytest.raises(RefusedError, match="another rule has the name"):
        catalogue.add_rule(name=before[0].name, what="lag")
    with pytest.raises(BadRuleError, match="no channel 99"):
        catalogue.change_rule(before[0].id, channels=(99,))
    assert catalogue.rules() == before


def test_numbers_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    add_first_rules()
    monkeypatch.setattr(catalogue, "MAX_RULES", 5)
    monkeypatch.setattr(catalogue, "MAX_CHANNELS", 1)
    monkeypatch.setattr(catalogue, "MAX_SILENCES", 1)
    with pytest.raises(RefusedError, match="there are 5 rules"):
        catalogue.add_rule(name="one more", what="lag")
    catalogue.add_channel(**HOOK)
    with pytest.raises(RefusedError, match="there are 1 channels"):
        catalogue.add_channel(**HOOK)
    silence: dict[str, Any] = {"rule": None, "group": "*", "from_ms": 1000, "to_ms": 2000, "comment": ""}
    catalogue.add_silence(1000, **silence)
    with pytest.raises(RefusedError, match="there are 1 silences"):
        catalogue.add_silence(1999, **silence)
    assert catalogue.add_silence(2000, **silence | {"from_ms": 2000, "to_ms": 3000})


def test_a_channel_keeps_its_secrets_when_something_else_changes() -> None:
    channel = catalogue.add_channel(**HOOK)
    changed = catalogue.change_channel(channel.id, name="other")
    assert (changed.url, changed.secret) == (HOOK["url"], "s")
    assert catalogue.find_channel(channel.id) == changed
    assert [row.name for row in catalogue.channel_rows()] == ["other"]
    assert catalogue.channels() == [changed]


def test_a_removed_channel_leaves_its_rules() -> None:
    channel = catalogue.add_channel(**HOOK)
    rule = catalogue.add_rule(name="lag", what="lag", channels=(channel.id,))
    catalogue.remove_channel(channel.id)
    assert next(one for one in catalogue.rules() if one.id == rule.id).channels == ()
    with pytest.raises(NoSuchError):
        catalogue.find_channel(channel.id)


def test_email_needs_a_server(settings: Any) -> None:
    with pytest.raises(BadRuleError, match="GLASSMQ_SMTP_URL"):
        catalogue.add_channel(name="mail", kind="email", recipients=("a@b.example",))
    settings.GLASSMQ_SENDS_MAIL = True
    assert catalogue.add_channel(name="mail", kind="email", recipients=("a@b.example",)).recipients == ("a@b.example",)


def test_a_silence_is_added_and_ended() -> None:
    silence = catalogue.add_silence(1000, rule=None, group="*", from_ms=1000, to_ms=2000, comment="a release")
    assert catalogue.silences(1999) == [silence]
    assert catalogue.silences(2000) == []
    catalogue.remove_silence(silence.id)
    assert catalogue.silences(1000) == []
    with pytest.raises(BadRuleError, match="no rule 99"):
        catalogue.add_silence(1000, rule=99, group="*", from_ms=1000, to_ms=2000, comment="")
