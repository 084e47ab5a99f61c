"""One queue of a subscription. It is pulled while there are permits, one pull at a time; messages are sent in order.

A pull is held like any other. If other queues have used the permits when it is woken, its messages wait for new ones.
The socket's buffer bounds the messages that wait; beyond it the answer is dropped and pulled again later.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

from api.consumer.permits import Buffer, Permits, Place
from api.consumer.progress import QueueProgress
from api.http.answer_memory import Share
from api.http.limits import DEFAULT_PULL_MESSAGES, DEFAULT_WAIT_MS, MAX_SPAN
from api.http.outbox import Outbox
from api.http.problems import Problem, problem_of
from api.http.request import expect
from api.http.schemas import MessageView
from api.resources.messages import render_one
from bridge.port import BrokerError, NotFoundError, PortConnection, ResponseCode, commands, iter_messages

PAUSE_S = 1.0
"""After a pull that failed; RocketMQ's pullTimeDelayMillsWhenException."""
RETRY_PREFIX = "%RETRY%"
"""Prefix of a group's retry topic, with the messages that it sent back."""


class Queue(NamedTuple):
    """MessageQueue: a queue of the cluster. Queues sort as RocketMQ's clients sort them."""

    topic: str
    broker: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}@{self.queue_id}"


class Wanted(NamedTuple):
    """What a subscription asks of each of its queues.

    ``start`` applies to queues without a committed offset: ``first``, ``last`` or a store time in ms.
    """

    group: str
    client_id: str
    filter: str
    filter_type: str
    start: int | Literal["first", "last"]


class Shared(NamedTuple):
    """What queues share: ``permits`` those of one subscription, all else those of one socket."""

    permits: Permits
    places: asyncio.Semaphore
    buffer: Buffer
    outbox: Outbox


class QueueConsumer:
    """Calls ``send`` with each message, and ``on_problem`` with each new failure; both return at once.

    ``problem`` describes the present failure; it is empty while pulls succeed.
    """

    def __init__(
        self,
        queue: Queue,
        wanted: Wanted,
        shared: Shared,
        connection: PortConnection,
        *,
        send: Callable[[MessageView, Share], None],
        on_problem: Callable[[Queue, Problem], None],
    ) -> None:
        self.queue = queue
        self.problem = ""
        self.progress: QueueProgress | None = None
        self._wanted = wanted
        self._shared = shared
        self._connection = connection
        self._send = send
        self._on_problem = on_problem
        self._finished = asyncio.Event()

    def finish(self, offset: int) -> None:
        """The client acknowledged this message."""
        if self.progress is not None:
            self.progress.finish(offset)
            self._finished.set()

    async def run(self) -> None:
        """Consume the queue until cancelled."""
        while True:
            try:
                if self.progress is None:
                    self.progress = await self._first_progress()
                await self._pull_once(self.progress)
                self.problem = ""
            except (BrokerError, Problem) as error:
                self._report(problem_of(error) if isinstance(error, BrokerError) else error)
                await asyncio.sleep(PAUSE_S)

    def _report(self, problem: Problem) -> None:
        """Report a problem once, until it changes or passes."""
        if problem.detail != self.problem:
            self._on_problem(self.queue, problem)
            self.problem = problem.detail

    # --- Where to begin ---

    async def _first_progress(self) -> QueueProgress:
        queue = self.queue
        try:
            committed = await self._offset(
                commands.QueryOffset(
                    group=self._wanted.group, topic=queue.topic, queue_id=queue.queue_id, set_zero_if_not_found=False
                )
            )
        except NotFoundError as error:
            if error.code != ResponseCode.QUERY_NOT_FOUND:
                raise
            return QueueProgress(await self._first_offset(), None)
        return QueueProgress(committed, committed)

    async def _first_offset(self) -> int:
        """Where a group without a committed offset begins."""
        topic, _, queue_id = self.queue
        start = self._wanted.start
        if topic.startswith(RETRY_PREFIX) or start == "first":
            return await self._offset(commands.GetMinOffset(topic=topic, queue_id=queue_id))
        if start == "last":
            return await self._offset(commands.GetMaxOffset(topic=topic, queue_id=queue_id))
        return await self._offset(commands.SearchOffset(topic=topic, queue_id=queue_id, timestamp_ms=start))

    async def _offset(self, command: commands.Command) -> int:
        return expect(await self._connection.call(command), commands.FoundOffset).offset

    # --- One pull ---

    async def _pull_once(self, progress: QueueProgress) -> None:
        shared = self._shared
        await shared.permits.wait_for_any()
        if progress.span >= MAX_SPAN:
            await self._wait_for_acks(progress)
        await shared.outbox.room()
        pulled = await self._pull(progress)
        if pulled.code == ResponseCode.PULL_OFFSET_MOVED:
            progress.move(pulled.next_begin_offset)
            return
        if pulled.code == ResponseCode.PULL_NOT_FOUND and pulled.hold is None:
            await asyncio.sleep(PAUSE_S)  # the pull was not held: do not pull again at once
        size = len(pulled.records)
        if not shared.buffer.take(size):
            await shared.buffer.room()
            return
        try:
            await self._send_messages(progress, pulled)
        finally:
            shared.buffer.give_back(size)

    async def _send_messages(self, progress: QueueProgress, pulled: commands.Pulled) -> None:
        for stored in iter_messages(pulled.records, self.queue.broker, begin=progress.next_offset):
            async with self._shared.permits.use(), self._shared.outbox.turn():
                message, share = await self._shared.outbox.make(partial(render_one, stored), _size)
                if message.queue_offset >= progress.next_offset:  # a record that cannot be read has none
                    progress.send(message.queue_offset, message.physical_offset)
                self._send(message, share)
        progress.pass_over(pulled.next_begin_offset)

    async def _pull(self, progress: QueueProgress) -> commands.Pulled:
        wanted, queue = self._wanted, self.queue
        retries = queue.topic.startswith(RETRY_PREFIX)
        place = Place(self._shared.places)
        await place.take()
        try:
            return expect(
                await self._connection.call(
                    commands.PullMessage(
                        topic=queue.topic,
                        queue_id=queue.queue_id,
                        queue_offset=progress.next_offset,
                        max_msg_nums=max(1, min(self._shared.permits.left, DEFAULT_PULL_MESSAGES)),
                        suspend_timeout_ms=DEFAULT_WAIT_MS,
                        consumer_group=wanted.group,
                        client_id=wanted.client_id,
                        protocol="websocket",
                        subscription="*" if retries else wanted.filter,
                        expression_type="TAG" if retries else wanted.filter_type,
                        report_hold=True,
                        check_group=True,
                    ),
                    on_held=lambda held: place.give_back(),
                ),
                commands.Pulled,
            )
        finally:
            place.give_back()

    async def _wait_for_acks(self, progress: QueueProgress) -> None:
        self._report(
            Problem(
                429,
                f"{self.queue}: offset {progress.done_to} is not acknowledged, and the queue is "
                f"{progress.span} offsets ahead of it; the queue is not pulled until that message is acknowledged",
                code=ResponseCode.FLOW_CONTROL,
            )
        )
        while progress.span >= MAX_SPAN:
            self._finished.clear()
            await self._finished.wait()


def _size(message: MessageView) -> int:
    return len(message.body)
