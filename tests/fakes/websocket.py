"""A WebSocket's client by hand, with patience: Channels' own takes a second without an answer for a failure."""

from typing import Any

from channels import testing

PATIENCE_S = 30.0


class WebsocketCommunicator(testing.WebsocketCommunicator):
    """Channels' own, on a machine that may have other things to do."""

    async def receive_output(self, timeout: float = PATIENCE_S) -> dict[str, Any]:
        output: dict[str, Any] = await super().receive_output(PATIENCE_S)
        return output

    async def wait(self, timeout: float = PATIENCE_S) -> None:
        await super().wait(PATIENCE_S)
