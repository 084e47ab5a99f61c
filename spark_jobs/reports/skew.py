"""The report ``skew``: how evenly messages lie on the queues of a topic, and work on the consumers of a group.

Queues without a message count too: the store's table of topics says how many queues a topic has. The queues of the
broker's own topics have other meanings (those of delayed messages are levels). They are left out of ``by_topic``.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.reports.shape import Chart, Figure, Inputs, Report, Table
from spark_jobs.reports.steps import floored, reason, share, stored, uneven
from spark_jobs.reports.topics import is_of_clients

READS = ("physical_offset", "segment", "topic", "queue_id", "total_size", "store_ts")
POLLS = ("at_ms", "kind", "topic", "queue_id", "group", "client_id", "messages", "bytes")


def on_queues(messages: DataFrame) -> DataFrame:
    """Messages and bytes by segment, topic, queue and minute."""
    return stored(messages.withColumn("minute_ts", floored(F.col("store_ts"))), "topic", "queue_id", "minute_ts")


def with_queues(on_queues: DataFrame, topics: DataFrame) -> DataFrame:
    """The same rows, with the number of queues of the topic; null if the table of topics does not have the topic."""
    return on_queues.join(F.broadcast(topics), ["broker", "topic"], "left").withColumn("home", F.col("broker"))


def given(polls: DataFrame) -> DataFrame:
    """Messages and bytes given, by topic, queue, group, client and minute; 0 for clients that got none.

    Clients that pull without a group share no queues, so they are left out.
    """
    return (
        polls.where("kind in ('answered_at_once', 'woken') and group != ''")
        .withColumn("minute_ts", floored(F.col("at_ms")))
        .groupBy("broker", "topic", "queue_id", "group", "client_id", "minute_ts")
        .agg(
            F.coalesce(F.sum("messages"), F.lit(0)).alias("messages"),
            F.coalesce(F.sum("bytes"), F.lit(0)).alias("bytes"),
        )
        .withColumn("home", F.col("broker"))
    )


def facts(inputs: Inputs) -> dict[str, DataFrame]:
    stored_messages = with_queues(on_queues(inputs.messages), inputs.topics())
    own = stored_messages.where(~is_of_clients(F.col("topic")))
    return {
        "stored": stored_messages,
        "given": given(inputs.polls),
        "left_out": reason(own, "own_messages", "messages"),
    }


def queue_amounts(stored: DataFrame, *keys: str) -> DataFrame:
    """Messages and bytes of each queue of each broker (``home``), with zeros for the queues without messages."""
    used = stored.groupBy(*keys, "home", "topic", "queue_id").agg(
        F.sum("messages").alias("messages"), F.sum("bytes").alias("bytes"), F.max("queues").alias("queues")
    )
    topics = used.groupBy(*keys, "home", "topic").agg(
        F.greatest(F.max("queues"), (F.max("queue_id") + 1)).alias("queues")
    )
    every = topics.select(
        *keys, "home", "topic", F.explode(F.sequence(F.lit(0), F.col("queues") - 1)).alias("queue_id")
    )
    return every.join(used.drop("queues"), [*keys, "home", "topic", "queue_id"], "left").fillna(
        0, ["messages", "bytes"]
    )


def by_topic(stored: DataFrame) -> DataFrame:
    """One row per topic: how unevenly its messages lie on its queues. ``queue_id`` is the fullest queue.

    It is null in a row of several brokers, whose queues have the same numbers.
    """
    amounts = queue_amounts(stored.where(is_of_clients(F.col("topic"))), "broker")
    fullest = amounts.groupBy("broker", "topic").agg(
        F.when(F.count_distinct("home") == 1, F.max_by("queue_id", F.struct("messages", -F.col("queue_id")))).alias(
            "queue_id"
        ),
        F.count_if(F.col("messages") == 0).alias("idle_queues"),
        F.sum("bytes").alias("bytes"),
    )
    return (
        uneven(amounts, "broker", "topic", amount="messages")
        .join(fullest, ["broker", "topic"])
        .select(
            "broker",
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
    amounts = queue_amounts(stored, "broker")
    of = amounts.groupBy("broker", "topic").agg(F.sum("messages").alias("of"))
    return amounts.join(of, ["broker", "topic"]).select(
        "broker", "topic", "queue_id", "messages", "bytes", share("messages", "of").alias("messages_share")
    )


def _client_amounts(given: DataFrame, *keys: str) -> DataFrame:
    return given.groupBy(*keys, "topic", "group", "client_id").agg(
        F.count_distinct("home", "queue_id").alias("queues"),
        F.sum("messages").alias("messages"),
        F.sum("bytes").alias("bytes"),
    )


def by_group(given: DataFrame) -> DataFrame:
    """One row per topic and group: how unevenly its clients were given messages; ``client_id`` is the busiest one."""
    amounts = _client_amounts(given, "broker")
    busiest = amounts.groupBy("broker", "topic", "group").agg(
        F.max_by("client_id", F.struct("messages", "client_id")).alias("client_id"),
        F.count_if(F.col("messages") == 0).alias("idle_clients"),
    )
    return (
        uneven(amounts, "broker", "topic", "group", amount="messages")
        .join(busiest, ["broker", "topic", "group"])
        .select(
            "broker",
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
    amounts = _client_amounts(given, "broker")
    of = amounts.groupBy("broker", "topic", "group").agg(F.sum("messages").alias("of"))
    return amounts.join(of, ["broker", "topic", "group"]).select(
        "broker",
        "topic",
        "group",
        "client_id",
        "queues",
        "messages",
        "bytes",
        share("messages", "of").alias("messages_share"),
    )


def queue_figures(stored: DataFrame, *keys: str) -> DataFrame:
    """The imbalance of the worst topic."""
    of_clients = stored.where(is_of_clients(F.col("topic")))
    topics = uneven(queue_amounts(of_clients, *keys), *keys, "topic", amount="messages")
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
        "by_topic": Table("stored", by_topic, worst="imbalance"),
        "by_queue": Table("stored", by_queue, worst="messages_share", across=False),
        "by_group": Table("given", by_group, worst="imbalance"),
        "by_client": Table("given", by_client, worst="messages_share"),
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
)
