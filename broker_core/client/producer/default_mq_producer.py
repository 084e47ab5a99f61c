"""Sends messages.

producer = DefaultMQProducer("my-producers", namesrv_addr="127.0.0.1:9876")
async with producer:
    result = await producer.send(Message("orders", b"hello", "TagA"))
"""

import asyncio
import logging
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from broker_core.client.client_config import ProducerConfig, check_group, read_config
from broker_core.client.client_events import MessageSent
from broker_core.client.message import MAX_RECONSUME_TIMES, RECONSUME_TIME, Message
from broker_core.client.mq_client_exception import MQBrokerException, MQClientException, RequestTimeoutException
from broker_core.client.mq_client_instance import MQClientInstance
from broker_core.client.producer.back_pressure import BackPressure
from broker_core.client.producer.mq_fault_strategy import MQFaultStrategy
from broker_core.client.producer.outgoing import Outgoing
from broker_core.client.producer.send_result import RETRY_CODES, SendResult
from broker_core.client.producer.topic_publish_info import TopicPublishInfo
from broker_core.codes import RequestCode
from broker_core.commands import MessageQueue
from broker_core.errors import RequestError
from broker_core.formats import message_properties
from broker_core.formats.message_batch import BatchEntry, MessageBatchError, encode_batch
from broker_core.formats.message_body import COMPRESSED, ZLIB
from broker_core.formats.message_properties import CORRELATION_ID, MSG_TYPE, REPLY, REPLY_TO_CLIENT, TTL, UNIQ_KEY, WAIT
from broker_core.formats.recall_handle import decode as decode_handle
from broker_core.remoting.requests.send import RETRY_PREFIX, RecallMessageRequestHeader, SendMessageRequestHeaderV2
from broker_core.tasks import start_task
from broker_core.topics import AUTO_CREATE_TOPIC, NO_SEND_TOPICS, validate_topic

log = logging.getLogger(__name__)

COMPRESSION_LEVEL = 5
MAX_REQUEST_MS = 3_600_000
MessageQueueSelector = Callable[[Sequence[MessageQueue], Message, Any], MessageQueue]
"""Picks a queue: the topic's queues, the message, and the ``arg`` of the send."""

SendCallback = Callable[[SendResult | None, MQClientException | None], None]
"""RocketMQ's SendCallback: the result, or the error, of a send that has ended."""


