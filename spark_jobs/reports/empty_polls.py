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


def _sums(facts: DataFrame, *keys: str) -> DataFrame:
    return (
        facts.groupBy(*keys)
        .agg(*(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in _SUMS))
        .select(
            *keys,
            "answers",
            "empty",
            share("empty", "answers").alias("empty_share"),
            "messages",
            F.round(F.try_divide("messages", "answers"), 2).alias("messages_an_answer"),
        )
    )


def _by(*keys: str, worst: str = "") -> Table:
    return Table("answers", lambda facts: _sums(facts, "broker", *keys), worst)


def figures(facts: DataFrame, *keys: str) -> DataFrame:
    """The number of answers, and the share of empty ones."""
    return _sums(facts, *keys).drop("empty", "messages")


REPORT = Report(
    reads=(),
    polls=POLLS,
    facts=facts,
    tables={
        "by_topic": _by("topic", worst="empty"),
        "by_group": _by("topic", "group", "protocol", worst="empty"),
        "by_status": _by("status", "how", worst="empty"),
        "by_minute": _by("minute_ts", "how"),
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
