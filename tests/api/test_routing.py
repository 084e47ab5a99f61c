"""What the server mounts."""

import httpx
import pytest
from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator

from api.routes import ROUTES
from api.routing import API_PREFIXES, close_websockets, websocket_urlpatterns
from tests.fakes.fake_port import FakePort

ROUTER = URLRouter(websocket_urlpatterns)


def test_every_route_is_under_a_prefix() -> None:
    assert all(route.path.startswith(API_PREFIXES) for route in ROUTES)


async def test_the_application_answers(client: httpx.AsyncClient) -> None:
    assert (await client.get("/livez")).status_code == 200


@pytest.mark.parametrize(("path", "first"), [("/ws/v1/consumer", "problem"), ("/ws/v1/events", "snapshot")])
async def test_websockets_are_found(port: FakePort, path: str, first: str) -> None:
    socket = WebsocketCommunicator(ROUTER, path + "?int64=number")
    assert (await socket.connect())[0]
    await socket.send_json_to({"type": "snapshot"})
    assert (await socket.receive_json_from())["type"] == first
    await close_websockets()
    while (message := await socket.receive_output())["type"] == "websocket.send":
        pass
    assert message["code"] == 1012


@pytest.mark.parametrize("path", ["/ws/v1/other", "/ws/v1/consumer/x", "/"])
async def test_other_paths_are_refused(port: FakePort, path: str) -> None:
    assert await WebsocketCommunicator(ROUTER, path).connect() == (False, 4403)
