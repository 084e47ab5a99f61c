"""Steps of the computation that several reports share."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.reports.spreads import sums

MINUTE_MS = 60_000
DAY_MS = 86_400_000
STEPS_MS = tuple(minutes * MINUTE_MS for minutes in (1, 5, 15, 60, 180, 720, 1440))
MOST_STEPS = 4320
"""Steps of time in a table: three days by minute, longer spans by longer steps."""


def floored(ts: Column, step_ms: int = MINUTE_MS) -> Column:
    """The beginning of the step that contains a time, also before 1970."""
    return ts - F.pmod(ts, F.lit(step_ms))


def in_window(facts: DataFrame, from_ms: int | None, to_ms: int | None) -> DataFrame:
    """Facts of the minutes that begin in [from_ms, to_ms); None leaves that side open."""
    if from_ms is not None:
        facts = facts.where(F.col("minute_ts") >= from_ms // MINUTE_MS * MINUTE_MS)
    return facts if to_ms is None else facts.where(F.col("minute_ts") < to_ms)


def stored_since(messages: DataFrame, since_ms: int | None) -> DataFrame:
    """Messages from then on. The log is read by segment, so a report with a window gets earlier ones too."""
    return messages if since_ms is None else messages.where(F.col("store_ts") >= since_ms)


def about(facts: DataFrame, topic: str | None, group: str | None) -> DataFrame:
    """Facts of one topic, of one group, or of both. Facts without a group column, or of no group (null), stay.

    Pulls of clients that name no group have the group ''. They are left out like those of another group.
    """
    if topic is not None and "topic" in facts.columns:
        facts = facts.where(F.col("topic") == topic)
    if group is not None and "group" in facts.columns:
        facts = facts.where((F.col("group") == group) | F.col("group").isNull())
    return facts


def coarser(facts: DataFrame, step_ms: int) -> DataFrame:
    """Facts with the beginnings of longer steps in place of their minutes."""
    return facts if step_ms == MINUTE_MS else facts.withColumn("minute_ts", floored(F.col("minute_ts"), step_ms))


def step_for(span_ms: int, most: int = MOST_STEPS) -> int:
    """The shortest step that divides so long a time into at most ``most`` steps; whole days if STEPS_MS has none."""
    for step_ms in STEPS_MS:
        if span_ms <= step_ms * most:
            return step_ms
    return -(-span_ms // most // DAY_MS) * DAY_MS


def stored(messages: DataFrame, *keys: str, **sql: str) -> DataFrame:
    """By broker, segment and keys: the number of messages, their bytes, and the end of the last one.

    ``sql``: each further column as an aggregate in SQL.
    """
    ends = {"messages": "count(*)", "bytes": "sum(total_size)", "end": "max(physical_offset + total_size)"}
    return sums(messages, "broker", "segment", *keys, **ends, **sql)


def reason(rows: DataFrame, name: str, count: str = "samples") -> DataFrame:
    """Rows of facts that are left out for this reason, counted by broker, topic, group and minute."""
    group = F.col("group") if "group" in rows.columns else F.lit(None).cast("string")
    return (
        rows.groupBy("broker", "topic", group.alias("group"), "minute_ts")
        .agg(F.sum(count).alias("count"))
        .select(F.lit(name).alias("reason"), "broker", "topic", "group", "minute_ts", "count")
    )