class DefaultMQProducer:
    """RocketMQ's DefaultMQProducer. ``options`` are those of ``ProducerConfig``.

    Its calls raise MQClientException for a message that was not sent, and pass on what a selector raises. A send that
    fails because no answer came in time may have stored its message all the same.
    """

    def __init__(
        self, group: str, *, namesrv_addr: str = "", instance: MQClientInstance | None = None, **options: Any
    ) -> None:
        """``instance``: a client to share; without it, the producer has its own. MQClientException for bad options."""
        self.group = check_group(group, "DEFAULT_PRODUCER")
        self.config = read_config(ProducerConfig, options)
        self.instance = instance or MQClientInstance(namesrv_addr)
        self._faults = MQFaultStrategy(send_latency_fault_enable=self.config.send_latency_fault_enable)
        self._running = False
        config = self.config
        self._pressure = BackPressure(config.back_pressure_for_async_send_num, config.back_pressure_for_async_send_size)
        self._async_sends: set[asyncio.Future[Any]] = set()
        """Sends of ``send_async`` that wait for their turn or are under way."""
        self._shutdown_task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin. The first send of a topic asks for its queues."""
        if self._shutdown_task is not None and not self._shutdown_task.done():
            raise MQClientException("the producer is still being shut down; wait for shutdown() first")
        if not self._running:
            await self.instance.register_producer(self.group)
            self._running = True

    async def shutdown(self) -> None:
        """End the requests that wait, wait for what is being sent, leave the group and close the connections.

        If the caller is cancelled, the work goes on; another call waits for it.
        """
        if self._running:
            self._running = False
            self.instance.request_futures.end_group(self.group)
            self._shutdown_task = start_task(self._leave(), f"shut down the producer of {self.group}")
        if self._shutdown_task is not None:
            await asyncio.shield(self._shutdown_task)

    async def _leave(self) -> None:
        while self._async_sends:  # of those that wait, each begins when another one has ended
            await asyncio.wait(self._async_sends)
        await self.instance.unregister(producer_group=self.group)

    async def __aenter__(self) -> "DefaultMQProducer":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()

    # --- Sends ------------------------------------------------------------------------------------------------

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: MessageQueueSelector | None = None,
        arg: Any = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send a message and return when it is stored.

        It goes to ``queue``, or to the one that ``selector`` returns; else the queues take turns, and another broker is
        tried if one fails. Several sends may be under way at once.
        """
        deadline_ns = self._deadline_ns(timeout_ms)
        outgoing = self._prepare(message)
        return await self._send(outgoing, await self._pick(message, queue, selector, arg, deadline_ns), deadline_ns)

    async def send_async(
        self,
        message: Message,
        callback: SendCallback,
        *,
        queue: MessageQueue | None = None,
        selector: MessageQueueSelector | None = None,
        arg: Any = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Begin a send, and have ``callback(result, error)`` called on the event loop when it has ended.

        This waits while too many sends are under way (``back_pressure_for_async_send_num`` and ``_size``).
        MQClientException if that takes longer than the timeout; then nothing is sent and the callback is not called.
        The send itself has the rest of the timeout.
        """
        deadline_ns = self._deadline_ns(timeout_ms)
        outgoing = self._prepare(message)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._async_sends.add(turn)
        try:
            wanted = await self._pick(message, queue, selector, arg, deadline_ns)
            await self._await_turn(len(outgoing.body), deadline_ns)
            task = start_task(self._send_and_call(outgoing, wanted, deadline_ns, callback), f"send to {message.topic}")
            self._async_sends.add(task)
            task.add_done_callback(self._async_sends.discard)
        finally:
            self._async_sends.discard(turn)
            turn.set_result(None)

    async def _await_turn(self, size: int, deadline_ns: int) -> None:
        """Wait until a send of ``size`` bytes may begin."""
        left_s = self._left_s(deadline_ns)
        try:
            await self._pressure.acquire(size, left_s)
        except TimeoutError:
            raise MQClientException(
                f"{self._pressure.num} sends of {self._pressure.size} bytes are under way, and none has ended within "
                f"{left_s:.3g} s; the message was not sent"
            ) from None

    async def _send_and_call(
        self, outgoing: Outgoing, queue: MessageQueue | None, deadline_ns: int, callback: SendCallback
    ) -> None:
        result, failure = None, None
        try:
            result = await self._send(outgoing, queue, deadline_ns)
        except MQClientException as error:
            failure = error
        finally:
            self._pressure.release(len(outgoing.body))
        try:
            callback(result, failure)
        except Exception:
            log.exception("the callback of a send to %s failed", outgoing.topic)

    async def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None, timeout_ms: int | None = None
    ) -> SendResult:
        """Send messages of one topic to one queue, in one request."""
        deadline_ns = self._deadline_ns(timeout_ms)
        return await self._send(self._prepare_batch(messages), queue, deadline_ns)

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: MessageQueueSelector | None = None,
        arg: Any = None,
    ) -> None:
        """Send a message without an answer: whether it is stored is not known."""
        deadline_ns = self._deadline_ns(None)
        outgoing = self._prepare(message)
        wanted = await self._pick(message, queue, selector, arg, deadline_ns)
        chosen = wanted or await self._next_queue(outgoing.topic, "", deadline_ns)
        address = self.instance.broker_address(chosen.broker_name)
        try:
            await self.instance.api.send_oneway(address, self._header(outgoing, chosen), outgoing.body, outgoing.code)
        except OSError as error:
            raise MQClientException(f"the message could not be sent to {chosen.broker_name}: {error}") from error

    async def send_again(self, topic: str, properties: dict[str, str], body: bytes, flag: int, sys_flag: int) -> None:
        """Send a pulled message to its group's retry topic; ``body`` is as it was stored, by ``sys_flag``."""
        text = message_properties.encode(properties)
        times = properties.get(RECONSUME_TIME, "0"), properties.get(MAX_RECONSUME_TIMES, "0")
        msg_id = properties.get(UNIQ_KEY, "")
        code = RequestCode.SEND_MESSAGE_V2
        outgoing = Outgoing(topic, body, text, msg_id, flag, sys_flag, code, *map(int, times))
        await self._send(outgoing, None, self._deadline_ns(None))

    async def recall_message(self, topic: str, recall_handle: str, *, timeout_ms: int | None = None) -> str:
        """Take back a message, about a second before it is due at the latest. Returns its id, also if it is gone."""
        self._require_running()
        deadline_ns = self._deadline_ns(timeout_ms)
        handle = decode_handle(recall_handle)
        if handle is None or handle.topic != topic:
            raise MQClientException("the recall handle is not one of this topic; take it from the SendResult")
        await self._publish_info(topic, deadline_ns)  # its brokers' addresses come with the topic's route
        header = RecallMessageRequestHeader(topic, recall_handle, self.group)
        address = self.instance.broker_address(handle.broker_name)
        try:
            return await self.instance.api.recall_message(address, header, self._left_s(deadline_ns))
        except OSError as error:
            raise MQClientException(f"{handle.broker_name} did not answer the recall: {error}") from error

    # --- Requests ---------------------------------------------------------------------------------------------

    async def request(
        self,
        message: Message,
        timeout_ms: int,
        *,
        queue: MessageQueue | None = None,
        selector: MessageQueueSelector | None = None,
        arg: Any = None,
    ) -> Message:
        """Send a message and return the reply of the consumer that gets it (``create_reply_message``).

        All within ``timeout_ms``, else RequestTimeoutException. Another MQClientException if the message was not sent,
        the producer is shut down meanwhile, or too many requests wait. The first reply counts.
        """
        if not 0 < timeout_ms <= MAX_REQUEST_MS:
            raise MQClientException(f"timeout_ms is 1 to {MAX_REQUEST_MS}, not {timeout_ms}")
        own = {REPLY_TO_CLIENT: self.instance.client_id, TTL: str(timeout_ms)}
        reserved = {*own, CORRELATION_ID, MSG_TYPE}.intersection(message.properties)
        if reserved:
            raise MQClientException(
                f"in requests the property {min(reserved)!r} is RocketMQ's own; choose another name"
            )
        self._require_running()
        deadline_ns = self._deadline_ns(timeout_ms)
        own[CORRELATION_ID], reply = self.instance.request_futures.add(self.group)
        send: asyncio.Task[SendResult] | None = None
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                outgoing = self._prepare(message, own)
                wanted = await self._pick(message, queue, selector, arg, deadline_ns)
                await self.instance.report_producers()
                if not reply.done():  # the producer was shut down
                    send = self._start_request(outgoing, wanted, deadline_ns, reply)
                return await reply
        except TimeoutError:
            if send is not None and send.done() and send.exception() is None:
                raise RequestTimeoutException(
                    f"send request message to <{message.topic}> OK, but wait reply message timeout, {timeout_ms} ms."
                ) from None
            raise MQClientException(
                f"send request message to <{message.topic}> fail: no broker acknowledged it within {timeout_ms} ms"
            ) from None
        finally:
            self.instance.request_futures.remove(own[CORRELATION_ID])

    def _start_request(
        self, outgoing: Outgoing, queue: MessageQueue | None, deadline_ns: int, reply: "asyncio.Future[Message]"
    ) -> "asyncio.Task[SendResult]":
        """Send beside the wait: the reply may come before the broker's answer, and a failed send ends the wait."""

        def ended(task: "asyncio.Task[SendResult]") -> None:
            self._async_sends.discard(task)
            error = None if task.cancelled() else task.exception()
            if error is not None and not reply.done():
                reply.set_exception(error)

        name = f"request to {outgoing.topic}"
        task = start_task(self._send(outgoing, queue, deadline_ns), name, expected=(MQClientException,))
        self._async_sends.add(task)
        task.add_done_callback(ended)
        return task

    # --- One send ---------------------------------------------------------------------------------------------

    def _deadline_ns(self, timeout_ms: int | None) -> int:
        """When a send that begins now must have ended; by default after ``send_msg_timeout``."""
        return self.instance.clock.mono_ns() + (timeout_ms or self.config.send_msg_timeout) * 1_000_000

    def _left_s(self, deadline_ns: int) -> float:
        return max(0, deadline_ns - self.instance.clock.mono_ns()) / 1e9

    async def _send(self, outgoing: Outgoing, queue: MessageQueue | None, deadline_ns: int) -> SendResult:
        """Send, and tell the client's event listener how it ended."""
        events, clock = self.instance.events, self.instance.clock
        if events.listener is None:
            return await self._send_default_impl(outgoing, queue, deadline_ns, [])
        begin_ns = clock.mono_ns()
        tried: list[str] = []
        result, problem = None, ""
        try:
            result = await self._send_default_impl(outgoing, queue, deadline_ns, tried)
            return result
        except MQClientException as error:
            problem = str(error)
            raise
        finally:
            now_ns = clock.mono_ns()
            events.emit(
                MessageSent(
                    now_ns,
                    self.group,
                    outgoing.topic,
                    result.message_queue if result else None,
                    outgoing.msg_id,
                    result.offset_msg_id if result else "",
                    result.send_status if result else "",
                    problem,
                    len(tried),
                    len(outgoing.body),
                    now_ns - begin_ns,
                    outgoing.properties,
                )
            )

    async def _send_default_impl(
        self, outgoing: Outgoing, queue: MessageQueue | None, deadline_ns: int, tried: list[str]
    ) -> SendResult:
        """RocketMQ's sendDefaultImpl: attempts until one succeeds, all of them before the deadline.

        The names of the brokers are put into ``tried``.
        """
        clock = self.instance.clock
        begin_ns = clock.mono_ns()
        attempts = 1 if queue is not None else 1 + self.config.retry_times_when_send_failed
        problem: Exception | None = None
        if queue is not None:  # its broker's address comes with the topic's route
            await self._publish_info(outgoing.topic, deadline_ns)
        for _ in range(attempts):
            chosen = queue or await self._next_queue(outgoing.topic, tried[-1] if tried else "", deadline_ns)
            left_s = self._left_s(deadline_ns)
            if not left_s:
                problem = problem or TimeoutError("the time is over")
                break
            tried.append(chosen.broker_name)
            try:
                result = await self._send_kernel(outgoing, chosen, left_s)
            except (OSError, MQClientException) as error:
                if isinstance(error, MQBrokerException) and error.response_code not in RETRY_CODES:
                    raise
                problem = error
                continue
            if result.send_status == "SEND_OK" or not self.config.retry_another_broker_when_not_store_ok:
                return result
            problem = MQClientException(f"{chosen.broker_name} stored it with {result.send_status}")
        cost_ms = (clock.mono_ns() - begin_ns) // 1_000_000
        raise MQClientException(
            f"the message for {outgoing.topic!r} was not sent in {len(tried)} attempts and {cost_ms} ms, "
            f"at {', '.join(tried) or 'no broker'}: {problem}"
        ) from problem

    async def _send_kernel(self, outgoing: Outgoing, queue: MessageQueue, timeout_s: float) -> SendResult:
        """One attempt. How long it takes counts for the choice of later brokers."""
        clock, broker = self.instance.clock, queue.broker_name
        begin_ns = clock.mono_ns()
        address = self.instance.broker_address(broker)
        try:
            result = await self.instance.api.send_message(
                address, queue, self._header(outgoing, queue), outgoing.body, timeout_s, outgoing.code
            )
        except (OSError, MQBrokerException):
            now_ns = clock.mono_ns()
            self._faults.update_fault_item(broker, (now_ns - begin_ns) / 1e6, now_ns, isolation=True)
            raise
        now_ns = clock.mono_ns()
        self._faults.update_fault_item(broker, (now_ns - begin_ns) / 1e6, now_ns)
        return result if result.msg_id else result._replace(msg_id=outgoing.msg_id)

    def _header(self, outgoing: Outgoing, queue: MessageQueue) -> SendMessageRequestHeaderV2:
        return SendMessageRequestHeaderV2(
            producer_group=self.group,
            topic=outgoing.topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=self.config.default_topic_queue_nums,
            queue_id=queue.queue_id,
            sys_flag=outgoing.sys_flag,
            born_timestamp=self.instance.clock.now().wall_ms,
            flag=outgoing.flag,
            properties=outgoing.properties,
            reconsume_times=outgoing.reconsume_times,
            max_reconsume_times=outgoing.max_reconsume_times,
            batch=outgoing.code == RequestCode.SEND_BATCH_MESSAGE,
        )

    async def _publish_info(self, topic: str, deadline_ns: int) -> TopicPublishInfo:
        queues = self.config.default_topic_queue_nums
        return await self.instance.find_publish_info(topic, queues, self._left_s(deadline_ns))

    async def _next_queue(self, topic: str, last_broker: str, deadline_ns: int) -> MessageQueue:
        info = await self._publish_info(topic, deadline_ns)
        queue = self._faults.select_one_message_queue(info, last_broker, self.instance.clock.mono_ns())
        assert queue is not None  # an info without queues is never returned
        return queue

    async def _pick(
        self,
        message: Message,
        queue: MessageQueue | None,
        selector: MessageQueueSelector | None,
        arg: Any,
        deadline_ns: int,
    ) -> MessageQueue | None:
        """The queue that the caller wants; None if it wants none."""
        info = await self._publish_info(message.topic, deadline_ns)
        chosen = queue if selector is None else selector(info.queues, message, arg)
        if isinstance(chosen, MessageQueue) or (chosen is None and selector is None):
            return chosen
        origin = "queue is" if selector is None else "the selector returned"
        raise MQClientException(f"{origin} {chosen!r}, which is no MessageQueue")

    # --- Messages ---------------------------------------------------------------------------------------------

    def _prepare(self, message: Message, more: Mapping[str, str] | None = None) -> Outgoing:
        """The message as it is sent, with ``more`` properties. MQClientException for one that cannot be."""
        self._require_running()
        self._check(message)
        properties, key = self._with_key(message, more)
        is_reply = message.properties.get(MSG_TYPE) == REPLY
        code = RequestCode.SEND_REPLY_MESSAGE_V2 if is_reply else RequestCode.SEND_MESSAGE_V2
        body, sys_flag = message.body, 0
        if len(body) >= self.config.compress_msg_body_over_howmuch:
            body, sys_flag = zlib.compress(body, COMPRESSION_LEVEL), COMPRESSED | ZLIB
        return Outgoing(message.topic, body, properties, key, message.flag, sys_flag, code)

    def _prepare_batch(self, messages: Sequence[Message]) -> Outgoing:
        """RocketMQ's MessageBatch."""
        self._require_running()
        if not messages:
            raise MQClientException("the batch has no message")
        first = messages[0]
        keys, entries = [], []
        for message in messages:
            self._check(message)
            if (message.topic, message.properties[WAIT]) != (first.topic, first.properties[WAIT]):
                raise MQClientException("the messages of a batch have one topic and one wait_store_msg_ok")
            if message.is_delayed or message.topic.startswith(RETRY_PREFIX):
                raise MQClientException("delayed messages, and those for a retry topic, are sent one by one")
            if message.properties.get(MSG_TYPE) == REPLY:
                raise MQClientException("replies are sent one by one")
            properties, key = self._with_key(message)
            keys.append(key)
            entries.append(BatchEntry(message.flag, message.body, properties))
        try:
            body = encode_batch(entries)
        except MessageBatchError as error:
            raise MQClientException(f"the batch cannot be sent: {error}") from error
        if len(body) > self.config.max_message_size:
            raise MQClientException(f"the batch has {len(body)} bytes; the limit is {self.config.max_message_size}")
        own = self.instance.uniq_keys.next(self.instance.clock.now().wall_ms)
        text = message_properties.encode({UNIQ_KEY: own, WAIT: first.properties[WAIT]})
        return Outgoing(first.topic, body, text, ",".join(keys), 0, 0, RequestCode.SEND_BATCH_MESSAGE)

    def _check(self, message: Message) -> None:
        """RocketMQ's Validators.checkMessage."""
        try:
            validate_topic(message.topic)
        except RequestError as error:
            raise MQClientException(error.remark) from error
        if message.topic in NO_SEND_TOPICS:
            raise MQClientException(f"the topic {message.topic!r} is RocketMQ's own; send to another one")
        if not isinstance(message.body, bytes) or not message.body:
            raise MQClientException("the body must be bytes, and at least one")
        if len(message.body) > self.config.max_message_size:
            raise MQClientException(
                f"the body has {len(message.body)} bytes; the limit is {self.config.max_message_size}"
            )
        if message.delay_level and message.delay_level < 0:
            raise MQClientException("delay_level is 1 or more")

    def _with_key(self, message: Message, more: Mapping[str, str] | None = None) -> tuple[str, str]:
        """The property string, and the message's id in it."""
        key = self.instance.uniq_keys.next(self.instance.clock.now().wall_ms)
        try:
            own = {UNIQ_KEY: key} if more is None else {UNIQ_KEY: key, **more}
            return message_properties.encode(message.properties | own), key
        except message_properties.PropertiesError as error:
            raise MQClientException(f"the message cannot be sent: {error}") from error

    def _require_running(self) -> None:
        if not self._running:
            raise MQClientException("the producer is not running; await start() first")
