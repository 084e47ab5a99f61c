"""Takes pull requests one after the other, now or later. Each queue has one, so it has one pull at the broker."""

import asyncio
import logging
from collections.abc import Callable

from broker_core.client.consumer.process_queue import ProcessQueue
from broker_core.commands import MessageQueue
from broker_core.tasks import end_task, start_task

log = logging.getLogger(__name__)


class PullRequest:
    """RocketMQ's PullRequest: the next pull of a queue begins at ``next_offset``."""

    __slots__ = ("message_queue", "next_offset", "process_queue")

    def __init__(self, message_queue: MessageQueue, process_queue: ProcessQueue, next_offset: int) -> None:
        self.message_queue = message_queue
        self.process_queue = process_queue
        self.next_offset = next_offset


class PullMessageService:
    """RocketMQ's PullMessageService. ``pull_message`` sends a pull, and gives the request back when it was answered."""

    def __init__(self, pull_message: Callable[[PullRequest], None]) -> None:
        self._pull_message = pull_message
        self._pull_request_queue: asyncio.Queue[PullRequest] = asyncio.Queue()
        self._later: set[asyncio.TimerHandle] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = start_task(self._run(), "pull messages")

    async def stop(self) -> None:
        """Send no more pulls."""
        await end_task(self._task)
        for timer in self._later:
            timer.cancel()
        self._later.clear()

    def execute_pull_request_immediately(self, request: PullRequest) -> None:
        self._pull_request_queue.put_nowait(request)

    def execute_pull_request_later(self, request: PullRequest, delay_ms: int) -> None:
        """After an error, while the consumer has too many messages, and after a rebalance."""

        def put() -> None:
            self._later.discard(timer)
            self._pull_request_queue.put_nowait(request)

        timer = asyncio.get_running_loop().call_later(delay_ms / 1000, put)
        self._later.add(timer)

    async def _run(self) -> None:
        while True:
            request = await self._pull_request_queue.get()
            if not request.process_queue.dropped:
                self._pull_message(request)
