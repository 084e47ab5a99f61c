"""What limits a consumer: places for pulls that read, permits for pushed messages, a buffer for messages that wait."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Place:
    """One of the few places for pulls that read. It is taken before the pull, and given back once."""

    __slots__ = ("_places", "_taken")

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places = places
        self._taken = False

    async def take(self) -> None:
        await self._places.acquire()
        self._taken = True

    def give_back(self) -> None:
        if self._taken:
            self._taken = False
            self._places.release()


class Permits:
    """How many more messages a client accepts. Waiting queues get permits in turn, so that none starves another."""

    def __init__(self) -> None:
        self.left = 0
        self._turns = asyncio.Semaphore(0)
        self._is_any_left = asyncio.Event()

    def add(self, number: int) -> None:
        self.left += number
        self._is_any_left.set()
        for _ in range(number):
            self._turns.release()

    async def wait_for_any(self) -> None:
        """Returns when at least one is left, without taking it."""
        await self._is_any_left.wait()

    async def take(self) -> None:
        """Returns with one taken."""
        await self._turns.acquire()
        self.left -= 1
        if not self.left:
            self._is_any_left.clear()

    @asynccontextmanager
    async def use(self) -> AsyncIterator[None]:
        """Take one for the block. It is given back when the block fails or is cancelled."""
        await self.take()
        try:
            yield
        except BaseException:
            self.add(1)
            raise


class Buffer:
    """Pulled messages that cannot be sent yet: ``max_size`` bytes at most, or one larger answer alone."""

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._size = 0
        self._room = asyncio.Event()
        self._room.set()

    def take(self, size: int) -> bool:
        """Take ``size`` bytes; False, and nothing is taken, when there is no room."""
        if self._size and self._size + size > self._max_size:
            self._room.clear()
            return False
        self._size += size
        return True

    def give_back(self, size: int) -> None:
        self._size -= size
        self._room.set()

    async def room(self) -> None:
        """Returns when bytes were given back after ``take`` found no room."""
        await self._room.wait()
