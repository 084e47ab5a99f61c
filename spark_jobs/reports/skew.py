"""The report ``skew``: how evenly messages lie on the queues of a topic, and work on the consumers of a group.

Queues without a message count too: the store's table of topics says how many queues a topic has. The queues of the
broker's own topics have other meanings (those of delayed messages are levels). They are left out of ``by_topic``.
Messages in queues that their topic never had are left out: one of them would make a topic look uneven.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_jobs.reports.shape import LEAST_EACH, Chart, Figure, Inputs, Report, Table
from spark_jobs.reports.spreads import share, sums
from spark_jobs.reports.steps import floored, reason, stored
from spark_jobs.reports.topics import is_of_clients

READS = ("physical_offset", "segment", "topic", "queue_id", "total_size", "store_ts")
POLLS = ("at_ms", "kind", "topic", "queue_id", "group", "client_id", "messages", "bytes")
_HAS_QUEUE = "coalesce(queue_id < known_queues, true)"
_WORST = f"max(imbalance) FILTER (WHERE {{0}} > 1 AND messages >= {LEAST_EACH} * {{0}})"


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
        .withColumn("home", F.col("broker"))
        .groupBy("broker", "home", "topic", "queue_id", "group", "client_id", "minute_ts")
        .agg(F.expr("coalesce(sum(messages), 0) AS messages"), F.expr("coalesce(sum(bytes), 0) AS bytes"))
    )


def facts(inputs: Inputs) -> dict[str, DataFrame]:
    stored_messages = with_queues(on_queues(inputs.messages), inputs.table("topics"))
    own = stored_messages.where(~is_of_clients(F.col("topic")))
    without = stored_messages.where(is_of_clients(F.col("topic")) & ~F.expr(_HAS_QUEUE))
    return {
        "stored": stored_messages,
        "given": given(inputs.polls),
        "left_out": reason(own, "own_messages", "messages").unionByName(reason(without, "no_queue", "messages")),
    }


def queue_amounts(stored: DataFrame, *keys: str) -> DataFrame:
    """Messages and bytes of each queue of each broker (``home``), with zeros for the queues without messages."""
    used = sums(
        stored.where(_HAS_QUEUE),
        *keys,
        "home",
        "topic",
        "queue_id",
        messages="sum(messages)",
        bytes="sum(bytes)",
        queues="max(queues)",
    )
    topics = sums(used, *keys, "home", "topic", queues="greatest(max(queues), max(queue_id) + 1)")
    every = topics.select(*keys, "home", "topic", F.expr("explode(sequence(0, queues - 1)) AS queue_id"))
    return every.join(used.drop("queues"), [*keys, "home", "topic", "queue_id"], "left").fillna(
        0, ["messages", "bytes"]
    )


def client_amounts(given: DataFrame, *keys: str) -> DataFrame:
    """Messages and bytes that each client of a group was given, and of how many queues."""
    return sums(
        given,
        *keys,
        "topic",
        "group",
        "client_id",
        queues="count(DISTINCT home, queue_id)",
        messages="sum(messages)",
        bytes="sum(bytes)",
    )


def with_shares(amounts: DataFrame, *keys: str) -> DataFrame:
    """The amounts, and which share of the messages with the same keys each has."""
    of = F.sum("messages").over(Window.partitionBy(*keys))
    return amounts.withColumn("of", of).withColumn("messages_share", F.expr(share("messages", "of")))


def uneven(amounts: DataFrame, *keys: str, part: str, **sql: str) -> DataFrame:
    """How unevenly messages are distributed over the amounts with the same keys. ``sql``: more columns.

    ``queues`` and ``idle_queues``, if the ``part`` is called ``queue``: the numbers of the amounts, and of those that
    are 0. ``imbalance``: the largest amount divided by the mean, 1 if all are equal. ``gini``: 0 if all are equal, and
    near 1 if one has everything.
    """
    rank = F.row_number().over(Window.partitionBy(*keys).orderBy("messages"))
    columns = {
        f"{part}s": "count(*)",
        "messages": "sum(amount)",
        "bytes": "sum(bytes)",
        **sql,
        "most_share": share("max(amount)", "sum(amount)"),
        "imbalance": "round(try_divide(max(amount) * count(*), sum(amount)), 3)",
        "gini": "round(try_divide(2 * sum(rank * amount), count(*) * sum(amount)) - (count(*) + 1) / count(*), 4)",
        f"idle_{part}s": "count_if(amount = 0)",
    }
    return sums(amounts.withColumn("rank", rank).withColumnRenamed("messages", "amount"), *keys, **columns)


def by_topic(stored: DataFrame) -> DataFrame:
    """One row per topic: how unevenly its messages lie on its queues. ``queue_id`` is the fullest queue.

    It is null in a row of several brokers, whose queues have the same numbers.
    """
    fullest = "CASE WHEN min(home) = max(home) THEN max_by(queue_id, struct(amount, -queue_id)) END"
    queues = queue_amounts(stored.where(is_of_clients(F.col("topic"))), "broker")
    return uneven(queues, "broker", "topic", part="queue", queue_id=fullest)


def by_queue(stored: DataFrame) -> DataFrame:
    """One row per queue and its share of the topic."""
    return with_shares(queue_amounts(stored, "broker"), "broker", "topic").select(
        "broker", "topic", "queue_id", "messages", "bytes", "messages_share"
    )


def by_group(given: DataFrame) -> DataFrame:
    """One row per topic and group: how unevenly its clients were given messages; ``client_id`` is the busiest one."""
    busiest = "max_by(client_id, struct(amount, client_id))"
    clients = client_amounts(given, "broker")
    return uneven(clients, "broker", "topic", "group", part="client", client_id=busiest).drop("bytes")


def by_client(given: DataFrame) -> DataFrame:
    """One row per topic, group and client, and its share of the group."""
    return with_shares(client_amounts(given, "broker"), "broker", "topic", "group").select(
        "broker", "topic", "group", "client_id", "queues", "messages", "bytes", "messages_share"
    )


def queue_figures(stored: DataFrame, *keys: str) -> DataFrame:
    """The imbalance of the worst topic of those with LEAST_EACH messages a queue."""
    queues = queue_amounts(stored.where(is_of_clients(F.col("topic"))), *keys)
    return sums(uneven(queues, *keys, "topic", part="queue"), *keys, queue_imbalance=_WORST.format("queues"))


def client_figures(given: DataFrame, *keys: str) -> DataFrame:
    """The imbalance of the worst group of those with LEAST_EACH messages a client."""
    clients = client_amounts(given, *keys)
    groups = uneven(clients, *keys, "topic", "group", part="client")
    return sums(groups, *keys, client_imbalance=_WORST.format("clients"))


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
