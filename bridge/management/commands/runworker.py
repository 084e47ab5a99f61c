"""``manage.py runworker broker-engine``: the engine in its own process. Other channels work as in Channels."""

import asyncio
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from channels.layers import InMemoryChannelLayer, get_channel_layer
from channels.management.commands.runworker import Command as ChannelsCommand
from django.conf import settings
from django.core.management import CommandError

from bridge.channel_port import ENGINE, engine_channel
from bridge.connect import make_host
from bridge.engine_process import CannotStart, serve_layer, serve_socket
from bridge.open_files import raise_open_files_limit


class Command(ChannelsCommand):  # type: ignore[misc]
    """Channels' command; for the engine's channel, one that drains, reconnects and locks its store."""

    help = "Run the broker's engine (channel broker-engine), or a worker for other channels."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--socket",
            type=Path,
            default=None,
            metavar="PATH",
            help="serve the engine on this Unix socket instead of the channel layer",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        channels = options["channels"]
        if not any(channel == ENGINE or channel.startswith(f"{ENGINE}.") for channel in channels):
            super().handle(*args, **options)
            return
        name = settings.GLASSMQ_OPTIONS.broker_name
        if len(channels) > 1 or channels[0] not in (ENGINE, engine_channel(name)):
            raise CommandError(
                f"This engine is {name}: run it as `runworker {ENGINE}`, without other channels; another broker needs "
                "its own brokerName in GLASSMQ_BROKER_CONF."
            )
        if options["socket"] is None:  # otherwise `manage.py broker` started this and has printed them
            for warning in settings.GLASSMQ_WARNINGS:
                self.stderr.write(f"Warning: {warning}")
        raise_open_files_limit()
        try:
            asyncio.run(self._serve(name, options["socket"], options["layer"]))
        except CannotStart as error:
            raise CommandError(str(error)) from error

    async def _serve(self, name: str, socket: Path | None, alias: str) -> None:
        host = make_host(settings)
        if socket is not None:
            await serve_socket(host, socket)
            return
        layer = get_channel_layer(alias)
        if layer is None or isinstance(layer, InMemoryChannelLayer):
            raise CommandError(
                "The channel layer is in the memory of this process, so no other process can reach this engine: set "
                "GLASSMQ_REDIS_URL, or use --socket PATH."
            )
        await serve_layer(host, layer, name)
