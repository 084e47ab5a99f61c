"""What an operator declares: rules, silences, channels, and what each of them may be."""

import re
from fnmatch import translate
from functools import lru_cache
from typing import Literal, NamedTuple, get_args
from urllib.parse import urlsplit

import msgspec

from bridge.port import PROBLEMS, State
from spark_jobs.catalogue import REPORTS

What = Literal[
    "group_state",
    "group_verdict",
    "lag",
    "oldest",
    "dead_letters",
    "missed_arrivals",
    "disk_used",
    "engine_down",
    "report",
]
VerdictSeverity = Literal["error", "warning"]
Severity = Literal["critical", "warning", "info"]
ChannelKind = Literal["webhook", "email", "dingtalk", "feishu"]

STATES: tuple[str, ...] = get_args(State)
BAD_STATES = ("stalled", "stopped", "falling behind", "unknown")
SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1000, 60_000, 3_600_000, 86_400_000
MAX_RULES, MAX_CHANNELS, MAX_SILENCES = 50, 20, 100
MAX_NAME, MAX_PATTERN, MAX_URL, MAX_SECRET, MAX_COMMENT = 100, 255, 2000, 500, 500
MAX_RECIPIENTS = 20
MAX_FOR_S, MIN_REPEAT_S, MAX_REPEAT_S = 24 * 3600, 300, 30 * 24 * 3600
MAX_SILENCE_MS = 366 * DAY_MS
MAX_THRESHOLD = (1 << 53) - 1
_FIGURE = re.compile(r"[a-z0-9_]{1,64}")
_ADDRESS = re.compile(r"[^@\s<>,;:\"\\]{1,64}@[^@\s<>,;:\"\\]{1,190}")


class Subject(NamedTuple):
    """What an alert is about. ``group`` and ``topic`` are empty where a rule is not about them."""

    broker: str
    group: str = ""
    topic: str = ""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A condition that holds ``for_s`` seconds makes an alert fire.

    ``states`` are for `group_state`. `group_verdict` holds while the group has one of the ``verdicts``, by id, with one
    of the ``verdict_severities``; each of the two is any if it is empty. ``threshold`` is for all others except
    `engine_down`: the value must exceed it. It is in messages, in ms for `oldest`, in percent for `disk_used`.
    ``group`` and ``topic`` are patterns with ``*``.
    ``report`` and ``figure`` are for `report`: a headline of a report, by its name. The threshold is in the figure's
    own unit, in percent for a share; with ``below`` the value must be lower.
    """

    id: int
    name: str
    what: What
    states: tuple[str, ...] = ()
    verdicts: tuple[str, ...] = ()
    verdict_severities: tuple[VerdictSeverity, ...] = ()
    threshold: int = 0
    group: str = "*"
    topic: str = "*"
    report: str = ""
    figure: str = ""
    below: bool = False
    for_s: int = 0
    severity: Severity = "warning"
    repeat_s: int = 4 * 3600
    send_resolved: bool = True
    channels: tuple[int, ...] = ()
    enabled: bool = True


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """From ``from_ms`` until ``to_ms`` nothing is sent about matching alerts. ``rule`` None is every rule."""

    id: int
    rule: int | None
    group: str
    from_ms: int
    to_ms: int
    comment: str

    def is_active(self, rule: int, wall_ms: int) -> bool:
        """Whether it silences some alerts of this rule now."""
        return self.from_ms <= wall_ms < self.to_ms and self.rule in (None, rule)

    def covers(self, rule: int, group: str, wall_ms: int) -> bool:
        """Whether nothing is sent about this group now; the group is empty in alerts about a broker."""
        return self.is_active(rule, wall_ms) and matches(self.group, group)


class Channel(msgspec.Struct, frozen=True, kw_only=True):
    """Where messages go. ``url`` and ``secret`` are secrets: they are never shown, nor logged."""

    id: int
    name: str
    kind: ChannelKind
    url: str = ""
    secret: str = ""
    recipients: tuple[str, ...] = ()
    enabled: bool = True


class BadRuleError(ValueError):
    """An invalid rule, silence or channel. The message is a sentence; ``field`` is the one to blame."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(sentence)
        self.field = field


@lru_cache(1024)
def _compiled(pattern: str) -> "re.Pattern[str] | None":
    return None if pattern == "*" else re.compile(translate(pattern.replace("[", "[[]")))


def matches(pattern: str, name: str) -> bool:
    """Whether a name fits a pattern, in which ``*`` is any text and ``?`` any character."""
    compiled = _compiled(pattern)
    return compiled is None or compiled.match(name) is not None


def check_rule(rule: Rule, channels: "frozenset[int]") -> None:
    """Raise BadRuleError for a rule that could never fire, or not as its author expects."""
    if not rule.name.strip():
        raise BadRuleError("name", "a rule needs a name, with which its messages begin")
    _check_text("name", rule.name)
    for field, pattern in (("group", rule.group), ("topic", rule.topic)):
        _check_pattern(field, pattern)
    if rule.what == "group_state":
        _check_states(rule)
    elif rule.states:
        raise BadRuleError("states", f"only a rule on group_state has states, not one on {rule.what}")
    _check_verdicts(rule)
    if rule.what in ("group_state", "group_verdict", "engine_down") and rule.threshold:
        raise BadRuleError("threshold", f"a rule on {rule.what} has no threshold")
    if rule.what == "disk_used" and not rule.threshold < 100:
        raise BadRuleError("threshold", "disk_used is in percent, so a threshold of 100 or more can never be exceeded")
    if rule.group != "*" and rule.what in ("missed_arrivals", "disk_used", "engine_down", "report"):
        raise BadRuleError("group", f"{rule.what} is not about groups")
    if rule.topic != "*" and rule.what not in ("lag", "oldest"):
        raise BadRuleError("topic", f"only lag and oldest are known by topic, not {rule.what}")
    _check_report(rule)
    missing = [number for number in rule.channels if number not in channels]
    if missing:
        raise BadRuleError("channels", f"there is no channel {missing[0]}")


