"""The engine's asyncio runs on the loop of asyncio itself and on uvloop."""

import asyncio
from collections.abc import Callable

import uvloop


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """For every test in this folder."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
