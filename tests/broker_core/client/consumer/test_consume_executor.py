"""How calls of a listener are ended; the rest is in the tests of the services that use it."""

import asyncio
from typing import Any

from broker_core.client.consumer.consume_executor import ConsumeExecutor


class Call:
    def __init__(self, begins: bool = True) -> None:
        self.messages: list[Any] = ["m"]
        self.context = None
        self.begins = begins
        self.status: Any = "none"

    def begin(self) -> bool:
        return self.begins

    def set_status(self, status: Any) -> None:
        self.status = status


async def test_calls_that_are_not_begun_are_finished_too() -> None:
    finished: list[Call] = []

    async def listener(messages: Any, context: Any) -> str:
        return "ok"

    executor = ConsumeExecutor("g", listener, 1, finished.append)
    calls = [Call(), Call(begins=False), Call()]
    for call in calls:
        executor.execute(call)
    while executor.unfinished:
        await asyncio.sleep(0)
    assert finished == calls
    assert [call.status for call in calls] == ["ok", "none", "ok"]


async def test_aborted_calls_end_and_those_that_wait_are_not_begun() -> None:
    finished: list[Call] = []
    started: list[Any] = []

    async def listener(messages: Any, context: Any) -> None:
        started.append(messages)
        await asyncio.Event().wait()

    executor = ConsumeExecutor("g", listener, 2, finished.append)
    for _ in range(5):
        executor.execute(Call())
    await asyncio.sleep(0)
    executor.abort()
    while executor._on_loop:
        await asyncio.sleep(0)
    assert len(started) == 2 and finished == []
