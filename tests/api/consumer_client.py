"""A consumer on the other end of ``/ws/v1/consumer``."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from api.consumer.socket import consumer_application
from tests.fakes.websocket import WebsocketCommunicator


class Client(WebsocketCommunicator):  # type: ignore[misc]
    """Frames as dictionaries."""

    async def send(self, **frame: Any) -> None:
        await self.send_json_to(frame)

    async def receive(self, kind: str = "") -> dict[str, Any]:
        """The next frame, which must be of this type if one is named."""
        frame: dict[str, Any] = await self.receive_json_from()
        assert not kind or frame["type"] == kind, frame
        return frame

    async def subscribe(self, **fields: Any) -> dict[str, Any]:
        """Subscribe as 1 to T in group G by default; returns the answer."""
        await self.send(**{"type": "subscribe", "id": 1, "topic": "T", "group": "G", "from": "first"} | fields)
        return await self.receive()

    async def permit(self, n: int, frame_id: int | str = 1) -> None:
        await self.send(type="permit", id=frame_id, n=n)

    async def quiet(self) -> None:
        """All frames sent so far were handled; the answer to a ping is the next frame received."""
        await self.send(type="ping", id="quiet")
        assert await self.receive() == {"type": "pong", "id": "quiet"}


@asynccontextmanager
async def connected(
    client_id: str = "web-1",
    *,
    port: int = 4711,
    path: str = "/ws/v1/consumer",
) -> AsyncIterator[Client]:
    """A consumer that has said hello."""
    client = Client(consumer_application, path, subprotocols=["rmq.v1.json"])
    client.scope["client"] = ("10.0.0.9", port)
    await client.connect()
    await client.send(type="hello", client_id=client_id)
    await client.receive("welcome")
    try:
        yield client
    finally:
        await client.disconnect()
