"""The report ``hold_time``: how long pulls were held, by cause of their end, and how late time-outs were.

A hold belongs to the minute in which it ended.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.reports.histograms import sampled
from spark_jobs.reports.shape import Chart, Figure, Inputs, Report
from spark_jobs.reports.spreads import bars_table, chosen, grouped, share, spread_table
from spark_jobs.reports.steps import floored

POLLS = ("at_ms", "kind", "cause", "topic", "group", "held_us", "granted_ms")
_IDS = ("broker", "topic", "group", "cause", "minute_ts")


def measures(polls: DataFrame) -> DataFrame:
    """For each hold, its length (us), and if it timed out how much longer than granted it was: a row for each."""
    held, granted = F.col("held_us").cast("long"), F.col("granted_ms") * 1000
    values = {"held": held, "late": F.when(F.col("cause") == "timeout", held - granted)}
    holds = polls.where("kind in ('woken', 'released')").withColumn("minute_ts", floored(F.col("at_ms")))
    return holds.withColumns(values).unpivot(_IDS, tuple(values), "measure", "value").where("value is not null")


def facts(inputs: Inputs) -> dict[str, DataFrame]:
    """Samples of both measures by topic, group, cause and minute."""
    return {"holds": sampled(measures(inputs.polls), "measure", *_IDS, value="value")}


figures = chosen(
    "measure",
    "us",
    holds=("held", "samples"),
    held_p50_us=("held", "p50_us"),
    held_p99_us=("held", "p99_us"),
    late_p99_us=("late", "p99_us"),
)
"""The number of holds, their percentiles, and the lateness of time-outs."""

REPORT = Report(
    reads=(),
    polls=POLLS,
    facts=facts,
    tables={
        "by_topic": spread_table("holds", "topic", "measure", unit="us"),
        "by_group": spread_table("holds", "topic", "group", "measure", unit="us"),
        "by_cause": grouped(
            "holds",
            "cause",
            only="measure = 'held'",
            worst="holds",
            holds="sum(samples)",
            holds_share=share("sum(samples)", "sum(sum(samples)) OVER (PARTITION BY broker)"),
            held_us="sum(total)",
        ),
        "spread_by_cause": spread_table("holds", "cause", "measure", unit="us"),
        "by_minute": spread_table("holds", "minute_ts", "measure", unit="us"),
        "over_time": grouped(
            "holds", "minute_ts", "cause", only="measure = 'held'", holds="sum(samples)", held_us="sum(total)"
        ),
        "histogram": bars_table("holds", "cause", unit="us", only="measure = 'held'"),
    },
    figures={"holds": figures},
    headlines=(
        Figure("holds", "Holds ended"),
        Figure("held_p50_us", "Half of them held no longer than"),
        Figure("held_p99_us", "99 % held no longer than"),
        Figure("late_p99_us", "Time-outs, 99 % late by no more than", "less"),
    ),
    charts=(
        Chart("stack", "Holds that ended, by cause", "over_time", ("holds",), split=("cause",), per_second=True),
        Chart("time", "How long", "by_minute", ("p50_us", "p99_us", "max_us"), choose="measure"),
        Chart("histogram", "How long they were held", "histogram", ("samples",), choose="cause"),
        Chart("bars", "How they ended", "by_cause", ("holds", "held_us"), split=("cause",)),
    ),
)
