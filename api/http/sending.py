"""Encodes and sends the answers of the API, in parts, as fast as their clients read them.

The server's ``send`` waits until the client has read enough of the earlier parts (``bridge.daphne_limits`` does this
for Daphne), so only one part at a time waits in the server.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from api.http.answer_memory import Share
from api.http.asgi import Receive, Send
from api.http.limits import FILE_PART, SMALL_ANSWER
from bridge.port import start_task

Encode = Callable[[Any], bytes]


def encode_in_parts(encode: Encode, body: Any) -> list[bytes]:
    """``body`` as JSON. A list ``messages`` of a struct is encoded message by message."""
    if not isinstance(body, msgspec.Struct) or len(getattr(body, "messages", ())) < 2:
        return [encode(body)]
    messages = body.messages  # type: ignore[attr-defined]
    head, tail = encode(msgspec.structs.replace(body, messages=[])).split(b'"messages":[]', 1)
    return joined_parts(head + b'"messages":[', map(encode, messages), b"]" + tail)


def joined_parts(head: bytes, items: Iterable[bytes], tail: bytes) -> list[bytes]:
    """``head``, the items with commas between them, and ``tail``: in parts of ``SMALL_ANSWER`` bytes or one item."""
    parts: list[bytes] = []
    part = bytearray(head)
    separator = b""
    for item in items:
        part += separator
        separator = b","
        if len(part) + len(item) > SMALL_ANSWER and part:
            parts.append(bytes(part))
            part.clear()
        if len(item) > SMALL_ANSWER:
            parts.append(item)
        else:
            part += item
    parts.append(bytes(part + tail))
    return parts


async def send_parts(send: Send, parts: list[bytes], share: Share) -> None:
    """Send the body of an answer. Each part's memory is given back as soon as the part is sent."""
    parts.reverse()
    left = sum(map(len, parts))
    while parts:
        part = parts.pop()
        left -= len(part)
        await send({"type": "http.response.body", "body": part, "more_body": bool(parts)})
        share.shrink(left)


async def send_file(
    receive: Receive, send: Send, path: Path, headers: list[tuple[bytes, bytes]], is_head: bool
) -> None:
    """Send a file, one part in memory at a time, until its end or until the client goes away. OSError: no such file."""
    with await asyncio.to_thread(open, path, "rb") as file:
        size = await asyncio.to_thread(file.seek, 0, 2)
        await asyncio.to_thread(file.seek, 0)
        headers = [*headers, (b"content-length", str(size).encode("ascii"))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        gone = start_task(client_gone(receive), "wait for the client of a file to disconnect")
        try:
            left = 0 if is_head else size
            while left and not gone.done() and (part := await asyncio.to_thread(file.read, min(left, FILE_PART))):
                left -= len(part)
                await send({"type": "http.response.body", "body": part, "more_body": True})
        finally:
            gone.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await gone
    await send({"type": "http.response.body", "body": b""})


async def client_gone(receive: Receive) -> None:
    """Return when the client has gone away. Only for a request with a body that was read."""
    while (await receive())["type"] != "http.disconnect":
        pass
