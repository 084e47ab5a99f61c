"""Small tables for tests of the reports' steps, and their rows."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from spark_jobs.reports.shape import OFFSETS, TOPICS, Inputs, Report
from spark_jobs.sources import commit_log_source, poll_journal_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = Iterable[Mapping[str, Any]]
MINUTE = 60_000


def polls(spark: "SparkSession", columns: tuple[str, ...], rows: Rows = ()) -> "DataFrame":
    """Entries of the journal; what is not said of one is null, but for topic, group and queue."""
    usual = {"topic": "orders", "group": "g", "queue_id": 0, "client_id": "c"}
    return spark.createDataFrame(
        [tuple((usual | dict(row)).get(name) for name in columns) for row in rows], poll_journal_source.pruned(*columns)
    )


def messages(spark: "SparkSession", columns: tuple[str, ...], rows: Rows = ()) -> "DataFrame":
    """Records of the log, 100 bytes each, one behind the other."""
    made = []
    for index, row in enumerate(rows):
        usual = {
            "topic": "orders",
            "queue_id": 0,
            "segment": 0,
            "physical_offset": 100 * index,
            "total_size": 100,
            "body_length": 10,
            "reconsume_times": 0,
            "born_host": "10.0.0.1",
        }
        made.append(tuple((usual | dict(row)).get(name) for name in columns))
    return spark.createDataFrame(made, commit_log_source.pruned(*columns))


def inputs(
    spark: "SparkSession",
    report: Report,
    *,
    log: Rows = (),
    journal: Rows = (),
    offsets: Iterable[tuple[str, str, int, int]] = (),
    topics: Iterable[tuple[str, int]] = (),
    bounds: tuple[int, ...] = (),
    to_ms: int | None = None,
) -> Inputs:
    """What a report reads of these."""
    return Inputs(
        messages(spark, report.reads or ("topic",), log),
        polls(spark, report.polls or ("topic",), journal),
        lambda: spark.createDataFrame(list(offsets), OFFSETS),
        lambda: spark.createDataFrame(list(topics), TOPICS),
        bounds,
        to_ms,
    )


def read(facts: dict[str, "DataFrame"], part: int, parts: int) -> dict[str, "DataFrame"]:
    """Facts that were read, as ``Inputs.read`` has it."""
    return {name: table.sparkSession.createDataFrame(table.collect(), table.schema) for name, table in facts.items()}


def rows(table: "DataFrame", *columns: str) -> list[tuple[Any, ...]]:
    """All rows, of these columns or of all."""
    return [tuple(row) for row in table.select(*columns or table.columns).collect()]


def one(table: "DataFrame") -> dict[str, Any]:
    """The only row."""
    (row,) = table.collect()
    found: dict[str, Any] = row.asDict()
    return found
