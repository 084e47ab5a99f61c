"""``glassmq top``: what a GlassMQ broker does at the moment, in a terminal, until Ctrl-C."""

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from broker_core.cli.errors import UNREACHABLE, CommandError
from broker_core.cli.output import UNKNOWN, make_table, number, output_errors, print_json, printable
from broker_core.cli.target import Command, Target, broker_option, pass_target

ROWS_MAX = 2000
NO_BREAK = "\xa0"
FIXED_LINES = 14
"""Lines of the page that are no rows of its tables."""
LEAST_ROWS = 2
NARROW = 80
"""On a terminal with fewer columns, held pulls are shown without their clients."""
NAMES = ("GROUP", "TOPIC", "HELD PULL OF", "CLIENT")
"""Columns that share the width that the others leave."""
STATE_STYLES = {
    "stalled": "bold red",
    "stopped": "red",
    "error": "red",
    "falling behind": "yellow",
    "warning": "yellow",
    "unknown": "",
    "catching up": "blue",
    "over": "dim",
    "ok": "green",
}
"""The words by which groups are sorted, the worst first, as on the page of groups. ``error`` and ``warning`` are
verdicts that are worse than the state, which is about progress alone; ``over`` is a stopped group for which nothing
waits."""
RANKS = {place: rank for rank, place in enumerate(STATE_STYLES)}
RATES = {"messages_stored": "in", "messages_delivered": "out", "woken": "wake-ups", "pulls_received": "pulls"}


@click.command(cls=Command)
@click.option(
    "--interval", type=click.FloatRange(0.2, 60), default=1.0, metavar="SECONDS", help="Time between two updates."
)
@click.option("--once", is_flag=True, help="Print one page and end.")
@broker_option
@pass_target
def top(target: Target, interval: float, once: bool, broker: str) -> None:
    """Show held pulls, wake-ups, queues and groups live. Needs GlassMQ (--url). Ctrl-C ends it."""
    api = target.api

    def look() -> dict[str, Any]:
        snapshot: dict[str, Any] = api.get("/api/v1/snapshot", max_holds=ROWS_MAX, max_queues=ROWS_MAX, broker=broker)
        return snapshot | {"groups": api.get("/api/v1/groups", broker=broker)["groups"]}

    first = look()
    if target.as_json:
        print_json(first)
        return
    console = Console(highlight=False)
    if once or not console.is_terminal:
        with output_errors():
            console.print(page(first, None, console.width, rows=20))
        return
    with exit_at_signals(), Live(console=console, screen=True, auto_refresh=False) as live:
        watch(look, first, live, interval)


@contextmanager
def exit_at_signals() -> Iterator[None]:
    """SIGTERM, and SIGHUP of a terminal that goes away, end the program by an exception, so that the screen is left."""

    def leave(number: int, frame: object) -> None:
        sys.exit(128 + number)

    handlers = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def watch(look: Callable[[], dict[str, Any]], first: dict[str, Any], live: Live, interval: float) -> None:
    """Update the page until Ctrl-C. While the broker does not answer, the last page stays, with a line that says so."""
    console = live.console
    previous: dict[str, Any] | None = None
    current, problem = first, ""
    while True:
        shown = page(current, previous, console.width, rows=rows_that_fit(console.height), problem=problem)
        live.update(shown, refresh=True)
        time.sleep(interval)
        try:
            previous, current, problem = current, look(), ""
        except CommandError as error:
            if error.exit_code != UNREACHABLE:
                raise
            previous, problem = None, error.message.partition(". ")[0]


def rows_that_fit(height: int) -> int:
    """How many rows all three tables together may have on a screen of so many lines."""
    return max(3 * LEAST_ROWS, height - FIXED_LINES)


