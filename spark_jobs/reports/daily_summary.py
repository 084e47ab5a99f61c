"""The report ``daily_summary``: the figures of all other reports, by day and topic, and where to look closer.

Days are those of UTC. If a period begins within a day, that day begins with the period. The facts of every report are
computed once, and then summed up by topic and for all topics, by day and for all days.
"""

from functools import partial, reduce
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.catalogue import LOOK_BACK_MS, REPORTS
from spark_jobs.reports import load
from spark_jobs.reports.shape import ALL_BROKERS, Chart, Figure, Inputs, Report, Table
from spark_jobs.reports.steps import DAY_MS, about, floored, in_window
from spark_jobs.spark.at_once import run_at_once

NAME = "daily_summary"
PARTS = {name: load(name) for name in REPORTS if name != NAME}
READS = tuple(dict.fromkeys(column for part in PARTS.values() for column in part.reads))
POLLS = tuple(dict.fromkeys(column for part in PARTS.values() for column in part.polls))
_KEYS = ("broker", "since_ts", "day_ts", "about")


class DailyFigure(NamedTuple):
    """A figure of another report in this one."""

    name: str
    kind: str
    """Its type in Spark."""
    report: str
    fact: str
    """The facts of that report from which it is computed."""
    is_count: bool = False
    """Whether it is 0, not null, without any data."""


DAILY = (
    DailyFigure("messages", "long", "throughput", "stored", is_count=True),
    DailyFigure("bytes", "long", "throughput", "stored", is_count=True),
    DailyFigure("wakeups", "long", "wakeup_latency", "stages", is_count=True),
    DailyFigure("wake_p50_us", "long", "wakeup_latency", "stages"),
    DailyFigure("wake_p99_us", "long", "wakeup_latency", "stages"),
    DailyFigure("holds", "long", "hold_time", "holds", is_count=True),
    DailyFigure("held_p50_us", "long", "hold_time", "holds"),
    DailyFigure("answers", "long", "empty_polls", "answers", is_count=True),
    DailyFigure("empty_share", "double", "empty_polls", "answers"),
    DailyFigure("saved_requests_1s", "long", "polling_savings", "requests", is_count=True),
    DailyFigure("saved_requests_100ms", "long", "polling_savings", "requests", is_count=True),
    DailyFigure("lag", "long", "consumer_lag", "lag"),
    DailyFigure("most_lag", "long", "consumer_lag", "lag"),
    DailyFigure("most_lag_ms", "long", "consumer_lag", "lag"),
    DailyFigure("queue_imbalance", "double", "skew", "stored"),
    DailyFigure("client_imbalance", "double", "skew", "given"),
    DailyFigure("born_to_stored_p99_ms", "long", "end_to_end_latency", "stages"),
    DailyFigure("stored_to_delivered_p99_ms", "long", "end_to_end_latency", "stages"),
    DailyFigure("retries", "long", "retries", "stored", is_count=True),
    DailyFigure("dead_letters", "long", "retries", "stored", is_count=True),
    DailyFigure("late_p99_ms", "long", "retries", "late"),
    DailyFigure("slow_clients", "long", "slow_consumers", "measures", is_count=True),
    DailyFigure("committed_p99_ms", "long", "slow_consumers", "measures"),
)
ALL_TOPICS, ALL_DAYS, TOTAL = "*", -1, ""
"""These stand for a topic, a day and a broker. No topic and no broker has such a name, and no day begins then."""


def by_day_and_topic(facts: DataFrame, bounds: tuple[int, ...]) -> DataFrame:
    """Each fact four times: for its day and for all days, for its topic and for all topics.

    ``since_ts`` is the beginning of the day, or of the period of time within the day.
    """
    minute = F.col("minute_ts")
    period = F.coalesce(*(F.when(minute >= start, start) for start in reversed(bounds)), F.lit(0)).cast("long")
    return (
        facts.withColumn("about", F.explode(F.array("topic", F.lit(ALL_TOPICS))))
        .withColumn("period_ts", period)
        .withColumn("day_ts", F.explode(F.array(floored(minute, DAY_MS), F.lit(ALL_DAYS).cast("long"))))
        .withColumn("since_ts", F.greatest("day_ts", "period_ts"))
        .drop("period_ts")
    )


def by_broker(facts: DataFrame, brokers: int) -> DataFrame:
    """Each fact for its broker, for the total, and for all brokers if there are several."""
    others = [F.lit(ALL_BROKERS)] if brokers > 1 else []
    return facts.withColumn("broker", F.explode(F.array("broker", F.lit(TOTAL), *others)))


