"""The report ``slow_consumers``: what clients do between being given messages and asking for more.

``away``: from an answer with messages to the same client's next pull of the queue. ``committed``: from that answer to
the first commit of an offset that covers all of it. A client with at least MANY answers is slow if its median is twice
that of its group. Clients that fetch ahead (RocketMQ's push consumer) are hardly ever away; their commits show it.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_jobs.reports.histograms import sampled
from spark_jobs.reports.shape import Chart, Figure, Inputs, Report, Table
from spark_jobs.reports.spreads import bars_table, chosen, spread_table, sums
from spark_jobs.reports.steps import floored, reason

POLLS = (
    "at_ms",
    "kind",
    "topic",
    "queue_id",
    "group",
    "client_id",
    "from_offset",
    "next_offset",
    "messages",
    "held_us",
)
KEYS = ("broker", "measure", "topic", "group", "client_id", "minute_ts")
MANY = 10
SLOWER = 2.0
NOTICEABLE_MS = 10
_QUEUE = ("broker", "topic", "queue_id", "group")


def away(polls: DataFrame) -> DataFrame:
    """For each answer with messages, how long the client was away (ms); null if it has not come back."""
    order = Window.partitionBy(*_QUEUE, "client_id").orderBy("at_ms", "from_offset")
    begun = F.col("at_ms") - F.floor(F.coalesce("held_us", F.lit(0)) / 1000)
    pulls = polls.where("kind != 'committed'").withColumn("took", F.lead(begun).over(order) - F.col("at_ms"))
    return _measured(pulls.where("messages > 0"), "away", "if(took < 0, -1L, took)")


def committed(polls: DataFrame) -> DataFrame:
    """For each answer with messages, the time until an offset was committed that covers it (ms); null without one.

    Rows are in descending order of their offsets. So the last commit before an answer is the first one that covers it.
    If that commit is older than the answer, the messages were given again, and the time is null.
    """
    seen = (
        Window.partitionBy(*_QUEUE)
        .orderBy(F.desc("next_offset"), F.desc("is_commit"), F.desc("at_ms"))
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    ends = polls.where("kind = 'committed' or messages > 0").withColumn("is_commit", F.col("kind") == "committed")
    took = F.last(F.when(F.col("is_commit"), F.col("at_ms")), ignorenulls=True).over(seen) - F.col("at_ms")
    return _measured(ends.withColumn("took", took).where("not is_commit"), "committed", "if(took >= 0, took, null)")


def _measured(answers: DataFrame, measure: str, value: str) -> DataFrame:
    minute = floored(F.col("at_ms"))
    return answers.withColumns({"measure": F.lit(measure), "minute_ts": minute, "value": F.expr(value)}).select(
        *KEYS, "value"
    )


def facts(inputs: Inputs) -> dict[str, DataFrame]:
    """Samples of both measures by topic, group, client and minute."""
    measures = sampled(away(inputs.polls).unionByName(committed(inputs.polls)), *KEYS, value="value")
    return {"measures": measures, "left_out": reason(measures.where("bucket = -1"), "clock_back")}


_PERCENTILES = {
    f"{measure}_{name}_ms": (measure, f"{name}_ms") for measure in ("away", "committed") for name in ("p50", "p99")
}
_COLUMNS = ("answers", *_PERCENTILES)
_wide = chosen("measure", "ms", **_PERCENTILES)
"""The p50 and p99 of both measures side by side."""


def _with_answers(measures: DataFrame, *keys: str) -> DataFrame:
    """The same, and the number of answers with messages."""
    answers = sums(measures.where("measure = 'away'"), *keys, answers="sum(samples)")
    return answers.join(_wide(measures, *keys), [*keys], "left")


def by_client(measures: DataFrame) -> DataFrame:
    """One row per topic, group and client; ``is_slow`` compares it with its group."""
    return _beside_the_group(measures, "broker").select("broker", "topic", "group", "client_id", *_COLUMNS, "is_slow")


def _beside_the_group(measures: DataFrame, *keys: str) -> DataFrame:
    group = _with_answers(measures, *keys, "topic", "group").select(
        *keys, "topic", "group", F.col("away_p50_ms").alias("of_away"), F.col("committed_p50_ms").alias("of_committed")
    )
    clients = _with_answers(measures, *keys, "topic", "group", "client_id").join(group, [*keys, "topic", "group"])
    is_slow = (F.col("answers") >= MANY) & (_slower("away") | _slower("committed"))
    return clients.withColumn("is_slow", F.coalesce(is_slow, F.lit(False)))


def _slower(measure: str) -> Column:
    own, of = F.col(f"{measure}_p50_ms"), F.col(f"of_{measure}")
    return F.coalesce((own >= NOTICEABLE_MS) & (own >= of * SLOWER), F.lit(False))


def by_group(measures: DataFrame) -> DataFrame:
    """One row per topic and group."""
    return _with_answers(measures, "broker", "topic", "group").select("broker", "topic", "group", *_COLUMNS)


def figures(measures: DataFrame, *keys: str) -> DataFrame:
    """The number of slow clients, and the p99 of both measures."""
    slow = sums(_beside_the_group(measures, *keys), *keys, slow_clients="count_if(is_slow)")
    both = _wide(measures, *keys).select(*keys, "away_p99_ms", "committed_p99_ms")
    return slow.join(both, [*keys], "left") if keys else slow.crossJoin(both)


REPORT = Report(
    reads=(),
    polls=POLLS,
    facts=facts,
    tables={
        "by_client": Table("measures", by_client, worst="is_slow"),
        "by_group": Table("measures", by_group, worst="committed_p99_ms"),
        "by_minute": spread_table("measures", "minute_ts", "measure", unit="ms"),
        "histogram": bars_table("measures", "group", "measure", unit="ms"),
    },
    figures={"measures": figures},
    headlines=(
        Figure("slow_clients", "Slow clients", "less"),
        Figure("away_p99_ms", "Back for more, 99 % within", "less"),
        Figure("committed_p99_ms", "Committed, 99 % within", "less"),
    ),
    charts=(
        Chart("time", "Over time", "by_minute", ("p50_ms", "p99_ms", "max_ms"), choose="measure"),
        Chart(
            "bars",
            "By client",
            "by_client",
            ("committed_p50_ms", "away_p50_ms", "answers"),
            split=("client_id", "topic"),
            choose="group",
            merge="max",
        ),
        Chart("histogram", "How long it took", "histogram", ("samples",), choose="measure"),
    ),
)
