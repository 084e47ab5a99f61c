"""The report ``daily_summary``: the figures of all other reports, by day and topic, and where to look closer.

Days are those of UTC. If a period begins within a day, that day begins with the period. The facts of every report are
computed once, and then summed up by topic and for all topics, by day and for all days.
"""

from functools import partial, reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.catalogue import REPORTS
from spark_jobs.reports import load
from spark_jobs.reports.shape import ALL_BROKERS, Chart, Figure, Inputs, Report, Table
from spark_jobs.reports.spreads import sums
from spark_jobs.reports.steps import DAY_MS, about, floored, in_window
from spark_jobs.spark.at_once import run_at_once

NAME = "daily_summary"
PARTS = {name: load(name) for name in REPORTS if name != NAME}
READS = tuple(dict.fromkeys(column for part in PARTS.values() for column in part.reads))
POLLS = tuple(dict.fromkeys(column for part in PARTS.values() for column in part.polls))
_KEYS = ("broker", "since_ts", "day_ts", "about")


DAILY = {
    ("throughput", "stored"): ("messages", "bytes"),
    ("wakeup_latency", "stages"): ("wakeups", "wake_p50_us", "wake_p99_us"),
    ("hold_time", "holds"): ("holds", "held_p50_us"),
    ("empty_polls", "answers"): ("answers", "empty_share"),
    ("polling_savings", "requests"): ("saved_requests_1s", "saved_requests_100ms"),
    ("consumer_lag", "lag"): ("lag", "most_lag", "most_lag_ms"),
    ("skew", "stored"): ("queue_imbalance",),
    ("skew", "given"): ("client_imbalance",),
    ("end_to_end_latency", "stages"): ("born_to_stored_p99_ms", "stored_to_delivered_p99_ms"),
    ("retries", "stored"): ("retries", "dead_letters"),
    ("retries", "late"): ("late_p99_ms",),
    ("slow_consumers", "measures"): ("slow_clients", "committed_p99_ms"),
}
"""The figures of this report, by the report and the facts from which they are computed."""
FIGURES = tuple(name for names in DAILY.values() for name in names)
COUNTS = (
    *("messages", "bytes", "wakeups", "holds", "answers", "saved_requests_1s", "saved_requests_100ms"),
    *("retries", "dead_letters", "slow_clients"),
)
"""Those that are 0, not null, without any data."""
ALL_TOPICS, ALL_DAYS = "*", -1
"""These stand for a topic and a day. No topic has such a name, and no day begins then."""
_IS_TOTAL = f"broker = '{ALL_BROKERS}' AND about = '{ALL_TOPICS}' AND day_ts = {ALL_DAYS}"


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


def facts(inputs: Inputs) -> dict[str, DataFrame]:
    """Every figure by day and topic. Each report has a plan of its own, because a single plan of all takes too long."""

    def facts_of(name: str) -> dict[str, DataFrame]:
        of = inputs.of(name)._replace(read=inputs.read) if inputs.of else inputs
        facts = PARTS[name].facts(of)
        needed = {fact: facts[fact] for fact in PARTS[name].figures}
        return inputs.read(needed, list(PARTS).index(name), len(PARTS)) if inputs.read else needed

    queries = [partial(facts_of, name) for name in PARTS]
    known = dict(zip(PARTS, run_at_once(inputs.messages.sparkSession, queries), strict=True))
    figures = []
    for (name, fact), wanted in DAILY.items():
        inside = in_window(known[name][fact], inputs.bounds[0] if inputs.bounds else None, inputs.to_ms)
        inside = about(inside, inputs.topic, inputs.group)
        inside = inside.withColumn("broker", F.explode(F.array("broker", F.lit(ALL_BROKERS))))
        inside = by_day_and_topic(inside, inputs.bounds)
        figures.append(PARTS[name].figures[fact](inside, *_KEYS).select(*_KEYS, *wanted))
    together = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), figures)
    if inputs.brokers == 1:
        together = together.where(f"broker != '{ALL_BROKERS}' OR {_IS_TOTAL}")
    return {
        "stored": known["throughput"]["stored"],
        "figures": together.withColumnRenamed("since_ts", "minute_ts"),
    }


def _merged(figures: DataFrame, *keys: str) -> DataFrame:
    """The figures with the same keys as one row."""
    return sums(figures, *keys, **{name: f"max({name})" for name in FIGURES})


def by_topic(figures: DataFrame) -> DataFrame:
    """One row per day and topic with any figure."""
    days = figures.where((F.col("about") != ALL_TOPICS) & (F.col("day_ts") != ALL_DAYS))
    return _merged(days, "broker", "day_ts", "about").withColumnRenamed("about", "topic")


def by_day(figures: DataFrame) -> DataFrame:
    """One row per day, all topics together."""
    days = figures.where((F.col("about") == ALL_TOPICS) & (F.col("day_ts") != ALL_DAYS))
    return _merged(days, "broker", "day_ts")


def total(figures: DataFrame, *keys: str) -> DataFrame:
    """All days and topics together."""
    return _merged(figures.where(_IS_TOTAL), *keys).fillna(0, COUNTS)


def headlines() -> tuple[Figure, ...]:
    """The daily figures, as their own reports call them."""
    known = {(name, figure.name): figure for name, part in PARTS.items() for figure in part.headlines}
    found = ((report, known[report, name]) for (report, _), names in DAILY.items() for name in names)
    return tuple(
        figure._replace(report=name, of_journal=figure.of_journal or not PARTS[name].reads) for name, figure in found
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
        Chart("bars", "By day", "by_day", FIGURES, split=("day_ts",)),
        Chart("bars", "By topic", "by_topic", FIGURES, split=("topic",), choose="day_ts"),
    ),
)
