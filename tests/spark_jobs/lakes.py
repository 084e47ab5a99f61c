"""Lakes that tests fill in their own process, without Spark."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from spark_jobs.lake.lake import Lake, find_lake
from spark_jobs.lake.storage import Location
from spark_jobs.lake.sync import Synced, Wanted, sync
from spark_jobs.lake.tasks import Done, Work, carry_out

NOW = 1_700_000_000_000


def run_here(works: Sequence[Work]) -> list[Done]:
    """All works in this process, the last one first."""
    return [carry_out(work) for work in reversed(works)]


def fill(
    store: Path,
    lakes: Location,
    run: Callable[[Sequence[Work]], Iterable[Done]] = run_here,
    *,
    now_ms: int = NOW,
    **more: Any,
) -> Synced:
    """Fill the lake with what is new in a store. ``more``: fields of ``Wanted``; the broker is named as the folder."""
    return sync(
        Wanted(str(store), more.pop("broker", store.name), lakes, **more),
        run,
        lambda: now_ms,
        lambda percent, doing: None,
    )


def lake_of(store: Path, lakes: Location) -> Lake:
    """What the lake has of a store."""
    found = find_lake(lakes, store.name)
    assert found is not None
    return found
