"""A LimitedServer with an application that sends a lot.

``python -m tests.bridge.limited_server STALL_S ARRIVAL_S CONNECTIONS RESERVE LINGER_S PORT``. ARRIVAL_S is
the time for headers and the time for a body.
"""

import sys
from typing import Any
from urllib.parse import parse_qs

from bridge import daphne_limits
from bridge.daphne_limits import LimitedServer
from bridge.limits import ArrivalLimits

MIB = 1 << 20
sent_parts = 0


async def application(scope: Any, receive: Any, send: Any) -> None:
    """``/parts?n=4`` sends 4 parts of 1 MiB, ``/whole?n=4`` one of 4 MiB; ``/hold`` never ends its answer.

    ``/sent`` counts parts, ``/open`` counts clients. WebSockets are refused.
    """
    global sent_parts
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close"})
        return
    number = int(parse_qs(scope["query_string"].decode()).get("n", ["0"])[0])
    path = scope["path"]
    await receive()
    headers = [(b"content-length", str(number * MIB).encode())] if number else []
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    while path == "/hold":
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        await receive()
    if path == "/parts":
        for _ in range(number):
            await send({"type": "http.response.body", "body": bytes(MIB), "more_body": True})
            sent_parts += 1
    body = {
        "/whole": bytes(number * MIB),
        "/sent": str(sent_parts).encode(),
        "/open": str(server.open_connections).encode(),
    }.get(path, b"")
    await send({"type": "http.response.body", "body": body})
    if path == "/whole":
        sent_parts += number


daphne_limits.LINGER_S = float(sys.argv[5])
server = LimitedServer(
    application,
    endpoints=[f"tcp:port={sys.argv[-1]}:interface=127.0.0.1"],
    max_body=1000,
    max_connections=int(sys.argv[3]),
    reserve=int(sys.argv[4]),
    stall_seconds=float(sys.argv[1]),
    arrival_limits=ArrivalLimits(head=float(sys.argv[2]), body=float(sys.argv[2])),
    verbosity=0,
    ready_callable=lambda: print("listening", flush=True),
)

if __name__ == "__main__":
    server.run()
