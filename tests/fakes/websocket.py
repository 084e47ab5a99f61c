"""A WebSocket client for tests with a long time-out. Channels' own client fails after a second without an answer."""

from typing import Any

from channels import testing

PATIENCE_S = 60.0


class WebsocketCommunicator(testing.WebsocketCommunicator):
    """Channels' client with a time-out for a busy machine."""

    async def receive_output(self, timeout: float = PATIENCE_S) -> dict[str, Any]:
        output: dict[str, Any] = await super().receive_output(PATIENCE_S)
        return output

    async def wait(self, timeout: float = PATIENCE_S) -> None:
        await super().wait(PATIENCE_S)
