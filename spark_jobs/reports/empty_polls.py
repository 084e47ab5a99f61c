"""The report ``empty_polls``: how many answers to pulls had no messages, and why."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.reports.shape import Chart, Figure, Inputs, Report, Table
from spark_jobs.reports.steps import floored, share

POLLS = ("at_ms", "kind", "cause", "status", "protocol", "topic", "group", "messages")
KEYS = ("broker", "topic", "group", "protocol", "how", "status", "minute_ts")
_SUMS = ("answers", "empty", "messages")


def answers(polls: DataFrame) -> DataFrame:
    """Answers by topic, group, protocol, minute, status and ``how``: at once, or the cause that ended a hold.

    A hold that nobody waits for any more is not answered, and not counted.
    """
    messages = F.greatest(F.col("messages"), F.lit(0)).cast("long")
    return (
        polls.where("kind in ('answered_at_once', 'woken')")
        .select(
            "broker",
            "topic",
            "group",
            "protocol",
            "status",
            F.when(F.col("kind") == "woken", F.col("cause")).otherwise("at once").alias("how"),
            floored(F.col("at_ms")).alias("minute_ts"),
            messages.alias("messages"),
        )
        .groupBy(*KEYS)
        .agg(
            F.count("*").alias("answers"),
            F.count_if(F.col("messages") == 0).alias("empty"),
            F.sum("messages").alias("messages"),
        )
        .select(*KEYS, *_SUMS)
    )


def facts(inputs: Inputs) -> dict[str, DataFrame]:
    return {"answers": answers(inputs.polls)}


def _by(facts: DataFrame, *keys: str) -> DataFrame:
    return (
        facts.groupBy("broker", *keys)
        .agg(*(F.sum(name).alias(name) for name in _SUMS))
        .select(
            "broker",
            *keys,
            "answers",
            "empty",
            share("empty", "answers").alias("empty_share"),
            "messages",
            F.round(F.try_divide("messages", "answers"), 2).alias("messages_an_answer"),
        )
    )


def by_topic(facts: DataFrame) -> DataFrame:
    """One row per topic."""
    return _by(facts, "topic")


def by_group(facts: DataFrame) -> DataFrame:
    """One row per topic, group and protocol."""
    return _by(facts, "topic", "group", "protocol")


def by_status(facts: DataFrame) -> DataFrame:
    """One row for each status, and how the answer came."""
    return _by(facts, "status", "how")


def by_minute(facts: DataFrame) -> DataFrame:
    """One row for each minute and how the answers came."""
    return _by(facts, "minute_ts", "how")


def figures(facts: DataFrame, *keys: str) -> DataFrame:
    """The number of answers, and the share of empty ones."""
    return (
        facts.groupBy(*keys)
        .agg(
            F.coalesce(F.sum("answers"), F.lit(0)).alias("answers"),
            F.sum("empty").alias("empty"),
            F.sum("messages").alias("given"),
        )
        .select(
            *keys,
            "answers",
            share("empty", "answers").alias("empty_share"),
            F.round(F.try_divide("given", "answers"), 2).alias("messages_an_answer"),
        )
    )


REPORT = Report(
    reads=(),
    polls=POLLS,
    facts=facts,
    tables={
        "by_topic": Table("answers", by_topic, worst="empty"),
        "by_group": Table("answers", by_group, worst="empty"),
        "by_status": Table("answers", by_status, worst="empty"),
        "by_minute": Table("answers", by_minute),
    },
    figures={"answers": figures},
    headlines=(
        Figure("answers", "Answers"),
        Figure("empty_share", "Of them empty", "less"),
        Figure("messages_an_answer", "Messages an answer", "more"),
    ),
    charts=(
        Chart(
            "stack",
            "Answers, by how they came",
            "by_minute",
            ("answers", "empty", "messages"),
            split=("how",),
            per_second=True,
        ),
        Chart("time", "Empty answers, of all", "by_minute", ("empty_share",), split=("how",)),
        Chart("bars", "By topic", "by_topic", ("empty", "answers"), split=("topic",)),
    ),
)
