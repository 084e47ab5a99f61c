"""Calls of the listener; what failed messages lead to is in the tests of consumers."""

import asyncio
import sys
import threading
from typing import Any

import pytest

from broker_core.client.consumer.consume_message_concurrently_service import ConsumeMessageConcurrentlyService
from broker_core.client.consumer.process_queue import ProcessQueue
from broker_core.client.message import MessageExt
from broker_core.clock import SystemClock
from broker_core.commands import MessageQueue
from tests.fakes.messages import message_ext

QUEUE = MessageQueue(topic="T", broker_name="a", queue_id=0)


class Owner:
    group = "g"

    def __init__(self) -> None:
        self.commits: list[int] = []
        self.sent_back: list[tuple[int, int]] = []
        self.accepts = True

    async def send_message_back(self, message: MessageExt, delay_level: int) -> bool:
        self.sent_back.append((message.queue_offset, delay_level))
        return self.accepts

    def commit(self, queue: MessageQueue, offset: int) -> None:
        self.commits.append(offset)

    def consumed(self, queue: MessageQueue, messages: list[MessageExt], consumed: int) -> None:
        assert 0 <= consumed <= len(messages)


def service_of(owner: Owner, listener: Any, threads: int = 4, batch_max: int = 1) -> ConsumeMessageConcurrentlyService:
    return ConsumeMessageConcurrentlyService(owner, listener, SystemClock(), threads=threads, batch_max=batch_max)


def submit(service: ConsumeMessageConcurrentlyService, work: ProcessQueue, count: int) -> None:
    service.submit_consume_request(work.put([message_ext(n) for n in range(count)]), work, QUEUE)


async def test_threads_are_as_many_as_are_needed_and_no_more() -> None:
    owner, work = Owner(), ProcessQueue(0)
    names: set[str] = set()
    barrier = threading.Barrier(4)

    def listener(messages: list[MessageExt], context: Any) -> None:
        names.add(threading.current_thread().name)
        barrier.wait(60)  # four calls are under way at once, and each thread is one of them

    service = service_of(owner, listener)
    submit(service, work, 8)
    assert await service.stop(20)
    assert names == {f"consume-g-{n}" for n in range(1, 5)}
    assert owner.commits[-1] == 8 and len(work) == 0


async def test_a_single_message_starts_at_most_one_thread() -> None:
    owner, work = Owner(), ProcessQueue(0)
    service = service_of(owner, lambda messages, context: None, threads=20)
    before = threading.active_count()
    submit(service, work, 1)
    assert threading.active_count() <= before + 1
    assert await service.stop(20)


async def test_threads_that_never_return_do_not_stop_the_end() -> None:
    owner, work, stay = Owner(), ProcessQueue(0), threading.Event()

    def listener(messages: list[MessageExt], context: Any) -> None:
        stay.wait(60)

    service = service_of(owner, listener)
    submit(service, work, 1)
    assert not await service.stop(0.01)
    assert service.unfinished == 1 and owner.commits == []
    stay.set()
    assert await service.stop(20)  # or its result would come while the event loop is being closed
    assert owner.commits == [1]


async def test_a_thread_that_returns_when_the_loop_has_ended_ends_too() -> None:
    owner, work, stay = Owner(), ProcessQueue(0), threading.Event()
    others = {*threading.enumerate()}  # those of earlier tests may not have ended yet
    loop = asyncio.new_event_loop()

    async def leave() -> None:
        submit(service_of(owner, lambda messages, context: stay.wait(60), threads=1), work, 1)

    await asyncio.to_thread(loop.run_until_complete, leave())
    loop.close()
    [thread] = [thread for thread in {*threading.enumerate()} - others if thread.name == "consume-g-1"]
    stay.set()
    await asyncio.to_thread(thread.join, 20)
    assert not thread.is_alive()


async def test_nothing_is_called_or_committed_for_a_queue_that_was_given_up() -> None:
    owner, work = Owner(), ProcessQueue(0)
    calls: list[int] = []
    began, go_on = asyncio.Event(), asyncio.Event()

    async def listener(messages: list[MessageExt], context: Any) -> None:
        calls.append(messages[0].queue_offset)
        began.set()
        await go_on.wait()

    service = service_of(owner, listener, threads=1)
    submit(service, work, 3)
    await began.wait()
    work.dropped = True
    go_on.set()
    assert await service.stop(20)
    assert (calls, owner.commits, owner.sent_back) == ([0], [], [])
    submit(service, ProcessQueue(0), 1)
    assert service.unfinished == 0  # it takes no more


async def test_a_queue_that_is_given_up_while_a_message_is_sent_back_is_not_committed() -> None:
    class SlowOwner(Owner):
        async def send_message_back(self, message: MessageExt, delay_level: int) -> bool:
            work.dropped = True
            return True

    owner, work = SlowOwner(), ProcessQueue(0)

    async def listener(messages: list[MessageExt], context: Any) -> str:
        return "RECONSUME_LATER"

    service = service_of(owner, listener)
    submit(service, work, 1)
    assert await service.stop(20)
    assert (len(work), owner.commits) == (0, [])


