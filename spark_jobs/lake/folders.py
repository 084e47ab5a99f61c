"""What the files of lakes are called. Imports nothing that only Spark needs.

    <lakes>/messages        a Delta table, partitioned by date (UTC) and broker
    <lakes>/polls           the same, of the poll journal
    <lakes>/<broker>.json   notes on what was filled from one store (``notes``)
    <lakes>/<broker>.lock   locked while a process fills the lake of one store; empty

A store is a broker of the lake: its folder's name with eight digits of its path. Where another store has taken the
place of the one that was there, it is another broker, ``…-2``, ``…-3``.
"""

import hashlib
import os
import re
from pathlib import Path

from spark_jobs.lake.storage import Location, joined, names_in

TABLES = ("messages", "polls")


def lake_name(store: str | os.PathLike[str]) -> str:
    """The broker's name in the lake, of the first store at that path."""
    path = str(Path(store).resolve())
    name = re.sub(r"[^\w.-]+", "-", Path(path).name) or "store"
    return f"{name}-{hashlib.blake2b(os.fsencode(path), digest_size=4).hexdigest()}"


def notes_path(lakes: Location, broker: str) -> str:
    """The notes on a broker."""
    return joined(lakes, f"{broker}.json")


def brokers(lakes: Location, store: str | os.PathLike[str]) -> list[str]:
    """The brokers of stores that have been at that path, oldest first."""
    pattern = re.compile(rf"({re.escape(lake_name(store))}(?:-(\d+))?)\.json")
    matches = map(pattern.fullmatch, names_in(lakes))
    return [name for _, name in sorted((int(match[2] or 1), match[1]) for match in matches if match)]


def next_broker(lakes: Location, store: str | os.PathLike[str]) -> str:
    """The name for a store that is none of those known at that path."""
    known = brokers(lakes, store)
    if not known:
        return lake_name(store)
    number = known[-1].removeprefix(lake_name(store)).removeprefix("-")
    return f"{lake_name(store)}-{int(number or 1) + 1}"
