"""The report ``wakeup_latency``: how long held pulls with messages took from stored over woken to answered.

``stored_to_woken`` and ``woken_to_answered`` are measured for holds that an arrival woke, ``stored_to_answered`` for
all holds that ended with messages. The first message of the answer counts.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.reports.histograms import sampled
from spark_jobs.reports.shape import Chart, Figure, Inputs, Report
from spark_jobs.reports.spreads import bars_table, chosen, spread_table
from spark_jobs.reports.steps import floored, reason

POLLS = ("at_ms", "kind", "cause", "topic", "group", "messages", "wake_us", "oldest_store_ms")
_IDS = ("broker", "topic", "group", "cause", "minute_ts")


def with_stages(polls: DataFrame) -> DataFrame:
    """A row for each stage of each hold that ended with messages, with its time in us.

    The journal's times of day are those at which the engine began a turn, in whole milliseconds. If a hold was answered
    in the turn that stored its message, its time is the time that waking took. A negative time shows that a clock was
    set back.
    """
    wake, stored = F.col("wake_us").cast("long"), (F.col("at_ms") - F.col("oldest_store_ms")) * 1000
    until_woken = F.when(wake.isNotNull(), F.when(stored < 0, stored).otherwise(F.greatest(stored - wake, F.lit(0))))
    until_answered = F.when(stored < 0, stored).otherwise(F.greatest(stored, wake))
    stages = {"stored_to_woken": until_woken, "woken_to_answered": wake, "stored_to_answered": until_answered}
    woken = polls.where("kind = 'woken' and messages > 0").withColumn("minute_ts", floored(F.col("at_ms")))
    return woken.withColumns(stages).unpivot(_IDS, tuple(stages), "stage", "value").where("value is not null")


def facts(inputs: Inputs) -> dict[str, DataFrame]:
    """Samples of the stages by topic, group, cause and minute."""
    stages = sampled(with_stages(inputs.polls), "stage", *_IDS, value="value")
    return {"stages": stages, "left_out": reason(stages.where("bucket = -1"), "clock_back")}


figures = chosen(
    "stage",
    "us",
    wakeups=("stored_to_answered", "samples"),
    wake_p50_us=("woken_to_answered", "p50_us"),
    wake_p99_us=("woken_to_answered", "p99_us"),
    stored_to_answered_p99_us=("stored_to_answered", "p99_us"),
)
"""How many were woken with messages, and how fast."""

REPORT = Report(
    reads=(),
    polls=POLLS,
    facts=facts,
    tables={
        "by_topic": spread_table("stages", "topic", "stage", unit="us"),
        "by_group": spread_table("stages", "topic", "group", "stage", unit="us"),
        "by_cause": spread_table("stages", "cause", "stage", unit="us"),
        "by_minute": spread_table("stages", "minute_ts", "stage", unit="us"),
        "histogram": bars_table("stages", "stage", unit="us"),
    },
    figures={"stages": figures},
    headlines=(
        Figure("wakeups", "Holds ended with messages"),
        Figure("wake_p50_us", "Woken to answered, half of them within", "less"),
        Figure("wake_p99_us", "Woken to answered, 99 % within", "less"),
        Figure("stored_to_answered_p99_us", "Stored to answered, 99 % within", "less"),
    ),
    charts=(
        Chart("time", "Over time", "by_minute", ("p50_us", "p99_us", "max_us"), choose="stage"),
        Chart("histogram", "How long it took", "histogram", ("samples",), choose="stage"),
    ),
)
