"""``manage.py report``: reports without a worker, a schedule or a page."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from spark_jobs import setup
from spark_jobs.catalogue import REPORTS
from spark_jobs.errors import ReportError
from spark_jobs.report_run import Job, run_report
from spark_jobs.session import get_session, require_pyspark


class Command(BaseCommand):
    """``report list`` and ``report run NAME``."""

    help = "List the reports, or run one over a stored commit log and write its files into a folder."
    requires_system_checks: list[str] = []  # noqa: RUF012 - as Django declares it

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        actions.add_parser("list", help="the reports there are")
        run = actions.add_parser("run", help="run one report")
        run.add_argument("name", help="which report: " + ", ".join(REPORTS))
        run.add_argument("--store", type=Path, default=Path(settings.GLASSMQ_STORE_DIR), metavar="PATH",
            help="the store to read, of GlassMQ or RocketMQ; only read (default: %(default)s)")
        run.add_argument("--out", type=Path, required=True, metavar="DIR",
            help="the folder for summary.json, report.html, CSV and Parquet; made if it is not there")
        run.add_argument("--from-ms", type=int, metavar="MS", help="only from the minute of this store time on")
        run.add_argument("--to-ms", type=int, metavar="MS", help="only minutes that begin before this store time")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["action"] == "list":
            for info in REPORTS.values():
                self.stdout.write(f"{info.name:<22} {info.description}")
        else:
            self.run(**{name: options[name] for name in ("name", "store", "out", "from_ms", "to_ms")})

    def run(self, name: str, store: Path, out: Path, from_ms: int | None, to_ms: int | None) -> None:
        """Run one report in this process."""
        if name not in REPORTS:
            raise CommandError(f"There is no report {name!r}, but {', '.join(REPORTS)}.")
        try:
            require_pyspark()
            from spark_jobs.commit_log_segments import find_segments

            find_segments(store)  # before Spark takes its seconds to start
            spark = get_session(settings.GLASSMQ_SPARK_MASTER, setup.scratch_folder())
            summary = run_report(Job(name, store.resolve(), out, from_ms, to_ms), spark, timezone.now, self.progress)
        except ReportError as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(f"The report could not be written: {error}.") from error
        self.stdout.write(f"{summary['total']['messages']} messages of {len(summary['rows'])} topics, read up to byte "
            f"{summary['input']['end_offset']} ({summary['input']['ended_by']}), in {summary['duration_s']:.1f} s: "
            f"{out / 'report.html'}")

    def progress(self, percent: int, doing: str) -> None:
        """How far it is, for whoever waits."""
        self.stderr.write(f"{percent:3d} %  {doing}")
