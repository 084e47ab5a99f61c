"""The same clients for programs without an event loop: every call returns when it is done.

One thread of the process runs the event loop of all of them. Listeners are called in threads of their own. A client
that was created before a fork cannot be used in the forked process.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from broker_core.client.consumer import default_mq_push_consumer
from broker_core.client.consumer.consume_message_concurrently_service import MessageListener
from broker_core.client.consumer.consume_message_orderly_service import MessageListenerOrderly
from broker_core.client.message import Message
from broker_core.client.mq_client_exception import MQClientException
from broker_core.client.producer import default_mq_producer
from broker_core.client.producer.default_mq_producer import MessageQueueSelector
from broker_core.client.producer.send_result import SendResult
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

    def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None, timeout_ms: int | None = None
    ) -> SendResult:
        """Send messages of one topic to one queue, in one request."""
        return call(self._producer.send_batch(messages, queue=queue, timeout_ms=timeout_ms))

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


class DefaultMQPushConsumer:
    """``default_mq_push_consumer.DefaultMQPushConsumer``, synchronously."""

    def __init__(self, group: str, *, namesrv_addr: str, **options: Any) -> None:
        self._consumer = default_mq_push_consumer.DefaultMQPushConsumer(group, namesrv_addr=namesrv_addr, **options)

    def subscribe(self, topic: str, sub_expression: str = "*") -> None:
        """Consume a topic. Call it before ``start``."""
        self._consumer.subscribe(topic, sub_expression)

    def register_message_listener(
        self, listener: MessageListener | MessageListenerOrderly, *, orderly: bool = False
    ) -> None:
        """Have ``listener(messages, context)`` called. Call this before ``start``.

        ``orderly``: the messages of a queue are consumed one after the other, in their order.
        """
        self._consumer.register_message_listener(listener, orderly=orderly)

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
