"""The folder of one run: summary.json, report.html, and every table as CSV, JSON and Parquet.

Everything is written into a folder with another name first and renamed at the end, so a run that is killed leaves
nothing that looks like a result: without a summary.json there is none.
"""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv, parquet

from spark_jobs.output.folders import DRAFT_PREFIX, SUMMARY
from spark_jobs.output.page import page
from spark_jobs.reports.shape import Chart

JSON_ROWS = 10_000
"""Rows that are put into words at a time."""


def write_folder(
    folder: Path, summary: dict[str, Any], tables: Mapping[str, pa.Table], charts: tuple[Chart, ...]
) -> dict[str, Any]:
    """Write all files of a run into ``folder``; returns the summary with the files' names.

    A new folder appears at once. One that is there keeps what else lies in it; its files are replaced one by one,
    the summary last.
    """
    folder = folder.resolve()
    parent = folder if folder.exists() else folder.parent
    parent.mkdir(parents=True, exist_ok=True)
    draft = parent / f"{DRAFT_PREFIX}{folder.name}-{os.getpid()}"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    try:
        summary = summary | {"tables": {name: _write_table(draft, name, table) for name, table in tables.items()}}
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
    csv.write_csv(table, draft / f"{name}.csv")
    parquet.write_table(table, draft / f"{name}.parquet", compression="zstd")
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


def _write_text(path: Path, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
