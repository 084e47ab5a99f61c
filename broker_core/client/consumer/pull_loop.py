"""The way of a pull request: it is sent, its answer's messages are taken, and the next pull follows.

PullMessageService --PullRequest--> pull_message ----pull, held----> broker
         ^                                                             |
         '------------------ on_pull <---------answer------------------'
"""

import logging
from typing import TYPE_CHECKING

from broker_core.client.client_events import MessagesPut, PullAnswered, PullSent
from broker_core.client.consumer.pull_api_wrapper import PullAPIWrapper
from broker_core.client.consumer.pull_message_service import PullRequest
from broker_core.client.consumer.pull_result import delay_after_error, next_pull
from broker_core.client.mq_client_exception import MQClientException
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.tasks import start_task

if TYPE_CHECKING:
    import asyncio

    from broker_core.client.consumer.pulling_consumer import PullingConsumer
    from broker_core.commands import MessageQueue

log = logging.getLogger(__name__)


class PullLoop:
    """RocketMQ's DefaultMQPushConsumerImpl.pullMessage with its PullCallback, and PullTaskImpl of lite pulls."""

    def __init__(self, consumer: "PullingConsumer") -> None:
        self._consumer = consumer
        self._pulls = PullAPIWrapper(consumer.instance, consumer.group)
        self._events = consumer.instance.events
        self._failing: set[MessageQueue] = set()

    def pull_message(self, request: PullRequest) -> None:
        """Send the next pull of a queue, unless it must wait. The request always comes back to ``pull_service``."""
        work, queue, consumer = request.process_queue, request.message_queue, self._consumer
        work.last_pull_ns = consumer.instance.clock.mono_ns()
        delay_ms = consumer.pull_delay_ms(queue, work)
        if delay_ms:
            consumer.pull_service.execute_pull_request_later(request, delay_ms)
            return
        commit_offset = 0 if consumer.broadcasting else consumer.offset_store.read_memory(queue)
        try:
            answer = self._pulls.pull_kernel_impl(
                queue,
                consumer.subscriptions[queue.topic],
                request.next_offset,
                consumer.pull_options,
                commit_offset=commit_offset,
            )
        except (OSError, MQClientException) as error:
            self._pull_failed(request, error)
            return
        if self._events.listener is not None:
            self._events.emit(PullSent(work.last_pull_ns, consumer.group, queue, request.next_offset, commit_offset))
        answer.add_done_callback(lambda answer: self.on_pull(request, answer))

    def on_pull(self, request: PullRequest, answer: "asyncio.Future[RemotingCommand]") -> None:
        """RocketMQ's PullCallback: the answer to a pull, or why there is none."""
        error = None if answer.cancelled() else answer.exception()
        if request.process_queue.dropped or not self._consumer.running or answer.cancelled():
            if self._events.listener is not None:
                self._emit_answered(request, "", "its queue was given up meanwhile", 0, request.next_offset)
            return
        queue = request.message_queue
        if error is None:
            try:
                self._take_answer(request, answer.result())
            except Exception as problem:  # whatever it is, the pull request must not be lost
                error = problem
        if error is not None:
            self._pull_failed(request, error)
        elif queue in self._failing:
            self._failing.discard(queue)
            log.info("group %s pulls %s again", self._consumer.group, queue)

    def _take_answer(self, request: PullRequest, answer: RemotingCommand) -> None:
        queue, work, consumer = request.message_queue, request.process_queue, self._consumer
        offset = request.next_offset
        result = self._pulls.process_pull_result(queue, consumer.subscriptions[queue.topic], answer, offset)
        step = next_pull(request.next_offset, result)
        if self._events.listener is not None:
            self._emit_answered(request, result.status, "", len(result.messages), result.next_begin_offset)
        if step.reset:
            log.warning("offset %d of %s is illegal; the queue begins at %d", request.next_offset, queue, step.offset)
            work.dropped = True  # nothing that is being consumed may commit
            start_task(consumer.rebalance.restart_from(queue, step.offset), "begin a queue at its right offset")
            return
        request.next_offset = step.offset
        if result.messages:
            new = work.put(result.messages)
            if self._events.listener is not None:
                self._events.emit(MessagesPut(consumer.instance.clock.mono_ns(), consumer.group, queue, new, len(work)))
            consumer.take_messages(new, work, queue)
        elif step.correct_offset and not len(work):
            consumer.correct_offset(queue, step.offset)
        if step.delay_ms:
            log.warning(
                "the broker answered a pull of %s with next offset %d, which is not after the pull's own",
                queue,
                step.offset,
            )
            consumer.pull_service.execute_pull_request_later(request, step.delay_ms)
        else:
            consumer.pull_service.execute_pull_request_immediately(request)

    def _pull_failed(self, request: PullRequest, error: BaseException) -> None:
        """Pull again later. Of the failures of a queue, the first is logged."""
        if self._events.listener is not None:
            self._emit_answered(request, "", str(error), 0, request.next_offset)
        group, queue = self._consumer.group, request.message_queue
        if queue not in self._failing:
            self._failing.add(queue)
            cause = None if isinstance(error, (OSError, MQClientException)) else error
            log.warning("group %s cannot pull %s: %s; trying again", group, queue, error, exc_info=cause)
        self._consumer.pull_service.execute_pull_request_later(request, delay_after_error(error))

    def _emit_answered(self, request: PullRequest, status: str, error: str, messages: int, next_offset: int) -> None:
        now_ns = self._consumer.instance.clock.mono_ns()
        self._events.emit(
            PullAnswered(
                now_ns,
                self._consumer.group,
                request.message_queue,
                request.next_offset,
                status,
                error,
                messages,
                next_offset,
                now_ns - request.process_queue.last_pull_ns,
            )
        )
