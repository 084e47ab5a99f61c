"""Sends messages that consumers get only if a local transaction of the producer succeeds, such as one of a database.

class Orders:
    async def execute_local_transaction(self, message, arg):
        await save(arg)
        return "COMMIT_MESSAGE"

    async def check_local_transaction(self, message):
        return "COMMIT_MESSAGE" if await is_saved(message.transaction_id) else "ROLLBACK_MESSAGE"

async with TransactionMQProducer("my-orders", Orders(), namesrv_addr="127.0.0.1:9876") as producer:
    result = await producer.send_message_in_transaction(Message("orders", b"order 7"), arg=7)

half message --> broker          stored, and hidden from consumers
execute_local_transaction
END_TRANSACTION --> broker       the message is delivered, or never
broker --CHECK_TRANSACTION_STATE--> check_local_transaction --END_TRANSACTION--> broker      if it did not end
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from copy import copy
from typing import Any, Literal, NamedTuple, Protocol

from broker_core.client.message import Message, MessageExt
from broker_core.client.mq_client_exception import MQClientException
from broker_core.client.producer.default_mq_producer import DefaultMQProducer
from broker_core.client.producer.send_result import SendResult, SendStatus
from broker_core.commands import MessageQueue
from broker_core.formats.commit_log_record import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from broker_core.formats.message_id import MessageIdError, decode_offset_message_id
from broker_core.formats.message_properties import PGROUP, TRAN_MSG, UNIQ_KEY
from broker_core.remoting.requests.notices import CheckTransactionStateRequestHeader
from broker_core.remoting.requests.send import EndTransactionRequestHeader
from broker_core.tasks import end_task, start_task

log = logging.getLogger(__name__)

MAX_CHECKS = 2000
"""RocketMQ's checkRequestHoldMax: checks that may wait. The broker repeats those that are dropped."""
CHECKS_AT_ONCE = 16
"""Calls of ``check_local_transaction`` that may be under way, so that one that hangs does not stop the others."""

LocalTransactionState = Literal["COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW"]
"""RocketMQ's LocalTransactionState, in its spelling. ``UNKNOW``: the broker asks later."""

ENDS: dict[Any, int] = {"COMMIT_MESSAGE": TRANSACTION_COMMIT, "ROLLBACK_MESSAGE": TRANSACTION_ROLLBACK}


class TransactionListener(Protocol):
    """RocketMQ's TransactionListener. The methods may be coroutine functions; others are called in threads.

    A method that raises or returns None counts as ``UNKNOW``.
    """

    def execute_local_transaction(
        self, message: Message, arg: Any
    ) -> LocalTransactionState | Awaitable[LocalTransactionState | None] | None:
        """The half message is stored: carry out the local transaction. ``arg`` is that of the send."""

    def check_local_transaction(
        self, message: MessageExt
    ) -> LocalTransactionState | Awaitable[LocalTransactionState | None] | None:
        """The broker does not know how the transaction of ``message`` ended, which any producer of the group began."""


class TransactionSendResult(NamedTuple):
    """RocketMQ's TransactionSendResult: a SendResult, whose ``queue_offset`` is that of the half message, and more.

    ``local_transaction_state`` is what the listener returned, and ``ROLLBACK_MESSAGE`` if it was not called because the
    half message was not stored as safely as the broker promises. That the broker carries it out is not known yet.
    """

    send_status: SendStatus
    msg_id: str
    message_queue: MessageQueue
    queue_offset: int
    offset_msg_id: str
    recall_handle: str
    local_transaction_state: LocalTransactionState


