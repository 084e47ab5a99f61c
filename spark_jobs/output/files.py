"""The folder of one run: summary.json, report.html, and every table as CSV, JSON and Parquet.

Everything is first written into a folder with another name, which is renamed at the end. So a run that is killed
leaves nothing that looks like a result. A folder without summary.json is not a result.

Columns whose names end with ``_ts`` are milliseconds since 1970 in JSON, timestamps (UTC) in Parquet and ISO 8601 in
CSV.
"""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from spark_jobs.job import DRAFT_PREFIX
from spark_jobs.output.page import page
from spark_jobs.reports.shape import Chart

SUMMARY = "summary.json"
JSON_ROWS = 10_000
"""Rows that are converted to JSON at a time."""
_FORMULA = r"^[=+\-@\t\r]"
"""The beginnings by which spreadsheets recognize a formula."""


def write_folder(
    folder: Path, summarize: Callable[[], dict[str, Any]], tables: Mapping[str, pa.Table], charts: tuple[Chart, ...]
) -> dict[str, Any]:
    """Write all files of a run into ``folder``; returns the summary with the files' names.

    ``summarize`` is called when the files of the tables were written.

    A new folder appears with all of its files at once. In an existing folder the files are replaced one by one, the
    summary last. Other files in it stay.
    """
    folder = folder.resolve()
    parent = folder if folder.exists() else folder.parent
    parent.mkdir(parents=True, exist_ok=True)
    draft = parent / f"{DRAFT_PREFIX}{folder.name}-{os.getpid()}"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    try:
        written = {name: _write_table(draft, name, table) for name, table in tables.items()}
        summary = summarize() | {"tables": written}
        _write_text(draft / "report.html", page(summary, tables, charts))
        _write_text(draft / SUMMARY, json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
        if parent == folder:
            (folder / SUMMARY).unlink(missing_ok=True)
            for path in sorted(draft.iterdir(), key=lambda path: path.name == SUMMARY):
                path.replace(folder / path.name)
        else:
            draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return summary


def _write_table(draft: Path, name: str, table: pa.Table) -> dict[str, Any]:
    csv.write_csv(csv_table(table), draft / f"{name}.csv")
    parquet.write_table(with_timestamps(table), draft / f"{name}.parquet", compression="zstd")
    with open(draft / f"{name}.json", "w", encoding="utf-8") as file:
        batches = table.to_batches(JSON_ROWS)
        rows = (json.dumps(row, ensure_ascii=False) for batch in batches for row in batch.to_pylist())
        file.write("[")
        for index, row in enumerate(rows):
            file.write(f"{',' if index else ''}\n{row}")
        file.write("\n]\n")
    return {
        "rows": table.num_rows,
        "columns": table.column_names,
        **{kind: f"{name}.{kind}" for kind in ("csv", "json", "parquet")},
    }


def with_timestamps(table: pa.Table) -> pa.Table:
    """The table with timestamps (UTC) in place of the milliseconds since 1970 of its columns ``..._ts``."""
    return table.cast(
        pa.schema(
            pa.field(field.name, pa.timestamp("ms", "UTC")) if field.name.endswith("_ts") else field
            for field in table.schema
        )
    )


def csv_table(table: pa.Table) -> pa.Table:
    """The table as its CSV has it: times as ISO 8601, and no text that a spreadsheet would run as a formula.

    Clients choose the names of topics, groups and clients. A text that begins like a formula gets a ``'`` before it.
    """
    for index, field in enumerate(table.schema):
        column = table.column(index)
        if field.name.endswith("_ts"):
            column = pc.strftime(column.cast(pa.timestamp("ms")), "%Y-%m-%dT%H:%M:%SZ")
        elif pa.types.is_string(field.type):
            quoted = pc.binary_join_element_wise("'", column, "")
            column = pc.if_else(pc.match_substring_regex(column, _FORMULA), quoted, column)
        table = table.set_column(index, field.name, column)
    return table


def _write_text(path: Path, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