async def test_an_object_with_a_coroutine_method_is_called_on_the_loop() -> None:
    class Listener:
        async def __call__(self, messages: list[MessageExt], context: Any) -> str:
            assert threading.current_thread() is threading.main_thread()
            raise asyncio.CancelledError

    owner, work = Owner(), ProcessQueue(0)
    service = service_of(owner, Listener())
    submit(service, work, 100)
    assert await service.stop(20)
    assert sorted(owner.sent_back) == [(n, 0) for n in range(100)]
    assert owner.commits[-1] == 100


async def test_the_awaitable_of_a_plain_function_is_awaited() -> None:
    owner, work, calls = Owner(), ProcessQueue(0), []

    async def handle(messages: list[MessageExt]) -> str:
        await asyncio.sleep(0)
        calls.append(messages[0].queue_offset)
        return "RECONSUME_LATER" if messages[0].queue_offset == 1 else "CONSUME_SUCCESS"

    service = service_of(owner, lambda messages, context: handle(messages))
    submit(service, work, 3)
    assert await service.stop(20)
    assert (sorted(calls), owner.sent_back, owner.commits[-1]) == ([0, 1, 2], [(1, 0)], 3)


async def test_sys_exit_in_a_coroutine_listener_is_a_failure() -> None:
    """As any other task, the one that calls the listener would end the event loop by a SystemExit."""
    owner, work = Owner(), ProcessQueue(0)

    async def listener(messages: list[MessageExt], context: Any) -> None:
        sys.exit(1)

    service = service_of(owner, listener, threads=1)
    submit(service, work, 3)
    assert await service.stop(20)
    assert (sorted(owner.sent_back), owner.commits[-1]) == ([(n, 0) for n in range(3)], 3)


@pytest.mark.parametrize("error", [SystemExit(1), asyncio.CancelledError(), KeyboardInterrupt()])
async def test_no_error_of_a_listener_ends_its_thread(error: BaseException) -> None:
    owner, work = Owner(), ProcessQueue(0)

    def listener(messages: list[MessageExt], context: Any) -> None:
        raise error

    service = service_of(owner, listener, threads=1)
    submit(service, work, 3)
    assert await service.stop(20)
    assert sorted(owner.sent_back) == [(n, 0) for n in range(3)]


async def test_no_listener_is_called_when_the_event_loop_ends() -> None:
    owner, work, calls = Owner(), ProcessQueue(0), []
    began = asyncio.Event()

    async def listener(messages: list[MessageExt], context: Any) -> None:
        calls.append(messages[0].queue_offset)
        began.set()
        await asyncio.Event().wait()

    service = service_of(owner, listener, threads=1)
    submit(service, work, 3)
    await began.wait()
    [worker] = [task for task in asyncio.all_tasks() if task.get_name() == "consume messages of g"]
    worker.cancel()
    done, _ = await asyncio.wait([worker], timeout=60)
    assert (bool(done), calls, owner.commits) == (True, [0], [])


@pytest.mark.parametrize("name", ["ack_index", "delay_level_when_next_consume"])
@pytest.mark.parametrize("raises", [False, True])
async def test_a_context_without_integers_is_a_failure(
    name: str, raises: bool, caplog: pytest.LogCaptureFixture
) -> None:
    owner, work = Owner(), ProcessQueue(0)

    async def listener(messages: list[MessageExt], context: Any) -> None:
        setattr(context, name, None)
        if raises:
            raise ValueError("the listener's own")

    service = service_of(owner, listener)
    submit(service, work, 2)
    assert await service.stop(20)
    assert (sorted(owner.sent_back), owner.commits[-1]) == ([(0, 0), (1, 0)], 2)
    assert ("the listener's own" if raises else f"{name}=None") in caplog.text


async def test_a_message_that_cannot_be_sent_back_is_not_committed(caplog: pytest.LogCaptureFixture) -> None:
    class FailingOwner(Owner):
        async def send_message_back(self, message: MessageExt, delay_level: int) -> bool:
            raise ValueError("properties that cannot be written")

    owner, work = FailingOwner(), ProcessQueue(0)

    async def listener(messages: list[MessageExt], context: Any) -> str:
        return "RECONSUME_LATER" if messages[0].queue_offset == 0 else "CONSUME_SUCCESS"

    service = service_of(owner, listener)
    submit(service, work, 2)
    assert await service.stop(20)
    assert (len(work), set(owner.commits)) == (1, {0})
    await service.clean_expired({QUEUE: work}, -1)
    assert len(work) == 1
    assert caplog.text.count("could not be sent back") == 2


@pytest.mark.parametrize("status", ["SUSPEND_CURRENT_QUEUE_A_MOMENT", "reconsume_later", False, True, 0])
async def test_a_status_that_does_not_exist_is_a_failure(status: Any, caplog: pytest.LogCaptureFixture) -> None:
    owner, work = Owner(), ProcessQueue(0)
    service = service_of(owner, lambda messages, context: status if messages[0].queue_offset else "CONSUME_SUCCESS")
    submit(service, work, 2)
    assert await service.stop(20)
    assert owner.sent_back == [(1, 0)]
    assert f"'CONSUME_SUCCESS' or 'RECONSUME_LATER', not {status!r}" in caplog.text
