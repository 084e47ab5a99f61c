"""Lakes that tests fill in their own process, without Spark."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spark_jobs.lake.lake import Lake, find_lake
from spark_jobs.lake.storage import Location
from spark_jobs.lake.sync import RunTasks, Synced, sync
from spark_jobs.lake.tasks import Done, Target, Work, carry_out

NOW = 1_700_000_000_000


def run_here(target: Target, works: Sequence[Work]) -> list[Done]:
    """All works in this process, the last one first."""
    return [carry_out(target, work) for work in reversed(works)]


def fill(
    store: Path, lakes: Location, run: RunTasks = run_here, *, now_ms: int = NOW, broker: str | None = None, **more: Any
) -> Synced:
    """Fill the lake with what is new in a store. ``more``: options of ``sync``; the broker is named as the folder."""
    return sync(
        run, str(store), store.name if broker is None else broker, lakes, now_ms, lambda percent, doing: None, **more
    )


def lake_of(store: Path, lakes: Location) -> Lake:
    """What the lake has of a store."""
    found = find_lake(lakes, store.name)
    assert found is not None
    return found
