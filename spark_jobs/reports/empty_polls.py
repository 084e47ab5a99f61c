"""The report ``empty_polls``: how many answers to pulls had no messages, and why."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.reports.shape import Chart, Figure, Inputs, Report
from spark_jobs.reports.spreads import grouped, share, sums, totals
from spark_jobs.reports.steps import floored

POLLS = ("at_ms", "kind", "cause", "status", "protocol", "topic", "group", "messages")
KEYS = ("broker", "topic", "group", "protocol", "how", "status", "minute_ts")
_SUMS = {
    "answers": "coalesce(sum(answers), 0)",
    "empty": "coalesce(sum(empty), 0)",
    "empty_share": share("sum(empty)", "sum(answers)"),
    "messages": "coalesce(sum(messages), 0)",
    "messages_an_answer": "round(try_divide(sum(messages), sum(answers)), 2)",
}


def answers(polls: DataFrame) -> DataFrame:
    """Answers by topic, group, protocol, minute, status and ``how``: at once, or the cause that ended a hold.

    A hold that nobody waits for any more is not answered, and not counted.
    """
    how = F.expr("if(kind = 'woken', cause, 'at once')")
    return sums(
        polls.where("kind in ('answered_at_once', 'woken')").withColumns(
            {"how": how, "minute_ts": floored(F.col("at_ms")), "given": F.expr("greatest(messages, 0L)")}
        ),
        *KEYS,
        answers="count(*)",
        empty="count_if(given = 0)",
        messages="sum(given)",
    )


def facts(inputs: Inputs) -> dict[str, DataFrame]:
    return {"answers": answers(inputs.polls)}


figures = totals(**{name: _SUMS[name] for name in ("answers", "empty_share", "messages_an_answer")})
"""The number of answers, and the share of empty ones."""

REPORT = Report(
    reads=(),
    polls=POLLS,
    facts=facts,
    tables={
        "by_topic": grouped("answers", "topic", worst="empty", **_SUMS),
        "by_group": grouped("answers", "topic", "group", "protocol", worst="empty", **_SUMS),
        "by_status": grouped("answers", "status", "how", worst="empty", **_SUMS),
        "by_minute": grouped("answers", "minute_ts", "how", **_SUMS),
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
