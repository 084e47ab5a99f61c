"""What every report promises: of nothing it makes its tables in exactly the schemas that it says."""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_jobs.catalogue import REPORTS
from spark_jobs.reports import load
from spark_jobs.sources import commit_log_columns, poll_journal_columns
from tests.spark_jobs.frames import inputs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


FactsOf = Callable[[str], "dict[str, DataFrame]"]


@pytest.fixture(scope="module")
def facts_of(spark: "SparkSession") -> FactsOf:
    """The facts that a report makes of nothing. They are not run, so each is made but once."""
    return cache(lambda name: load(name).facts(inputs(spark, load(name))))


@pytest.mark.parametrize("name", REPORTS)
def test_the_schemas_of_its_tables(spark: "SparkSession", facts_of: FactsOf, name: str) -> None:
    report, facts = load(name), facts_of(name)
    for table in report.tables.values():
        assert table.schema.startswith("broker string, ")
        made, promised = table.make(facts[table.of]).schema, StructType.fromDDL(table.schema)
        assert made.simpleString() == promised.simpleString(), table.schema
    assert all({"broker", "minute_ts"} <= set(rows.columns) for rows in facts.values())
    if report.reads:
        assert {"segment", "messages", "bytes", "end"} <= set(facts["stored"].columns)
    if "left_out" in facts:
        assert set(facts["left_out"].columns) == {"reason", "broker", "topic", "group", "minute_ts", "count"}


@pytest.mark.parametrize("name", REPORTS)
def test_headlines_are_among_the_figures(facts_of: FactsOf, name: str) -> None:
    report, facts = load(name), facts_of(name)
    figures = [column for of, make in report.figures.items() for column in make(facts[of]).columns]
    assert len(figures) == len(set(figures))
    assert {figure.name for figure in report.headlines} <= set(figures)
    for of, make in report.figures.items():
        assert make(facts[of].withColumn("when", F.col("minute_ts")), "when").columns[0] == "when"


@pytest.mark.parametrize("name", REPORTS)
def test_columns_to_read_and_tables_to_draw_exist(spark: "SparkSession", name: str) -> None:
    report = load(name)
    assert set(report.reads) <= set(commit_log_columns.COLUMN_TYPES)
    assert set(report.polls) <= set(poll_journal_columns.COLUMN_TYPES)
    assert REPORTS[name].needs_journal == (not report.reads)
    for chart in report.charts:
        columns = set(StructType.fromDDL(report.tables[chart.table].schema).names)
        assert {*chart.y, *chart.split, *filter(None, [chart.choose])} <= columns, chart.title
        assert chart.kind in ("bars", "histogram") or "minute_ts" in columns


def test_an_unknown_report() -> None:
    with pytest.raises(KeyError):
        load("os")
