"""``manage.py engine_ready``: exit code 0 when the engine can be published to. For health checks."""

import asyncio
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError

from bridge.connect import make_port
from bridge.port import BrokerError, commands

TIMEOUT_MS = 5000


class Command(BaseCommand):
    """Asks the way any web process would: over the socket or the channel layer."""

    help = "Ask the engine, over Redis or its socket, whether a message can be published; exit code 0 if so."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.GLASSMQ_ENGINE == "embedded":
            raise CommandError("The engine is part of the web process here: ask that for /readyz.")
        problem = asyncio.run(find_problem())
        if problem:
            raise CommandError(problem)
        self.stdout.write("ready")


async def find_problem() -> str:
    """Why nothing can be published now; empty when it can."""
    port = make_port(settings)
    try:
        await port.start()
        view = await port.call(commands.GetBroker(), timeout_ms=TIMEOUT_MS)
    except BrokerError as error:
        return error.remark
    except OSError as error:
        return f"The engine cannot be reached: {error}."
    finally:
        await port.stop()
    if not isinstance(view, commands.BrokerView):
        return f"The engine answered with {type(view).__name__}."
    return view.problem or ("The store is open read-only." if view.read_only else "")
