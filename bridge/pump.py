"""Batching without a timer: while one batch is being sent, commands gather for the next one."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from broker_core.tasks import end_task, start_task

log = logging.getLogger(__name__)


class Pump:
    """Calls ``step`` repeatedly while it returns True; then rests until ``wake`` is called.

    The first step runs in a later turn of the event loop, so that everything added in this turn is sent together.
    """

    def __init__(self, step: Callable[[], Awaitable[bool]]) -> None:
        self._step = step
        self._task: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """Start, because there is something to send."""
        if self._task is None:
            self._task = start_task(self._run(), "send a batch")

    async def _run(self) -> None:
        try:
            while await self._step():
                pass
        except Exception:
            log.exception("sending a batch failed unexpectedly")
        finally:
            self._task = None

    async def finish(self, timeout_ms: int) -> None:
        """Wait until nothing is left to send, or until the time-out, then stop."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=timeout_ms / 1000)
        await self.stop()

    async def stop(self) -> None:
        """Stop at once; what is being sent is given up."""
        await end_task(self._task)
