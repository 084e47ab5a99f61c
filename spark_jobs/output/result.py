"""From facts to figures: the tables of a report and its totals, for a period."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.job import Period
from spark_jobs.reports.shape import ALL_BROKERS, LEFT_OUT, Report, Table
from spark_jobs.reports.spreads import sums
from spark_jobs.reports.steps import MINUTE_MS, coarser, in_window, step_for
from spark_jobs.spark.at_once import AT_ONCE, run_at_once

MOST_ROWS = 1_000_000
"""Rows of one table. Further rows are not counted."""
Facts = Mapping[str, DataFrame]


class Result(NamedTuple):
    """The figures of one period."""

    tables: dict[str, pa.Table]
    total: dict[str, Any]
    left_out: list[dict[str, Any]]
    step_ms: int
    cut: list[str]
    """Tables that had more than MOST_ROWS rows."""


def compute(
    report: Report,
    facts: Facts,
    period: Period,
    step_ms: int,
    brokers: int,
    doing: Callable[[str], None],
    are_few: bool = True,
) -> Result:
    """All tables and totals of one period, from the facts of ``brokers`` brokers.

    Unless facts ``are_few``, tables may be long, and Java has room for only one at a time. Several threads call
    ``doing``.
    """
    inside = {name: in_window(rows, *period) for name, rows in facts.items()}

    def rows_of(name: str) -> pa.Table:
        doing(f"making {name}")
        table = report.tables[name]
        return _rows_of(table, coarser(inside[table.of], step_ms), brokers, are_few)

    queries: list[Callable[[], Any]] = [partial(rows_of, name) for name in report.tables]
    queries += [partial(total, report, inside), partial(left_out, inside)]
    session = next(iter(facts.values())).sparkSession
    *found, whole, missing = run_at_once(session, queries, AT_ONCE if are_few else 1)
    tables = dict(zip(report.tables, found, strict=True))
    cut = [name for name, rows in tables.items() if rows.num_rows > MOST_ROWS]
    return Result(tables | {name: tables[name].slice(0, MOST_ROWS) for name in cut}, whole, missing, step_ms, cut)


def _rows_of(table: Table, facts: DataFrame, brokers: int, are_few: bool) -> pa.Table:
    """The table's sorted rows: first those of all brokers together, then by time, and the worst first.

    If facts ``are_few``, Spark neither sorts nor cuts the table: to plan a sort would take longer than to compute it.
    """
    if table.across and brokers > 1:
        facts = facts.withColumn("broker", F.explode(F.array("broker", F.lit(ALL_BROKERS))))
    rows = table.make(facts)
    order = [name for name in ("day_ts", "minute_ts", table.worst, *rows.columns) if name in rows.columns]
    if not are_few:
        ascending = [name != table.worst for name in order]
        rows = rows.orderBy(F.col("broker") != ALL_BROKERS, *order, ascending=[True, *ascending]).limit(MOST_ROWS + 1)
    found = rows.toArrow()
    keys = [("of_one", "ascending"), *((name, "descending" if name == table.worst else "ascending") for name in order)]
    of_one = pc.not_equal(found["broker"], ALL_BROKERS)
    return found.append_column("of_one", of_one).sort_by(keys).drop_columns("of_one")


def step_of(period: Period, known: Period) -> int:
    """The length of the tables' time steps in ms: the shortest that the period allows. ``known``: what was read."""
    start = known.from_ms if period.from_ms is None else period.from_ms
    stop = known.to_ms if period.to_ms is None else period.to_ms
    return MINUTE_MS if start is None or stop is None else step_for(stop - start)


def total(report: Report, facts: Facts) -> dict[str, Any]:
    """The figures over all brokers, topics and groups."""
    values: dict[str, Any] = {}
    for name, figures in report.figures.items():
        for row in figures(facts[name]).toArrow().to_pylist():
            values |= row
    return values


def left_out(facts: Facts) -> list[dict[str, Any]]:
    """What the facts left out: ``reason``, ``count`` and the reason as ``text``."""
    if "left_out" not in facts:
        return []
    counts = sums(facts["left_out"], "reason", count="sum(count)").toArrow().sort_by("reason").to_pylist()
    return [part | {"text": LEFT_OUT[part["reason"]]} for part in counts if part["count"]]
