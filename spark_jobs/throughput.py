"""The report ``throughput``: how many messages and bytes were stored, by topic, queue and minute, and how large.

One scan makes the facts, a small table of sums that can be added up further; every table of the report is derived from
it. Each step is a DataFrame -> DataFrame function whose last ``select`` says what it promises.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

MINUTE_MS = 60_000
READS = ("physical_offset", "segment", "topic", "queue_id", "queue_offset", "total_size", "body_length", "store_ts")
"""Columns of the commit log that the report needs."""

_KEYS = ("topic", "queue_id", "minute_ts", "size_class")
_SUMS = ("messages", "bytes", "body_bytes", "min_size", "max_size", "first_store_ts", "last_store_ts",
    "min_queue_offset", "max_queue_offset")


def with_classes(messages: DataFrame) -> DataFrame:
    """Each message with its minute (ms) and the class of its body: the next power of two, in bytes."""
    bits = F.length(F.bin(F.col("body_length") - 1))
    return messages.select(
        *READS,
        (F.floor(F.col("store_ts") / MINUTE_MS) * MINUTE_MS).cast("long").alias("minute_ts"),
        F.when(F.col("body_length") <= 1, 1).otherwise(F.expr("1L") * F.pow(F.lit(2), bits)).cast("long")
            .alias("size_class"))


def counted(messages: DataFrame) -> DataFrame:
    """The facts: one row per segment, topic, queue, minute and size class."""
    return messages.groupBy("segment", *_KEYS).agg(
        F.count("*").alias("messages"),
        F.sum("total_size").alias("bytes"),
        F.sum("body_length").alias("body_bytes"),
        F.min("total_size").alias("min_size"),
        F.max("total_size").alias("max_size"),
        F.min("store_ts").alias("first_store_ts"),
        F.max("store_ts").alias("last_store_ts"),
        F.min("queue_offset").alias("min_queue_offset"),
        F.max("queue_offset").alias("max_queue_offset"),
        F.max(F.col("physical_offset") + F.col("total_size")).alias("end"),
    ).select("segment", *_KEYS, *_SUMS, "end")


def in_window(facts: DataFrame, from_ms: int | None, to_ms: int | None) -> DataFrame:
    """Facts of the minutes that begin in [from_ms, to_ms); None leaves that side open."""
    if from_ms is not None:
        facts = facts.where(F.col("minute_ts") >= from_ms // MINUTE_MS * MINUTE_MS)
    return facts if to_ms is None else facts.where(F.col("minute_ts") < to_ms)


def _added_up(facts: DataFrame, *keys: str) -> DataFrame:
    """The facts by fewer keys, in their order."""
    sums = facts.groupBy(*keys).agg(
        *(F.sum(name).alias(name) for name in ("messages", "bytes", "body_bytes")),
        *(F.min(name).alias(name) for name in ("min_size", "first_store_ts", "min_queue_offset")),
        *(F.max(name).alias(name) for name in ("max_size", "last_store_ts", "max_queue_offset")),
        F.count_distinct("queue_id").alias("queues"))
    return sums.withColumn("mean_size", F.round(F.col("bytes") / F.col("messages"), 1)).orderBy(*keys)


def by_topic(facts: DataFrame) -> DataFrame:
    """One row per topic; sizes are those of whole records, in bytes."""
    return _added_up(facts, "topic").select("topic", "messages", "bytes", "body_bytes", "queues", "min_size",
        "mean_size", "max_size", "first_store_ts", "last_store_ts")


def by_queue(facts: DataFrame) -> DataFrame:
    """One row per queue, with the offsets that its messages span."""
    return _added_up(facts, "topic", "queue_id").select("topic", "queue_id", "messages", "bytes", "body_bytes",
        "min_queue_offset", "max_queue_offset", "first_store_ts", "last_store_ts")


def by_minute(facts: DataFrame) -> DataFrame:
    """One row per minute and topic in which something was stored."""
    return _added_up(facts, "minute_ts", "topic").select("minute_ts", "topic", "messages", "bytes", "body_bytes")


def by_size(facts: DataFrame) -> DataFrame:
    """One row per topic and class of body size: bodies of at most ``size_class`` bytes, and more than half of it."""
    return _added_up(facts, "topic", "size_class").select("topic", "size_class", "messages", "body_bytes")


def by_segment(facts: DataFrame) -> DataFrame:
    """One row per segment: what of it are records, and where the last of them ends."""
    return facts.groupBy("segment").agg(F.sum("messages").alias("messages"), F.sum("bytes").alias("bytes"),
        F.max("end").alias("end")).orderBy("segment").select("segment", "messages", "bytes", "end")


TABLES = {"by_topic": by_topic, "by_queue": by_queue, "by_minute": by_minute, "by_size": by_size}
"""The tables of the report; the rows of the first are those of the summary."""
