"""The version of the code in a result."""

from pathlib import Path

import pytest

from broker_core.version import VERSION
from spark_jobs import code_version
from spark_jobs.catalogue import REPORTS


def test_it_is_the_version_and_a_digest() -> None:
    version, _, digest = code_version.code_version().partition("+")
    assert version == VERSION
    assert len(digest) == 12
    assert digest == code_version.code_version().partition("+")[2]


def test_every_pattern_names_a_file() -> None:
    for pattern in code_version.SENT_TO_TASKS + code_version.REPORTS:
        assert code_version.sources((pattern,)), pattern


def test_every_report_is_in_it() -> None:
    names = {path.stem for path in code_version.sources(code_version.REPORTS)}
    assert {*REPORTS, "histograms", "report_run", "report_words", "report_page"} <= names


def test_it_changes_with_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_version, "PROJECT", tmp_path)
    (tmp_path / "a.py").write_text("1")
    before = code_version.digest(("a.py",))
    (tmp_path / "a.py").write_text("2")
    assert code_version.digest(("a.py",)) != before