class TransactionMQProducer(DefaultMQProducer):
    """RocketMQ's TransactionMQProducer. ``options`` are those of ``ProducerConfig``.

    It also sends other messages, as DefaultMQProducer does.
    """

    def __init__(self, group: str, listener: TransactionListener, **options: Any) -> None:
        super().__init__(group, **options)
        for name in ("execute_local_transaction", "check_local_transaction"):
            if not callable(getattr(listener, name, None)):
                raise MQClientException(f"the transaction listener has no method {name}")
        self.listener = listener
        self._checks: dict[str, tuple[str, CheckTransactionStateRequestHeader]] = {}
        """By message id: the broker that asked last, and its question. RocketMQ's offsets are new in each question."""
        self._check_tasks: set[asyncio.Task[None]] = set()
        self._check_permits = asyncio.Semaphore(CHECKS_AT_ONCE)

    async def start(self) -> None:
        await super().start()
        self.instance.transaction_producers[self.group] = self

    async def _leave(self) -> None:
        self.instance.transaction_producers.pop(self.group, None)
        for task in list(self._check_tasks):
            await end_task(task)
        await super()._leave()

    async def send_message_in_transaction(
        self, message: Message, arg: Any = None, *, timeout_ms: int | None = None
    ) -> TransactionSendResult:
        """Send a half message, have the listener carry out the local transaction, and report how that ended.

        MQClientException if the half message was not stored; then the listener is not called. ``timeout_ms`` is for
        the half message alone. If the report is lost, the broker asks later.
        """
        half, sent = await self.send_half(message, timeout_ms)
        state: LocalTransactionState = "ROLLBACK_MESSAGE"
        if half.send_status == "SEND_OK":
            state = await self._state_of(self.listener.execute_local_transaction, sent, arg)
        return await self.end_transaction(half, state)

    async def send_half(self, message: Message, timeout_ms: int | None = None) -> tuple[SendResult, Message]:
        """Store a half message. Returns the result, and the message with its ``transaction_id``.

        Most programs call ``send_message_in_transaction``. The caller of this calls ``end_transaction``.
        """
        if message.is_delayed:
            raise MQClientException(
                "a message in a transaction cannot be delayed; set no delay_level, deliver_time_ms or delay_time_ms"
            )
        deadline_ns = self._deadline_ns(timeout_ms)
        outgoing = self._prepare(message, {TRAN_MSG: "true", PGROUP: self.group})
        outgoing = outgoing._replace(sys_flag=outgoing.sys_flag | TRANSACTION_PREPARED)
        half = await self._send(outgoing, None, deadline_ns)
        sent = copy(message)
        sent.properties = message.properties | {UNIQ_KEY: half.msg_id}
        return half, sent

    async def end_transaction(self, half: SendResult, state: LocalTransactionState) -> TransactionSendResult:
        """Report how a local transaction ended. A report that cannot be sent is logged; the broker asks later."""
        try:
            address = self.instance.broker_address(half.message_queue.broker_name)
            offset = decode_offset_message_id(half.offset_msg_id).physical_offset
        except (MQClientException, MessageIdError) as error:
            log.warning("the end of transaction %s cannot be reported: %s", half.msg_id, error)
        else:
            await self._report(address, state, half.msg_id, half.queue_offset, offset, half.message_queue.topic)
        return TransactionSendResult(*half, state)

    def check_transaction_state(
        self, address: str, message: MessageExt, header: CheckTransactionStateRequestHeader
    ) -> None:
        """The broker at ``address`` asks how the transaction of ``message`` ended. Its answer is a report.

        While a check of the same message waits, the broker's newest question counts.
        """
        is_waiting = message.msg_id in self._checks
        if not is_waiting and len(self._checks) >= MAX_CHECKS:
            log.warning(
                "%d checks of group %s wait; the broker must ask again about %s", MAX_CHECKS, self.group, message
            )
            return
        self._checks[message.msg_id] = address, header
        if not is_waiting:
            task = start_task(self._answer(message), f"check a transaction of {self.group}")
            self._check_tasks.add(task)
            task.add_done_callback(self._check_tasks.discard)

    async def _answer(self, message: MessageExt) -> None:
        try:
            async with self._check_permits:
                state = await self._state_of(self.listener.check_local_transaction, message)
        finally:
            address, header = self._checks.pop(message.msg_id)
        where = header.tran_state_table_offset, header.commit_log_offset
        await self._report(address, state, message.msg_id, *where, message.topic, is_check=True)

    async def _state_of(self, function: Callable[..., Any], *args: Any) -> LocalTransactionState:
        """Call a method of the listener, on the event loop or in a thread. Returns its result."""
        if not inspect.iscoroutinefunction(function):
            return await asyncio.to_thread(state_of, self.group, function, *args)
        try:
            return checked_state(await function(*args))
        except Exception:
            log_failure(self.group, args[0])
            return "UNKNOW"

    async def _report(
        self,
        address: str,
        state: LocalTransactionState,
        msg_id: str,
        half_offset: int,
        physical_offset: int,
        topic: str,
        *,
        is_check: bool = False,
    ) -> None:
        end = ENDS.get(state)
        if end is None:
            return  # brokers do nothing about it: they ask again in any case
        if not self._running:
            log.warning("transaction %s ended after shutdown(); the broker will ask its group", msg_id)
            return
        header = EndTransactionRequestHeader(
            self.group, half_offset, physical_offset, end, is_check, msg_id, msg_id, topic
        )
        try:
            await self.instance.api.end_transaction_oneway(address, header)
        except OSError as error:
            log.warning("the end of transaction %s was not reported to %s: %s", msg_id, address, error)


def checked_state(returned: Any) -> LocalTransactionState:
    """What a listener's method has returned, as a state. TypeError if it is none."""
    if returned is None:
        return "UNKNOW"
    if returned in ("COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW"):
        state: LocalTransactionState = returned
        return state
    raise TypeError(f"it returned {returned!r}, which is no LocalTransactionState")


def state_of(group: str, function: Callable[..., Any], *args: Any) -> LocalTransactionState:
    """Call a listener's method that is no coroutine function, in this thread. Returns its result."""
    try:
        return checked_state(function(*args))
    except Exception:
        log_failure(group, args[0])
        return "UNKNOW"


def log_failure(group: str, message: Message | MessageExt) -> None:
    """Log the exception that is being handled, which a listener's method has raised."""
    log.exception("the transaction listener of group %s failed; the broker asks again: %s", group, message)
