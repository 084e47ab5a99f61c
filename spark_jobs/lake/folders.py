"""What the files of lakes are called. Imports nothing that only Spark needs.

    <lakes>/messages        a Delta table, partitioned by date (UTC) and broker
    <lakes>/polls           the same, of the poll journal
    <lakes>/<broker>.json   notes on what was filled from one store (``notes``)

A store is a broker of the lake: its folder's name with eight digits of its path. Where another store has taken the
place of the one that was there, it is another broker, ``…-2``, ``…-3``.
"""

import hashlib
import os
import re
from pathlib import Path

from spark_jobs.errors import LakeError
from spark_jobs.sources.commit_log_files import is_local, local_path

TABLES = ("messages", "polls")


def lake_name(store: str | os.PathLike[str]) -> str:
    """The broker's name in the lake, of the first store at that path."""
    path = str(local_path(store).resolve()) if is_local(store) else os.fspath(store)
    name = re.sub(r"[^\w.-]+", "-", path.rstrip("/").rpartition("/")[2]) or "store"
    return f"{name}-{hashlib.blake2b(os.fsencode(path), digest_size=4).hexdigest()}"


def notes_path(lakes: Path, broker: str) -> Path:
    """The notes on a broker."""
    return lakes / f"{broker}.json"


def brokers(lakes: Path, store: str | os.PathLike[str]) -> list[str]:
    """The brokers of stores that have been at that path, oldest first."""
    name = lake_name(store)
    found = []
    for path in lakes.glob(f"{name}*.json") if lakes.is_dir() else ():
        match = re.fullmatch(rf"{re.escape(name)}(?:-(\d+))?", path.stem)
        if match and path.is_file():
            found.append((int(match[1] or 1), path.stem))
    return [broker for _, broker in sorted(found)]


def next_broker(lakes: Path, store: str | os.PathLike[str]) -> str:
    """The name for a store that is none of those known at that path."""
    known = brokers(lakes, store)
    if not known:
        return lake_name(store)
    number = known[-1].removeprefix(lake_name(store)).removeprefix("-")
    return f"{lake_name(store)}-{int(number or 1) + 1}"


def require_new_format(lakes: Path, store: str | os.PathLike[str]) -> None:
    """LakeError where the folder has a lake of that store in the older format, which had a manifest."""
    for path in lakes.glob(f"{lake_name(store)}*/manifest.json") if lakes.is_dir() else ():
        raise LakeError(
            f"{path.parent} is a lake of an older format, which this version does not read. Move it away or delete it; "
            "then `.venv/bin/python manage.py lake sync` fills a new lake from what the store still has."
        )
