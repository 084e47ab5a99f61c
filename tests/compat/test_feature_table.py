"""The page that a run of the stock clients writes: which features it has, and that it is complete."""

import re
from pathlib import Path

import pytest

from tests.compat import feature_table
from tests.compat.feature_table import BROKERS, FEATURES, PAGE, feature_of

PROGRAMS = Path(__file__).resolve().parent


def test_the_page_has_every_feature_and_every_case_of_the_programs() -> None:
    """Run ``make compat`` after a change of the cases."""
    text = PAGE.read_text(encoding="utf-8")
    table, _, lists = text.removeprefix(feature_table.HEAD).partition(feature_table.ENDING)
    rows = [re.fullmatch(r"\| (.*) \| (\d+) of (\d+) \| (\d+) of (\d+) \| .* \|", line) for line in table.splitlines()]
    assert [row and row[1] for row in rows] == list(FEATURES)
    assert all(row and row[4] == row[5] != "0" for row in rows), "every case holds at GlassMQ"
    named = set(re.findall(r"`([^`]+)`", lists))
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (PROGRAMS / "java").rglob("*Cases.java"))
    in_programs = set(re.findall(r'cases\.add(?:Slow|Alone)?\("([a-z0-9_]+\.[a-z0-9_]*[a-z0-9])"', sources))
    assert len(in_programs) > 100 and in_programs <= named


def test_every_case_belongs_to_a_feature() -> None:
    assert feature_of("push.sql92") == "SQL92 filters" and feature_of("push.tags") == "push consumers"
    assert feature_of("test_there_and_back.test_x") and feature_of("test_outage.test_x") is None


def test_a_run_that_leaves_out_something_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_table, "_held", {broker: {} for broker in BROKERS})
    page = tmp_path / "page.md"
    features = {"pop consumption": r"pop\.", "request and reply": r"request\."}
    monkeypatch.setattr(feature_table, "FEATURES", features)
    names = ["pop.x", "pop.z", "request.y"]
    for broker in BROKERS:
        assert not feature_table.write_if_complete(page)
        cases = [("Java", name, name != "pop.x" or broker == "rocketmq") for name in names]
        feature_table.note_test(f"tests/compat/test_java_clients.py::test_all[{broker}]", cases, passed=True)
    assert feature_table.write_if_complete(page)
    text = page.read_text(encoding="utf-8")
    assert "| pop consumption | 2 of 2 | 1 of 2 | Java (2) |\n" in text and "- request and reply: `request.y`" in text
