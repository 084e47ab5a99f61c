"""Removing what runs left."""

from pathlib import Path

from spark_jobs.output.folders import DRAFT_PREFIX, remove_drafts, remove_folder


def test_drafts_of_killed_runs_go_and_results_stay(tmp_path: Path) -> None:
    (tmp_path / f"{DRAFT_PREFIX}7-123").mkdir()
    (tmp_path / f"{DRAFT_PREFIX}7-123" / "summary.json").write_text("{}")
    (tmp_path / "6").mkdir()
    assert remove_drafts(tmp_path) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["6"]
    assert remove_drafts(tmp_path / "nowhere") == 0


def test_removing_a_folder_twice_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "6").mkdir()
    remove_folder(tmp_path / "6")
    remove_folder(tmp_path / "6")
    assert list(tmp_path.iterdir()) == []
