"""Small tables for tests of the reports' steps, and their rows."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from spark_jobs.reports.shape import SCHEMAS, Inputs, Report
from spark_jobs.sources import commit_log_source, poll_journal_source
from spark_jobs.spark.small_tables import small_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = Iterable[Mapping[str, Any]]
MINUTE = 60_000


def polls(spark: "SparkSession", columns: tuple[str, ...], rows: Rows = ()) -> "DataFrame":
    """Entries of the journal; what is not said of one is null, but for broker, topic, group and queue."""
    usual = {"broker": "a", "topic": "orders", "group": "g", "queue_id": 0, "client_id": "c"}
    return small_table(
        spark,
        ([(usual | dict(row)).get(name) for name in ("broker", *columns)] for row in rows),
        f"broker string, {poll_journal_source.pruned(*columns)}",
    )


def messages(spark: "SparkSession", columns: tuple[str, ...], rows: Rows = ()) -> "DataFrame":
    """Records of the log, 100 bytes each, one behind the other."""
    usual = {
        "broker": "a",
        "topic": "orders",
        "queue_id": 0,
        "segment": 0,
        "total_size": 100,
        "body_length": 10,
        "reconsume_times": 0,
        "born_host": "10.0.0.1",
    }
    return small_table(
        spark,
        (
            [(usual | {"physical_offset": 100 * index} | dict(row)).get(name) for name in ("broker", *columns)]
            for index, row in enumerate(rows)
        ),
        f"broker string, {commit_log_source.pruned(*columns)}",
    )


def inputs(
    spark: "SparkSession",
    report: Report,
    *,
    log: Rows = (),
    journal: Rows = (),
    offsets: Iterable[tuple[str, str, int, int]] = (),
    topics: Iterable[tuple[str, int]] = (),
    groups: Iterable[str] = (),
    pop_retries: Iterable[tuple[str, str, str]] = (),
    bounds: tuple[int, ...] = (),
    to_ms: int | None = None,
) -> Inputs:
    """What a report reads of these. Each topic once had two more queues."""
    known: dict[str, Iterable[tuple[Any, ...]]] = {
        "offsets": offsets,
        "topics": [(topic, queues, queues + 2) for topic, queues in topics],
        "groups": [(group,) for group in groups],
        "pop_retries": pop_retries,
    }
    return Inputs(
        messages(spark, report.reads or ("topic",), log),
        polls(spark, report.polls or ("topic",), journal),
        lambda name: small_table(spark, [("a", *row) for row in known.get(name, ())], SCHEMAS[name]),
        bounds,
        to_ms,
    )


def read(facts: dict[str, "DataFrame"], part: int, parts: int) -> dict[str, "DataFrame"]:
    """Facts that were read, as ``Inputs.read`` has it."""
    return {
        name: rows.sparkSession.createDataFrame(rows.toArrow(), rows.schema).coalesce(1) for name, rows in facts.items()
    }


class AnyOrder(list[tuple[Any, ...]]):
    """Rows that are equal to the same rows in any order. A report's tables get their order at the end of its run."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, list) and sorted(self, key=repr) == sorted(other, key=repr)


def rows(frame: "DataFrame", *columns: str) -> list[tuple[Any, ...]]:
    """All rows, of these columns or of all but the broker."""
    wanted = columns or [name for name in frame.columns if name != "broker"]
    return AnyOrder(tuple(row) for row in frame.select(*wanted).collect())


def one(frame: "DataFrame") -> dict[str, Any]:
    """The only row."""
    (row,) = frame.collect()
    found: dict[str, Any] = row.asDict()
    return found


def table(report: Report, name: str, facts: "DataFrame") -> "DataFrame":
    """One of the report's tables."""
    return report.tables[name].make(facts)
