"""``manage.py lake``: fill a lake, or print what is in it, without a worker, a schedule or a page."""

from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from spark_jobs.hosting.worker import scratch_folder
from spark_jobs.job import BrokerStore
from spark_jobs.lake.storage import TABLES, lake_location
from spark_jobs.management.commands.report import add_store_options, errors_are_sentences, stores_for
from spark_jobs.spark.session import get_session, require_packages

if TYPE_CHECKING:
    from spark_jobs.lake.lake import Lake
    from spark_jobs.lake.sync import Synced


class Command(BaseCommand):
    """``lake sync``, ``lake status`` and ``lake files``."""

    help = "Write what is new in a store into a lake of Parquet files, or say what is in the lake."
    requires_system_checks: list[str] = []  # noqa: RUF012 - as Django declares it

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        sync = actions.add_parser("sync", help="write what is new, and the file lakePosition in a store of GlassMQ")
        status = actions.add_parser("status", help="say what is there")
        files = actions.add_parser("files", help="print the paths of the Parquet files that count, one on each line")
        files.add_argument("table", nargs="?", default="messages", choices=TABLES, help="default: %(default)s")
        for action in (sync, status, files):
            add_store_options(action)
            action.add_argument(
                "--lake",
                default=str(settings.GLASSMQ_LAKE_DIR),
                metavar="DIR",
                help="the folder of the lake, or its file:// or s3:// URL (default: %(default)s)",
            )
        sync.add_argument("--bodies", action="store_true", help="bodies and property strings as well")

    def handle(self, *args: Any, **options: Any) -> None:
        is_sync = options["action"] == "sync"
        goes_on = "Cancelled. What was written before counts, and the next `lake sync` goes on from there."
        with errors_are_sentences(goes_on if is_sync else "Interrupted."):
            stores, lakes = stores_for(options["store"], options["broker"]), lake_location(options["lake"])
            if is_sync:
                self.sync(stores, lakes, options["bodies"])
                return
            from spark_jobs.lake.lake import find_lake

            for broker, store in stores:
                lake = find_lake(lakes, broker)
                if lake is None:
                    raise CommandError(
                        f"There is no lake of {broker} in {lakes}; `.venv/bin/python manage.py lake sync` makes one."
                    )
                if options["action"] == "status":
                    self.status(lake, store)
                else:
                    for file in lake.messages if options["table"] == "messages" else lake.polls:
                        self.stdout.write(file.path)

    def sync(self, stores: tuple[BrokerStore, ...], lakes: str, with_bodies: bool) -> None:
        """Fill the lake in this process from each store, and print what is new."""
        require_packages(settings.GLASSMQ_SPARK_MASTER)
        from spark_jobs.lake.tables import fill
        from spark_jobs.sources.commit_log_files import find_segments

        for _, store in stores:
            find_segments(store)  # before Spark takes its seconds to start
        for broker, store in stores:
            is_all = False
            while not is_all:
                done = fill(
                    get_session(settings.GLASSMQ_SPARK_MASTER, scratch_folder()),
                    str(store),
                    broker,
                    lakes,
                    int(timezone.now().timestamp() * 1000),
                    lambda percent, doing: self.stderr.write(f"{percent:3d} %  {doing}"),
                    with_bodies=with_bodies,
                    keep_days=settings.GLASSMQ_LAKE_KEEP_DAYS,
                )
                is_all = done.is_all
                for line in said(done, store):
                    self.stdout.write(line)

    def status(self, lake: "Lake", store: Path) -> None:
        """Print what the lake has of a broker, and what it lacks."""
        from spark_jobs.lake.report_lake import lake_gaps, lake_notes, unread_files
        from spark_jobs.output.notes import damage_notes
        from spark_jobs.output.words import many
        from spark_jobs.sources.commit_log_segments import plan_log

        self.stdout.write(f"{lake.folder}, broker {lake.broker}, of the log up to byte {lake.position or 0:,}")
        for name, files in (("messages", lake.messages), ("polls", lake.polls)):
            rows, size = (sum(getattr(file, field) for file in files) for field in ("rows", "size"))
            self.stdout.write(f"{name:<9} {rows:>14,} in {many(len(files), 'file')}, {many(size, 'byte')}")
        plan = plan_log(store, start=lake.position or 0)
        gaps = lake_gaps(lake, plan)
        read = {"torn_segments": [], "mean_size": 0.0}
        for note in damage_notes(plan, read, gaps) + lake_notes(lake, plan, gaps, unread_files(lake, store)):
            self.stdout.write(note)


def said(done: "Synced", store: Path) -> Iterator[str]:
    """What a fill has done, as sentences."""
    from spark_jobs.lake.report_lake import CUT_SHORT
    from spark_jobs.output.words import many
    from spark_jobs.sources.commit_log_damage import DELETED

    yield (
        f"{many(done.messages, 'message')} and {many(done.polls, 'end')} of pulls of {done.broker} came into "
        f"{done.lake}, which has the log up to byte {done.position}."
    )
    if done.merged_files:
        yield f"The fill compacted {many(done.merged_files, 'file')} into larger ones."
    if done.dropped_messages:
        yield f"The fill dropped {many(done.dropped_messages, 'message')}, older than GLASSMQ_LAKE_KEEP_DAYS."
    if done.missing[DELETED]:
        yield f"The broker deleted {many(done.missing[DELETED], 'byte')} of the log before the lake had read that far."
    if done.ended_by in CUT_SHORT:
        yield (
            f"The log cannot be read behind that, since {CUT_SHORT[done.ended_by]}. The lake lacks "
            f"{many(done.segments_unread, 'later segment')}."
        )
    if done.awaited_lake:
        yield (
            f"The broker of {store} waits for another lake, {done.awaited_lake}, and is not told of this one. If it is "
            "to wait for this one, remove the file lakePosition from the store."
        )
