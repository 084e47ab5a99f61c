import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from api.http import answer_memory
from api.http.answer_memory import PATIENCE, AnswerMemory, Share
from api.http.limits import SMALL_ANSWER


def test_memory_is_taken_up_to_its_limit_and_a_single_answer_may_exceed_it() -> None:
    memory = AnswerMemory(100)
    assert memory.take(60)
    assert not memory.take(41)
    assert memory.take(40)
    memory.give_back(100)
    assert memory.take(1000)
    assert not memory.take(1)


async def test_waiting_requests_get_room_in_their_order() -> None:
    memory = AnswerMemory(100)
    assert memory.take(100)
    got: list[int] = []

    async def wait(size: int) -> None:
        await memory.wait_and_take(size, 60)
        got.append(size)

    tasks = [asyncio.ensure_future(wait(size)) for size in (80, 30, 10)]
    await asyncio.sleep(0)
    memory.give_back(60)
    await asyncio.sleep(0)
    assert (got, memory.take(1)) == ([], False), "the first one is too large yet, and nobody overtakes it"
    memory.give_back(40)
    await asyncio.wait(tasks[:1])
    assert (got, memory.taken) == ([80], 80)
    memory.give_back(80)
    await asyncio.wait(tasks)
    assert (got, memory.taken) == ([80, 30, 10], 40)


async def test_a_request_that_times_out_or_is_cancelled_takes_no_memory() -> None:
    memory = AnswerMemory(100)
    assert memory.take(100)
    with pytest.raises(TimeoutError):
        await memory.wait_and_take(50, 0)
    cancelled, next_one = (asyncio.ensure_future(memory.wait_and_take(50, 60)) for _ in range(2))
    await asyncio.sleep(0)
    memory.give_back(100)
    cancelled.cancel()
    await asyncio.wait((cancelled, next_one))
    assert (cancelled.cancelled(), memory.taken) == (True, 50)


class Waits:
    """Takes the place of ``asyncio.wait``: a time-out passes at once, after ``during`` was called."""

    def __init__(self, loop: Any, during: Callable[[], None]) -> None:
        self.during = during
        self.seconds: list[float] = []
        self._now = 0.0
        loop.time = lambda: self._now

    async def wait(self, futures: list[asyncio.Future[None]], timeout: float) -> None:
        self.seconds.append(timeout)
        self._now += timeout
        self.during()


async def test_a_request_waits_longer_while_others_get_room(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = AnswerMemory(100)
    assert memory.take(100)
    others = [asyncio.ensure_future(memory.wait_and_take(100, 60)) for _ in range(6)]
    await asyncio.sleep(0)
    waits = Waits(asyncio.get_running_loop(), lambda: memory.give_back(100))
    monkeypatch.setattr(answer_memory, "asyncio", SimpleNamespace(**vars(asyncio) | {"wait": waits.wait}))
    with pytest.raises(TimeoutError):
        await memory.wait_and_take(100, 30)
    assert waits.seconds == [30] * PATIENCE  # however many of the others got room
    waits.seconds, waits.during = [], lambda: None
    with pytest.raises(TimeoutError):
        await memory.wait_and_take(100, 30)
    assert waits.seconds == [30]  # nobody got room
    for other in others:
        other.cancel()


async def test_an_answer_that_grows_goes_ahead_of_those_that_wait_for_their_first_bytes() -> None:
    memory = AnswerMemory(10 * SMALL_ANSWER)
    with Share(memory) as share:
        assert share.grow(4 * SMALL_ANSWER)
        waiting = asyncio.ensure_future(memory.wait_and_take(7 * SMALL_ANSWER, 60))
        await asyncio.sleep(0)
        assert not Share(memory).grow(2 * SMALL_ANSWER)
        assert share.grow(5 * SMALL_ANSWER)
        assert not share.grow(11 * SMALL_ANSWER)
    await waiting
    assert memory.taken == 7 * SMALL_ANSWER


async def test_a_share_counts_large_answers_and_gives_back_what_is_left() -> None:
    memory = AnswerMemory(10 * SMALL_ANSWER)
    with Share(memory) as share:
        assert share.grow(SMALL_ANSWER)
        assert memory.taken == 0
        assert share.grow(6 * SMALL_ANSWER)
        assert share.grow(4 * SMALL_ANSWER)
        assert memory.taken == 6 * SMALL_ANSWER
        assert not Share(memory).grow(5 * SMALL_ANSWER)
        share.shrink(2 * SMALL_ANSWER)
        assert memory.taken == 2 * SMALL_ANSWER
        await share.replace(9 * SMALL_ANSWER)
        assert memory.taken == 9 * SMALL_ANSWER
    assert memory.taken == 0
