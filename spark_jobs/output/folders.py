"""The folders of runs, for code that only lists and removes them. Imports neither Arrow nor Spark."""

import shutil
from contextlib import suppress
from pathlib import Path

DRAFT_PREFIX = ".draft-"
SUMMARY = "summary.json"


def remove_folder(folder: Path) -> None:
    """Remove a run's files, if they still exist."""
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)


def remove_drafts(folder: Path) -> int:
    """Remove the drafts that killed runs left below ``folder``; returns their number."""
    drafts = list(folder.glob(f"{DRAFT_PREFIX}*")) if folder.is_dir() else []
    for draft in drafts:
        shutil.rmtree(draft, ignore_errors=True)
    return len(drafts)
