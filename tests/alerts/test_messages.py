"""What receivers get. The signatures were computed with openssl."""

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.utils.translation import override

from alerts.evaluation import Alert, Moment, Notice
from alerts.messages import clean, place_of, post_for, refusal_in, subject_line, text_of
from alerts.rules import Channel, ChannelKind, Rule, Subject
from alerts.sentence import Sentence

SITE = "https://mq.example"
AT = 1_795_267_430_000
RULE = Rule(id=3, name="Group stalled", what="group_state", states=("stalled",), severity="critical")


def alert(group: str = "billing", topic: str = "", *, resolved: bool = False) -> Alert:
    moment = Moment(AT, 0)
    return Alert(
        subject=Subject("broker-a", group, topic),
        text="stalled",
        since=moment,
        fired=moment,
        resolved=Moment(AT + 60_000, 0) if resolved else None,
    )


def notice(*firing: Alert, resolved: tuple[Alert, ...] = (), is_test: bool = False) -> Notice:
    return Notice(rule=RULE, firing=firing, resolved=resolved, wall_ms=AT, is_test=is_test)


def channel(kind: ChannelKind, url: str = "https://hooks.example/x", secret: str = "") -> Channel:
    return Channel(id=1, name="on call", kind=kind, url=url, secret=secret)


def body(kind: ChannelKind, what: Notice, secret: str = "") -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(post_for(channel(kind, secret=secret), what, SITE).body)
    return fields


def test_a_text_names_what_fires_and_what_ended() -> None:
    what = notice(alert(), alert("orders", "o"), resolved=(alert("late", resolved=True),))
    assert text_of(what, SITE).splitlines() == [
        "[GlassMQ] CRITICAL: Group stalled (2 firing, 1 resolved)",
        "",
        "Firing:",
        "- billing at broker-a: stalled (since 2026-11-21T13:23:50Z)",
        "- orders in o at broker-a: stalled (since 2026-11-21T13:23:50Z)",
        "",
        "Resolved:",
        "- late at broker-a: it fired from 2026-11-21T13:23:50Z to 2026-11-21T13:24:50Z",
        "",
        "https://mq.example/alerts",
    ]


def test_a_text_in_chinese() -> None:
    waits = alert("billing", "orders")
    waits.text = Sentence("a message has waited {0}", Sentence("{0} min", "12"))
    with override("zh-hans"):
        lines = text_of(notice(waits, alert("{0}"), resolved=(alert("late", resolved=True),)), SITE).splitlines()
    assert lines == [
        "[GlassMQ] 严重: Group stalled (2 个触发, 1 个已恢复)",
        "",
        "正在触发:",
        "- billing / orders (broker-a): 有消息已等待 12 分 (自 2026-11-21T13:23:50Z)",
        "- {0} (broker-a): stalled (自 2026-11-21T13:23:50Z)",
        "",
        "已恢复:",
        "- late (broker-a): 从 2026-11-21T13:23:50Z 触发到 2026-11-21T13:24:50Z",
        "",
        "https://mq.example/alerts",
    ]


def test_a_long_list_is_cut_and_counted() -> None:
    text = text_of(notice(*(alert(f"g{number}") for number in range(50))), SITE)
    assert "(50 firing)" in text
    assert "- g19 at" in text
    assert "- g20 at" not in text
    assert "- and 30 more" in text


def test_hostile_names_stay_one_line_of_visible_text() -> None:
    name = 'x\r\nBcc: a@b\N{RIGHT-TO-LEFT OVERRIDE}\x00<at user_id="all">' + "y" * 1000
    place = place_of(Subject("broker-a", name))
    assert "\n" not in place
    assert "\r" not in place
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in place
    assert len(clean(name)) == 150
    assert "<at" not in body("feishu", notice(alert('<at user_id="all"></at>')))["content"]["text"]


def test_a_webhook_gets_what_alertmanager_sends() -> None:
    sent = body("webhook", notice(alert("billing", "orders"), resolved=(alert("late", resolved=True),)))
    assert (sent["version"], sent["status"], sent["receiver"], sent["truncatedAlerts"]) == ("4", "firing", "on call", 0)
    assert sent["commonLabels"] == {"alertname": "Group stalled", "severity": "critical"}
    firing, resolved = sent["alerts"]
    assert firing["labels"] == sent["commonLabels"] | {
        "broker": "broker-a",
        "consumer_group": "billing",
        "topic": "orders",
    }
    assert (firing["status"], firing["startsAt"]) == ("firing", "2026-11-21T13:23:50Z")
    assert (firing["endsAt"], firing["generatorURL"]) == ("0001-01-01T00:00:00Z", "https://mq.example/groups/billing")
    assert (resolved["status"], resolved["endsAt"]) == ("resolved", "2026-11-21T13:24:50Z")
    assert firing["fingerprint"] != resolved["fingerprint"]
    many = body("webhook", notice(*(alert(f"g{number}") for number in range(130))))
    assert (len(many["alerts"]), many["truncatedAlerts"]) == (100, 30)


def test_a_webhooks_secret_is_its_bearer_token() -> None:
    assert post_for(channel("webhook", secret="s3"), notice(alert()), SITE).headers["authorization"] == "Bearer s3"
    assert "authorization" not in post_for(channel("webhook"), notice(alert()), SITE).headers


def test_dingtalk_is_signed_in_the_url() -> None:
    url = "https://oapi.dingtalk.com/robot/send?access_token=t"
    post = post_for(channel("dingtalk", url, "SEC1"), notice(alert()), SITE)
    query = parse_qs(urlsplit(post.url).query)
    assert query == {
        "access_token": ["t"],
        "timestamp": [str(AT)],
        "sign": ["eQiEiZrkPvb+tCtBdBLGm9lySWeUqKCncjZpAYB80aM="],
    }
    assert json.loads(post.body)["msgtype"] == "text"
    assert post_for(channel("dingtalk", url), notice(alert()), SITE).url == url


def test_feishu_is_signed_in_the_body() -> None:
    sent = body("feishu", notice(alert()), "SEC1")
    assert (sent["msg_type"], sent["timestamp"]) == ("text", "1795267430")
    assert sent["sign"] == "7i9OSr5dSRPb8sRDUqXUD4JCs+2f1VpM7FY87zPq3E4="
    assert set(body("feishu", notice(alert()))) == {"msg_type", "content"}


@pytest.mark.parametrize(
    ("kind", "answer", "refusal"),
    [
        ("webhook", b"anything", ""),
        ("dingtalk", b'{"errcode":0,"errmsg":"ok"}', ""),
        ("dingtalk", b'{"errcode":310000,"errmsg":"sign not match"}', "it answered errcode 310000: sign not match"),
        ("feishu", b'{"code":0,"msg":"success"}', ""),
        ("feishu", b'{"StatusCode":0,"StatusMessage":"success"}', ""),
        ("feishu", b'{"code":19021,"msg":"sign match fail"}', "it answered code 19021: sign match fail"),
        ("feishu", b"<html>", "its answer is not JSON"),
    ],
)
def test_a_robot_refuses_with_200(kind: ChannelKind, answer: bytes, refusal: str) -> None:
    assert refusal_in(channel(kind), answer) == refusal


def test_a_test_message_says_so() -> None:
    what = notice(is_test=True)
    assert subject_line(what) == "[GlassMQ] TEST: Group stalled"
    assert "Nothing is wrong." in text_of(what, SITE)
    assert body("webhook", what)["alerts"] == []
