"""Reports on pulls of stores without a poll journal. There is nothing to read, so Spark is not started."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from spark_jobs.catalogue import REPORTS
from spark_jobs.job import MINUTE_MS, NO_JOURNAL, Job, periods
from spark_jobs.lake.report_lake import lake_for
from spark_jobs.output.files import write_folder
from spark_jobs.output.result import Result
from spark_jobs.reports import load
from spark_jobs.run import summarize
from spark_jobs.sources.commit_log_files import find_segments
from spark_jobs.sources.poll_journal_files import find_files, survey


def report_without_journal(job: Job, now: Callable[[], datetime]) -> dict[str, Any] | None:
    """Write the report's folder with a note and without tables, and return the summary.

    None if there is something to read, or if the report also reads the log. NotAStoreError, LakeError, WindowError.
    """
    info = REPORTS[job.report]
    if not info.needs_journal:
        return None
    periods(job)
    lake_problems, sources = [], []
    for broker, store in job.stores:
        find_segments(store)
        lake, problems = lake_for(store, job.lakes, job.source)
        if find_files(store)[0] or (lake is not None and lake.polls):
            return None
        lake_problems += problems
        journal = survey(store)._asdict()
        journal["foreign_files"] = list(journal["foreign_files"])
        sources.append({"broker": broker, "store": str(store), "journal": journal})
    note = NO_JOURNAL.format("there is nothing to report")
    notes = [f"{broker}: {note}" for broker, _ in job.stores] if len(job.stores) > 1 else [note]
    report, at = load(job.report), now()
    total = {figure.name: None for figure in report.headlines}
    summary = summarize(job, report, Result({}, total, [], MINUTE_MS, []), sources, [*lake_problems, *notes], at, now())
    return write_folder(job.folder, summary, {}, ())
