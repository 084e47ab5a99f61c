"""What every report promises: the schemas of its tables, and columns that exist."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from spark_jobs.catalogue import REPORTS
from spark_jobs.output.files import with_timestamps
from spark_jobs.reports import load
from spark_jobs.sources import commit_log_columns, poll_journal_columns

SCHEMAS: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "schemas.json").read_text())
"""The columns and types of every table, by report, as Spark's DDL."""


@pytest.mark.parametrize("name", REPORTS)
def test_tables_and_figures_are_those_that_the_report_promises(
    finished_report: Callable[..., Any], driven: Path, name: str
) -> None:
    report, finished = load(name), finished_report(name, driven)
    assert list(finished.summary["tables"]) == list(report.tables) == list(SCHEMAS[name])
    for table, schema in SCHEMAS[name].items():
        assert schema.startswith("broker string, ")
        promised = with_timestamps(to_arrow_schema(StructType.fromDDL(schema)).empty_table()).schema
        written = parquet.read_schema(finished.folder / f"{table}.parquet")
        assert [(field.name, field.type) for field in written] == [(field.name, field.type) for field in promised]
    assert {figure.name for figure in report.headlines} <= set(finished.summary["total"])


@pytest.mark.parametrize("name", REPORTS)
def test_columns_to_read_and_tables_to_draw_exist(name: str) -> None:
    report = load(name)
    assert set(report.reads) <= set(commit_log_columns.COLUMN_TYPES)
    assert set(report.polls) <= set(poll_journal_columns.COLUMN_TYPES)
    assert REPORTS[name].needs_journal == (not report.reads)
    for chart in report.charts:
        columns = {column.split()[0] for column in SCHEMAS[name][chart.table].split(", ")}
        assert {*chart.y, *chart.split, *filter(None, [chart.choose])} <= columns, chart.title
        assert chart.kind in ("bars", "histogram") or "minute_ts" in columns


def test_an_unknown_report() -> None:
    with pytest.raises(KeyError):
        load("os")
