"""Sends wait for their turn, and what gives up leaves no trace."""

import asyncio

import pytest

from broker_core.client.producer.back_pressure import BackPressure


async def test_turns_come_in_order() -> None:
    pressure = BackPressure(2, 100)
    begun: list[int] = []

    async def send(number: int, size: int) -> None:
        await pressure.acquire(size, 60)
        begun.append(number)

    tasks = [asyncio.create_task(send(number, size)) for number, size in enumerate((60, 60, 10, 500))]
    for expected, size in (([0], 60), ([0, 1, 2], 60), ([0, 1, 2], 10), ([0, 1, 2, 3], 500)):
        for _ in range(5):
            await asyncio.sleep(0)
        assert begun == expected  # 2 is smaller than 1, and still waits for it; 3 is sent when it is alone
        pressure.release(size)
    assert (pressure.num, pressure.size) == (0, 0)
    await asyncio.gather(*tasks)


async def test_what_does_not_wait_any_more_takes_no_turn() -> None:
    pressure = BackPressure(1, 100)
    await pressure.acquire(1, 60)
    with pytest.raises(TimeoutError):
        await pressure.acquire(1, 0.001)
    cancelled = asyncio.create_task(pressure.acquire(1, 60))
    served = asyncio.create_task(pressure.acquire(1, 60))
    late = asyncio.create_task(pressure.acquire(1, 60))
    await asyncio.sleep(0)
    cancelled.cancel()
    pressure.release(1)  # in the same turn of the event loop as the cancellation
    await asyncio.sleep(0)
    await served
    pressure.release(1)
    late.cancel()  # its turn has come
    await asyncio.wait([cancelled, late])
    assert (pressure.num, pressure.size) == (0, 0)
