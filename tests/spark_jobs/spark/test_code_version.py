"""The version of the code in a result."""

import re
from pathlib import Path

import pytest

from broker_core.version import VERSION
from spark_jobs.catalogue import REPORTS
from spark_jobs.spark import code_version


def test_the_code_version_is_the_version_and_a_digest() -> None:
    version, _, digest = code_version.code_version().partition("+")
    assert version == VERSION
    assert len(digest) == 12
    assert digest == code_version.code_version().partition("+")[2]


def test_every_pattern_names_a_file() -> None:
    for pattern in code_version.SENT_TO_TASKS + code_version.REPORTS:
        assert code_version.sources((pattern,)), pattern


def test_modules_that_sent_modules_import_are_sent_too() -> None:
    sent = {
        path.relative_to(code_version.PROJECT).with_suffix("").as_posix().replace("/", ".")
        for path in code_version.sources(code_version.SENT_TO_TASKS)
    }
    ours = re.compile(r"^from ((?:spark_jobs|broker_core)\.\S+) import", re.MULTILINE)
    imported = {
        name
        for path in code_version.sources(code_version.SENT_TO_TASKS)
        for name in ours.findall(path.read_text(encoding="utf-8"))
    }
    assert "spark_jobs.sources.commit_log_records" in imported
    assert imported - {"broker_core.formats", "spark_jobs.sources"} <= sent


def test_every_report_is_in_it() -> None:
    names = {path.stem for path in code_version.sources(code_version.REPORTS)}
    assert {*REPORTS, "histograms", "run", "words", "page"} <= names


def test_the_digest_changes_with_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_version, "ROOTS", (tmp_path,))
    (tmp_path / "a.py").write_text("1")
    before = code_version.digest(("a.py",))
    (tmp_path / "a.py").write_text("2")
    assert code_version.digest(("a.py",)) != before
