"""Reports on pulls of stores without a poll journal. There is nothing to read, so Spark is not started."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from spark_jobs.catalogue import REPORTS
from spark_jobs.job import MINUTE_MS, NO_JOURNAL, Job, parameters, periods
from spark_jobs.run import headlines
from spark_jobs.spark.code_version import code_version


def report_without_journal(job: Job, now: Callable[[], datetime]) -> dict[str, Any] | None:
    """Write the report's folder with a note and without tables, and return the summary.

    None if there is something to read, or if the report also reads the log. NotAStoreError, LakeError, WindowError.
    """
    from spark_jobs.lake.report_lake import lake_for
    from spark_jobs.output.files import write_folder
    from spark_jobs.reports import load
    from spark_jobs.sources.commit_log_segments import find_segments
    from spark_jobs.sources.poll_journal_files import find_files, survey

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
    report, started = load(job.report), now()
    total = {figure.name: None for figure in report.headlines}
    summary = {
        "report": job.report,
        "title": info.title,
        "brokers": [broker for broker, _ in job.stores],
        "rows": [],
        "total": total,
        "parameters": parameters(job),
        "look_back_ms": info.look_back_ms,
        "inputs": sources,
        "words": [],
        "step_ms": MINUTE_MS,
        "left_out": [],
        "notes": [*lake_problems, *notes],
        "code_version": code_version(),
        "started_ms": int(started.timestamp() * 1000),
        "finished_ms": int(now().timestamp() * 1000),
        "duration_s": round((now() - started).total_seconds(), 3),
        "headlines": headlines(report, total),
    }
    return write_folder(job.folder, summary, {}, ())
