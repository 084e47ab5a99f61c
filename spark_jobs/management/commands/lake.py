"""``manage.py lake``: fill a lake, or look what is in it, without a worker, a schedule or a page."""

from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from spark_jobs.errors import LakeCancelledError
from spark_jobs.hosting import setup
from spark_jobs.lake.folders import TABLES
from spark_jobs.lake.notes import CUT_SHORT
from spark_jobs.sources.commit_log_files import local_folder
from spark_jobs.spark.ctrl_c import cancelled_by_ctrl_c
from spark_jobs.spark.failures import sentence
from spark_jobs.spark.job_group import job_group
from spark_jobs.spark.session import get_session, require_packages

if TYPE_CHECKING:
    from spark_jobs.lake.lake import Lake
    from spark_jobs.lake.sync import Synced

INTERRUPTED = 130
"""What a shell calls a command that Ctrl-C has ended."""
CANCELLED = "Cancelled. What was written before counts, and the next `lake sync` goes on from there."


class Command(BaseCommand):
    """``lake sync``, ``lake status`` and ``lake files``."""

    help = "Write what is new in a store into its lake of Parquet files, or say what is in the lake."
    requires_system_checks: list[str] = []  # noqa: RUF012 - as Django declares it

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        sync = actions.add_parser("sync", help="write what is new")
        status = actions.add_parser("status", help="say what is there")
        files = actions.add_parser("files", help="print the paths of the Parquet files that count, one on each line")
        files.add_argument("table", nargs="?", default="messages", choices=TABLES, help="default: %(default)s")
        for action in (sync, status, files):
            action.add_argument(
                "--store",
                default=str(settings.GLASSMQ_STORE_DIR),
                metavar="PATH",
                help="the store, of GlassMQ or RocketMQ; only read, but for the file lakePosition in one of GlassMQ "
                "(default: %(default)s)",
            )
            action.add_argument(
                "--lake",
                default=str(settings.GLASSMQ_LAKE_DIR),
                metavar="DIR",
                help="the folder of all lakes, or its file:// URL (default: %(default)s)",
            )
        sync.add_argument("--bodies", action="store_true", help="bodies and property strings as well")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            lakes = local_folder(options["lake"])
            if options["action"] == "sync":
                self.sync(options["store"], lakes, options["bodies"])
            elif options["action"] == "status":
                self.status(found(options["store"], lakes))
            else:
                lake = found(options["store"], lakes)
                for file in lake.messages if options["table"] == "messages" else lake.polls:
                    self.stdout.write(file.path)
        except (LakeCancelledError, KeyboardInterrupt) as error:
            said = CANCELLED if options["action"] == "sync" else "Interrupted."
            raise CommandError(said, returncode=INTERRUPTED) from error
        except CommandError:
            raise
        except Exception as error:
            raise CommandError(sentence(error)) from error

    def sync(self, store: str, lakes: Path, with_bodies: bool) -> None:
        """Fill the lake in this process, and say what is new."""
        require_packages(settings.GLASSMQ_SPARK_MASTER)
        from spark_jobs.sources.commit_log_segments import find_segments

        find_segments(store)  # before Spark takes its seconds to start
        done = self.fill(store, lakes, with_bodies)
        self.stdout.write(
            f"{done.messages} messages and {done.polls} ends of pulls of {done.broker} are new in {done.lake}, which "
            f"has the log up to byte {done.position}."
        )
        if done.merged_files:
            self.stdout.write(f"{counted(done.merged_files)} were compacted into larger ones.")
        if done.dropped_messages:
            self.stdout.write(
                f"{done.dropped_messages} messages were dropped: they are older than GLASSMQ_LAKE_KEEP_DAYS."
            )
        if done.gap_bytes:
            self.stdout.write(f"{done.gap_bytes} bytes of the log were deleted before they were read.")
        if done.ended_by in CUT_SHORT:
            self.stdout.write(
                f"The log cannot be read behind that, since {CUT_SHORT[done.ended_by]}: "
                f"{done.segments_unread} segments are not read."
            )
        if done.awaited_lake:
            self.stdout.write(
                f"The broker of {store} waits for another lake, {done.awaited_lake}, and is not told of "
                "this one. If it is to wait for this one, remove the file lakePosition from the store."
            )

    def fill(self, store: str, lakes: Path, with_bodies: bool) -> "Synced":
        """Fill it, until Ctrl-C: then LakeCancelledError."""
        from spark_jobs.lake.tables import fill

        spark = get_session(settings.GLASSMQ_SPARK_MASTER, setup.scratch_folder())
        with job_group(spark, f"lake-{uuid4().hex[:8]}") as jobs, cancelled_by_ctrl_c(jobs) as is_cancelled:

            def progress(percent: int, doing: str) -> None:
                if is_cancelled():
                    raise LakeCancelledError(CANCELLED)
                self.progress(percent, doing)

            try:
                return fill(
                    spark,
                    store,
                    lakes,
                    lambda: int(timezone.now().timestamp() * 1000),
                    progress,
                    with_bodies=with_bodies,
                    keep_days=settings.GLASSMQ_LAKE_KEEP_DAYS,
                )
            except Exception as error:
                if is_cancelled():
                    raise LakeCancelledError(CANCELLED) from error
                raise

    def status(self, lake: "Lake") -> None:
        """What is in it."""
        notes = lake.notes
        self.stdout.write(f"{lake.folder}, broker {lake.broker}")
        self.stdout.write(
            f"messages  {sum(file.rows for file in lake.messages):>14,} in {counted(len(lake.messages))}, "
            f"{sum(file.size for file in lake.messages):,} bytes, of the log up to byte {lake.position or 0:,}"
        )
        self.stdout.write(
            f"polls     {sum(file.rows for file in lake.polls):>14,} in {counted(len(lake.polls))}, "
            f"{sum(file.size for file in lake.polls):,} bytes"
        )
        if notes.ended_by in CUT_SHORT:
            self.stdout.write(
                f"end       {CUT_SHORT[notes.ended_by]}; {len(notes.segments_unread)} segments behind that are not read"
            )
        for gap in notes.gaps:
            self.stdout.write(
                f"gap       bytes {gap.start:,} to {gap.end:,} of the log were deleted before they were read"
            )
        if notes.dropped.before_ms:
            self.stdout.write(
                f"dropped   {notes.dropped.messages:,} messages and {notes.dropped.polls:,} polls "
                f"of before {day(notes.dropped.before_ms)}, by GLASSMQ_LAKE_KEEP_DAYS"
            )
        if notes.retired_bytes:
            self.stdout.write(f"retired   {notes.retired_bytes:,} bytes of files that a later fill deletes")
        if notes.missing_journal_files:
            files = counted(len(notes.missing_journal_files))
            self.stdout.write(f"gap       {files} of the poll journal were deleted before they were read")

    def progress(self, percent: int, doing: str) -> None:
        """How far it is, for whoever waits."""
        self.stderr.write(f"{percent:3d} %  {doing}")


def found(store: str, lakes: Path) -> "Lake":
    """The lake of a store. CommandError where there is none."""
    from spark_jobs.lake.lake import find_lake

    lake = find_lake(lakes, store)
    if lake is None:
        raise CommandError(f"There is no lake of {store} in {lakes}; `.venv/bin/python manage.py lake sync` makes one.")
    return lake


def day(at_ms: int) -> str:
    """As ``2026-01-31``, of UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).date().isoformat()


def counted(files: int) -> str:
    """As ``1 file`` and ``2,000 files``."""
    return f"{files:,} file{'' if files == 1 else 's'}"
