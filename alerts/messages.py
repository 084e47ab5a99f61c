"""What is sent about alerts: the words, in the language that is active, and the bodies in the form of each receiver.

Names of groups and topics come from clients, so they are cleaned before they reach a person's chat: control characters,
and those that change the direction of text, are replaced.
"""

import hashlib
import hmac
import re
import unicodedata
from base64 import b64encode
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from django.utils.translation import gettext

from alerts.evaluation import Alert, Notice
from alerts.rules import Channel, Subject
from alerts.sentence import localized

SHOWN = 20
"""Alerts that a text names; the others are counted."""
IN_WEBHOOK = 100
"""Alerts in the body of a webhook; ``truncatedAlerts`` counts the others."""
MAX_WORD = 150
"""Characters of a name."""
MAX_TEXT = 400
"""Characters of an alert's text."""
NEVER = "0001-01-01T00:00:00Z"
"""Alertmanager's end of an alert that has not ended."""
_SPACES = re.compile(r"\s+")


class Post(NamedTuple):
    """An HTTP request: POST to ``url``."""

    url: str
    body: bytes
    headers: dict[str, str]


def clean(text: str, most: int = MAX_WORD) -> str:
    """One line without anything invisible, of at most ``most`` characters."""
    line = _SPACES.sub(" ", text).strip()
    line = "".join(letter if unicodedata.category(letter)[0] != "C" else "\N{REPLACEMENT CHARACTER}" for letter in line)
    return line if len(line) <= most else f"{line[: most - 1]}…"


def place_of(subject: Subject) -> str:
    """The subject in words."""
    if not subject.group:
        return clean(subject.broker) or gettext("reports")
    if not subject.topic:
        return gettext("{0} at {1}").format(clean(subject.group), clean(subject.broker))
    return gettext("{0} in {1} at {2}").format(clean(subject.group), clean(subject.topic), clean(subject.broker))


def subject_line(notice: Notice) -> str:
    """What a message is about, in one line."""
    name = clean(notice.rule.name)
    if notice.is_test:
        return f"[GlassMQ] {gettext('TEST')}: {name}"
    counts = []
    if notice.firing:
        counts.append(gettext("{0} firing").format(f"{len(notice.firing):,}"))
    if notice.resolved:
        counts.append(gettext("{0} resolved").format(f"{len(notice.resolved):,}"))
    return f"[GlassMQ] {gettext(notice.rule.severity).upper()}: {name} ({', '.join(counts)})"


def text_of(notice: Notice, site: str) -> str:
    """The message as plain text; ``site`` is the address of the pages."""
    lines = [subject_line(notice)]
    if notice.is_test:
        lines.append(gettext("This message tests the channel. Nothing is wrong."))
    for title, alerts in ((gettext("Firing"), notice.firing), (gettext("Resolved"), notice.resolved)):
        if alerts:
            lines += ["", f"{title}:", *(f"- {_line(alert)}" for alert in alerts[:SHOWN])]
            if len(alerts) > SHOWN:
                lines.append(gettext("- and {0} more").format(f"{len(alerts) - SHOWN:,}"))
    return "\n".join([*lines, "", f"{site}/alerts"])


def _line(alert: Alert) -> str:
    begin, place = (alert.fired or alert.since).wall_ms, place_of(alert.subject)
    if alert.resolved is not None:
        return gettext("{0}: it fired from {1} to {2}").format(place, _time(begin), _time(alert.resolved.wall_ms))
    return gettext("{0}: {1} (since {2})").format(place, clean(localized(alert.text), MAX_TEXT), _time(begin))


