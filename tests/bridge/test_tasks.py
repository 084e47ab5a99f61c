import asyncio

import pytest

from bridge import tasks
from bridge.tasks import end_task


async def test_a_task_that_loses_a_cancellation_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "AGAIN_SECONDS", 0.001)
    lost = 0

    async def deaf() -> None:
        nonlocal lost
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                lost += 1
                if lost == 3:
                    raise

    task = asyncio.create_task(deaf())
    await asyncio.sleep(0)
    await end_task(task)
    assert task.cancelled()
    assert lost == 3


async def test_a_task_that_is_over_or_not_there_needs_no_ending() -> None:
    async def fails() -> None:
        raise ValueError("broken")

    task = asyncio.create_task(fails())
    await asyncio.sleep(0)
    await end_task(task)
    await end_task(None)
    assert isinstance(task.exception(), ValueError)
