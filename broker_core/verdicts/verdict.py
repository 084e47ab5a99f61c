"""A verdict: one situation that a group is in, with its evidence; and the words that its sentences use."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from broker_core.commands import Shape
from broker_core.verdicts.group_state import State

Severity = Literal["error", "warning", "info", "ok"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info", "ok")
NAMED_AT_MOST = 4
SHOWN_AT_MOST = 100


class Verdict(Shape, frozen=True):
    """``id`` names the situation in the catalogue. ``evidence`` has numbers, times in ms and names."""

    id: str
    severity: Severity
    sentence: str
    evidence: dict[str, Any]
    advice: str


class Verdicts(Shape, frozen=True):
    """The answer to "why is my consumer waiting?", the worst verdict first."""

    group: str
    state: State
    verdicts: list[Verdict]


def span(ms: int) -> str:
    """A length of time in at most two units: ``8 min 42 s``."""
    seconds = ms // 1000
    if seconds < 1:
        return "less than 1 s"
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    if seconds < 86_400:
        return f"{seconds // 3600} h {seconds // 60 % 60} min"
    return f"{seconds // 86_400} d {seconds // 3600 % 24} h"


def clock(ms: int) -> str:
    """A wall time in ISO 8601 with its zone: ``2026-11-23T17:04:10Z``. Pages show it as the reader's local time."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return "an unknown time"


def joined(names: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b, c, d and 3 more``."""
    shown = list(names[:NAMED_AT_MOST])
    if len(names) > NAMED_AT_MOST:
        return f"{', '.join(shown)} and {len(names) - NAMED_AT_MOST:,} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def shown(text: str) -> str:
    """A text that a client chose, such as a filter, for a sentence: at most 100 characters."""
    return text if len(text) <= SHOWN_AT_MOST else f"{text[: SHOWN_AT_MOST - 1]}…"


def plural(count: int, singular: str, several: str = "") -> str:
    """``1 message``, ``2,000 messages``."""
    return f"{count:,} {singular if count == 1 else several or singular + 's'}"
