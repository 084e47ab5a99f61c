"""The same clients for programs without an event loop: every call returns when it is done.

One thread of the process runs the event loop of all of them. Listeners are called in threads of their own. A client
that was created before a fork cannot be used in the forked process.
"""

import asyncio
import inspect
import os
import threading
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from broker_core.client.consumer import (
    default_lite_pull_consumer,
    default_mq_pull_consumer,
    default_mq_push_consumer,
)
from broker_core.client.consumer.consume_message_concurrently_service import MessageListener
from broker_core.client.consumer.consume_message_orderly_service import MessageListenerOrderly
from broker_core.client.consumer.message_selector import MessageSelector
from broker_core.client.consumer.pull_result import PullResult
from broker_core.client.consumer.pulling_consumer import MessageQueueListener
from broker_core.client.message import Message, MessageExt
from broker_core.client.mq_client_exception import MQClientException
from broker_core.client.producer import default_mq_producer, transaction_mq_producer
from broker_core.client.producer.default_mq_producer import MessageQueueSelector, SendCallback
from broker_core.client.producer.send_result import SendResult
from broker_core.client.producer.transaction_mq_producer import (
    LocalTransactionState,
    TransactionListener,
    TransactionSendResult,
    state_of,
)
from broker_core.commands import MessageQueue

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def _event_loop() -> asyncio.AbstractEventLoop:
    """The loop, whose thread is started by the first call."""
    global _loop
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="glassmq-client", daemon=True).start()
        return _loop


def _forget_loop() -> None:
    """In a forked process, the thread of the parent's loop does not run; the first call starts a new one."""
    global _lock, _loop
    _lock, _loop = threading.Lock(), None


os.register_at_fork(after_in_child=_forget_loop)


