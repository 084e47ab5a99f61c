"""The report ``skew``: how evenly messages lie on the queues of a topic, and work on the consumers of a group.

A queue that was given nothing counts: how many queues a topic has, the store's table of topics says.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.reports.shape import Chart, Figure, Inputs, Report, Table
from spark_jobs.reports.steps import floored, share, stored, uneven
from spark_jobs.sources.commit_log_due import SCHEDULE_TOPIC

READS = ("physical_offset", "segment", "topic", "queue_id", "total_size", "store_ts")
POLLS = ("at_ms", "kind", "topic", "queue_id", "group", "client_id", "messages", "bytes")


def on_queues(messages: DataFrame) -> DataFrame:
    """Messages and bytes by segment, topic, queue and minute."""
    return stored(messages.withColumn("minute_ts", floored(F.col("store_ts"))), "topic", "queue_id", "minute_ts")


def with_queues(on_queues: DataFrame, topics: DataFrame) -> DataFrame:
    """The same, each with how many queues its topic has; as many as have messages where nothing says it."""
    return on_queues.join(F.broadcast(topics), "topic", "left")


def given(polls: DataFrame) -> DataFrame:
    """Messages and bytes given by topic, queue, group, client and minute; clients that were given none have zeros."""
    return (
        polls.where("kind in ('answered_at_once', 'woken')")
        .withColumn("minute_ts", floored(F.col("at_ms")))
        .groupBy("topic", "queue_id", "group", "client_id", "minute_ts")
        .agg(
            F.coalesce(F.sum("messages"), F.lit(0)).alias("messages"),
            F.coalesce(F.sum("bytes"), F.lit(0)).alias("bytes"),
        )
    )


def facts(inputs: Inputs) -> dict[str, DataFrame]:
    return {"stored": with_queues(on_queues(inputs.messages), inputs.topics()), "given": given(inputs.polls)}


def queue_amounts(stored: DataFrame, *keys: str) -> DataFrame:
    """Messages and bytes of each queue, and of those of its topic that have none."""
    used = stored.groupBy(*keys, "topic", "queue_id").agg(
        F.sum("messages").alias("messages"), F.sum("bytes").alias("bytes"), F.max("queues").alias("queues")
    )
    topics = used.groupBy(*keys, "topic").agg(F.greatest(F.max("queues"), (F.max("queue_id") + 1)).alias("queues"))
    every = topics.select(*keys, "topic", F.explode(F.sequence(F.lit(0), F.col("queues") - 1)).alias("queue_id"))
    return every.join(used.drop("queues"), [*keys, "topic", "queue_id"], "left").fillna(0, ["messages", "bytes"])


def by_topic(stored: DataFrame) -> DataFrame:
    """One row per topic: how unevenly its messages lie on its queues; ``queue_id`` is the fullest one."""
    amounts = queue_amounts(stored)
    fullest = amounts.groupBy("topic").agg(
        F.max_by("queue_id", F.struct("messages", -F.col("queue_id"))).alias("queue_id"),
        F.count_if(F.col("messages") == 0).alias("idle_queues"),
        F.sum("bytes").alias("bytes"),
    )
    return (
        uneven(amounts, "topic", amount="messages")
        .join(fullest, "topic")
        .orderBy("topic")
        .select(
            "topic",
            F.col("parts").alias("queues"),
            F.col("total").alias("messages"),
            "bytes",
            "queue_id",
            share("most", "total").alias("most_share"),
            "imbalance",
            "gini",
            "idle_queues",
        )
    )


def by_queue(stored: DataFrame) -> DataFrame:
    """One row per queue and its share of the topic."""
    amounts = queue_amounts(stored)
    of = amounts.groupBy("topic").agg(F.sum("messages").alias("of"))
    return (
        amounts.join(of, "topic")
        .orderBy("topic", "queue_id")
        .select("topic", "queue_id", "messages", "bytes", share("messages", "of").alias("messages_share"))
    )


def _client_amounts(given: DataFrame, *keys: str) -> DataFrame:
    return given.groupBy(*keys, "topic", "group", "client_id").agg(
        F.count_distinct("queue_id").alias("queues"), F.sum("messages").alias("messages"), F.sum("bytes").alias("bytes")
    )


def by_group(given: DataFrame) -> DataFrame:
    """One row per topic and group: how unevenly its clients were given messages; ``client_id`` is the busiest one."""
    amounts = _client_amounts(given)
    busiest = amounts.groupBy("topic", "group").agg(
        F.max_by("client_id", F.struct("messages", "client_id")).alias("client_id"),
        F.count_if(F.col("messages") == 0).alias("idle_clients"),
    )
    return (
        uneven(amounts, "topic", "group", amount="messages")
        .join(busiest, ["topic", "group"])
        .orderBy("topic", "group")
        .select(
            "topic",
            "group",
            F.col("parts").alias("clients"),
            F.col("total").alias("messages"),
            "client_id",
            share("most", "total").alias("most_share"),
            "imbalance",
            "gini",
            "idle_clients",
        )
    )


def by_client(given: DataFrame) -> DataFrame:
    """One row per topic, group and client, and its share of the group."""
    amounts = _client_amounts(given)
    of = amounts.groupBy("topic", "group").agg(F.sum("messages").alias("of"))
    return (
        amounts.join(of, ["topic", "group"])
        .orderBy("topic", "group", "client_id")
        .select(
            "topic",
            "group",
            "client_id",
            "queues",
            "messages",
            "bytes",
            share("messages", "of").alias("messages_share"),
        )
    )


def queue_figures(stored: DataFrame, *keys: str) -> DataFrame:
    """The imbalance of the worst topic; the queues of delayed messages are levels, which nobody evens out."""
    topics = uneven(
        queue_amounts(stored.where(F.col("topic") != SCHEDULE_TOPIC), *keys), *keys, "topic", amount="messages"
    )
    return topics.groupBy(*keys).agg(F.max(F.when(F.col("parts") > 1, F.col("imbalance"))).alias("queue_imbalance"))


def client_figures(given: DataFrame, *keys: str) -> DataFrame:
    """The imbalance of the worst group."""
    groups = uneven(_client_amounts(given, *keys), *keys, "topic", "group", amount="messages")
    return groups.groupBy(*keys).agg(F.max(F.when(F.col("parts") > 1, F.col("imbalance"))).alias("client_imbalance"))


REPORT = Report(
    reads=READS,
    polls=POLLS,
    facts=facts,
    tables={
        "by_topic": Table(
            "stored",
            by_topic,
            "topic string, queues long, messages long, bytes long, queue_id int, "
            "most_share double, imbalance double, gini double, idle_queues long",
        ),
        "by_queue": Table(
            "stored", by_queue, "topic string, queue_id int, messages long, bytes long, messages_share double"
        ),
        "by_group": Table(
            "given",
            by_group,
            "topic string, group string, clients long, messages long, "
            "client_id string, most_share double, imbalance double, gini double, idle_clients long",
        ),
        "by_client": Table(
            "given",
            by_client,
            "topic string, group string, client_id string, queues long, "
            "messages long, bytes long, messages_share double",
        ),
    },
    figures={"stored": queue_figures, "given": client_figures},
    headlines=(
        Figure("queue_imbalance", "Fullest queue beside the mean, worst topic", "less"),
        Figure("client_imbalance", "Busiest client beside the mean, worst group", "less", of_journal=True),
    ),
    charts=(
        Chart("bars", "Imbalance of topics", "by_topic", ("imbalance", "gini", "most_share"), split=("topic",)),
        Chart("bars", "Messages by queue", "by_queue", ("messages", "bytes"), split=("queue_id",), choose="topic"),
        Chart(
            "bars",
            "Messages by client",
            "by_client",
            ("messages", "bytes"),
            split=("client_id", "topic"),
            choose="group",
        ),
    ),
    within_window=True,
)
