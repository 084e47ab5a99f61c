"""The folder of one run: summary.json, report.html, and every table as CSV and Parquet.

Everything is written into a folder with another name first and renamed at the end, so a run that is killed leaves
nothing that looks like a result.
"""

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv, parquet

from spark_jobs.report_page import page

DRAFT_PREFIX = ".draft-"


def write_folder(folder: Path, summary: dict[str, Any], tables: Mapping[str, pa.Table]) -> dict[str, Any]:
    """Make ``folder`` with all files, replacing one that is there; returns the summary with the files' names."""
    draft = folder.with_name(f"{DRAFT_PREFIX}{folder.name}-{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        summary = summary | {"tables": {name: _write_table(draft, name, table) for name, table in tables.items()}}
        _write_text(draft / "summary.json", json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
        _write_text(draft / "report.html", page(summary, {name: table.to_pydict() for name, table in tables.items()}))
        _put_in_place(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return summary


def _write_table(draft: Path, name: str, table: pa.Table) -> dict[str, Any]:
    csv.write_csv(table, draft / f"{name}.csv")
    parquet.write_table(table, draft / f"{name}.parquet", compression="zstd")
    return {"rows": table.num_rows, "columns": table.column_names, "csv": f"{name}.csv", "parquet": f"{name}.parquet"}


def _write_text(path: Path, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _put_in_place(draft: Path, folder: Path) -> None:
    """Rename; a folder that stands there is moved aside first, since a rename replaces only an empty one."""
    old = folder.with_name(f"{DRAFT_PREFIX}{folder.name}-{os.getpid()}-old")
    if folder.exists():
        folder.rename(old)
    try:
        draft.rename(folder)
    except OSError:
        if old.exists():
            old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def remove_folder(folder: Path) -> None:
    """Remove a run's files; nothing happens when they are gone already."""
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)


def remove_drafts(folder: Path) -> int:
    """Remove what killed runs left below ``folder``; returns how many."""
    drafts = list(folder.glob(f"{DRAFT_PREFIX}*")) if folder.is_dir() else []
    for draft in drafts:
        shutil.rmtree(draft, ignore_errors=True)
    return len(drafts)
