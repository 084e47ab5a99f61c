"""``manage.py report``: reports without a worker, a schedule or a page."""

import re
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from spark_jobs.catalogue import REPORTS
from spark_jobs.hosting.runs import stores
from spark_jobs.hosting.worker import scratch_folder
from spark_jobs.job import DRAFT_PREFIX, MINUTE_MS, BrokerStore, Job, periods
from spark_jobs.lake.storage import lake_location
from spark_jobs.sources.commit_log_files import local_folder
from spark_jobs.spark.failures import sentence, was_interrupted
from spark_jobs.spark.session import get_session, require_packages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNITS_MS = {"m": MINUTE_MS, "h": 60 * MINUTE_MS, "d": 1440 * MINUTE_MS}
MOST_DAYS = 3660


class Command(BaseCommand):
    """``report list`` and ``report run NAME…``."""

    help = "List the reports, or run some over a stored commit log and write their files into a folder."
    requires_system_checks: list[str] = []  # noqa: RUF012 - as Django declares it

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        actions.add_parser("list", help="print the names of all reports")
        run = actions.add_parser("run", help="run reports, one after the other")
        run.add_argument("names", nargs="*", metavar="NAME", help="which reports: " + ", ".join(REPORTS))
        run.add_argument("--all", action="store_true", help="all reports")
        add_store_options(run)
        run.add_argument(
            "--out",
            type=Path,
            required=True,
            metavar="DIR",
            help="the folder for summary.json, report.html, CSV, JSON and Parquet, which is created; each of several "
            "reports has a folder of its name in it",
        )
        run.add_argument("--last", type=span_ms, metavar="SPAN", help="only the time before now: 30m, 24h or 7d")
        run.add_argument("--from", dest="from_ms", type=time_ms, metavar="TIME", help=f"only from then on: {FORMS}")
        run.add_argument("--to", dest="to_ms", type=time_ms, metavar="TIME", help="only before then")
        run.add_argument("--topic", metavar="NAME", help="only this topic")
        run.add_argument(
            "--group", dest="consumer_group", metavar="NAME", help="only this group, in reports that distinguish groups"
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
            help="with the period of the same length before; needs --last, or --from and --to",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["action"] == "list":
            for info in REPORTS.values():
                self.stdout.write(f"{info.name:<22} {info.description}")
            return
        with errors_are_sentences("Interrupted."):
            jobs = jobs_for(options)
            for job in jobs:
                periods(job)
            self.run(jobs)

    def run(self, jobs: list[Job]) -> None:
        """Run the reports in this process. One Spark session serves all of them, and starts when one needs it."""
        failed = []
        require_packages(settings.GLASSMQ_SPARK_MASTER)
        from spark_jobs.lake.report_lake import lake_for
        from spark_jobs.run import run_report
        from spark_jobs.sources.commit_log_files import find_segments

        def start_spark(reads_little: bool) -> AbstractContextManager["SparkSession"]:
            return nullcontext(get_session(settings.GLASSMQ_SPARK_MASTER, scratch_folder(), reads_little))

        for store in jobs[0].stores:  # before Spark takes its seconds to start
            find_segments(store.path)
            lake_for(*store, jobs[0].lakes, jobs[0].needs_lake)
        require_writable(jobs[0].folder)
        for job in jobs:
            self._percent = 0
            try:
                summary = run_report(job, start_spark, timezone.now, self.progress)
            except Exception as error:
                if len(jobs) == 1 or was_interrupted(error):
                    raise
                self.stderr.write(f"{job.report}: {sentence(error)}")
                failed.append(job.report)
                continue
            for note in summary["notes"]:
                self.stderr.write(note)
            inputs = "; ".join(map(describe_input, summary["inputs"]))
            self.stdout.write(
                f"{summary['title']}: read {inputs}, in {summary['duration_s']:.1f} s: {job.folder / 'report.html'}"
            )
        if failed:
            raise CommandError(f"{len(failed)} of {len(jobs)} reports failed: {', '.join(failed)}.")

    def progress(self, percent: int, doing: str, until: int = 0) -> None:
        """Print how far a report is. It never goes back: a part that the report repeats has been counted already."""
        self._percent = max(self._percent, percent)
        self.stderr.write(f"{self._percent:3d} %  {doing}")


def add_store_options(parser: ArgumentParser) -> None:
    """The options that ``stores_for`` takes."""
    parser.add_argument(
        "--store",
        metavar="PATH",
        help="the store, of GlassMQ or RocketMQ, which is only read (default: those of this installation's brokers)",
    )
    parser.add_argument(
        "--broker",
        default="",
        metavar="NAME",
        help="only this broker of the installation; with --store, what the store's broker is called (default: its name "
        "in this installation, or that of the folder)",
    )


@contextmanager
def errors_are_sentences(interrupted: str) -> Iterator[None]:
    """End the command with a sentence about an error, and after Ctrl-C with ``interrupted`` and the exit code 130."""
    try:
        yield
    except CommandError:
        raise
    except (KeyboardInterrupt, Exception) as error:
        if was_interrupted(error):  # pyspark has cancelled its jobs
            raise CommandError(interrupted, returncode=130) from error
        raise CommandError(sentence(error)) from error


def require_writable(folder: Path) -> None:
    """CommandError if the folder of a report cannot be written. Creates the folder in which it will be."""
    place = folder if folder.exists() else folder.parent
    try:
        place.mkdir(parents=True, exist_ok=True)
        TemporaryDirectory(dir=place, prefix=DRAFT_PREFIX).cleanup()
    except OSError as error:
        raise CommandError(f"{folder} cannot be written: {error.strerror or error}.") from error


def stores_for(store: str | None, broker: str) -> tuple[BrokerStore, ...]:
    """The stores that are asked for. A store of another installation's broker has its folder's name as the broker.

    CommandError for an unknown broker; UnsupportedUrlError.
    """
    if store is not None:
        path = local_folder(store)
        names = [name for name, known in stores() if known.resolve() == path]
        return (BrokerStore(broker or (names or [path.name])[0], path),)
    chosen = tuple(BrokerStore(name, path.resolve()) for name, path in stores(broker))
    if not chosen:
        known = ", ".join(name for name, _ in stores())
        raise CommandError(f"There is no broker {broker!r} in this installation, but {known}.")
    return chosen


def jobs_for(options: dict[str, Any]) -> list[Job]:
    """What the options ask for. CommandError, UnsupportedUrlError."""
    names = list(dict.fromkeys(options["names"]))
    unknown = [name for name in names if name not in REPORTS]
    if unknown:
        raise CommandError(f"There is no report {unknown[0]!r}; the reports are {', '.join(REPORTS)}.")
    if bool(names) == options["all"]:
        raise CommandError("Name the reports to run, or give --all; `manage.py report list` prints their names.")
    from_ms, to_ms = options["from_ms"], options["to_ms"]
    if options["last"] is not None:
        if from_ms is not None or to_ms is not None:
            raise CommandError("Give either --last, or --from and --to.")
        now_ms = int(timezone.now().timestamp() * 1000)
        to_ms = now_ms - now_ms % MINUTE_MS
        from_ms = to_ms - options["last"]
    lakes = lake_location(options["lakes"]) if options["lakes"] else None
    chosen, out = stores_for(options["store"], options["broker"]), options["out"]
    return [
        Job(
            name,
            chosen,
            out if len(names) == 1 else out / name,
            from_ms,
            to_ms,
            options["topic"],
            options["consumer_group"],
            options["compare"],
            lakes,
            lakes is not None,
        )
        for name in names or REPORTS
    ]


FORMS = "2026-01-31 or 2026-01-31T10:30, UTC"


def span_ms(text: str) -> int:
    """A span such as ``24h`` in ms: whole minutes, at most MOST_DAYS. ArgumentTypeError."""
    match = re.fullmatch(r"(\d{1,7})([mhd])", text)
    found = int(match[1]) * UNITS_MS[match[2]] if match else 0
    if not 0 < found <= MOST_DAYS * UNITS_MS["d"]:
        raise ArgumentTypeError(f"{text!r} is no span of time: give minutes, hours or days, as in 30m, 24h or 7d.")
    return found


def time_ms(text: str) -> int:
    """A date or a time in ms since 1970; UTC where it names no time zone. ArgumentTypeError."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} is no time: give {FORMS}.") from error
    return int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)


def describe_input(source: dict[str, Any]) -> str:
    """What a report read of a store, as ``3,319 messages of broker-a, up to byte 2075752 (unwritten space)``."""
    from spark_jobs.output.words import many

    entries = many(source["journal"]["entries"], "entry", "entries") if "journal" in source else ""
    if "messages" not in source:
        return f"{entries} of the poll journal of {source['broker']}"
    end = f"up to byte {source['end_offset']} ({source['ended_by']})"
    read = f"{many(source['messages'], 'message')} of {source['broker']}, {end}"
    return f"{read}, and {entries} of its poll journal" if entries else read
