"""What is named for older sources goes when nobody has used it for a month."""

import os
from pathlib import Path

import pytest

from spark_jobs.spark.leftovers import UNUSED_S, take_up

LIKE = "old_file-[0-9]"


def old_file(path: Path, age_s: float) -> Path:
    """A folder with a file in it that was last taken up so long ago."""
    path.mkdir()
    (path / "file").write_text("")
    set_back(path, age_s)
    return path


def set_back(path: Path, age_s: float) -> None:
    then = path.stat().st_mtime - age_s
    os.utime(path, (then, then))


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """What is taken up now, for the first time in a year."""
    return old_file(tmp_path / "old_file-0", 12 * UNUSED_S)


def test_what_was_not_taken_up_for_a_month_is_removed(used: Path) -> None:
    old = old_file(used.with_name("old_file-1"), UNUSED_S + 60)
    file = used.with_name("old_file-2")
    file.write_text("")
    set_back(file, UNUSED_S + 60)
    take_up(used, LIKE)
    assert not old.exists()
    assert not file.exists()
    assert (used / "file").exists()


def test_what_was_taken_up_within_a_month_stays(used: Path) -> None:
    other = old_file(used.with_name("old_file-1"), UNUSED_S - 60)
    take_up(used, LIKE)
    assert (other / "file").exists()


def test_what_is_taken_up_is_not_removed_by_others(used: Path) -> None:
    other = old_file(used.with_name("old_file-1"), 2 * UNUSED_S)
    take_up(other, "nothing")
    take_up(used, LIKE)
    assert (other / "file").exists()


def test_what_has_another_name_is_not_looked_at(used: Path) -> None:
    foreign = old_file(used.with_name("old_file-by-hand"), 2 * UNUSED_S)
    take_up(used, LIKE)
    assert (foreign / "file").exists()


def test_what_cannot_be_removed_stays_and_the_others_go(used: Path) -> None:
    """A link to a folder is not followed."""
    kept = old_file(used.with_name("elsewhere"), 0)
    link, old = used.with_name("old_file-1"), old_file(used.with_name("old_file-2"), 2 * UNUSED_S)
    link.symlink_to(kept)
    then = link.lstat().st_mtime - 2 * UNUSED_S
    os.utime(link, (then, then), follow_symlinks=False)
    take_up(used, LIKE)
    assert (kept / "file").exists()
    assert link.is_symlink()
    assert not old.exists()


def test_what_is_gone_meanwhile_is_not_taken_up(tmp_path: Path) -> None:
    old = old_file(tmp_path / "old_file-1", 2 * UNUSED_S)
    take_up(tmp_path / "old_file-0", LIKE)
    assert old.exists()
