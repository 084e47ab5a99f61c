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

from spark_jobs.errors import LakeError
from spark_jobs.lake.storage import Location
from spark_jobs.sources.commit_log_files import entries, is_file, is_local, joined, local_path

TABLES = ("messages", "polls")


def lake_name(store: str | os.PathLike[str]) -> str:
    """The broker's name in the lake, of the first store at that path."""
    path = str(local_path(store).resolve()) if is_local(store) else os.fspath(store)
    name = re.sub(r"[^\w.-]+", "-", path.rstrip("/").rpartition("/")[2]) or "store"
    return f"{name}-{hashlib.blake2b(os.fsencode(path), digest_size=4).hexdigest()}"


def notes_path(lakes: Location, broker: str) -> str:
    """The notes on a broker."""
    return joined(lakes, f"{broker}.json")


def brokers(lakes: Location, store: str | os.PathLike[str]) -> list[str]:
    """The brokers of stores that have been at that path, oldest first."""
    pattern = re.compile(rf"({re.escape(lake_name(store))}(?:-(\d+))?)\.json")
    matches = (pattern.fullmatch(entry.name) for entry in entries(os.fspath(lakes)) if entry.is_file)
    return [name for _, name in sorted((int(match[2] or 1), match[1]) for match in matches if match)]


def next_broker(lakes: Location, store: str | os.PathLike[str]) -> str:
    """The name for a store that is none of those known at that path."""
    known = brokers(lakes, store)
    if not known:
        return lake_name(store)
    number = known[-1].removeprefix(lake_name(store)).removeprefix("-")
    return f"{lake_name(store)}-{int(number or 1) + 1}"


def require_new_format(lakes: Location, store: str | os.PathLike[str]) -> None:
    """LakeError where the folder has a lake of that store in the older format, which had a manifest."""
    for entry in entries(os.fspath(lakes)):
        if (
            entry.is_file
            or not entry.name.startswith(lake_name(store))
            or not is_file(joined(entry.path, "manifest.json"))
        ):
            continue
        raise LakeError(
            f"{entry.path} is a lake of an older format, which this version does not read. Move it away or delete it; "
            "then `.venv/bin/python manage.py lake sync` fills a new lake from what the store still has."
        )
