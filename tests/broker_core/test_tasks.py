import asyncio
import gc

import pytest

from broker_core import tasks
from broker_core.tasks import end_task, start_task


async def fail() -> None:
    raise ValueError("broken")


async def test_a_result_is_awaited() -> None:
    async def add() -> int:
        return 1 + 1

    task = start_task(add(), "add")
    assert (await task, task.get_name()) == (2, "add")


async def test_an_error_is_logged_and_passed_on(caplog: pytest.LogCaptureFixture) -> None:
    errors: list[BaseException] = []
    task = start_task(fail(), "read frames", on_failure=errors.append)
    await asyncio.wait([task])
    await asyncio.sleep(0)
    assert errors == [task.exception()]
    assert "the task 'read frames' failed" in caplog.text
    assert "ValueError: broken" in caplog.text


async def test_an_expected_error_is_left_to_the_caller(caplog: pytest.LogCaptureFixture) -> None:
    errors: list[BaseException] = []
    with pytest.raises(ValueError, match="broken"):
        await start_task(fail(), "read frames", expected=(ValueError,), on_failure=errors.append)
    await asyncio.sleep(0)
    assert (errors, caplog.text) == ([], "")


async def test_a_cancelled_task_did_not_fail(caplog: pytest.LogCaptureFixture) -> None:
    errors: list[BaseException] = []
    task = start_task(asyncio.sleep(60), "sleep", on_failure=errors.append)
    await asyncio.sleep(0)
    await end_task(task)
    assert (task.cancelled(), errors, caplog.text) == (True, [], "")


async def test_a_task_that_nobody_refers_to_goes_on() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.set()

    start_task(work(), "work")
    await asyncio.sleep(0)
    gc.collect()
    assert not ended.is_set()
    [task] = [task for task in asyncio.all_tasks() if task.get_name() == "work"]
    await end_task(task)


async def test_a_task_that_loses_a_cancellation_is_cancelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "AGAIN_SECONDS", 0.001)
    lost = 0

    async def deaf() -> None:
        nonlocal lost
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                lost += 1
                if lost == 3:
                    raise

    task = asyncio.create_task(deaf())
    await asyncio.sleep(0)
    await end_task(task)
    assert task.cancelled()
    assert lost == 3


async def test_a_task_that_has_ended_needs_no_ending() -> None:
    task = asyncio.create_task(fail())
    await asyncio.sleep(0)
    await end_task(task)
    await end_task(None)
    assert isinstance(task.exception(), ValueError)