def _check_states(rule: Rule) -> None:
    if not rule.states:
        raise BadRuleError("states", "a rule on group_state must name the states in which it fires, such as stalled")
    for state in rule.states:
        if state not in STATES:
            raise BadRuleError("states", f"{state!r} is no state of a group; the states are {', '.join(STATES)}")


def _check_verdicts(rule: Rule) -> None:
    if rule.what != "group_verdict":
        for field, value in (("verdicts", rule.verdicts), ("verdict_severities", rule.verdict_severities)):
            if value:
                raise BadRuleError(field, f"only a rule on group_verdict has {field}, not one on {rule.what}")
        return
    if not rule.verdicts and not rule.verdict_severities:
        raise BadRuleError(
            "verdicts", "a rule on group_verdict must name verdicts, such as subscriptions_disagree, or severities"
        )
    for verdict in rule.verdicts:
        if verdict not in PROBLEMS:
            raise BadRuleError(
                "verdicts", f"{verdict!r} is no error or warning about a group; those are {', '.join(PROBLEMS)}"
            )
        if rule.verdict_severities and not set(rule.verdict_severities) & set(PROBLEMS[verdict]):
            raise BadRuleError(
                "verdict_severities", f"{verdict} never has the severity {' or '.join(rule.verdict_severities)}"
            )


def _check_report(rule: Rule) -> None:
    if rule.what != "report":
        for field, value in (("report", rule.report), ("figure", rule.figure), ("below", rule.below)):
            if value:
                raise BadRuleError(field, f"only a rule on report has {field}, not one on {rule.what}")
        return
    if rule.report not in REPORTS:
        raise BadRuleError("report", f"there is no report {rule.report!r}; the reports are {', '.join(REPORTS)}")
    if not _FIGURE.fullmatch(rule.figure):
        raise BadRuleError("figure", "a rule on report needs the name of one of its figures, such as most_lag")


def _check_text(field: str, text: str) -> None:
    if any(ord(letter) < 32 for letter in text):
        raise BadRuleError(field, f"the {field} has a control character, such as the end of a line")


def _check_pattern(field: str, pattern: str) -> None:
    if not pattern or any(ord(letter) < 32 for letter in pattern):
        raise BadRuleError(
            field, f"the pattern for {field} must be a name, in which * stands for any text; * alone matches all"
        )


def check_silence(silence: Silence, rules: "frozenset[int]") -> None:
    """Raise BadRuleError for a silence without a rule, without a time, or for more than a year."""
    if silence.rule is not None and silence.rule not in rules:
        raise BadRuleError("rule", f"there is no rule {silence.rule}")
    _check_pattern("group", silence.group)
    _check_text("comment", silence.comment)
    if not silence.from_ms < silence.to_ms <= silence.from_ms + MAX_SILENCE_MS:
        raise BadRuleError("to_ms", "a silence must end after it begins, and last a year at most")


def check_channel(channel: Channel, *, hosts: "tuple[str, ...]", sends_mail: bool) -> None:
    """Raise BadRuleError for a channel over which nothing could be sent.

    ``hosts`` are those that the installation allows; empty allows all.
    """
    if not channel.name.strip():
        raise BadRuleError("name", "a channel needs a name")
    _check_text("name", channel.name)
    if channel.kind != "email":
        if channel.recipients:
            raise BadRuleError("recipients", f"only an email channel has recipients, not {channel.kind}")
        check_url(channel.url, hosts)
        if channel.kind == "webhook" and not (channel.secret.isascii() and channel.secret.isprintable()):
            raise BadRuleError("secret", "the secret of a webhook is its bearer token, which has ASCII characters only")
        return
    if channel.url or channel.secret:
        raise BadRuleError("url", "an email channel has recipients; its server is set with GLASSMQ_SMTP_URL")
    if not sends_mail:
        raise BadRuleError(
            "kind", "this installation cannot send e-mail: set GLASSMQ_SMTP_URL and start the web process again"
        )
    if not channel.recipients:
        raise BadRuleError("recipients", "an email channel needs at least one recipient")
    for recipient in channel.recipients:
        if not _ADDRESS.fullmatch(recipient):
            raise BadRuleError("recipients", f"{recipient[:100]!r} is no e-mail address")


def check_url(url: str, hosts: "tuple[str, ...]") -> None:
    """Raise BadRuleError unless this is an http or https URL of an allowed host. The sentence never has the URL."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise BadRuleError("url", "the URL cannot be read") from error
    if parts.scheme not in ("http", "https") or not host or not url.isascii() or re.search(r"[\s\x00-\x1f\x7f]", url):
        raise BadRuleError("url", "the URL must begin with http:// or https:// and a host")
    if parts.username is not None or parts.password is not None:
        raise BadRuleError(
            "url", "the URL must not contain a user or a password; a webhook's secret is sent as its bearer token"
        )
    if hosts and host not in hosts:
        raise BadRuleError("url", f"messages may not be sent to {host}: GLASSMQ_ALERT_HOSTS allows {', '.join(hosts)}")


def host_of(url: str) -> str:
    """What may be shown of a URL: its scheme, host and port."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