def as_rows(figures: DataFrame, *wanted: str) -> DataFrame:
    """A row for each figure, with its value as a double. Its minute is the beginning of its day or period."""
    ids = ("broker", "minute_ts", "day_ts", "about")
    values = (F.col(name).cast("double").alias(name) for name in wanted)
    rows = figures.withColumnRenamed("since_ts", "minute_ts").select(*ids, *values)
    return rows.unpivot(ids, wanted, "figure", "value")


def facts(inputs: Inputs) -> dict[str, DataFrame]:
    """Every figure by day and topic. Each report has a plan of its own, because a single plan of all takes too long."""
    reads = {name: inputs.of(part)._replace(read=inputs.read) if inputs.of else inputs for name, part in PARTS.items()}

    def facts_of(name: str) -> dict[str, DataFrame]:
        facts = PARTS[name].facts(reads[name])
        needed = {fact: facts[fact] for fact in PARTS[name].figures}
        return inputs.read(needed, list(PARTS).index(name), len(PARTS)) if inputs.read else needed

    queries = [partial(facts_of, name) for name in PARTS]
    known = dict(zip(PARTS, run_at_once(inputs.messages.sparkSession, queries), strict=True))
    figures = []
    for name, part in PARTS.items():
        for fact, figures_of in part.figures.items():
            if wanted := [figure.name for figure in DAILY if (figure.report, figure.fact) == (name, fact)]:
                inside = about(
                    in_window(known[name][fact], inputs.bounds[0] if inputs.bounds else None, inputs.to_ms),
                    inputs.topic,
                    inputs.group,
                )
                inside = by_broker(by_day_and_topic(inside, inputs.bounds), inputs.brokers)
                figures.append(as_rows(figures_of(inside, *_KEYS), *wanted))
    stored = {"stored": known["throughput"]["stored"]} if "throughput" in known else {}
    return stored | {"figures": reduce(DataFrame.unionByName, figures)}


def _wide(figures: DataFrame, *keys: str) -> DataFrame:
    """A column for each figure."""
    wide = figures.groupBy(*keys).pivot("figure", [figure.name for figure in DAILY]).agg(F.max("value"))
    return wide.select(
        *keys, *(F.round(F.col(figure.name), 4).cast(figure.kind).alias(figure.name) for figure in DAILY)
    )


def by_topic(figures: DataFrame) -> DataFrame:
    """One row per day and topic with any figure."""
    days = figures.where((F.col("about") != ALL_TOPICS) & (F.col("day_ts") != ALL_DAYS) & (F.col("broker") != TOTAL))
    return _wide(days, "broker", "day_ts", "about").withColumnRenamed("about", "topic")


def by_day(figures: DataFrame) -> DataFrame:
    """One row per day, all topics together."""
    days = figures.where((F.col("about") == ALL_TOPICS) & (F.col("day_ts") != ALL_DAYS) & (F.col("broker") != TOTAL))
    return _wide(days, "broker", "day_ts")


def total(figures: DataFrame, *keys: str) -> DataFrame:
    """All days and topics together."""
    everything = (F.col("about") == ALL_TOPICS) & (F.col("day_ts") == ALL_DAYS) & (F.col("broker") == TOTAL)
    return _wide(figures.where(everything), *keys).fillna(0, [figure.name for figure in DAILY if figure.is_count])


def headlines() -> tuple[Figure, ...]:
    """The daily figures, as their own reports call them."""
    known = {(name, figure.name): figure for name, part in PARTS.items() for figure in part.headlines}
    return tuple(
        found._replace(report=name, of_journal=found.of_journal or REPORTS[name].needs_journal)
        for name, found in ((figure.report, known[figure.report, figure.name]) for figure in DAILY)
    )


REPORT = Report(
    reads=READS,
    polls=POLLS,
    facts=facts,
    tables={
        "by_topic": Table("figures", by_topic, worst="messages", across=False),
        "by_day": Table("figures", by_day, across=False),
    },
    figures={"figures": total},
    headlines=headlines(),
    charts=(
        Chart("bars", "By day", "by_day", tuple(figure.name for figure in DAILY), split=("day_ts",)),
        Chart(
            "bars", "By topic", "by_topic", tuple(figure.name for figure in DAILY), split=("topic",), choose="day_ts"
        ),
    ),
    look_back_ms=LOOK_BACK_MS,
)
