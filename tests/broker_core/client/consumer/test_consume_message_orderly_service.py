"""Messages of a queue are consumed one after the other, whatever the listener does."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from broker_core.client import MessageExt
from broker_core.client.consumer.consume_message_orderly_service import ConsumeMessageOrderlyService
from broker_core.client.consumer.process_queue import REBALANCE_LOCK_MAX_LIVE_NS, ProcessQueue
from broker_core.commands import MessageQueue
from tests.fakes.messages import message_ext
from tests.fakes.virtual_cluster import VirtualCluster, VirtualLoop, run_virtually

QUEUE = MessageQueue(topic="T", broker_name="a", queue_id=0)


class Owner:
    group = "g"

    def __init__(self) -> None:
        self.commits: list[int] = []
        self.sent_back: list[tuple[int, int]] = []
        self.released: list[MessageQueue] = []
        self.accepts = True

    async def send_message_back(self, message: MessageExt, delay_level: int) -> bool:
        self.sent_back.append((message.queue_offset, delay_level))
        return self.accepts

    def commit(self, queue: MessageQueue, offset: int) -> None:
        self.commits.append(offset)

    def consumed(self, queue: MessageQueue, messages: list[MessageExt], consumed: int) -> None:
        assert 0 <= consumed <= len(messages)

    def release(self, queue: MessageQueue) -> None:
        self.released.append(queue)


class World:
    """A service and one queue, on a virtual clock."""

    def __init__(self, loop: VirtualLoop, listener: Any, **options: Any) -> None:
        self.owner = Owner()
        self.loop = loop
        defaults = {"threads": 4, "batch_max": 1, "max_reconsume_times": -1, "suspend_millis": 1000}
        self.service = ConsumeMessageOrderlyService(self.owner, listener, loop, **(defaults | options))
        self.work = ProcessQueue(loop.mono_ns(), needs_lock=True)

    def put(self, *offsets: int, queue: MessageQueue = QUEUE, work: ProcessQueue | None = None) -> None:
        work = self.work if work is None else work
        self.service.submit_consume_request(work.put([message_ext(n) for n in offsets]), work, queue)


def virtually(story: Callable[[VirtualLoop], Coroutine[Any, Any, None]]) -> None:
    async def run(cluster: VirtualCluster) -> None:
        await story(cluster.loop)

    run_virtually(run)


class Recorder:
    """A listener that takes a second; ``fail`` says how often each offset fails."""

    def __init__(self, fail: dict[int, int] | None = None) -> None:
        self.calls: list[list[int]] = []
        self.times: list[float] = []
        self.at_once = self.most_at_once = 0
        self.fail = fail or {}
        self.pause: Any = -1

    async def __call__(self, messages: list[MessageExt], context: Any) -> str:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.calls.append([message.queue_offset for message in messages])
        self.times.append(asyncio.get_running_loop().time())
        await asyncio.sleep(1)
        self.at_once -= 1
        first = messages[0].queue_offset
        if self.fail.get(first, 0) > 0:
            self.fail[first] -= 1
            context.suspend_current_queue_time_millis = self.pause
            return "SUSPEND_CURRENT_QUEUE_A_MOMENT"
        return "SUCCESS"


def test_one_call_at_a_time_in_the_order_of_the_queue() -> None:
    async def story(loop: VirtualLoop) -> None:
        listener = Recorder()
        world = World(loop, listener, batch_max=2)
        world.put(0, 1, 2)
        world.put(3, 4)
        await asyncio.sleep(10)
        assert listener.calls == [[0, 1], [2, 3], [4]]
        assert listener.most_at_once == 1
        assert world.owner.commits == [2, 4, 5]

    virtually(story)


def test_queues_are_consumed_beside_each_other() -> None:
    async def story(loop: VirtualLoop) -> None:
        listener = Recorder()
        world = World(loop, listener, threads=2)
        for number in range(4):
            queue = MessageQueue(topic="T", broker_name="a", queue_id=number)
            world.put(0, 1, queue=queue, work=ProcessQueue(loop.mono_ns(), needs_lock=True))
        await asyncio.sleep(10)
        assert listener.most_at_once == 2 and sorted(listener.calls) == [[0]] * 4 + [[1]] * 4
        assert listener.calls[:4] == [[0]] * 4  # queues take turns

    virtually(story)


@pytest.mark.parametrize(("pause", "seconds"), [(-1, 1), (5000, 5), (1, 0.01), (600_000, 30)])
def test_a_message_that_fails_comes_again_before_those_behind_it(pause: int, seconds: float) -> None:
    async def story(loop: VirtualLoop) -> None:
        listener = Recorder({1: 2})
        listener.pause = pause
        world = World(loop, listener)
        world.work.needs_lock = False  # as in broadcasting: nobody renews locks here
        world.put(0, 1, 2)
        await asyncio.sleep(200)
        assert listener.calls == [[0], [1], [1], [1], [2]]
        assert listener.times[2] - listener.times[1] == pytest.approx(1 + seconds)
        assert world.owner.commits == [1, 2, 3] and world.owner.sent_back == []

    virtually(story)


@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit(1), asyncio.CancelledError()])
def test_a_listener_that_raises_has_failed(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    async def story(loop: VirtualLoop) -> None:
        calls: list[int] = []

        async def listener(messages: list[MessageExt], context: Any) -> None:
            calls.append(messages[0].reconsume_times)
            if len(calls) < 3:
                raise error

        world = World(loop, listener)
        world.put(0)
        await asyncio.sleep(10)
        assert calls == [0, 1, 2] and world.owner.commits == [1]

    virtually(story)
    assert "the listener of group g failed" in caplog.text


def test_a_message_that_fails_too_often_goes_to_the_dead_letter_queue() -> None:
    async def story(loop: VirtualLoop) -> None:
        listener = Recorder({0: 100})
        world = World(loop, listener, max_reconsume_times=2)
        world.owner.accepts = False
        world.put(0, 1)
        await asyncio.sleep(7)
        assert listener.calls == [[0]] * 4  # nobody took it, so it is tried again
        world.owner.accepts = True
        await asyncio.sleep(7)
        assert listener.calls == [[0]] * 4 + [[1]]
        assert set(world.owner.sent_back) == {(0, -1)}
        assert world.owner.commits[-1] == 2

    virtually(story)


def test_nothing_is_called_without_a_lock_that_is_relied_on() -> None:
    async def story(loop: VirtualLoop) -> None:
        listener = Recorder()
        world = World(loop, listener)
        world.work.last_lock_ns = loop.mono_ns() - REBALANCE_LOCK_MAX_LIVE_NS + 1_500_000_000
        world.put(0, 1, 2)
        await asyncio.sleep(10)
        assert listener.calls == [[0], [1]]  # the lock's time was over while 1 was consumed
        assert world.owner.commits == [1]  # so that 1 is consumed again, by whoever gets the lock
        assert world.service.unfinished == 0

    virtually(story)


def test_a_queue_that_was_given_up_is_released_when_its_listener_returns() -> None:
    async def story(loop: VirtualLoop) -> None:
        listener = Recorder()
        world = World(loop, listener)
        world.put(0, 1)
        await asyncio.sleep(0.5)
        world.work.dropped = True
        assert world.work.consuming and world.owner.released == []
        await asyncio.sleep(1)
        assert (world.work.consuming, world.owner.released) == (False, [QUEUE])
        assert (listener.calls, world.owner.commits) == ([[0]], [])

    virtually(story)


def test_stop_waits_for_the_calls_and_begins_no_others() -> None:
    async def story(loop: VirtualLoop) -> None:
        listener = Recorder()
        world = World(loop, listener)
        world.put(0, 1)
        await asyncio.sleep(0.5)
        assert not await world.service.stop(0.2)
        assert await world.service.stop(5)
        await asyncio.sleep(5)
        assert (listener.calls, world.owner.commits) == ([[0]], [1])

    virtually(story)


def test_a_pause_that_is_no_integer_is_a_failure() -> None:
    async def story(loop: VirtualLoop) -> None:
        listener = Recorder({0: 1})
        listener.pause = None
        world = World(loop, listener)
        world.put(0)
        await asyncio.sleep(5)
        assert listener.calls == [[0], [0]] and world.owner.commits == [1]

    virtually(story)


@pytest.mark.parametrize("status", ["RECONSUME_LATER", "success", False, True, 0])
def test_a_status_that_does_not_exist_is_a_failure(status: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def story(loop: VirtualLoop) -> None:
        calls: list[int] = []

        async def listener(messages: list[MessageExt], context: Any) -> Any:
            calls.append(messages[0].reconsume_times)
            return status if len(calls) < 3 else None

        world = World(loop, listener)
        world.put(0)
        await asyncio.sleep(10)
        assert calls == [0, 1, 2] and world.owner.commits == [1]

    virtually(story)
    assert f"'SUCCESS' or 'SUSPEND_CURRENT_QUEUE_A_MOMENT', not {status!r}" in caplog.text
