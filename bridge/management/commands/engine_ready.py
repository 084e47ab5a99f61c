"""``manage.py engine_ready``, a health check: exit code 0 if messages can be published, or at least read."""

import asyncio
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError

from bridge.connect import make_port
from bridge.port import BrokerError, commands

TIMEOUT_MS = 5000


class Command(BaseCommand):
    """Connects like a web process, over the socket or the channel layer."""

    help = "Check over Redis or the engine's socket whether messages can be published or read; exit code 0 if so."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.GLASSMQ_ENGINE == "embedded":
            raise CommandError("The engine runs in the web process: request /readyz from that instead.")
        self.stdout.write(asyncio.run(read_state()))


async def read_state() -> str:
    """``ready``, or ``ready, read-only``. CommandError with the reason otherwise."""
    port = make_port(settings)
    try:
        await port.start()
        view = await port.call(commands.GetBroker(), timeout_ms=TIMEOUT_MS)
    except BrokerError as error:
        raise CommandError(error.remark) from error
    except OSError as error:
        raise CommandError(f"The engine cannot be reached: {error}.") from error
    finally:
        await port.stop()
    if not isinstance(view, commands.BrokerView):
        raise CommandError(f"The engine answered with {type(view).__name__}.")
    if view.problem and not view.read_only:
        raise CommandError(view.problem)
    return "ready, read-only" if view.read_only else "ready"
