"""The API over a scripted port, called as a client calls it."""

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from api.routing import http_application
from bridge.port import set_port
from tests.fakes.fake_port import FakePort


@pytest.fixture
def port() -> Iterator[FakePort]:
    fake = FakePort()
    set_port(fake)
    yield fake
    set_port(None)


@pytest.fixture
async def client(port: FakePort) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(http_application), base_url="http://localhost") as http:
        yield http
