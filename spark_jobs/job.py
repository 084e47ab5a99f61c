"""What a run of a report is asked for: its job and the periods of it. Imports no Spark and no Django."""

import os
from pathlib import Path
from typing import NamedTuple, Protocol

from spark_jobs.errors import WindowError

MINUTE_MS = 60_000
DRAFT_PREFIX = ".draft-"
"""How the name of a run's folder begins while its files are being written."""
NO_JOURNAL = (
    "This store has no poll journal, so {}: only the journal has the ends of pulls and the commits of offsets. "
    "GlassMQ keeps one while pollJournalEnable is true; RocketMQ keeps none."
)


class Progress(Protocol):
    """Receives the progress of a run."""

    def __call__(self, percent: int, doing: str, until: int = 0) -> None:
        """``percent`` is reached, and ``doing`` begins. ``until``: a scan begins, and ends at this percentage."""


class BrokerStore(NamedTuple):
    """A broker and the folder of its store."""

    broker: str
    path: Path


class Job(NamedTuple):
    """What to run, over the minutes that begin in [from_ms, to_ms); None leaves that side open."""

    report: str
    stores: tuple[BrokerStore, ...]
    """At least one. Each broker is there once."""
    folder: Path
    from_ms: int | None = None
    to_ms: int | None = None
    topic: str | None = None
    consumer_group: str | None = None
    compare: bool = False
    """Whether to compare with the period of the same length before; needs both ends."""
    lakes: str | os.PathLike[str] | None = None
    """The folder of lakes, which may contain lakes of the stores."""
    needs_lake: bool = False
    """Whether the run fails if a store has no lake there that can be read."""


PARAMETERS = ("from_ms", "to_ms", "topic", "consumer_group", "compare")
"""The fields of a job that users set, and that the summary shows."""


class Period(NamedTuple):
    """A span of time, in ms, whole minutes; None leaves that side open."""

    from_ms: int | None
    to_ms: int | None


def periods(job: Job) -> list[Period]:
    """The job's period, and the one before it if the job compares. WindowError for an impossible window."""
    start, stop = job.from_ms, job.to_ms
    if any(bound is not None and bound % MINUTE_MS for bound in (start, stop)):
        raise WindowError(f"A report's window begins and ends with a whole minute: a multiple of {MINUTE_MS:,} ms.")
    if start is not None and stop is not None and stop <= start:
        raise WindowError("The end of a report's window must be later than its beginning.")
    if not job.compare:
        return [Period(start, stop)]
    if start is None or stop is None:
        raise WindowError("A comparison with the time before needs the beginning and the end of the window.")
    return [Period(start, stop), Period(2 * start - stop, start)]
