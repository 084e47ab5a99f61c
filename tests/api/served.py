"""The API on a real Daphne, over a scripted port: ``python -m tests.api.served PORT``."""

import asyncio
import os
import resource
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

import django

django.setup()

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402

from api import routing  # noqa: E402
from api.consumer import socket as consumer_socket  # noqa: E402
from api.http import outbox  # noqa: E402
from api.http.security import SecurityMiddleware  # noqa: E402
from bridge.daphne_limits import LimitedServer  # noqa: E402
from bridge.port import commands, set_port  # noqa: E402
from tests.fakes.fake_port import FakePort, pulled, record  # noqa: E402

closings: asyncio.Queue[str] = asyncio.Queue()


def resident_kib() -> int:
    """What the process has in memory now, KiB."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize() // 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


class Watching(SecurityMiddleware):
    """Also tells a test how much memory is used, and with which code the last consumer was closed."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket" and scope["path"] in ("/memory", "/closings"):
            await receive()
            await send({"type": "websocket.accept"})
            text = str(resident_kib()) if scope["path"] == "/memory" else await closings.get()
            await send({"type": "websocket.send", "text": text})
            return
        await super().__call__(scope, receive, send)


class Consumer(consumer_socket.ConsumerSocket):
    """Remembers the code it was closed with."""

    def end(self, code: int, reason: str) -> None:
        closings.put_nowait(str(code))
        super().end(code, reason)


def main() -> None:
    consumer_socket.ConsumerSocket = Consumer  # type: ignore[misc]
    outbox.Outbox.__init__.__kwdefaults__["stall_seconds"] = 5.0
    port = FakePort()
    port.replies[commands.PullMessage] = pulled(records=record(b"x" * 256 * 1024))
    set_port(port)
    application = Watching(
        ProtocolTypeRouter({"http": routing.http_application, "websocket": URLRouter(routing.websocket_urlpatterns)})
    )
    LimitedServer(
        application,
        endpoints=[f"tcp:port={sys.argv[1]}:interface=127.0.0.1:backlog=4096"],
        websocket_max_message_size=8 << 20,
        websocket_max_frame_size=8 << 20,
        max_body=8 << 20,
        max_connections=1000,
        ready_callable=lambda: print("listening", flush=True),
    ).run()


if __name__ == "__main__":
    main()
