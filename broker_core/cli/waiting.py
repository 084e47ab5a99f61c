"""``glassmq holds``, ``why`` and ``timeline``: what only GlassMQ can show, by its HTTP API."""

from datetime import datetime
from typing import Any

import click

from broker_core.cli.glassmq_api import with_options
from broker_core.cli.output import (
    UNKNOWN,
    local_time,
    number,
    print_json,
    print_line,
    print_table,
    printable,
    with_local_times,
)
from broker_core.cli.target import Command, Target, broker_option, pass_target

SEVERITY_STYLES = {"error": "red", "warning": "yellow", "info": "blue", "ok": "green"}
HOLDS_SHOWN = 1000


@click.command(cls=Command)
@click.option("--topic", default="", help="Only pulls from this topic.")
@click.option("--group", default="", help="Only pulls of this group.")
@click.option("--limit", type=click.IntRange(1, 5000), default=HOLDS_SHOWN, help="At most this many.")
@broker_option
@pass_target
def holds(target: Target, topic: str, group: str, limit: int, broker: str) -> None:
    """List the held pulls: RocketMQ's pullRequestTable. Needs GlassMQ (--url)."""
    answer = target.api.get("/api/v1/holds", topic=topic, group=group, limit=limit, broker=broker)
    if target.as_json:
        print_json(answer)
        return
    print_table(
        ("#ID", "BROKER", "TOPIC", "#QUEUE", "GROUP", "CLIENT", "#FROM", "#END", "HELD SINCE", "UNTIL", "FILTER"),
        (
            (
                hold["id"],
                hold["broker"],
                hold["topic"],
                hold["queue_id"],
                hold["group"] or UNKNOWN,
                hold["client_id"],
                number(hold["pull_from_offset"]),
                number(hold["queue_max_offset"]),
                clock_time(hold["suspended_at_ms"]),
                clock_time(hold["deadline_ms"]),
                hold["filter"],
            )
            for hold in answer["holds"]
        ),
    )
    total = f"{number(answer['total'])} held pulls"
    if topic or group:  # the broker's total is that of all pulls
        total = f"{number(len(answer['holds']))} of {total}"
    print_line(total + _without(answer))
    attached = [one["broker"] for one in target.api.get("/api/v1/attached")["brokers"]]
    if shown := [name for name in attached if broker in ("", name)]:
        print_line(
            f"Attached: {printable(', '.join(shown))}. These are pulls of the copy. Which pulls are held at the broker "
            "that is copied is not known, because RocketMQ does not report them."
        )


def clock_time(ms: int) -> str:
    """The time of day in this machine's zone."""
    return f"{datetime.fromtimestamp(ms / 1000):%H:%M:%S}"


def _without(answer: dict[str, Any]) -> str:
    missing = answer.get("unavailable") or []
    return f", without {printable(', '.join(missing))}, which did not answer" if missing else ""


@click.command(cls=Command)
@click.argument("group")
@click.option("--patience", type=click.FloatRange(0.1, 86_400), metavar="SECONDS", help="Longer waits are explained.")
@broker_option
@pass_target
def why(target: Target, group: str, patience: float | None, broker: str) -> None:
    """Say why a group's consumers wait, the worst reason first. Needs GlassMQ (--url)."""
    patience_ms = None if patience is None else round(patience * 1000)
    answer = target.api.get("/api/v1/groups/{}/verdicts", group, patience_ms=patience_ms, broker=broker)
    if target.as_json:
        print_json(answer)
        return
    state = answer["state"]
    if state == "ok" and answer["verdicts"][0]["severity"] in ("error", "warning"):  # the state is about progress alone
        state = f"{answer['verdicts'][0]['severity']} (its progress is ok)"
    print_line(f"{printable(answer['group'])}: {click.style(state, bold=True)}")
    for verdict in answer["verdicts"]:
        mark = click.style(f"{verdict['severity']:7}", fg=SEVERITY_STYLES.get(verdict["severity"]))
        print_line(f"  {mark} {printable(with_local_times(verdict['sentence']))}")
        if verdict["severity"] != "ok":  # its advice is "Nothing."
            print_line(f"          {printable(with_options(verdict['advice']))}")


@click.command(cls=Command)
@click.argument("message_id", metavar="ID")
@click.option("--topic", default="", help="The message's topic; it makes the search for a client's id quicker.")
@pass_target
def timeline(target: Target, message_id: str, topic: str) -> None:
    """Show what happened to a message, from its arrival to the commit. Needs GlassMQ (--url)."""
    answer = target.api.get("/api/v1/messages/{}/timeline", message_id, topic=topic)
    if target.as_json:
        print_json(answer)
        return
    print_line(
        f"{printable(answer['message_id'])}: {printable(answer['topic'])} "
        f"{answer['broker']}:{answer['queue_id']}@{answer['queue_offset']}, "
        f"stored {local_time(answer['store_time_ms'])}"
    )
    events = answer["events"]
    first_ms = min((int(event["wall_ms"]) for event in events), default=None)
    older = [] if answer["complete"] else answer.get("journal", [])
    print_table(
        ("TIME", "EVENT", "DETAILS"),
        [
            *(
                (local_time(entry["at_ms"]), entry["kind"], details(entry))
                for entry in older
                if first_ms is None or int(entry["at_ms"]) < first_ms
            ),
            *((local_time(event["wall_ms"]), event["type"], details(event)) for event in events),
        ],
    )
    if not answer["complete"]:
        print_line("Older events of this message are not kept any more, only pulls and commits of the poll journal.")


def details(event: dict[str, Any]) -> str:
    """The fields of an event, or of an entry of the poll journal, that are its own and known (-1: not known)."""
    shared = {"type", "seq", "wall_ms", "mono_ns", "at_ms", "kind"}
    own = {name: value for name, value in event.items() if name not in shared}
    return " ".join(f"{name}={value}" for name, value in own.items() if value not in ("", None, -1))