def _time(wall_ms: int) -> str:
    return datetime.fromtimestamp(wall_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def post_for(channel: Channel, notice: Notice, site: str) -> Post:
    """The request that sends a notice over a channel of any kind except email."""
    headers = {"content-type": "application/json", "user-agent": "GlassMQ"}
    if channel.kind == "webhook":
        if channel.secret:
            headers["authorization"] = f"Bearer {channel.secret}"
        return Post(channel.url, _encode(webhook_body(channel, notice, site)), headers)
    text = text_of(notice, site)
    if channel.kind == "dingtalk":
        body: dict[str, Any] = {"msgtype": "text", "text": {"content": text}}
        return Post(_signed_for_dingtalk(channel, notice.wall_ms), _encode(body), headers)
    # Feishu reads <at user_id="all"> in a text as a mention, so a group's name must not contain it.
    body = {"msg_type": "text", "content": {"text": text.replace("<", "\N{FULLWIDTH LESS-THAN SIGN}")}}
    if channel.secret:
        seconds = str(notice.wall_ms // 1000)
        body |= {"timestamp": seconds, "sign": _signature(f"{seconds}\n{channel.secret}", "")}
    return Post(channel.url, _encode(body), headers)


def _signed_for_dingtalk(channel: Channel, wall_ms: int) -> str:
    if not channel.secret:
        return channel.url
    sign = quote(_signature(channel.secret, f"{wall_ms}\n{channel.secret}"), safe="")
    return f"{channel.url}{'&' if '?' in channel.url else '?'}timestamp={wall_ms}&sign={sign}"


def _signature(key: str, text: str) -> str:
    return b64encode(hmac.new(key.encode(), text.encode(), hashlib.sha256).digest()).decode("ascii")


def webhook_body(channel: Channel, notice: Notice, site: str) -> dict[str, Any]:
    """The body in the form of Alertmanager's webhook, version 4."""
    alerts = [*notice.firing, *notice.resolved]
    labels = {"alertname": notice.rule.name, "severity": notice.rule.severity}
    return {
        "version": "4",
        "groupKey": f"glassmq/rule/{notice.rule.id}",
        "truncatedAlerts": max(0, len(alerts) - IN_WEBHOOK),
        "status": "firing" if notice.firing or notice.is_test else "resolved",
        "receiver": channel.name,
        "groupLabels": {"alertname": notice.rule.name},
        "commonLabels": labels,
        "commonAnnotations": {"summary": subject_line(notice)},
        "externalURL": site,
        "alerts": [_webhook_alert(alert, labels, site) for alert in alerts[:IN_WEBHOOK]],
    }


def _webhook_alert(alert: Alert, labels: dict[str, str], site: str) -> dict[str, Any]:
    subject = alert.subject
    own = {"broker": subject.broker, "consumer_group": subject.group, "topic": subject.topic}
    labels = labels | {name: value for name, value in own.items() if value}
    return {
        "status": "firing" if alert.resolved is None else "resolved",
        "labels": labels,
        "annotations": {"summary": f"{place_of(subject)}: {clean(localized(alert.text), MAX_TEXT)}"},
        "startsAt": _time((alert.fired or alert.since).wall_ms),
        "endsAt": NEVER if alert.resolved is None else _time(alert.resolved.wall_ms),
        "generatorURL": f"{site}/groups/{quote(subject.group, safe='')}" if subject.group else f"{site}/alerts",
        "fingerprint": hashlib.sha256("\n".join(f"{key}={labels[key]}" for key in sorted(labels)).encode()).hexdigest()[
            :16
        ],
    }


def _encode(body: dict[str, Any]) -> bytes:
    return msgspec.json.encode(body)


def refusal_in(channel: Channel, answer: bytes) -> str:
    """Why a receiver refused a message although it answered 200, as DingTalk and Feishu do; empty if it did not."""
    names = {"dingtalk": ("errcode", "errmsg"), "feishu": ("code", "msg")}.get(channel.kind)
    if names is None:
        return ""
    try:
        fields = msgspec.json.decode(answer, type=dict[str, Any])
    except msgspec.DecodeError:
        return "its answer is not JSON"
    code = fields.get(names[0], fields.get("StatusCode"))
    if code == 0:
        return ""
    return clean(f"it answered {names[0]} {code}: {fields.get(names[1], '')}")
