"""Types of the arguments of ASGI applications, and the close codes of WebSockets."""

from collections.abc import Awaitable, Callable
from typing import Any

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

# Close codes of WebSockets; docs/asyncapi.yaml explains them
CLOSE_BAD_FRAME = 4400
CLOSE_NOT_AUTHENTICATED = 4401
CLOSE_FORBIDDEN = 4403
CLOSE_NOT_FOUND = 4404
CLOSE_IDLE = 4408
CLOSE_TOO_LARGE = 4413
CLOSE_TOO_SLOW = 4429
CLOSE_RESTART = 1012
CLOSE_FAILED = 1011


def header(scope: Scope, name: bytes) -> str:
    """The first value of a header; empty if there is none."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value).decode("latin-1")
    return ""
