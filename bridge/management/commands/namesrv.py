"""``manage.py namesrv``: a name server in its own process, like RocketMQ's mqnamesrv.

Brokers register with it if its address is in their ``GLASSMQ_NAMESRV_ADDR`` (GlassMQ) or ``namesrvAddr`` (RocketMQ).
Ctrl-C or SIGTERM ends it after the last answers are written; a second one ends it at once.
"""

import asyncio
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError

from bridge.connect import make_name_server
from bridge.engine_process import catch_signals
from bridge.open_files import raise_open_files_limit
from broker_core.server.remoting_server import CannotServe


class Command(BaseCommand):
    """The command; ``NameServer`` does the work."""

    help = "Run a name server alone, until Ctrl-C."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        for warning in settings.GLASSMQ_WARNINGS:
            self.stderr.write(f"Warning: {warning}")
        if not settings.GLASSMQ_NAMESRV_PORT:
            raise CommandError("GLASSMQ_NAMESRV_PORT=0 means that there is no name server: set a port, such as 9876.")
        raise_open_files_limit()
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        name_server = make_name_server(settings)
        stopped = catch_signals()
        try:
            await name_server.bind()
            await name_server.start()
        except CannotServe as error:
            raise CommandError(f"{error}.") from error
        self.stdout.write(
            f"The name server of GlassMQ {settings.GLASSMQ_VERSION} is up: "
            f"{settings.GLASSMQ_BROKER_HOST}:{settings.GLASSMQ_NAMESRV_PORT}"
        )
        self.stdout.flush()
        await stopped.wait()
        await name_server.stop()
