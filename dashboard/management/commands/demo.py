"""``manage.py demo``: publishes records to a running broker and consumes them, as traffic for the pages."""

import asyncio
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from dashboard.demo import COPIES, Demo, DemoError, records


class Command(BaseCommand):
    """Parses the arguments and runs the clients of dashboard/demo.py."""

    help = (
        "Publish Debian package records (or a JSONL file) at a chosen rate, and consume them in five groups: one is "
        "healthy, one slow, one stuck, one fails every message, and the members of one subscribe differently."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--url",
            default=f"http://127.0.0.1:{settings.GLASSMQ_WEB_PORT}",
            help="address of the broker (this machine's)",
        )
        parser.add_argument("--rate", type=float, default=5.0, help="messages per second (5)")
        parser.add_argument("--count", type=int, default=None, help="stop after this many messages (never)")
        parser.add_argument("--topic", default="debian-packages", help="topic to publish to (debian-packages)")
        parser.add_argument("--file", type=Path, default=None, help="publish the JSON objects of this file, one a line")

    def handle(self, *args: Any, **options: Any) -> None:
        if not 0 < options["rate"] <= 10_000:
            raise CommandError("--rate must be above 0 and at most 10000 messages per second")
        demo = Demo(
            options["url"],
            options["topic"],
            rate=options["rate"],
            count=options["count"],
            token=settings.GLASSMQ_API_TOKEN or "",
            say=self.stdout.write,
        )
        self.stdout.write(
            f"publishing to {options['topic']} at {options['url']}, {options['rate']:g} a second. "
            f"The broker stores up to {options['rate'] * (1 + COPIES):g} a second: failing-importer sends each message "
            f"back, which leaves {COPIES} copies. "
            f"Open {options['url']}/groups and see why each group waits. Ctrl-C ends it."
        )
        try:
            asyncio.run(demo.run(records(options["file"])))
        except DemoError as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            self.stdout.write("stopped")
