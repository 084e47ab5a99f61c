"""Limits the bytes of answers that one process holds until their clients have read them."""

import asyncio
from collections import deque
from typing import Any

from api.http.limits import ANSWER_WAIT_SECONDS, MAX_UNREAD_ANSWERS, SMALL_ANSWER
from api.http.problems import Problem
from bridge.port import ResponseCode

PATIENCE = 4
"""While other waiting requests get room, a request may wait this many times as long as it may otherwise."""


class AnswerMemory:
    """At most ``max_bytes`` bytes for all answers that are being made or sent. A single answer may be larger.

    Waiting requests get their bytes in the order of their calls.
    """

    def __init__(self, max_bytes: int = MAX_UNREAD_ANSWERS) -> None:
        self.max_bytes = max_bytes
        self.taken = 0
        self.served = 0
        """Requests that waited and got room, since the start."""
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def waiting(self) -> int:
        """How many requests wait for room."""
        return len(self._waiting)

    def take(self, size: int, *, ahead: bool = False) -> bool:
        """Take ``size`` bytes. Returns False, and takes nothing, when there is no room or other requests wait.

        ``ahead``: even if others wait.
        """
        if (self._waiting and not ahead) or not self._has_room(size):
            return False
        self.taken += size
        return True

    async def wait_and_take(self, size: int, seconds: float) -> None:
        """Take ``size`` bytes as soon as there is room.

        Raises TimeoutError, and takes nothing, when no waiting request got room for ``seconds``, and after
        ``PATIENCE`` times ``seconds`` in any case. So a request waits behind many others as long as they get on.
        """
        if self.take(size):
            return
        clock = asyncio.get_running_loop().time
        end = clock() + PATIENCE * seconds
        place = (size, asyncio.get_running_loop().create_future())
        self._waiting.append(place)
        try:
            while not place[1].done():
                served = self.served
                await asyncio.wait([place[1]], timeout=min(seconds, end - clock()))
                if not place[1].done() and (served == self.served or clock() >= end):
                    raise TimeoutError
        except BaseException:
            if place in self._waiting:
                self._waiting.remove(place)
                self._wake()  # a smaller request behind this one may fit
            else:
                self.give_back(size)
            raise

    def give_back(self, size: int) -> None:
        self.taken -= size
        self._wake()

    def _has_room(self, size: int) -> bool:
        return not self.taken or self.taken + size <= self.max_bytes

    def _wake(self) -> None:
        while self._waiting and self._has_room(self._waiting[0][0]):
            size, future = self._waiting.popleft()
            self.taken += size
            self.served += 1
            if future.done():  # cancelled in this turn: its waiter gives back
                continue
            future.set_result(None)


class Share:
    """The bytes of one answer, from the engine's reply to the last part that is sent. ``with`` gives them back.

    Small answers are not counted: a share of up to ``SMALL_ANSWER`` bytes is 0.
    """

    def __init__(self, memory: AnswerMemory) -> None:
        self.size = 0
        self._memory = memory

    def __enter__(self) -> "Share":
        return self

    def __exit__(self, *error: Any) -> None:
        self.shrink(0)

    def grow(self, size: int) -> bool:
        """Hold at least ``size`` bytes. Returns False when there is no room.

        An answer that has some bytes already goes ahead of those that wait for their first ones. Otherwise it would be
        made again each time that it turns out to be a little larger.
        """
        missing = size - self.size if size > SMALL_ANSWER else 0
        if missing > 0:
            if not self._memory.take(missing, ahead=self.size > 0):
                return False
            self.size = size
        return True

    def shrink(self, size: int) -> None:
        """Give back the bytes above ``size``."""
        if size < self.size:
            self._memory.give_back(self.size - size)
            self.size = size

    async def replace(self, size: int) -> None:
        """Give back all bytes, then take ``size`` as soon as there is room. Problem 503 when there is none in time."""
        self.shrink(0)
        try:
            await self._memory.wait_and_take(size, ANSWER_WAIT_SECONDS)
        except TimeoutError as error:
            raise no_room(size) from error
        self.size = size


def no_room(size: int) -> Problem:
    """The refusal of an answer of about ``size`` bytes."""
    return Problem(
        503,
        f"no room for an answer of about {size} bytes: other clients have not read their answers yet; "
        "ask for less at once, or try again",
        code=ResponseCode.SYSTEM_BUSY,
        retry_after_s=1,
    )
