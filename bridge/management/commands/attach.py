"""``manage.py attach NAMESRV``: starts GlassMQ beside a running RocketMQ cluster, whose brokers it follows.

The processes are those of ``manage.py broker --cluster``, with an engine for each followed broker.
"""

import asyncio
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management import CommandError

from bridge.attach import CannotAttach, Newcomers, attached_places, find_brokers, followed_before, plan
from bridge.cluster import BrokerPlace
from bridge.management.commands.broker import Command as BrokerCommand


class Command(BrokerCommand):
    """The command; ``bridge/attach.py`` finds the brokers."""

    attaches = True
    _newcomers: Newcomers | None = None
    help = "Follow the brokers of a running RocketMQ cluster, and show them, until Ctrl-C."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "namesrv",
            nargs="?",
            default=settings.GLASSMQ_ATTACH,
            metavar="HOST:PORT[;HOST:PORT…]",
            help="name servers of the cluster; by default GLASSMQ_ATTACH",
        )
        parser.add_argument("--broker", action="append", default=[], metavar="NAME", help="follow only this broker")
        parser.add_argument(
            "--source",
            choices=("auto", "slave", "master"),
            default=settings.GLASSMQ_ATTACH_SOURCE,
            help="what to follow",
        )
        parser.add_argument(
            "--from",
            dest="begin",
            choices=("last-file", "min"),
            default=settings.GLASSMQ_ATTACH_BEGIN,
            help="where a new copy begins: at the last segment of the broker's log, or at its beginning",
        )
        parser.add_argument("--dry-run", action="store_true", help="print what would be followed, and end")
        super().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        namesrv, wanted = options["namesrv"], options["broker"] or settings.GLASSMQ_ATTACH_BROKERS
        if not namesrv:
            raise CommandError("Name the cluster's name servers: manage.py attach HOST:9876, or set GLASSMQ_ATTACH.")
        try:
            found = asyncio.run(find_brokers(namesrv, wanted, options["source"]))
        except CannotAttach as error:
            raise CommandError(str(error)) from error
        if not wanted:
            found += followed_before(settings, found)
        self.stdout.write(plan(found, namesrv, settings.GLASSMQ_ATTACH_MAX_RATE))
        if options["dry_run"]:
            return
        settings.GLASSMQ_ATTACH = namesrv  # pages and the report worker read it
        attach = {
            "GLASSMQ_ATTACH": namesrv,
            "GLASSMQ_ATTACH_SOURCE": options["source"],
            "GLASSMQ_ATTACH_BEGIN": options["begin"],
        }
        try:
            self._places = attached_places(settings, found, attach)
        except CannotAttach as error:
            raise CommandError(str(error)) from error
        if not wanted and settings.GLASSMQ_ENGINE == "child":
            known = [place.name for place in self._places]
            self._newcomers = Newcomers(settings, namesrv, options["source"], attach, known)
        super().handle(*args, **options | {"cluster": True})

    def places(self, *, clustered: bool) -> list[BrokerPlace]:
        """The followed brokers."""
        return self._places

    async def joined_places(self) -> list[BrokerPlace] | None:
        """The brokers that joined the cluster; None if only those named are followed."""
        return None if self._newcomers is None else await self._newcomers.find_places()
