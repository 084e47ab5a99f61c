"""The report ``throughput``: messages and bytes stored, by topic, queue, producer and minute, and their sizes."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.reports.shape import Chart, Figure, Inputs, Report
from spark_jobs.reports.spreads import grouped, totals
from spark_jobs.reports.steps import floored, stored
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
_KEYS = ("topic", "queue_id", "born_host", "producer_group", "minute_ts", "size_class")
_STORED = {name: f"sum({name})" for name in ("messages", "bytes", "body_bytes")}
_TIMES = {"first_store_ts": "min(first_store_ts)", "last_store_ts": "max(last_store_ts)"}


def facts(inputs: Inputs) -> dict[str, DataFrame]:
    """One scan of the log: a row per segment, topic, queue, producer, minute and class of body sizes.

    ``size_class``: the next power of two, bytes: bodies have at most as many, and more than half of it. ``kind``: of
    the topic, as users' messages, retries, and the broker's own.
    """
    messages = inputs.messages.withColumns({"minute_ts": floored(F.col("store_ts")), "size_class": F.expr(_SIZE_CLASS)})
    by_keys = stored(
        messages,
        *_KEYS,
        body_bytes="sum(body_length)",
        min_size="min(total_size)",
        max_size="max(total_size)",
        first_store_ts="min(store_ts)",
        last_store_ts="max(store_ts)",
        min_queue_offset="min(queue_offset)",
        max_queue_offset="max(queue_offset)",
    )
    return {"stored": by_keys.withColumns({"home": F.col("broker"), "kind": kind_of(F.col("topic"))})}


figures = totals(**{name: f"coalesce({total}, 0)" for name, total in _STORED.items()})
"""Messages and bytes."""

REPORT = Report(
    reads=READS,
    polls=(),
    facts=facts,
    tables={
        "by_topic": grouped(
            "stored",
            "topic",
            "kind",
            worst="messages",
            **_STORED,
            queues="count(DISTINCT home, queue_id)",
            min_size="min(min_size)",
            mean_size="round(sum(bytes) / sum(messages), 1)",
            max_size="max(max_size)",
            **_TIMES,
        ),
        "by_kind": grouped("stored", "kind", worst="messages", **_STORED, **_TIMES),
        "by_queue": grouped(
            "stored",
            "topic",
            "queue_id",
            worst="messages",
            **_STORED,
            min_queue_offset="min(min_queue_offset)",
            max_queue_offset="max(max_queue_offset)",
            **_TIMES,
        )._replace(across=False),
        "by_producer": grouped("stored", "topic", "born_host", "producer_group", worst="messages", **_STORED, **_TIMES),
        "by_minute": grouped("stored", "minute_ts", "topic", **_STORED),
        "by_size": grouped(
            "stored", "topic", "size_class", worst="messages", messages="sum(messages)", body_bytes="sum(body_bytes)"
        ),
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
