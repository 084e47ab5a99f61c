"""config/asgi.py: each path reaches the part that answers it, and nothing passes by the gate."""

import subprocess
import sys
from typing import Any

import httpx
import pytest

from bridge.port import set_port
from config.asgi import application
from tests.conftest import PROJECT
from tests.fakes.websocket import WebsocketCommunicator


@pytest.fixture
def client() -> httpx.AsyncClient:
    set_port(None)
    transport = httpx.ASGITransport(app=application)  # type: ignore[arg-type]
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")


async def test_the_api_is_answered_without_django(client: httpx.AsyncClient) -> None:
    assert (await client.get("/livez")).status_code == 200
    missing = await client.get("/api/v1/nothing-of-this-name")
    assert missing.status_code == 404
    assert missing.headers["content-type"] == "application/problem+json"


async def test_without_an_engine_it_is_alive_but_not_ready(client: httpx.AsyncClient) -> None:
    ready = await client.get("/readyz")
    assert ready.status_code == 503
    assert "retry-after" in ready.headers


async def test_pages_are_answered_by_django(client: httpx.AsyncClient) -> None:
    page = await client.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")


async def test_a_foreign_host_is_refused_before_anything_else(client: httpx.AsyncClient) -> None:
    for path in ("/", "/api/v1/topics", "/admin/"):
        assert (await client.get(path, headers={"host": "rebound.example.org"})).status_code == 400


def test_a_web_process_does_not_load_spark() -> None:
    loaded = "import sys, config.asgi; print({'pyspark', 'pyarrow', 'pandas', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", loaded], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


async def test_websockets_of_other_pages_are_refused() -> None:
    async def connects(**headers: str) -> Any:
        sent = [(name.encode(), value.encode()) for name, value in headers.items()]
        socket = WebsocketCommunicator(application, "/ws/v1/consumer", headers=sent, subprotocols=["rmq.v1.json"])
        connected, _ = await socket.connect()
        await socket.disconnect()
        return connected

    set_port(None)
    assert await connects(host="127.0.0.1", origin="http://127.0.0.1")
    assert not await connects(host="127.0.0.1", origin="http://elsewhere.example.org")