def call(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` on the loop and return its result. MQClientException from a coroutine on that loop."""
    loop = _event_loop()
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if running is loop:
        work.close()
        raise MQClientException("a coroutine listener must await the clients of broker_core.client themselves")
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    except KeyboardInterrupt:
        future.cancel()
        raise


class DefaultMQProducer:
    """``default_mq_producer.DefaultMQProducer``, synchronously."""

    _producer: default_mq_producer.DefaultMQProducer

    def __init__(self, group: str, *, namesrv_addr: str, **options: Any) -> None:
        self._producer = default_mq_producer.DefaultMQProducer(group, namesrv_addr=namesrv_addr, **options)

    def start(self) -> None:
        call(self._producer.start())

    def shutdown(self) -> None:
        call(self._producer.shutdown())

    def __enter__(self) -> "DefaultMQProducer":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: MessageQueueSelector | None = None,
        arg: Any = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send a message and return when it is stored."""
        return call(self._producer.send(message, queue=queue, selector=selector, arg=arg, timeout_ms=timeout_ms))

    def send_async(
        self,
        message: Message,
        callback: SendCallback,
        *,
        queue: MessageQueue | None = None,
        selector: MessageQueueSelector | None = None,
        arg: Any = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Begin a send, and have ``callback(result, error)`` called when it has ended.

        It is called by the thread of all clients, so it must not wait for anything. This call waits while too many
        sends are under way.
        """
        call(
            self._producer.send_async(message, callback, queue=queue, selector=selector, arg=arg, timeout_ms=timeout_ms)
        )

    def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None, timeout_ms: int | None = None
    ) -> SendResult:
        """Send messages of one topic to one queue, in one request."""
        return call(self._producer.send_batch(messages, queue=queue, timeout_ms=timeout_ms))

    def recall_message(self, topic: str, recall_handle: str, *, timeout_ms: int | None = None) -> str:
        """Take back a message for an exact time, by the handle of its SendResult. Returns the message's id."""
        return call(self._producer.recall_message(topic, recall_handle, timeout_ms=timeout_ms))

    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: MessageQueueSelector | None = None,
        arg: Any = None,
    ) -> None:
        """Send a message without an answer."""
        call(self._producer.send_oneway(message, queue=queue, selector=selector, arg=arg))

    def request(
        self,
        message: Message,
        timeout_ms: int,
        *,
        queue: MessageQueue | None = None,
        selector: MessageQueueSelector | None = None,
        arg: Any = None,
    ) -> Message:
        """Send a message and return the reply of the consumer that gets it. RequestTimeoutException if none comes."""
        return call(self._producer.request(message, timeout_ms, queue=queue, selector=selector, arg=arg))


class TransactionMQProducer(DefaultMQProducer):
    """``transaction_mq_producer.TransactionMQProducer``, synchronously.

    ``execute_local_transaction`` is called in the thread of the send, ``check_local_transaction`` in another one.
    """

    _producer: transaction_mq_producer.TransactionMQProducer

    def __init__(self, group: str, listener: TransactionListener, *, namesrv_addr: str, **options: Any) -> None:
        kind = transaction_mq_producer.TransactionMQProducer
        self._producer = kind(group, listener, namesrv_addr=namesrv_addr, **options)

    def send_message_in_transaction(
        self, message: Message, arg: Any = None, *, timeout_ms: int | None = None
    ) -> TransactionSendResult:
        """Send a half message, have the listener carry out the local transaction, and report how that ended."""
        producer = self._producer
        state: LocalTransactionState = "ROLLBACK_MESSAGE"
        execute = producer.listener.execute_local_transaction
        if inspect.iscoroutinefunction(execute):
            return call(producer.send_message_in_transaction(message, arg, timeout_ms=timeout_ms))
        half, sent = call(producer.send_half(message, timeout_ms))
        if half.send_status == "SEND_OK":
            state = state_of(producer.group, execute, sent, arg)
        return call(producer.end_transaction(half, state))


class DefaultMQPushConsumer:
    """``default_mq_push_consumer.DefaultMQPushConsumer``, synchronously."""

    def __init__(self, group: str, *, namesrv_addr: str, **options: Any) -> None:
        self._consumer = default_mq_push_consumer.DefaultMQPushConsumer(group, namesrv_addr=namesrv_addr, **options)

    def subscribe(self, topic: str, sub_expression: str | MessageSelector = "*", expression_type: str = "TAG") -> None:
        """Consume a topic. Call it before ``start``."""
        self._consumer.subscribe(topic, sub_expression, expression_type)

    def register_message_listener(
        self, listener: MessageListener | MessageListenerOrderly, *, orderly: bool = False
    ) -> None:
        """Have ``listener(messages, context)`` called. Call this before ``start``.

        ``orderly``: the messages of a queue are consumed one after the other, in their order.
        """
        self._consumer.register_message_listener(listener, orderly=orderly)

    def register_message_queue_listener(self, listener: MessageQueueListener) -> None:
        """Have ``listener(topic, all_queues, assigned)`` called when a rebalance has changed this consumer's queues.

        It is called by the thread of all clients, so it must not wait for anything.
        """
        self._consumer.register_message_queue_listener(listener)

    def start(self) -> None:
        """Join the group. ``default_mq_push_consumer.DefaultMQPushConsumer.start`` says what is then consumed."""
        call(self._consumer.start())

    def shutdown(self) -> None:
        """Finish what the listener has begun, commit, and leave the group."""
        call(self._consumer.shutdown())

    def suspend(self) -> None:
        """Pull no more messages until ``resume``."""
        self._consumer.suspend()

    def resume(self) -> None:
        self._consumer.resume()

    def __enter__(self) -> "DefaultMQPushConsumer":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


class DefaultLitePullConsumer:
    """``default_lite_pull_consumer.DefaultLitePullConsumer``, synchronously."""

    def __init__(self, group: str, *, namesrv_addr: str, **options: Any) -> None:
        self._consumer = default_lite_pull_consumer.DefaultLitePullConsumer(group, namesrv_addr=namesrv_addr, **options)

    def subscribe(self, topic: str, sub_expression: str | MessageSelector = "*", expression_type: str = "TAG") -> None:
        """Share the queues of a topic with the group's other members. Call this before ``start``."""
        self._consumer.subscribe(topic, sub_expression, expression_type)

    def assign(self, queues: Iterable[MessageQueue], sub_expression: str = "*") -> None:
        """Read these queues and no others, whatever other members do."""

        async def assign() -> None:  # on the loop, which it wakes
            self._consumer.assign(queues, sub_expression)

        call(assign())

    def register_message_queue_listener(self, listener: MessageQueueListener) -> None:
        """Have ``listener(topic, all_queues, assigned)`` called when a rebalance has changed this consumer's queues.

        It is called by the thread of all clients, so it must not wait for anything.
        """
        self._consumer.register_message_queue_listener(listener)

    def start(self) -> None:
        call(self._consumer.start())

    def shutdown(self) -> None:
        """Leave the group. What was polled since the last commit comes again."""
        call(self._consumer.shutdown())

    def __enter__(self) -> "DefaultLitePullConsumer":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def poll(self, timeout_ms: int | None = None) -> list[MessageExt]:
        """The next messages; none if there are none within the timeout."""
        return call(self._consumer.poll(timeout_ms))

    def commit(self) -> None:
        """Store that everything ``poll`` has returned is consumed."""
        call(self._consumer.commit())

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on from this offset."""
        call(self._consumer.seek(queue, offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on from the first message."""
        call(self._consumer.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on behind the last message."""
        call(self._consumer.seek_to_end(queue))

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Pull no more from these queues until ``resume``."""
        self._consumer.pause(queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        self._consumer.resume(queues)

    def assignment(self) -> list[MessageQueue]:
        """The queues that this consumer has now."""

        async def assignment() -> list[MessageQueue]:
            return self._consumer.assignment()

        return call(assignment())

    def fetch_message_queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic."""
        return call(self._consumer.fetch_message_queues(topic))

    def committed(self, queue: MessageQueue) -> int | None:
        """The group's offset of a queue; None if it has none."""
        return call(self._consumer.committed(queue))

    def offset_for_timestamp(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message that was stored at this time or later."""
        return call(self._consumer.offset_for_timestamp(queue, timestamp_ms))


class DefaultMQPullConsumer:
    """``default_mq_pull_consumer.DefaultMQPullConsumer``, synchronously."""

    def __init__(self, group: str, *, namesrv_addr: str, **options: Any) -> None:
        self._consumer = default_mq_pull_consumer.DefaultMQPullConsumer(group, namesrv_addr=namesrv_addr, **options)

    def start(self) -> None:
        call(self._consumer.start())

    def shutdown(self) -> None:
        """Store the offsets that were noted, and leave the group."""
        call(self._consumer.shutdown())

    def __enter__(self) -> "DefaultMQPullConsumer":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def pull(
        self,
        queue: MessageQueue,
        sub_expression: str | MessageSelector,
        offset: int,
        max_nums: int,
        *,
        timeout_ms: int | None = None,
        expression_type: str = "TAG",
    ) -> PullResult:
        """Read a queue from an offset on, without waiting."""
        arguments = queue, sub_expression, offset, max_nums
        return call(self._consumer.pull(*arguments, timeout_ms=timeout_ms, expression_type=expression_type))

    def pull_block_if_not_found(
        self,
        queue: MessageQueue,
        sub_expression: str | MessageSelector,
        offset: int,
        max_nums: int,
        *,
        expression_type: str = "TAG",
    ) -> PullResult:
        """As ``pull``, but wait for a message, up to ``broker_suspend_max_time_millis``."""
        arguments = queue, sub_expression, offset, max_nums
        return call(self._consumer.pull_block_if_not_found(*arguments, expression_type=expression_type))

    def fetch_subscribe_message_queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic."""
        return call(self._consumer.fetch_subscribe_message_queues(topic))

    def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the first message that can be read."""
        return call(self._consumer.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset behind the last message."""
        return call(self._consumer.max_offset(queue))

    def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message that was stored at this time or later."""
        return call(self._consumer.search_offset(queue, timestamp_ms))

    def fetch_consume_offset(self, queue: MessageQueue, from_store: bool = False) -> int | None:
        """The offset that was noted last, or stored last for the group; None if there is none."""
        return call(self._consumer.fetch_consume_offset(queue, from_store))

    def update_consume_offset(self, queue: MessageQueue, offset: int) -> None:
        """Note the group's offset. It is stored every 5 s, by ``persist_offsets`` and by ``shutdown``."""
        self._consumer.update_consume_offset(queue, offset)

    def persist_offsets(self) -> None:
        """Store the offsets that were noted and have changed."""
        call(self._consumer.persist_offsets())

    def send_message_back(self, message: MessageExt, delay_level: int = 0) -> None:
        """Have a message delivered again later. -1 moves it to the dead letter queue."""
        call(self._consumer.send_message_back(message, delay_level))
