"""Limits what the sends of a producer that are under way may amount to."""

import asyncio
import contextlib
from collections import deque


class BackPressure:
    """RocketMQ's back pressure for asynchronous sends: at most ``max_num`` of them, and ``max_size`` bytes together.

    Sends wait for their turn in the order in which they came. A send alone is never refused for its size.
    """

    def __init__(self, max_num: int, max_size: int) -> None:
        self._max_num = max_num
        self._max_size = max_size
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.num = 0
        """Sends under way."""
        self.size = 0
        """Bytes of their bodies."""

    async def acquire(self, size: int, timeout_s: float) -> None:
        """Wait until a send of ``size`` bytes may begin. TimeoutError if it may not within the time."""
        if not self._waiting and self._fits(size):
            self._begin(size)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = size, turn
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(timeout_s):
                await turn
        except (TimeoutError, asyncio.CancelledError):
            if turn.cancelled():
                with contextlib.suppress(ValueError):  # it was passed over already
                    self._waiting.remove(entry)
                self._wake()  # those behind it may be smaller
            else:  # its turn came at the same moment
                self.release(size)
            raise

    def release(self, size: int) -> None:
        """A send has ended."""
        self.num -= 1
        self.size -= size
        self._wake()

    def _wake(self) -> None:
        while self._waiting:
            size, turn = self._waiting[0]
            if not turn.cancelled() and not self._fits(size):
                return
            self._waiting.popleft()
            if not turn.cancelled():
                self._begin(size)
                turn.set_result(None)

    def _fits(self, size: int) -> bool:
        return not self.num or (self.num < self._max_num and self.size + size <= self._max_size)

    def _begin(self, size: int) -> None:
        self.num += 1
        self.size += size
