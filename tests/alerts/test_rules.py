"""What a rule, a silence and a channel may be."""

import msgspec
import pytest

from alerts.rules import (
    BadRuleError,
    Channel,
    Rule,
    Silence,
    check_channel,
    check_rule,
    check_silence,
    check_url,
    host_of,
    matches,
)

LAG = Rule(id=1, name="lag", what="lag", threshold=1000)


def field_of(**changes: object) -> str:
    """The field to blame for a rule with these changes."""
    fields = {"id": 1, "name": "n", "what": "lag"} | changes
    with pytest.raises(BadRuleError) as refused:
        check_rule(Rule(**fields), frozenset({7}))  # type: ignore[arg-type]
    return refused.value.field


def test_a_rule_that_could_not_do_what_it_says_is_refused() -> None:
    check_rule(LAG, frozenset())
    check_rule(Rule(id=1, name="s", what="group_state", states=("stalled",), channels=(7,)), frozenset({7}))
    assert field_of(name=" ") == "name"
    assert field_of(name="two\nlines") == "name"
    assert field_of(group="") == "group"
    assert field_of(topic="a\nb") == "topic"
    assert field_of(states=("stalled",)) == "states"
    assert field_of(what="group_state") == "states"
    assert field_of(what="group_state", states=("asleep",)) == "states"
    check_rule(Rule(id=1, name="v", what="group_verdict", verdicts=("no_member",)), frozenset())
    check_rule(Rule(id=1, name="v", what="group_verdict", verdict_severities=("error",)), frozenset())
    assert field_of(what="group_verdict") == "verdicts"
    assert field_of(what="group_verdict", verdicts=("asleep",)) == "verdicts"
    assert field_of(what="group_verdict", verdicts=("idle",)) == "verdicts", "it is never a problem"
    assert field_of(what="group_verdict", verdicts=("engine_busy",)) == "verdicts", "it is about the broker"
    warning = {"verdicts": ("filter_rejects_all",), "verdict_severities": ("error",)}
    assert field_of(what="group_verdict", **warning) == "verdict_severities", "it could never fire"
    assert field_of(what="group_verdict", verdicts=("no_member",), threshold=1) == "threshold"
    assert field_of(verdicts=("no_member",)) == "verdicts"
    assert field_of(verdict_severities=("error",)) == "verdict_severities"
    assert field_of(what="engine_down", threshold=1) == "threshold"
    assert field_of(what="disk_used", threshold=100) == "threshold"
    assert field_of(what="disk_used", group="billing") == "group"
    assert field_of(what="dead_letters", topic="orders") == "topic"
    assert field_of(channels=(7, 8)) == "channels"


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("*", "", True),
        ("billing", "billing-2", False),
        ("billing*", "billing-2", True),
        ("*-eu-?", "a-eu-1", True),
        ("[ab]", "a", False),
        ("[ab]", "[ab]", True),
        ("a.c", "abc", False),
    ],
)
def test_only_stars_and_question_marks_are_special(pattern: str, name: str, fits: bool) -> None:
    assert matches(pattern, name) is fits


def test_a_silence_covers_its_rule_its_groups_and_its_time() -> None:
    silence = Silence(id=1, rule=1, group="b*", from_ms=1000, to_ms=2000, comment="")
    assert silence.covers(1, "billing", 1000)
    assert not silence.covers(1, "billing", 999)
    assert not silence.covers(1, "billing", 2000)
    assert not silence.covers(2, "billing", 1500)
    assert not silence.covers(1, "orders", 1500)
    for broken in ({"to_ms": 1000}, {"to_ms": 1 << 50}, {"rule": 9}, {"group": ""}):
        fields = {"id": 1, "rule": None, "group": "*", "from_ms": 1000, "to_ms": 2000, "comment": ""} | broken
        with pytest.raises(BadRuleError):
            check_silence(Silence(**fields), frozenset({1}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hooks.example/x",
        "ftp://hooks.example/x",
        "file:///etc/passwd",
        "http://",
        "http://user:password@hooks.example/x",
        "http://hooks.example:99999/x",
        "http://hooks.example/a b",
        "http://hooks.example/\r\nX: 1",
        "http://[::1",
    ],
)
def test_only_http_urls_are_sent_to_and_a_refusal_does_not_repeat_them(url: str) -> None:
    with pytest.raises(BadRuleError) as refused:
        check_url(url, ())
    assert len(url) < 8 or url not in str(refused.value)


def test_an_installation_may_limit_the_hosts() -> None:
    check_url("https://hooks.example/secret", ("hooks.example",))
    with pytest.raises(BadRuleError, match=r"GLASSMQ_ALERT_HOSTS allows hooks\.example") as refused:
        check_url("https://10.0.0.1/secret", ("hooks.example",))
    assert "secret" not in str(refused.value)
    assert host_of("https://hooks.example:8443/secret?x=1") == "https://hooks.example:8443"
    assert host_of("https://u:p@hooks.example/secret") == "https://hooks.example"


def test_a_channel_has_what_its_kind_needs() -> None:
    def blamed(*, sends_mail: bool = True, **fields: object) -> str:
        with pytest.raises(BadRuleError) as refused:
            check_channel(Channel(id=1, **({"name": "n"} | fields)), hosts=(), sends_mail=sends_mail)  # type: ignore[arg-type]
        return refused.value.field

    check_channel(Channel(id=1, name="n", kind="email", recipients=("a@b.example",)), hosts=(), sends_mail=True)
    assert blamed(kind="email", recipients=("a@b.example",), sends_mail=False) == "kind"
    assert blamed(kind="email") == "recipients"
    assert blamed(kind="email", recipients=("a@b.example\nBcc: c@d.example",)) == "recipients"
    assert blamed(kind="email", url="http://x.example", recipients=("a@b.example",)) == "url"
    assert blamed(kind="webhook", url="http://x.example", recipients=("a@b.example",)) == "recipients"
    assert blamed(kind="feishu") == "url"
    assert blamed(kind="webhook", name="", url="http://x.example") == "name"


def test_a_bearer_token_fits_into_a_header() -> None:
    channel = Channel(id=1, name="hook", kind="webhook", url="https://hooks.example/x", secret="s3cret")
    check_channel(channel, hosts=(), sends_mail=False)
    for secret in ("schlüssel", "a\r\nX-Other: b"):
        with pytest.raises(BadRuleError) as refused:
            check_channel(msgspec.structs.replace(channel, secret=secret), hosts=(), sends_mail=False)
        assert refused.value.field == "secret"
        check_channel(msgspec.structs.replace(channel, secret=secret, kind="feishu"), hosts=(), sends_mail=False)


def test_what_people_write_is_on_one_line() -> None:
    silence = Silence(id=1, rule=None, group="*", from_ms=0, to_ms=1, comment="deploy\x00")
    with pytest.raises(BadRuleError) as refused:
        check_silence(silence, frozenset())
    assert refused.value.field == "comment"
    channel = Channel(id=1, name="a\nb", kind="webhook", url="https://hooks.example/x")
    with pytest.raises(BadRuleError) as refused:
        check_channel(channel, hosts=(), sends_mail=False)
    assert refused.value.field == "name"
