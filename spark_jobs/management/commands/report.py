"""``manage.py report``: reports without a worker, a schedule or a page."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from spark_jobs.catalogue import REPORTS
from spark_jobs.errors import UnsupportedUrlError
from spark_jobs.hosting.setup import scratch_folder
from spark_jobs.run import Job, periods, run_report
from spark_jobs.sources.commit_log_files import local_folder
from spark_jobs.spark.failures import sentence
from spark_jobs.spark.session import get_session, require_packages


class Command(BaseCommand):
    """``report list`` and ``report run NAME``."""

    help = "List the reports, or run one over a stored commit log and write its files into a folder."
    requires_system_checks: list[str] = []  # noqa: RUF012 - as Django declares it

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        actions.add_parser("list", help="the reports there are")
        run = actions.add_parser("run", help="run one report")
        run.add_argument("name", help="which report: " + ", ".join(REPORTS))
        run.add_argument(
            "--store",
            default=str(settings.GLASSMQ_STORE_DIR),
            metavar="PATH",
            help="the store to read, of GlassMQ or RocketMQ; only read (default: %(default)s)",
        )
        run.add_argument(
            "--out",
            type=Path,
            required=True,
            metavar="DIR",
            help="the folder for summary.json, report.html, CSV, JSON and Parquet; made if it is not there",
        )
        run.add_argument("--from-ms", type=int, metavar="MS", help="only from this whole minute on")
        run.add_argument("--to-ms", type=int, metavar="MS", help="only before this whole minute")
        run.add_argument("--topic", metavar="NAME", help="only this topic")
        run.add_argument(
            "--group",
            dest="consumer_group",
            metavar="NAME",
            help="only this group, where the report tells groups apart",
        )
        run.add_argument(
            "--lake",
            dest="lakes",
            metavar="DIR",
            help="read the store's lake in the folder of lakes DIR, and of the store only what is newer",
        )
        run.add_argument(
            "--compare",
            action="store_true",
            help="with the period of the same length before; needs --from-ms and --to-ms",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["action"] == "list":
            for info in REPORTS.values():
                self.stdout.write(f"{info.name:<22} {info.description}")
        else:
            asked = {name: options[name] for name in ("from_ms", "to_ms", "topic", "consumer_group", "compare")}
            try:
                store = local_folder(options["store"])
                lakes = local_folder(options["lakes"]) if options["lakes"] else None
            except UnsupportedUrlError as error:
                raise CommandError(str(error)) from error
            self.run(
                Job(
                    options["name"],
                    store,
                    options["out"],
                    **asked,
                    lakes=lakes,
                    source="lake" if lakes else "log",
                )
            )

    def run(self, job: Job) -> None:
        """Run one report in this process."""
        if job.report not in REPORTS:
            raise CommandError(f"There is no report {job.report!r}, but {', '.join(REPORTS)}.")
        try:
            periods(job)
            require_packages(settings.GLASSMQ_SPARK_MASTER)
            from spark_jobs.sources.commit_log_segments import find_segments

            find_segments(job.store)  # before Spark takes its seconds to start
            spark = get_session(settings.GLASSMQ_SPARK_MASTER, scratch_folder())
            summary = run_report(job, spark, timezone.now, self.progress)
        except OSError as error:
            raise CommandError(f"The report could not be written: {error}.") from error
        except Exception as error:
            raise CommandError(sentence(error)) from error
        for note in summary["notes"]:
            self.stderr.write(note)
        self.stdout.write(
            f"{summary['title']} of {read(summary['input'])}, in {summary['duration_s']:.1f} s: "
            f"{job.folder / 'report.html'}"
        )

    def progress(self, percent: int, doing: str, until: int = 0) -> None:
        """How far it is, for whoever waits."""
        self.stderr.write(f"{percent:3d} %  {doing}")


def read(source: dict[str, Any]) -> str:
    """What a report was made of, as ``3319 messages, up to byte 2075752 (unwritten space)``."""
    parts = []
    if "messages" in source:
        parts.append(f"{source['messages']} messages, up to byte {source['end_offset']} ({source['ended_by']})")
    if "journal" in source:
        parts.append(f"{source['journal']['entries']} entries of the poll journal")
    return ", and ".join(parts)
