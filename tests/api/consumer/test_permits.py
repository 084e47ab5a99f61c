"""Places and permits."""

import asyncio

import pytest

from api.consumer.permits import Buffer, Permits, Place


async def turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_place_is_given_back_once() -> None:
    places = asyncio.Semaphore(1)
    place, other = Place(places), Place(places)
    await place.take()
    waiting = asyncio.ensure_future(other.take())
    await turn()
    assert not waiting.done()
    place.give_back()
    place.give_back()
    await waiting
    assert places.locked()
    other.give_back()
    assert not places.locked()


async def test_permits_are_taken_one_by_one() -> None:
    permits = Permits()
    permits.add(2)
    await permits.wait_for_any()
    await permits.take()
    await permits.wait_for_any()
    await permits.take()
    assert permits.left == 0
    for waiting in (asyncio.ensure_future(permits.wait_for_any()), asyncio.ensure_future(permits.take())):
        await turn()
        assert not waiting.done()
        waiting.cancel()


async def test_waiting_queues_take_turns() -> None:
    permits, order = Permits(), []

    async def queue(name: str) -> None:
        for _ in range(3):
            await permits.take()
            order.append(name)

    queues = [asyncio.ensure_future(queue(name)) for name in "ab"]
    await turn()
    for _ in range(6):
        permits.add(1)
        await turn()
    await asyncio.gather(*queues)
    assert order == ["a", "b", "a", "b", "a", "b"]


async def test_many_permits_at_once_are_shared() -> None:
    permits, taken = Permits(), []

    async def queue(name: str) -> None:
        while True:
            await permits.take()
            taken.append(name)

    queues = [asyncio.ensure_future(queue(name)) for name in "ab"]
    await turn()
    permits.add(10)
    while len(taken) < 10:
        await asyncio.sleep(0)
    assert taken.count("b") >= 3
    assert permits.left == 0
    for task in queues:
        task.cancel()


async def test_a_cancelled_wait_loses_no_permit() -> None:
    permits = Permits()
    gone = asyncio.ensure_future(permits.take())
    await turn()
    permits.add(1)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    await permits.take()
    assert permits.left == 0


async def test_a_permit_is_used_unless_the_block_fails() -> None:
    permits = Permits()
    permits.add(2)
    async with permits.use():
        assert permits.left == 1

    async def fail() -> None:
        async with permits.use():
            assert permits.left == 0
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await fail()
    assert permits.left == 1
    await permits.wait_for_any()
    await permits.take()


async def test_a_buffer_is_bounded_but_accepts_one_answer_of_any_size() -> None:
    buffer = Buffer(10)
    assert buffer.take(50)
    assert not buffer.take(1)
    waiting = asyncio.ensure_future(buffer.room())
    await turn()
    assert not waiting.done()
    buffer.give_back(50)
    await waiting
    assert buffer.take(6) and buffer.take(4) and not buffer.take(1)
