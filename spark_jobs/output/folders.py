"""The folders of runs, as those see them who only list and remove them: nothing of Arrow or Spark in here."""

import shutil
from contextlib import suppress
from pathlib import Path

DRAFT_PREFIX = ".draft-"
SUMMARY = "summary.json"


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
