"""The report ``retries``: messages that groups sent back, dead letters, and how late delayed messages were.

A group gets a message again as a copy in ``%RETRY%<group>``, or for pop in ``%RETRY%<group>+<topic>``. The last copy
goes to ``%DLQ%<group>``. A delayed message lies in SCHEDULE_TOPIC_XXXX until it is due, and is then stored again in its
own topic. A message and its copy have the same UNIQ_KEY and count of retries.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.reports.histograms import sampled, spread, spread_columns
from spark_jobs.reports.shape import Chart, Figure, Inputs, Report, Table
from spark_jobs.reports.spreads import bars_table, grouped, share, spread_table, sums, totals
from spark_jobs.reports.steps import floored, reason, stored, stored_since
from spark_jobs.reports.topics import DEAD, RETRY
from spark_jobs.sources.consume_queues import SCHEDULE_TOPIC

READS = (
    "physical_offset",
    "segment",
    "topic",
    "queue_id",
    "total_size",
    "store_ts",
    "reconsume_times",
    "uniq_key",
    "real_topic",
    "retry_topic",
    "due_ts",
)
_TRIES = ("fate", "topic", "group", "attempt", "minute_ts")
_LATE = ("broker", "topic", "level", "minute_ts")
_IS_BACK = "fate is not null"
_COPY = ("broker", "topic", "uniq_key", "reconsume_times")
"""The columns that are equal in a delayed message and its copy."""


def with_fates(messages: DataFrame, pop_retries: DataFrame) -> DataFrame:
    """Each message with its ``fate`` (``retry``, ``dead letter`` or null), group, topic and minute.

    A message that was not sent back has the group null and the topic in which it is stored. The same is true of
    messages that a producer published to a topic of these names: only copies have a count of retries or the topic of
    the first message.
    """
    name = F.col("topic")
    is_copy = (F.col("reconsume_times") > 0) | F.col("retry_topic").isNotNull()
    is_retry, is_dead = is_copy & name.startswith(RETRY), is_copy & name.startswith(DEAD)
    prefix = F.when(is_retry, len(RETRY)).when(is_dead, len(DEAD))
    sent_back = prefix.isNotNull()
    origin, group = F.coalesce("pop_topic", "retry_topic", "topic"), F.coalesce("pop_group", F.substr(name, prefix + 1))
    return messages.join(F.broadcast(pop_retries), ["broker", "topic"], "left").withColumns(
        {
            "fate": F.when(is_retry, "retry").when(is_dead, "dead letter"),
            "topic": F.when(sent_back, origin).otherwise(name),
            "group": F.when(sent_back, group),
            "attempt": F.when(sent_back, F.col("reconsume_times")),
            "minute_ts": floored(F.col("store_ts")),
        }
    )


def delayed(messages: DataFrame) -> DataFrame:
    """The delayed messages: their own topic, their level, and when they are due."""
    return messages.where(F.col("topic") == SCHEDULE_TOPIC).withColumns(
        {"topic": F.coalesce("real_topic", F.lit("")), "level": F.col("queue_id") + 1}
    )


def copies(messages: DataFrame, delayed: DataFrame) -> DataFrame:
    """When the copies of the delayed messages were stored in their own topics."""
    others = messages.where(F.col("topic") != SCHEDULE_TOPIC)
    found = others.join(delayed.select(*_COPY).distinct(), [*_COPY], "left_semi")
    return sums(found, *_COPY, delivered_ts="min(store_ts)")


def lateness(delayed: DataFrame, copies: DataFrame) -> DataFrame:
    """Each delayed message and how late its copy was stored (ms); null without a copy or a known due time."""
    return delayed.join(copies, [*_COPY], "left").withColumns(
        {
            "minute_ts": floored(F.coalesce("delivered_ts", "store_ts")),
            "no_due": F.col("due_ts").isNull(),
            "no_key": F.col("uniq_key").isNull(),
            "is_delivered": F.col("delivered_ts").isNotNull(),
            "value": F.col("delivered_ts") - F.col("due_ts"),
        }
    )


def facts(inputs: Inputs) -> dict[str, DataFrame]:
    put_aside = delayed(stored_since(inputs.messages, inputs.since_ms))
    delays = lateness(put_aside, copies(inputs.messages, put_aside))
    late = sampled(delays, *_LATE, "no_due", "no_key", "is_delivered", value="value")
    return {
        "stored": stored(with_fates(inputs.messages, inputs.table("pop_retries")), *_TRIES),
        "late": late,
        "left_out": reason(late.where("bucket = -1"), "clock_back")
        .unionByName(reason(late.where("no_due"), "not_due_known"))
        .unionByName(reason(late.where("no_key"), "no_unique_key")),
    }


_RETRIES, _STORED = (f"coalesce(sum(messages) FILTER (WHERE {of}), 0)" for of in ("fate = 'retry'", "fate IS NULL"))
_TRIED = {
    "messages": _STORED,
    "retries": _RETRIES,
    "retries_share": share(_RETRIES, _STORED),
    "dead_letters": "coalesce(sum(messages) FILTER (WHERE fate = 'dead letter'), 0)",
    "most_attempts": "max(attempt)",
}
"""Messages stored in a topic, copies that were sent back, and dead letters."""
_CAME_BACK = {name: _TRIED[name] for name in ("retries", "dead_letters", "most_attempts")}


def delayed_by_level(late: DataFrame) -> DataFrame:
    """One row per delay level: delayed messages, those that were delivered, and how late (ms)."""
    counts = sums(
        late,
        "broker",
        "level",
        delayed="sum(samples)",
        delivered="coalesce(sum(samples) FILTER (WHERE is_delivered), 0)",
    )
    return (
        counts.join(spread(late, "broker", "level", unit="ms"), ["broker", "level"], "left")
        .withColumn("samples", F.coalesce("samples", F.lit(0)))
        .select("broker", "level", "delayed", "delivered", "samples", *spread_columns("ms"))
    )


def late_figures(late: DataFrame, *keys: str) -> DataFrame:
    """Delayed messages delivered, and how late."""
    names = {"samples": "delayed_delivered", "p50_ms": "late_p50_ms", "p99_ms": "late_p99_ms"}
    return spread(late, *keys, unit="ms").select(*keys, *names).withColumnsRenamed(names)


REPORT = Report(
    reads=READS,
    polls=(),
    facts=facts,
    tables={
        "by_topic": grouped("stored", "topic", worst="retries", **_TRIED),
        "by_group": grouped("stored", "topic", "group", only=_IS_BACK, worst="retries", **_CAME_BACK),
        "by_attempt": grouped(
            "stored", "topic", "group", "attempt", "fate", only=_IS_BACK, worst="messages", messages="sum(messages)"
        ),
        "by_minute": grouped("stored", "minute_ts", "fate", only=_IS_BACK, messages="sum(messages)"),
        "delayed_by_level": Table("late", delayed_by_level),
        "delayed_by_topic": spread_table("late", "topic", "level", unit="ms"),
        "histogram": bars_table("late", "level", unit="ms"),
    },
    figures={
        "stored": totals(retries=_RETRIES, dead_letters=_TRIED["dead_letters"]),
        "late": late_figures,
    },
    headlines=(
        Figure("retries", "Messages sent back", "less"),
        Figure("dead_letters", "Dead letters", "less"),
        Figure("delayed_delivered", "Delayed messages delivered"),
        Figure("late_p50_ms", "Half of them late by no more than", "less"),
        Figure("late_p99_ms", "99 % late by no more than", "less"),
    ),
    charts=(
        Chart("stack", "Sent back and dead", "by_minute", ("messages",), split=("fate",)),
        Chart("bars", "Sent back, by topic", "by_topic", ("retries", "dead_letters"), split=("topic",)),
        Chart("histogram", "How late delayed messages were", "histogram", ("samples",), choose="level"),
    ),
)
