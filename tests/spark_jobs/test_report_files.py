"""The folder of a run, and what is left when writing it fails."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs import report_files
from spark_jobs.report_files import write_folder
from tests.spark_jobs.test_report_page import SUMMARY, TABLES

ARROW = {name: pa.table(columns) for name, columns in TABLES.items()}
FILES = {"summary.json", "report.html"} | {f"{name}.{kind}" for name in TABLES for kind in ("csv", "parquet")}


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_new_folder_holds_every_file(tmp_path: Path) -> None:
    summary = write_folder(tmp_path / "runs" / "1", SUMMARY, ARROW)
    assert names(tmp_path / "runs" / "1") == FILES
    assert names(tmp_path / "runs") == {"1"}
    assert summary["tables"]["by_topic"] == {"rows": 1, "columns": list(TABLES["by_topic"]),
        "csv": "by_topic.csv", "parquet": "by_topic.parquet"}


def test_a_folder_that_is_there_keeps_what_else_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "summary.json").write_text("old")
    write_folder(tmp_path, SUMMARY, ARROW)
    assert names(tmp_path) == FILES | {"mine.txt"}
    assert (tmp_path / "summary.json").read_text() != "old"


@pytest.mark.parametrize("exists", [True, False])
def test_a_failure_leaves_nothing_that_looks_like_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                           exists: bool) -> None:
    def fail(*_: Any) -> str:
        raise OSError("disk full")

    folder = tmp_path / "out"
    if exists:
        folder.mkdir()
    monkeypatch.setattr(report_files, "page", fail)
    with pytest.raises(OSError, match="disk full"):
        write_folder(folder, SUMMARY, ARROW)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
