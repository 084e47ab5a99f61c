"""The report ``end_to_end_latency``: from born (the producer's clock) over stored to delivered to a group.

A message is delivered to a group when it is first given to one of its members. What the journal says of a pull is a
range of its queue: where all of it was given, each message is found in the log. The copy of a delayed or retried
message has the time of birth of the first one.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.reports.histograms import SAMPLES, sampled
from spark_jobs.reports.shape import Chart, Figure, Inputs, Report
from spark_jobs.reports.spreads import bars_table, chosen, spread_table, sums
from spark_jobs.reports.steps import floored, reason, stored_since

READS = ("physical_offset", "segment", "topic", "queue_id", "queue_offset", "total_size", "born_ts", "store_ts")
POLLS = ("at_ms", "kind", "topic", "queue_id", "group", "from_offset", "next_offset", "messages")
KEYS = ("broker", "stage", "topic", "group", "minute_ts")
_MESSAGE = ("broker", "topic", "queue_id", "queue_offset")


def on_their_way_in(messages: DataFrame) -> DataFrame:
    """Samples of born to stored (ms), by segment as well; their group is null."""
    took = messages.withColumns(
        {
            "minute_ts": floored(F.col("store_ts")),
            "group": F.lit(None).cast("string"),
            "stage": F.lit("born_to_stored"),
            "value": F.col("store_ts") - F.col("born_ts"),
        }
    )
    stored = {"messages": "count(*)", "bytes": "sum(total_size)", "end": "max(physical_offset + total_size)"}
    return sampled(took, "segment", *KEYS, value="value", **stored)


def ranges(polls: DataFrame) -> DataFrame:
    """Pulls that were given messages; ``whole``: all of the range that they passed over."""
    whole = F.col("next_offset") - F.col("from_offset") == F.col("messages")
    return polls.where("kind in ('answered_at_once', 'woken') and messages > 0").withColumns(
        {"minute_ts": floored(F.col("at_ms")), "whole": whole}
    )


def first_deliveries(ranges: DataFrame) -> DataFrame:
    """When each message of the whole ranges was first given to each group."""
    offsets = F.sequence(F.col("from_offset"), F.col("next_offset") - 1)
    given = ranges.where("whole").withColumn("queue_offset", F.explode(offsets))
    return sums(given, *_MESSAGE, "group", at_ms="min(at_ms)")


def with_times(deliveries: DataFrame, messages: DataFrame) -> DataFrame:
    """The deliveries with their messages' times; null for those that the log does not have.

    Of a topic that was deleted and made again an offset may be there twice: the newer message counts.
    """
    found = deliveries.join(messages, [*_MESSAGE], "left").withColumn("minute_ts", floored(F.col("at_ms")))
    newest = {name: f"max_by({name}, physical_offset)" for name in ("born_ts", "store_ts")}
    return sums(found, *_MESSAGE, "group", "at_ms", "minute_ts", **newest)


def on_their_way_out(deliveries: DataFrame) -> DataFrame:
    """A row for each delivery and stage, its time in ms."""
    at = F.col("at_ms")
    took = {"stored_to_delivered": at - F.col("store_ts"), "born_to_delivered": at - F.col("born_ts")}
    ids = tuple(name for name in KEYS if name != "stage")
    return deliveries.withColumns(took).unpivot(ids, tuple(took), "stage", "value")


def facts(inputs: Inputs) -> dict[str, DataFrame]:
    """Samples of the three stages, and what is not among them."""
    given = ranges(inputs.polls)
    incoming = on_their_way_in(inputs.messages)
    known = stored_since(inputs.messages, inputs.since_ms)
    outgoing = sampled(on_their_way_out(with_times(first_deliveries(given), known)), *KEYS, value="value")
    stages = incoming.select(*KEYS, *SAMPLES).unionByName(outgoing)
    missing = outgoing.where("bucket is null and stage = 'stored_to_delivered'")
    return {
        "stored": incoming,
        "stages": stages,
        "left_out": reason(stages.where("bucket = -1"), "clock_back")
        .unionByName(reason(given.where("not whole"), "filtered", "messages"))
        .unionByName(reason(missing, "not_in_the_log")),
    }


figures = chosen(
    "stage",
    "ms",
    born_to_stored_p99_ms=("born_to_stored", "p99_ms"),
    deliveries=("stored_to_delivered", "samples"),
    stored_to_delivered_p50_ms=("stored_to_delivered", "p50_ms"),
    stored_to_delivered_p99_ms=("stored_to_delivered", "p99_ms"),
    born_to_delivered_p99_ms=("born_to_delivered", "p99_ms"),
)
"""How long messages usually take, and 99 % of them at most."""

REPORT = Report(
    reads=READS,
    polls=POLLS,
    facts=facts,
    tables={
        "by_topic": spread_table("stages", "topic", "stage", unit="ms"),
        "by_group": spread_table("stages", "topic", "group", "stage", unit="ms", only="`group` != ''"),
        "by_minute": spread_table("stages", "minute_ts", "stage", unit="ms"),
        "histogram": bars_table("stages", "stage", unit="ms"),
    },
    figures={"stages": figures},
    headlines=(
        Figure("born_to_stored_p99_ms", "Born to stored, 99 % within", "less"),
        Figure("deliveries", "First deliveries", of_journal=True),
        Figure("stored_to_delivered_p50_ms", "Stored to delivered, half within", "less"),
        Figure("stored_to_delivered_p99_ms", "Stored to delivered, 99 % within", "less"),
        Figure("born_to_delivered_p99_ms", "Born to delivered, 99 % within", "less"),
    ),
    charts=(
        Chart("time", "Over time", "by_minute", ("p50_ms", "p99_ms", "max_ms"), choose="stage"),
        Chart("histogram", "How long it took", "histogram", ("samples",), choose="stage"),
    ),
)
