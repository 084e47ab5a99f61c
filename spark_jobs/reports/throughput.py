"""The report ``throughput``: messages and bytes stored, by topic, queue, producer and minute, and their sizes."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.reports.shape import Chart, Figure, Inputs, Report, Table
from spark_jobs.reports.steps import floored
from spark_jobs.reports.topics import kind_of

READS = (
    "physical_offset",
    "segment",
    "topic",
    "queue_id",
    "queue_offset",
    "total_size",
    "body_length",
    "store_ts",
    "born_host",
    "producer_group",
)
_KEYS = ("broker", "home", "segment", "topic", "queue_id", "born_host", "producer_group", "minute_ts", "size_class")


def facts(inputs: Inputs) -> dict[str, DataFrame]:
    """One scan of the log: a row per segment, topic, queue, producer, minute and class of body sizes.

    ``size_class``: the next power of two, bytes.
    """
    size_class = F.when(F.col("body_length") <= 1, 1).otherwise(
        F.pow(F.lit(2), F.length(F.bin(F.col("body_length") - 1)))
    )
    messages = inputs.messages.withColumns(
        {"home": F.col("broker"), "minute_ts": floored(F.col("store_ts")), "size_class": size_class.cast("long")}
    )
    stored = messages.groupBy(*_KEYS).agg(
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
    )
    return {"stored": stored}


def _sums(stored: DataFrame, *keys: str) -> DataFrame:
    """The facts by broker and fewer keys."""
    sums = stored.groupBy("broker", *keys).agg(
        *(F.sum(name).alias(name) for name in ("messages", "bytes", "body_bytes")),
        *(F.min(name).alias(name) for name in ("min_size", "first_store_ts", "min_queue_offset")),
        *(F.max(name).alias(name) for name in ("max_size", "last_store_ts", "max_queue_offset")),
        F.count_distinct("home", "queue_id").alias("queues"),
    )
    return sums.withColumn("mean_size", F.round(F.col("bytes") / F.col("messages"), 1))


def by_topic(stored: DataFrame) -> DataFrame:
    """One row per topic; sizes are those of whole records, in bytes."""
    return _sums(stored, "topic").select(
        "broker",
        "topic",
        kind_of(F.col("topic")).alias("kind"),
        "messages",
        "bytes",
        "body_bytes",
        "queues",
        "min_size",
        "mean_size",
        "max_size",
        "first_store_ts",
        "last_store_ts",
    )


def by_kind(stored: DataFrame) -> DataFrame:
    """One row per kind of topic: users' messages, retries, and the broker's own, as those of transactions or pop."""
    return _sums(stored.withColumn("kind", kind_of(F.col("topic"))), "kind").select(
        "broker", "kind", "messages", "bytes", "body_bytes", "first_store_ts", "last_store_ts"
    )


def by_queue(stored: DataFrame) -> DataFrame:
    """One row per queue, with the offsets that its messages span."""
    return _sums(stored, "topic", "queue_id").select(
        "broker",
        "topic",
        "queue_id",
        "messages",
        "bytes",
        "body_bytes",
        "min_queue_offset",
        "max_queue_offset",
        "first_store_ts",
        "last_store_ts",
    )


def by_producer(stored: DataFrame) -> DataFrame:
    """One row per topic, producer's address, and group where the message says it (those of transactions do)."""
    return _sums(stored, "topic", "born_host", "producer_group").select(
        "broker",
        "topic",
        "born_host",
        "producer_group",
        "messages",
        "bytes",
        "body_bytes",
        "first_store_ts",
        "last_store_ts",
    )


def by_minute(stored: DataFrame) -> DataFrame:
    """One row per minute and topic in which something was stored."""
    return _sums(stored, "minute_ts", "topic").select("broker", "minute_ts", "topic", "messages", "bytes", "body_bytes")


def by_size(stored: DataFrame) -> DataFrame:
    """One row per topic and class of body size: bodies of at most ``size_class`` bytes, and more than half of it."""
    return _sums(stored, "topic", "size_class").select("broker", "topic", "size_class", "messages", "body_bytes")


def figures(stored: DataFrame, *keys: str) -> DataFrame:
    """Messages and bytes."""
    return stored.groupBy(*keys).agg(
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("messages", "bytes", "body_bytes"))
    )


REPORT = Report(
    reads=READS,
    polls=(),
    facts=facts,
    tables={
        "by_topic": Table("stored", by_topic, worst="messages"),
        "by_kind": Table("stored", by_kind, worst="messages"),
        "by_queue": Table("stored", by_queue, worst="messages", across=False),
        "by_producer": Table("stored", by_producer, worst="messages"),
        "by_minute": Table("stored", by_minute),
        "by_size": Table("stored", by_size),
    },
    figures={"stored": figures},
    headlines=(
        Figure("messages", "Messages stored"),
        Figure("bytes", "Bytes of the log"),
        Figure("body_bytes", "Bytes of bodies"),
    ),
    charts=(
        Chart("stack", "Stored over time", "by_minute", ("messages", "bytes"), split=("topic",), per_second=True),
        Chart("bars", "Body sizes, up to", "by_size", ("messages", "body_bytes"), split=("size_class",)),
        Chart("bars", "By producer", "by_producer", ("messages", "bytes"), split=("born_host",)),
    ),
)
