"""Requests of brokers to a client."""

import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from broker_core.client.message import MAX_BODY, Message, decode_messages
from broker_core.client.mq_client_exception import MQClientException
from broker_core.codes import RequestCode, ResponseCode
from broker_core.commands import MessageQueue
from broker_core.errors import RequestError
from broker_core.formats import message_properties
from broker_core.formats.commit_log_record import RecordError
from broker_core.formats.message_body import BodyError, decompress
from broker_core.formats.message_properties import ARRIVE_TIME, CORRELATION_ID, PGROUP
from broker_core.formats.rocketmq_json import RocketmqJsonError
from broker_core.remoting import fastjson
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests.headers import read_header
from broker_core.remoting.requests.notices import CheckTransactionStateRequestHeader
from broker_core.remoting.requests.send import ReplyMessageRequestHeader
from broker_core.tasks import start_task

if TYPE_CHECKING:
    from broker_core.client.mq_client_instance import MQClientInstance

log = logging.getLogger(__name__)

MAX_DIRECT_CALLS = 16
"""Calls of listeners that administrators asked for, at once. One that never returns counts until the program ends."""


class ClientRemotingProcessor:
    """RocketMQ's ClientRemotingProcessor.

    It serves NOTIFY_CONSUMER_IDS_CHANGED, CHECK_TRANSACTION_STATE, RESET_CONSUMER_CLIENT_OFFSET,
    GET_CONSUMER_STATUS_FROM_CLIENT, GET_CONSUMER_RUNNING_INFO, CONSUME_MESSAGE_DIRECTLY and
    PUSH_REPLY_MESSAGE_TO_CLIENT. Other requests are answered REQUEST_CODE_NOT_SUPPORTED.
    """

    def __init__(self, instance: "MQClientInstance") -> None:
        self._instance = instance
        self._direct_calls = 0

    def process_request(
        self, address: str, request: RemotingCommand
    ) -> RemotingCommand | Awaitable[RemotingCommand] | None:
        """The answer to a request of the broker at ``address``; None for a request that has none."""
        if request.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self._instance.rebalance_service.wakeup()
            return None
        if request.code == RequestCode.CHECK_TRANSACTION_STATE:
            self._check_transaction_state(address, request)
            return None
        if request.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
            self._reset_offset(address, request)
            return None
        if request.code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT:
            return self._status(request)
        if request.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            return self._running_info(request)
        if request.code == RequestCode.CONSUME_MESSAGE_DIRECTLY:
            return self._consume_message_directly(request)
        if request.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT:
            return self._receive_reply_message(address, request)
        log.info("%s asked %d, which this client does not serve", address, request.code)
        return request.response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {request.code} not supported")

    def _reset_offset(self, address: str, request: RemotingCommand) -> None:
        consumer = self._instance.consumers.get(request.ext_fields.get("group", ""))
        try:
            table = fastjson.decode(request.body).get("offsetTable")
        except RocketmqJsonError as error:
            log.warning("%s sent a reset of offsets that cannot be read: %s", address, error)
            return
        if consumer is None or not isinstance(table, dict):
            return
        for queue, offset in table.items():
            if isinstance(queue, MessageQueue) and type(offset) is int and offset >= 0:
                log.warning("an administrator reset the offset of %s for group %s to %d", queue, consumer.group, offset)
                start_task(consumer.reset_offset(queue, offset), "reset an offset")

    def _check_transaction_state(self, address: str, request: RemotingCommand) -> None:
        """Have a producer of the message's group check its transaction. The broker asks again if that fails."""
        try:
            header = read_header(CheckTransactionStateRequestHeader, request.ext_fields)
            (message,) = decode_messages(request.body, header.bname)
        except (RequestError, RecordError, ValueError) as error:
            log.warning("%s sent a check of a transaction that cannot be read: %s", address, error)
            return
        group = message.properties.get(PGROUP, "")
        producer = self._instance.transaction_producers.get(group)
        if producer is None:
            log.warning(
                "%s asked group %r about %s; this client has no such TransactionMQProducer", address, group, message
            )
            return
        producer.check_transaction_state(address, message, header)

    def _status(self, request: RemotingCommand) -> RemotingCommand:
        """RocketMQ's GetConsumerStatusBody: the offsets of the queues of a topic that this client has."""
        consumer = self._instance.consumers.get(request.ext_fields.get("group", ""))
        if consumer is None:
            return self._no_consumer(request, "group")
        topic = request.ext_fields.get("topic", "")
        table = {queue: offset for queue, offset in consumer.offset_store.table().items() if queue.topic == topic}
        return request.response(ResponseCode.SUCCESS, body=fastjson.encode({"messageQueueTable": table}))

    def _running_info(self, request: RemotingCommand) -> RemotingCommand:
        consumer = self._instance.consumers.get(request.ext_fields.get("consumerGroup", ""))
        if consumer is None:
            return self._no_consumer(request, "consumerGroup")
        return request.response(ResponseCode.SUCCESS, body=fastjson.encode(consumer.running_info()))

    async def _consume_message_directly(self, request: RemotingCommand) -> RemotingCommand:
        """Call a group's listener with the message in the request, and return its ConsumeMessageDirectlyResult."""
        consumer = self._instance.consumers.get(request.ext_fields.get("consumerGroup", ""))
        if consumer is None:
            return self._no_consumer(request, "consumerGroup")
        try:
            (message,) = decode_messages(request.body, request.ext_fields.get("brokerName", ""))
        except (RecordError, ValueError) as error:
            return request.response(ResponseCode.SYSTEM_ERROR, f"the message cannot be read: {error}")
        if self._direct_calls >= MAX_DIRECT_CALLS:
            busy = f"{MAX_DIRECT_CALLS} messages that administrators sent are being consumed; try again later"
            return request.response(ResponseCode.SYSTEM_BUSY, busy)
        self._direct_calls += 1
        try:
            result = await consumer.consume_message_directly(message)
        finally:
            self._direct_calls -= 1
        if result is None:
            return request.response(ResponseCode.SYSTEM_ERROR, f"the consumer of {consumer.group} has no listener")
        return request.response(ResponseCode.SUCCESS, body=fastjson.encode(result))

    def _receive_reply_message(self, address: str, request: RemotingCommand) -> RemotingCommand:
        """Pass a reply to the request that waits for it. As in RocketMQ, it is no error if none does."""
        try:
            header = read_header(ReplyMessageRequestHeader, request.ext_fields)
        except RequestError as error:
            log.warning("%s pushed a reply that cannot be read: %s", address, error)
            return request.response(ResponseCode.SYSTEM_ERROR, f"process reply message fail: {error.remark}")
        properties = message_properties.decode(header.properties)
        future = self._instance.request_futures.take(properties.get(CORRELATION_ID, ""), header.born_host)
        if future is not None:
            try:
                body = decompress(request.body, header.sys_flag, MAX_BODY)
            except BodyError as error:
                problem = f"the reply from {header.born_host} cannot be decompressed: {error}"
                future.set_exception(MQClientException(problem))
                return request.response(ResponseCode.SYSTEM_ERROR, f"process reply message fail: {problem}")
            reply = Message(header.topic, body, flag=header.flag)
            reply.properties = properties | {ARRIVE_TIME: str(self._instance.clock.now().wall_ms)}
            future.set_result(reply)
        return request.response(ResponseCode.SUCCESS)

    def _no_consumer(self, request: RemotingCommand, field: str) -> RemotingCommand:
        group = request.ext_fields.get(field, "")
        return request.response(ResponseCode.SYSTEM_ERROR, f"this client has no consumer of group {group!r}")
