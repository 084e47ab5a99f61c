"""Tasks of the event loop. Every task of the project is started here, so none can fail without a log line."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

log = logging.getLogger(__name__)

AGAIN_SECONDS = 0.5

T = TypeVar("T")

_running: set["asyncio.Task[Any]"] = set()
"""The event loop itself keeps only weak references to tasks."""


def start_task(
    work: Coroutine[Any, Any, T],
    name: str,
    *,
    expected: tuple[type[Exception], ...] = (),
    on_failure: Callable[[BaseException], None] | None = None,
) -> "asyncio.Task[T]":
    """Run ``work`` beside the caller, on the running loop.

    An error that is not one of ``expected`` is logged and then passed to ``on_failure``. ``expected`` errors are left
    to whoever awaits the task.
    """

    def ended(task: "asyncio.Task[T]") -> None:
        _running.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is None or isinstance(error, expected):
            return
        log.error("the task %r failed", name, exc_info=error)
        if on_failure is not None:
            on_failure(error)

    task = asyncio.get_running_loop().create_task(work, name=name)
    _running.add(task)
    task.add_done_callback(ended)
    return task


async def end_task(task: "asyncio.Task[Any] | None") -> None:
    """Cancel the task and wait until it has ended, whatever its outcome.

    Some libraries lose a cancellation that meets an event of their own (``asyncio.wait_for`` before Python 3.12, which
    redis-py writes with), so the task is cancelled again until it ends.
    """
    while task is not None and not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=AGAIN_SECONDS)
