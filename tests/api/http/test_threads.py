import asyncio
import threading

import pytest

from api.http.threads import THREADS, in_thread


async def test_work_runs_in_a_few_threads() -> None:
    go_on = threading.Event()
    running: set[int] = set()

    def work() -> int:
        running.add(threading.get_ident())
        go_on.wait(30)
        return 7

    tasks = [asyncio.ensure_future(in_thread(work)) for _ in range(3 * THREADS)]
    while len(running) < THREADS:
        await asyncio.sleep(0.001)
    go_on.set()
    assert await asyncio.gather(*tasks) == [7] * (3 * THREADS)
    assert len(running) == THREADS
    assert threading.get_ident() not in running


async def test_an_error_reaches_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        await in_thread(lambda: 1 // 0)
