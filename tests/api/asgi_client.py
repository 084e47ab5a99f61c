"""Plain ASGI from the server's side, for what an HTTP client library hides: disconnects, streams, raw paths."""

import asyncio
import json
from collections.abc import Iterable
from typing import Any

from api.http.asgi import Application


class AsgiRequest:
    """One request to an application, message by message."""

    def __init__(
        self,
        app: Application,
        method: str,
        path: str,
        *,
        query: str = "",
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        chunks: Iterable[bytes] | None = None,
        **scope: Any,
    ) -> None:
        raw_path = path.encode("ascii")
        self.scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": raw_path,
            "query_string": query.encode("ascii"),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()],
            "client": ("127.0.0.1", 4711),
            "server": ("testserver", 80),
        } | scope
        self.sent: list[dict[str, Any]] = []
        self._changed = asyncio.Condition()
        self._incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        parts = [body] if chunks is None else list(chunks)
        for index, part in enumerate(parts):
            self._incoming.put_nowait({"type": "http.request", "body": part, "more_body": index + 1 < len(parts)})
        self.task = asyncio.ensure_future(app(self.scope, self._incoming.get, self._send))

    async def _send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)
        async with self._changed:
            self._changed.notify_all()

    def disconnect(self) -> None:
        self._incoming.put_nowait({"type": "http.disconnect"})

    async def done(self) -> "AsgiRequest":
        await self.task
        return self

    async def until_body_has(self, text: str) -> None:
        """Returns as soon as what was sent has the text."""
        async with self._changed:
            await self._changed.wait_for(lambda: text in self.body.decode())

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[str, str]:
        return {bytes(name).decode(): bytes(value).decode() for name, value in self.sent[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent[1:])

    def json(self) -> Any:
        return json.loads(self.body)
