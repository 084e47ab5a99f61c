"""Batching without a timer: while one send is under way, what comes gathers into the next one."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from broker_core.server.tasks import end_task, start_task

log = logging.getLogger(__name__)


class Pump:
    """Calls ``step`` again and again while it answers that there is more; rests in between.

    ``wake`` starts it; the first step runs in a later turn of the loop, so that all that this turn brings goes
    out together.
    """

    def __init__(self, step: Callable[[], Awaitable[bool]]) -> None:
        self._step = step
        self._task: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """There is something to send."""
        if self._task is None:
            self._task = start_task(self._run(), "send a batch")

    async def _run(self) -> None:
        try:
            while await self._step():
                pass
        except Exception:
            log.exception("sending a batch failed in an unexpected way")
        finally:
            self._task = None

    async def rest(self, timeout_ms: int) -> None:
        """Wait until it rests; what is not done by then is given up."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=timeout_ms / 1000)
        await self.stop()

    async def stop(self) -> None:
        """Give up at once."""
        await end_task(self._task)
