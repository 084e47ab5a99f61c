"""The sentences of a report. They come before its figures, for readers who want an answer and no table.

A sentence uses only the totals and tables of the result. If its figures are unknown, the sentence is left out.

No verb and no pronoun depends on a count: a count is an object, or the subject of a past tense. So a sentence is right
for 0, 1 and 2, and needs one translation. ``many`` writes the count.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.output.charts import across_brokers
from spark_jobs.reports.shape import LEAST_EACH

Total = Mapping[str, Any]
Tables = Mapping[str, pa.Table]
_BAD_STATES = ("falling behind", "stalled", "stopped")
ENDS = {
    "arrival": "until messages arrived",
    "timeout": "without a message, until their time was up",
    "channel_gone": "until their client went away",
    "filter_advanced": "until a filter passed over what came",
    "missed_arrival": "until a later look found messages",
    "short_poll": "for the short time that is waited without long polling",
    "shutdown": "until the broker was stopped",
    "cancelled": "until the broker gave them up, as when an offset is reset",
    "refused": "until the broker refused them, as the group or topic was locked, or the subscription ended",
}
"""How holds end, by cause."""
NO_GROUP = "a client without a group"
"""Pulls over HTTP may name no group."""
MINUTE_MS = 60_000
_NAMED = 3
"""So many are named in a sentence; the others are only counted."""


def words(report: str, total: Total, tables: Tables) -> list[str]:
    """The sentences of a report, the most important one first; empty without data.

    ``total`` also has ``step_ms``, the step of the tables over time.
    """
    over_brokers = {name: across_brokers(table) for name, table in tables.items()}
    return [sentence for sentence in _SAY[report](total, over_brokers) if sentence]


def throughput(total: Total, tables: Tables) -> list[str]:
    topic = top(tables["by_topic"], "messages")
    if not total["messages"]:
        return []
    busiest = top(tables["by_minute"].group_by("minute_ts").aggregate([("messages", "sum")]), "messages_sum")
    at = clock(busiest["minute_ts"])
    when = f"minute was {at}" if total["step_ms"] == MINUTE_MS else f"{ms(total['step_ms'])} began at {at}"
    return [
        f"{many(total['messages'], 'message')} ({size(total['bytes'])}) went into "
        f"{many(tables['by_topic'].num_rows, 'topic')}, {percent(topic['messages'] / total['messages'])} of the "
        f"messages into {topic['topic']}.",
        f"The busiest {when}, with {many(busiest['messages_sum'], 'message')}.",
    ]


def wakeup_latency(total: Total, tables: Tables) -> list[str]:
    if not total["wakeups"]:
        return []
    whole = only(tables["by_cause"], "stage", "stored_to_answered")
    late = sum(row["samples"] for row in whole.to_pylist() if row["cause"] != "arrival")
    slowest = top(only(tables["by_group"], "stage", "stored_to_answered"), "p99_us")
    return [
        f"{many(total['wakeups'], 'time')} a waiting consumer was given messages."
        + (
            f" Once they had arrived it had its answer within {us(total['wake_p50_us'])} in half of the cases, within "
            f"{us(total['wake_p99_us'])} in 99 %."
            if total["wake_p99_us"] is not None
            else ""
        ),
        f"A later look, not an arrival, gave the consumer its messages {many(late, 'time')}." if late else "",
        f"Slowest from stored to answered is {slowest['group'] or NO_GROUP} on {slowest['topic']}: 99 % within "
        f"{us(slowest['p99_us'])}."
        if slowest
        else "",
    ]


def hold_time(total: Total, tables: Tables) -> list[str]:
    """Why consumers wait."""
    causes = {row["cause"]: row["holds"] for row in tables["by_cause"].to_pylist()}
    if not causes:
        return []
    of, groups = total["holds"], only(tables["by_group"], "measure", "held")
    longest = top(groups, "p50_us")
    endings = [f"{percent(causes[cause] / of)} {text}" for cause, text in ENDS.items() if cause in causes]
    others = of - sum(causes.get(cause, 0) for cause in ENDS)
    endings += [f"{percent(others / of)} until something else ended them"] if others else []
    return [
        f"{many(of, 'pull')} waited: {'; '.join(endings)}.",
        f"Half of the pulls waited for no longer than {us(total['held_p50_us'])}, 99 % for no longer than "
        f"{us(total['held_p99_us'])}.",
        f"{longest['group'] or NO_GROUP} waits longest on {longest['topic']}, half of the time for "
        f"{us(longest['p50_us'])} or more."
        if longest and groups.num_rows > 1
        else "",
    ]


def empty_polls(total: Total, tables: Tables) -> list[str]:
    if not total["answers"]:
        return []
    causes = tables["by_status"].group_by("how").aggregate([("empty", "sum")]).sort_by("how")
    worst, how = top(tables["by_topic"], "empty"), top(causes, "empty_sum")
    if not how["empty_sum"]:
        return [f"{many(total['answers'], 'answer')} came, and none was empty."]
    came = {"at once": "to pulls that did not wait", "timeout": "after a wait without a message"}.get(
        how["how"], f"to holds that were ended by {how['how'].replace('_', ' ')}"
    )
    return [
        f"{percent(total['empty_share'])} of {many(total['answers'], 'answer')} brought no message.",
        f"Empty answers came most often {came} ({how['empty_sum']:,}); the topic with the most is {worst['topic']} "
        f"({worst['empty']:,}).",
    ]


def polling_savings(total: Total, tables: Tables) -> list[str]:
    """What long polling saves."""
    if not total["requests"]:
        return []
    return [
        f"Consumers made {many(total['requests'], 'request')}"
        + (
            f", and half of the messages were on their way within {us(total['delay_p50_us'])} of their arrival."
            if total["delay_p50_us"] is not None
            else "."
        ),
        _instead(total, "each second", "1s"),
        _instead(total, "every 100 ms", "100ms"),
        f"The price: {total['open_pulls']:,} pulls lay open on average." if total["open_pulls"] else "",
    ]


def _instead(total: Total, every: str, name: str) -> str:
    requests, delay = total["requests"] + total[f"saved_requests_{name}"], total[f"delay_{name}_p50_us"]
    late = f", and half of the messages would have been {us(delay)} late or more." if delay is not None else "."
    return (
        f"Asking {every} they would have made at most {requests:,}, "
        f"{requests / total['requests']:,.1f} times as many{late}"
    )


def consumer_lag(total: Total, tables: Tables) -> list[str]:
    groups = tables["by_group"]
    if not groups.num_rows:
        return []
    bad = [row for row in groups.sort_by([("lag", "descending")]).to_pylist() if row["state"] in _BAD_STATES]
    most = top(groups, "most_lag")
    old = f", and the oldest had waited for {ms(total['lag_ms'])}" if total["lag"] and total["lag_ms"] else ""
    return [
        f"At the end, groups still had {many(total['lag'], 'message')} to commit{old}.",
        "; ".join(
            f"{row['group']} on {row['topic']} is {row['state']}, {many(row['lag'], 'message')} behind"
            for row in bad[:_NAMED]
        )
        + f"{more(len(bad))}."
        if bad
        else "No group is falling behind, stalled or stopped.",
        f"Farthest behind was {most['group']} on {most['topic']}, by {many(most['most_lag'], 'message')}"
        + (f" and {ms(most['most_lag_ms'])}." if most["most_lag_ms"] else ".")
        if most["most_lag"]
        else "",
    ]


def skew(total: Total, tables: Tables) -> list[str]:
    topic = _least_even(tables["by_topic"], "queues", total["queue_imbalance"])
    group = _least_even(tables["by_group"], "clients", total["client_imbalance"])
    return [
        f"{_fullest_queue(topic, tables['by_queue'])} of {topic['topic']} has {percent(topic['most_share'])} of its "
        f"messages, {topic['imbalance']:,.2f} times what a queue has on average; no topic with at least {LEAST_EACH} "
        "messages a queue is less even."
        if topic
        else f"No topic with two or more queues has at least {LEAST_EACH} messages a queue."
        if tables["by_topic"].num_rows
        else "",
        f"Client {group['client_id']} is given {percent(group['most_share'])} of what {group['group']} gets of "
        f"{group['topic']}, {group['imbalance']:,.2f} times what a client gets on average; no group with at least "
        f"{LEAST_EACH} messages a client is less even."
        if group
        else f"No group with two or more clients has at least {LEAST_EACH} messages a client."
        if tables["by_group"].num_rows
        else "",
    ]


def _least_even(table: pa.Table, parts: str, imbalance: float | None) -> Mapping[str, Any] | None:
    """The first row with this imbalance, of those whose ``parts`` (queues, clients) are compared."""
    rows = (row for row in table.to_pylist() if row[parts] > 1 and row["messages"] >= LEAST_EACH * row[parts])
    return next((row for row in rows if row["imbalance"] == imbalance), None)


def _fullest_queue(topic: Mapping[str, Any], queues: pa.Table) -> str:
    """As ``Queue 3``, or ``Queue 3 at broker-b`` where there are several brokers."""
    queue = {**topic, **top(only(queues, "topic", topic["topic"]), "messages")}  # of a cut table it may be missing
    several = pc.count_distinct(queues["broker"]).as_py() > 1
    return f"Queue {queue['queue_id']}" + (f" at {queue['broker']}" if several else "")


def end_to_end_latency(total: Total, tables: Tables) -> list[str]:
    del tables
    return [
        f"Half of the messages reach a consumer within {ms(total['stored_to_delivered_p50_ms'])} of being stored, 99 % "
        f"within {ms(total['stored_to_delivered_p99_ms'])}."
        if total["stored_to_delivered_p99_ms"] is not None
        else "",
        f"99 % are stored within {ms(total['born_to_stored_p99_ms'])} of being born; for copies of delayed and retried "
        "messages, their delay is in it."
        if total["born_to_stored_p99_ms"] is not None
        else "",
    ]


def retries(total: Total, tables: Tables) -> list[str]:
    if not tables["by_topic"].num_rows:
        return []
    most = top(tables["by_group"], "retries")
    back = f"{many(total['retries'], 'message')} came back, {total['dead_letters']:,} died"
    return [
        (f"{back}; most came from {most['group']}, of {most['topic']}." if most and most["retries"] else f"{back}.")
        if total["retries"] or total["dead_letters"]
        else "No message came back, and none died.",
        _late(total, tables["delayed_by_level"]) if total["late_p99_ms"] is not None else "",
    ]


def _late(total: Total, levels: pa.Table) -> str:
    """How late delayed messages were. 99 % of fewer than 100 messages are all of them."""
    came, half = f"{many(total['delayed_delivered'], 'delayed message')} came", ms(total["late_p50_ms"])
    if total["delayed_delivered"] >= 100:
        return f"{came}, half within {half} of the due time, 99 % within {ms(total['late_p99_ms'])}."
    latest = ms(pc.max(levels["max_ms"]).as_py())
    if total["delayed_delivered"] < 2:
        return f"{came}, within {latest} of the due time."
    return f"{came}, half within {half} of the due time, all within {latest}."


def slow_consumers(total: Total, tables: Tables) -> list[str]:
    del total
    clients = tables["by_client"]
    if not clients.num_rows:
        return []
    slow = clients.filter(clients["is_slow"]).to_pylist()
    if not slow:
        return ["No client is much slower than its group."]
    clients_named = [
        f"{row['client_id']} on {row['topic']}, where half of its answers take {ms(_slowest(row))} or more"
        for row in slow[:_NAMED]
    ]
    return [f"Slower than the group: {'; '.join(clients_named)}{more(len(slow))}."]


def _slowest(row: Mapping[str, Any]) -> int:
    return max(row["away_p50_ms"] or 0, row["committed_p50_ms"] or 0)


def daily_summary(total: Total, tables: Tables) -> list[str]:
    if not tables["by_day"].num_rows:
        return []
    slow = total["slow_clients"] or 0
    return [
        f"{many(total['messages'], 'message')} ({size(total['bytes'])}) on {many(tables['by_day'].num_rows, 'day')}.",
        f"Long polling saved at most {many(total['saved_requests_1s'], 'request')} compared with asking each second; "
        f"{percent(total['empty_share'])} of the answers were empty."
        if total["empty_share"] is not None
        else "",
        f"Groups were behind by {many(total['most_lag'], 'message')} at most, and are by {total['lag']:,} at the end."
        if total["lag"] is not None
        else "",
        f"{many(total['retries'], 'message')} came back, {total['dead_letters']:,} died"
        + (f"; slower than the group: {many(slow, 'client')}." if slow else "."),
    ]


_SAY: Mapping[str, Callable[[Total, Tables], list[str]]] = {
    say.__name__: say
    for say in (
        throughput,
        wakeup_latency,
        hold_time,
        empty_polls,
        polling_savings,
        consumer_lag,
        skew,
        end_to_end_latency,
        retries,
        slow_consumers,
        daily_summary,
    )
}


def top(table: pa.Table, column: str) -> dict[str, Any]:
    """The first row with the largest value of a column; empty for an empty table."""
    if not table.num_rows:
        return {}
    row: dict[str, Any] = table.take(pc.sort_indices(table, [(column, "descending")])[:1]).to_pylist()[0]
    return row


def only(table: pa.Table, column: str, value: str) -> pa.Table:
    """The rows with this value."""
    return table.filter(pc.equal(table[column], value))


def many(count: int, noun: str, several: str = "") -> str:
    """As ``1 message`` and ``2,000 messages``. ``several``: the plural, if it is not the noun with an s."""
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"


def more(count: int) -> str:
    """As `` and 4 more``, for the ones beyond _NAMED."""
    return f" and {count - _NAMED:,} more" if count > _NAMED else ""


def percent(value: float) -> str:
    """A part of 1, in percent. A small part is not shown as 0."""
    return "under 0.1 %" if 0 < value < 0.001 else f"{100 * value:.3g} %" if value < 0.999 else f"{100 * value:.4g} %"


def us(value: int) -> str:
    """A duration in us."""
    return "less than 1 µs" if value < 1 else f"{value} µs" if value < 1000 else ms(value / 1000)


def ms(value: float) -> str:
    """A duration in ms."""
    if value < 1:
        return "less than 1 ms"
    for unit, size_ms, until in (("ms", 1, 1000), ("s", 1000, 60), ("min", 60_000, 60), ("h", 3_600_000, 48)):
        if value < size_ms * until:
            return f"{value / size_ms:.3g} {unit}"
    return f"{value / 86_400_000:,.1f} days"


def size(value: int) -> str:
    """Bytes."""
    step = min(4, max(0, value.bit_length() - 1) // 10)
    return f"{value / 1024**step:,.4g} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[step]}"


def clock(at_ms: int) -> str:
    """A moment, as ``2026-01-02 03:04 UTC``."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
