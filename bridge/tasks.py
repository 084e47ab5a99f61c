"""Ending tasks that sit in other people's code."""

import asyncio
from typing import Any

AGAIN_SECONDS = 0.5


async def end_task(task: "asyncio.Task[Any] | None") -> None:
    """Cancel and wait until it is over, whatever its outcome.

    Some libraries lose a cancellation that meets an event of their own (``asyncio.wait_for`` before Python 3.12, which
    redis-py writes with), so it is asked again.
    """
    while task is not None and not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=AGAIN_SECONDS)
