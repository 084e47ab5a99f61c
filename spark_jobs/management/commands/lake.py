"""``manage.py lake``: fill a lake, or print what is in it, without a worker, a schedule or a page."""

from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from spark_jobs.hosting.setup import scratch_folder
from spark_jobs.lake.folders import TABLES
from spark_jobs.lake.notes import CUT_SHORT
from spark_jobs.lake.storage import lake_location
from spark_jobs.spark.failures import sentence, was_interrupted
from spark_jobs.spark.session import get_session, require_packages

if TYPE_CHECKING:
    from spark_jobs.lake.lake import Lake

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C has ended."""
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
                help="the folder of all lakes, or its file:// or s3:// URL (default: %(default)s)",
            )
        sync.add_argument("--bodies", action="store_true", help="bodies and property strings as well")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            lakes = lake_location(options["lake"])
            if options["action"] == "sync":
                self.sync(options["store"], lakes, options["bodies"])
            elif options["action"] == "status":
                self.status(require_lake(options["store"], lakes))
            else:
                lake = require_lake(options["store"], lakes)
                for file in lake.messages if options["table"] == "messages" else lake.polls:
                    self.stdout.write(file.path)
        except CommandError:
            raise
        except (KeyboardInterrupt, Exception) as error:
            if was_interrupted(error):  # pyspark has cancelled its jobs
                raise CommandError(
                    CANCELLED if options["action"] == "sync" else "Interrupted.", returncode=INTERRUPTED
                ) from error
            raise CommandError(sentence(error)) from error

    def sync(self, store: str, lakes: str, with_bodies: bool) -> None:
        """Fill the lake in this process, and print what is new."""
        require_packages(settings.GLASSMQ_SPARK_MASTER)
        from spark_jobs.lake.tables import fill
        from spark_jobs.sources.commit_log_segments import find_segments

        find_segments(store)  # before Spark takes its seconds to start
        done = fill(
            get_session(settings.GLASSMQ_SPARK_MASTER, scratch_folder()),
            store,
            lakes,
            lambda: int(timezone.now().timestamp() * 1000),
            lambda percent, doing: self.stderr.write(f"{percent:3d} %  {doing}"),
            with_bodies=with_bodies,
            keep_days=settings.GLASSMQ_LAKE_KEEP_DAYS,
        )
        self.stdout.write(
            f"{done.messages} messages and {done.polls} ends of pulls of {done.broker} are new in {done.lake}, which "
            f"has the log up to byte {done.position}."
        )
        lines = {
            f"{counted(done.merged_files)} were compacted into larger ones.": done.merged_files,
            f"{done.dropped_messages} messages were dropped: they are older than GLASSMQ_LAKE_KEEP_DAYS.": (
                done.dropped_messages
            ),
            f"{done.gap_bytes} bytes of the log were deleted before they were read.": done.gap_bytes,
            f"The log cannot be read behind that, since {CUT_SHORT.get(done.ended_by)}: "
            f"{done.segments_unread} segments are not read.": done.ended_by in CUT_SHORT,
            f"The broker of {store} waits for another lake, {done.awaited_lake}, and is not told of this one. If it is "
            "to wait for this one, remove the file lakePosition from the store.": done.awaited_lake,
        }
        for line in (line for line, is_so in lines.items() if is_so):
            self.stdout.write(line)

    def status(self, lake: "Lake") -> None:
        """Print what is in the lake."""
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


def require_lake(store: str, lakes: str) -> "Lake":
    """The lake of a store. CommandError if there is none."""
    from spark_jobs.lake.lake import find_lake

    lake = find_lake(lakes, store)
    if lake is None:
        raise CommandError(f"There is no lake of {store} in {lakes}; `.venv/bin/python manage.py lake sync` makes one.")
    return lake


def day(at_ms: int) -> str:
    """The day of that time, in UTC, as ``2026-01-31``."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).date().isoformat()


def counted(files: int) -> str:
    """The number in words, as ``1 file`` and ``2,000 files``."""
    return f"{files:,} file{'' if files == 1 else 's'}"
