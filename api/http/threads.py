"""A few threads for work that would hold up the event loop: inflating, decoding and encoding many bytes."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")

THREADS: Final = 2
"""At most this many pieces of work hold memory at the same time."""

_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="answers")


async def in_thread(work: Callable[[], T]) -> T:
    """The result of ``work``, which waits until a thread is free. When the caller is cancelled, ``work`` still ends."""
    return await asyncio.get_running_loop().run_in_executor(_pool, work)
