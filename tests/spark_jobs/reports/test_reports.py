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
from spark_jobs.reports.daily_summary import DAILY
from spark_jobs.sources import commit_log_columns, poll_journal_columns

SCHEMAS: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "schemas.json").read_text())
"""The columns and types of every table, by report, as Spark's DDL."""
EXPECTED: dict[str, dict[str, Any]] = {
    store: json.loads((Path(__file__).parent / f"{store}.json").read_text()) for store in ("golden", "driven")
}
"""Every figure of a store, by report, as ``figures_of`` has it."""


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


def figures_of(finished: Any) -> dict[str, Any]:
    """Totals, reasons and tables of a report as the files have them: rows without names of columns and the broker."""
    summary = finished.summary
    return {
        "total": summary["total"],
        "left_out": {part["reason"]: part["count"] for part in summary["left_out"]},
        "tables": {name: [[*row.values()] for row in finished.table(name)] for name in summary["tables"]},
    }


@pytest.mark.parametrize("name", REPORTS)
def test_every_figure_of_a_store_with_a_poll_journal(
    finished_report: Callable[..., Any], driven: Path, name: str
) -> None:
    """``driven.story`` says what the broker did; all of its times and amounts can be calculated by hand."""
    finished = finished_report(name, driven)
    assert figures_of(finished) == EXPECTED["driven"][name]
    assert finished.summary["notes"] == []


@pytest.mark.parametrize(
    ("store", "name"),
    [*(("clean-shutdown", name) for name in EXPECTED["golden"]), ("abort-file-present", "daily_summary")],
)
def test_every_figure_of_rocketmqs_stores(
    finished_report: Callable[..., Any], golden: Path, store: str, name: str
) -> None:
    """Both stores have the same messages. Reports on pulls have nothing to say about them."""
    assert figures_of(finished_report(name, golden / store)) == EXPECTED["golden"][name]


@pytest.mark.parametrize("store", EXPECTED)
def test_the_daily_summary_says_what_its_reports_say(store: str) -> None:
    known, summary = EXPECTED[store], EXPECTED[store]["daily_summary"]["total"]
    for (report, _), names in DAILY.items():
        for figure in names if report in known else ():
            assert summary[figure] == known[report]["total"][figure], figure


@pytest.mark.parametrize("name", REPORTS)
def test_columns_to_read_and_tables_to_draw_exist(name: str) -> None:
    report = load(name)
    assert set(report.reads) <= set(commit_log_columns.COLUMN_TYPES)
    assert set(report.polls) <= set(poll_journal_columns.COLUMN_TYPES)
    for chart in report.charts:
        columns = {column.split()[0] for column in SCHEMAS[name][chart.table].split(", ")}
        assert {*chart.y, *chart.split, *filter(None, [chart.choose])} <= columns, chart.title
        assert chart.kind in ("bars", "histogram") or "minute_ts" in columns


def test_an_unknown_report() -> None:
    with pytest.raises(KeyError):
        load("os")
