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
SIZE_CLASSES = tuple(1 << power for power in range(32))
_SIZE_CLASS = f"CASE {' '.join(f'WHEN body_length <= {size} THEN {size}L' for size in SIZE_CLASSES)} END"
_KEYS = ("broker", "segment", "topic", "queue_id", "born_host", "producer_group", "minute_ts", "size_class")
_STORED = ("messages", "bytes", "body_bytes")
_TIMES = ("first_store_ts", "last_store_ts")
_SUMS = {
    **{name: f"sum({name})" for name in _STORED},
    **{name: f"min({name})" for name in ("min_size", "first_store_ts", "min_queue_offset")},
    **{name: f"max({name})" for name in ("max_size", "last_store_ts", "max_queue_offset")},
    "queues": "count(DISTINCT home, queue_id)",
    "mean_size": "round(sum(bytes) / sum(messages), 1)",
}
"""The columns of tables, as sums of facts in SQL. Sizes are those of whole records, in bytes."""


def facts(inputs: Inputs) -> dict[str, DataFrame]:
    """One scan of the log: a row per segment, topic, queue, producer, minute and class of body sizes.

    ``size_class``: the next power of two, bytes: bodies have at most as many, and more than half of it. ``kind``: of
    the topic, as users' messages, retries, and the broker's own.
    """
    messages = inputs.messages.withColumns({"minute_ts": floored(F.col("store_ts")), "size_class": F.expr(_SIZE_CLASS)})
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
    return {"stored": stored.withColumns({"home": F.col("broker"), "kind": kind_of(F.col("topic"))})}


def _by(*keys: str, more: tuple[str, ...], worst: str = "", across: bool = True) -> Table:
    """A row for each broker and value of the keys, with these columns of _SUMS."""
    sums = [f"{_SUMS[name]} AS {name}" for name in more]
    return Table("stored", lambda stored: stored.groupBy("broker", *keys).agg(*map(F.expr, sums)), worst, across)


_OF_TOPIC = (*_STORED, "queues", "min_size", "mean_size", "max_size", *_TIMES)
_OF_QUEUE = (*_STORED, "min_queue_offset", "max_queue_offset", *_TIMES)


def figures(stored: DataFrame, *keys: str) -> DataFrame:
    """Messages and bytes."""
    return stored.groupBy(*keys).agg(*(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in _STORED))


REPORT = Report(
    reads=READS,
    polls=(),
    facts=facts,
    tables={
        "by_topic": _by("topic", "kind", more=_OF_TOPIC, worst="messages"),
        "by_kind": _by("kind", more=(*_STORED, *_TIMES), worst="messages"),
        "by_queue": _by("topic", "queue_id", more=_OF_QUEUE, worst="messages", across=False),
        "by_producer": _by("topic", "born_host", "producer_group", more=(*_STORED, *_TIMES), worst="messages"),
        "by_minute": _by("minute_ts", "topic", more=_STORED),
        "by_size": _by("topic", "size_class", more=("messages", "body_bytes"), worst="messages"),
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