def page(
    current: dict[str, Any], previous: dict[str, Any] | None, width: int, *, rows: int, problem: str = ""
) -> RenderableType:
    """The page for the snapshot ``current``. Rates need the ``previous`` snapshot."""
    share = max(LEAST_ROWS, rows // 3)
    parts: list[RenderableType] = [_head(current, previous)]
    if problem:
        parts.insert(0, Text(printable(problem), style="bold white on red"))
    elif current["problem"]:
        parts.insert(0, Text(f"No message is accepted: {printable(current['problem'])}", style="bold white on red"))
    parts += _groups(current, share)
    parts += _queues(current, previous, share)
    if not is_attached(current):
        parts += _holds(current, share, with_client=width >= NARROW)
    return Group(*parts)


def _head(current: dict[str, Any], previous: dict[str, Any] | None) -> Text:
    moment = time.strftime("%H:%M:%S", time.localtime(current["wall_ms"] / 1000))
    head = Text(f"{printable(current['broker'])}  {moment}", style="bold")
    held = UNKNOWN if is_attached(current) else number(current["holds_total"])
    head.append(f"   held pulls {held}   queues {number(current['queues_total'])}")
    if not current["long_polling_enable"]:
        head.append("   long polling is off", style="yellow")
    head.append("\n")
    if is_attached(current):
        arrivals = rate_text(rate(current, previous, partial(_counter, "messages_stored")))
        head.append(f"in {arrivals}   attached: pulls and wake-ups are not known", style="not bold")
        return head
    rates = [f"{label} {rate_text(rate(current, previous, partial(_counter, name)))}" for name, label in RATES.items()]
    items = (item.replace(" ", NO_BREAK) for item in (*rates, f"wake-up p50 {_median_us(current, previous)}"))
    head.append("   ".join(items), style="not bold")
    return head


def is_attached(current: dict[str, Any]) -> bool:
    """Whether the broker is a copy of another one, so that pulls and wake-ups are not known."""
    return any(entry["holds"] is None for entry in (*current["queues"], *current["groups"]))


def _counter(name: str, snapshot: dict[str, Any]) -> int:
    """A counter, or the sum of those whose names begin with it."""
    counters = snapshot["counters"]
    return int(counters.get(name) or sum(value for key, value in counters.items() if key.startswith(f"{name}_")))


def rate(
    current: dict[str, Any], previous: dict[str, Any] | None, value: Callable[[dict[str, Any]], int | None]
) -> float | None:
    """The growth of a value per second between two snapshots; None if it is not known."""
    if previous is None or current["epoch"] != previous["epoch"] or current["wall_ms"] <= previous["wall_ms"]:
        return None
    after, before = value(current), value(previous)
    if after is None or before is None:
        return None
    span_ms: int = current["wall_ms"] - previous["wall_ms"]
    return max(0.0, (after - before) * 1000 / span_ms)


def rate_text(value: float | None) -> str:
    return f"{UNKNOWN}/s" if value is None else f"{value:,.0f}/s"


def _median_us(current: dict[str, Any], previous: dict[str, Any] | None) -> str:
    """The bucket with the median of the wake-ups between two snapshots, or of all wake-ups without ``previous``."""
    bounds, counts = current["wakeup_us"]["bounds"], list(current["wakeup_us"]["counts"])
    if previous is not None and previous["epoch"] == current["epoch"]:
        counts = [after - before for after, before in zip(counts, previous["wakeup_us"]["counts"], strict=True)]
    half = sum(counts) / 2
    if not half:
        return UNKNOWN
    reached = 0
    for bound, count in zip(bounds, counts, strict=False):
        reached += count
        if reached >= half:
            return f"< {bound:,} µs"
    return f"≥ {bounds[-1]:,} µs"


def standing(group: dict[str, Any]) -> tuple[str, str]:
    """(the key of STATE_STYLES that a group is listed under, the word that is shown for it)."""
    state, severity = group["state"], group["severity"]
    if state == "stopped" and not group["lag"] and not group["unknown_queues"] and group["retrying"] == 0:
        return "over", state
    if severity and RANKS[severity] < RANKS.get(state, 0):
        return severity, group["problems"][0].replace("_", " ")
    return state, state


def _groups(current: dict[str, Any], rows: int) -> list[RenderableType]:
    ordered = sorted(
        ((*standing(group), group) for group in current["groups"]),
        key=lambda entry: (RANKS.get(entry[0], 0), -(entry[2]["lag"] or 0), entry[2]["group"]),
    )
    return _section(
        ("GROUP", "STATE", "#MEMBERS", "#LAG", "#HOLDS"),
        [
            (
                group["group"],
                Text(printable(shown), style=STATE_STYLES.get(place, "")),
                number(group["members"]),
                number(group["lag"]),
                number(group["holds"]),
            )
            for place, shown, group in ordered
        ],
        rows,
        len(ordered),
        "groups",
    )


def _queues(current: dict[str, Any], previous: dict[str, Any] | None, rows: int) -> list[RenderableType]:
    before = {_queue_key(queue): queue["max_offset"] for queue in (previous or {}).get("queues", ())}

    def arrivals(queue: dict[str, Any]) -> float | None:
        known = before.get(_queue_key(queue))
        return rate(current, previous, lambda one: queue["max_offset"] if one is current else known)

    ordered = sorted(
        (queue for queue in current["queues"] if queue["max_offset"] or queue["holds"]),
        key=lambda queue: (-(arrivals(queue) or 0), -(queue["last_store_time_ms"] or 0), *_queue_key(queue)),
    )
    return _section(
        ("TOPIC", "#QUEUE", "#IN", "#END", "#STORED", "#HOLDS"),
        [
            (
                queue["topic"],
                queue["queue_id"],
                rate_text(arrivals(queue)),
                number(queue["max_offset"]),
                number(queue["max_offset"] - queue["min_offset"]),
                number(queue["holds"]),
            )
            for queue in ordered[:rows]
        ],
        rows,
        current["queues_total"] - len(current["queues"]) + len(ordered),
        "queues with messages",
    )


def _queue_key(queue: dict[str, Any]) -> tuple[str, int]:
    return queue["topic"], queue["queue_id"]


def _holds(current: dict[str, Any], rows: int, *, with_client: bool) -> list[RenderableType]:
    now_ms = current["wall_ms"]
    ordered = sorted(current["holds"], key=lambda hold: hold["deadline_ms"])
    return _section(
        ("HELD PULL OF", *(("CLIENT",) if with_client else ()), "TOPIC", "#QUEUE", "#FROM", "#HELD", "#LEFT"),
        [
            (
                hold["group"] or UNKNOWN,
                *((hold["client_id"],) if with_client else ()),
                hold["topic"],
                hold["queue_id"],
                number(hold["pull_from_offset"]),
                seconds(now_ms - hold["suspended_at_ms"]),
                seconds(hold["deadline_ms"] - now_ms),
            )
            for hold in ordered[:rows]
        ],
        rows,
        current["holds_total"],
        "held pulls",
    )


def seconds(ms: int) -> str:
    return f"{max(0, ms) / 1000:.1f} s"


def _section(
    columns: tuple[str, ...], cells: list[tuple[object, ...]], rows: int, total: int, what: str
) -> list[RenderableType]:
    """A table of at most ``rows`` rows, and a line that says how many more there are."""
    shown = cells[:rows]
    table = make_table(columns, shown)
    table.expand = True
    for place, column in enumerate(table.columns):
        column.overflow, column.no_wrap = "ellipsis", True
        if columns[place] in NAMES:
            column.ratio = 1
        else:
            texts = [columns[place].removeprefix("#"), *(str(row[place]) for row in shown)]
            column.min_width = max(map(len, texts))
    more = total - len(shown)
    note = f"and {number(more)} more {what}" if more > 0 else "" if shown else f"no {what}"
    return [Text(), table, *([Text(note, style="dim")] if note else [])]
