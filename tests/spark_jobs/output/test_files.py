"""The folder of a run, and what is left when writing it fails."""

import errno
import json
from csv import DictReader
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from spark_jobs.output import files as report_files
from spark_jobs.output.files import write_folder
from tests.spark_jobs.output.test_page import CHARTS, SUMMARY, TABLES

FILES = {"summary.json", "report.html"} | {f"{name}.{kind}" for name in TABLES for kind in ("csv", "json", "parquet")}


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_new_folder_holds_every_file(tmp_path: Path) -> None:
    summary = write_folder(tmp_path / "runs" / "1", lambda: SUMMARY, TABLES, CHARTS)
    assert names(tmp_path / "runs" / "1") == FILES
    assert names(tmp_path / "runs") == {"1"}
    assert summary["tables"]["by_topic"] == {
        "rows": 1,
        "columns": TABLES["by_topic"].column_names,
        "csv": "by_topic.csv",
        "json": "by_topic.json",
        "parquet": "by_topic.parquet",
    }


@pytest.mark.parametrize("rows", [3, 0])
def test_a_table_is_the_same_in_all_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(report_files, "JSON_ROWS", 2)
    table = pa.table({"topic": ["Größe", 'a "b",\n', "c"], "lag_ms": [1, None, 1 << 60]}).slice(0, rows)
    write_folder(tmp_path / "1", lambda: SUMMARY, TABLES | {"by_topic": table}, ())
    assert json.loads((tmp_path / "1" / "by_topic.json").read_text()) == table.to_pylist()
    assert parquet.read_table(tmp_path / "1" / "by_topic.parquet").equals(table)
    options = csv.ParseOptions(newlines_in_values=True)
    stored = csv.read_csv(tmp_path / "1" / "by_topic.csv", parse_options=options)
    assert stored.cast(table.schema).equals(table), "without rows, a CSV has no types"


def test_times_are_timestamps_in_parquet_and_iso_8601_in_csv(tmp_path: Path) -> None:
    table = pa.table({"minute_ts": [1_700_000_040_000, None], "lag_ms": [5, 6]})
    write_folder(tmp_path / "1", lambda: SUMMARY, TABLES | {"by_topic": table}, ())
    stored = parquet.read_table(tmp_path / "1" / "by_topic.parquet")
    assert stored.schema.field("minute_ts").type == pa.timestamp("ms", "UTC")
    assert stored["minute_ts"].to_pylist() == [datetime(2023, 11, 14, 22, 14, tzinfo=UTC), None]
    text = (tmp_path / "1" / "by_topic.csv").read_text().splitlines()
    assert text == ['"minute_ts","lag_ms"', '"2023-11-14T22:14:00.000Z",5', ",6"]
    assert json.loads((tmp_path / "1" / "by_topic.json").read_text()) == table.to_pylist()


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@A1", "\t=1", "\r=1", '=HYPERLINK("x")', "=1\n2"])
def test_no_text_of_a_csv_is_a_formula(tmp_path: Path, text: str) -> None:
    table = pa.table({"topic": [text, "a=b", None, ""], "n": [1] * 4})
    write_folder(tmp_path / "1", lambda: SUMMARY, TABLES | {"by_topic": table}, ())
    with open(tmp_path / "1" / "by_topic.csv", newline="") as file:
        assert [row["topic"] for row in DictReader(file)] == [f"'{text}", "a=b", "", ""]
    assert parquet.read_table(tmp_path / "1" / "by_topic.parquet")["topic"].to_pylist()[0] == text


def test_a_folder_that_is_there_keeps_what_else_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "summary.json").write_text("old")
    write_folder(tmp_path, lambda: SUMMARY, TABLES, CHARTS)
    assert names(tmp_path) == FILES | {"mine.txt"}
    assert (tmp_path / "summary.json").read_text() != "old"


@pytest.mark.parametrize("there_already", [False, True])
@pytest.mark.parametrize("step", ["parquet.write_table", "page"])
def test_a_disk_that_is_full_leaves_nothing_that_looks_like_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there_already: bool, step: str
) -> None:
    folder = tmp_path / "runs" / "7"
    folder.parent.mkdir()
    if there_already:
        folder.mkdir()
        (folder / "mine.txt").write_text("kept")

    def full(*_: Any, **__: Any) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(f"spark_jobs.output.files.{step}", full)
    with pytest.raises(OSError, match="No space left on device"):
        write_folder(folder, lambda: SUMMARY, TABLES, CHARTS)
    assert [path.name for path in folder.parent.rglob("*") if path.is_file()] == ["mine.txt"] * there_already
    assert [path.name for path in folder.parent.iterdir()] == ["7"] * there_already
