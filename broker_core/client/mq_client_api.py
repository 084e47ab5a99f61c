"""The requests of a client, as calls. Each address has one connection."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

import msgspec

from broker_core.client.mq_client_exception import MQBrokerException, MQClientException
from broker_core.client.producer.send_result import STATUSES, SendResult
from broker_core.client.remoting_client import RemotingClient
from broker_core.codes import RequestCode, ResponseCode
from broker_core.commands import HeartBeat, MessageQueue, SubscriptionData
from broker_core.errors import RequestError
from broker_core.namesrv.route_data import TopicRouteData, decode_route
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests.client import (
    ConsumerConnection,
    LockBatchResponseBody,
    UnregisterClientRequestHeader,
    encode_check_client_request,
    encode_heart_beat,
    encode_lock_batch_request,
)
from broker_core.remoting.requests.consumer import (
    ConsumerSendMsgBackRequestHeader,
    GetConsumerListByGroupRequestHeader,
    GetConsumerListByGroupResponseBody,
    OffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    QueueRequestHeader,
    SearchOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from broker_core.remoting.requests.headers import Header, read_body, read_header, write_header
from broker_core.remoting.requests.pull import PullMessageRequestHeader
from broker_core.remoting.requests.send import (
    EndTransactionRequestHeader,
    RecallMessageRequestHeader,
    RecallMessageResponseHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)

CALL_SECONDS = 3.0
OFFSET_SECONDS = 5.0
LOCK_SECONDS = 1.0

H = TypeVar("H", bound=Header)
_consumer_connection = msgspec.json.Decoder(ConsumerConnection)
_locked_queues = msgspec.json.Decoder(LockBatchResponseBody)
_consumer_list = msgspec.json.Decoder(GetConsumerListByGroupResponseBody)


def parse_address(address: str) -> tuple[str, int]:
    """(host, port) of ``host:port``. MQClientException if it is something else."""
    host, _, port = address.strip().rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
        raise MQClientException(f"{address!r} is not an address; write host:port")
    return host.strip("[]"), int(port)


class MQClientAPI:
    """RocketMQ's MQClientAPIImpl.

    All calls raise MQBrokerException if the server refuses, and an OSError if it cannot be reached or does not answer.
    ``on_request`` gets each request of a server, with the server's address; ``on_open`` each address to which a
    connection is open now.
    """

    def __init__(
        self,
        on_request: Callable[[str, RemotingCommand], RemotingCommand | Awaitable[RemotingCommand] | None],
        on_open: Callable[[str], None] = lambda address: None,
    ) -> None:
        self._on_request = on_request
        self._on_open = on_open
        self._connections: dict[str, RemotingClient] = {}

    def connection(self, address: str) -> RemotingClient:
        """The connection to this address, which is opened by its first request."""
        connection = self._connections.get(address)
        if connection is None:
            host, port = parse_address(address)
            connection = RemotingClient(
                host, port, lambda request: self._on_request(address, request), lambda: self._on_open(address)
            )
            self._connections[address] = connection
        return connection

    @property
    def unmatched_answers(self) -> int:
        """Answers of all servers that nobody waited for."""
        return sum(connection.unmatched_answers for connection in self._connections.values())

    async def close_others(self, addresses: Collection[str]) -> None:
        """Close the connections to all addresses but these."""
        gone = [address for address in self._connections if address not in addresses]
        await asyncio.gather(*(self._connections.pop(address).close() for address in gone))

    async def close(self) -> None:
        await self.close_others(())

    # --- Name servers -----------------------------------------------------------------------------------------

    async def get_topic_route_info(self, address: str, topic: str) -> TopicRouteData | None:
        """The brokers with this topic; None if the name server knows none."""
        fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
        answer = await self.connection(address).invoke(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        check(answer, address)
        try:
            return decode_route(answer.body)
        except ValueError as error:
            raise _unreadable(error, address) from error

    # --- Producers --------------------------------------------------------------------------------------------

    async def send_message(
        self,
        address: str,
        queue: MessageQueue,
        header: SendMessageRequestHeaderV2,
        body: bytes,
        timeout_s: float,
        code: int = RequestCode.SEND_MESSAGE_V2,
    ) -> SendResult:
        """``code`` is SEND_MESSAGE_V2, SEND_BATCH_MESSAGE or SEND_REPLY_MESSAGE_V2."""
        answer = await self.connection(address).invoke(code, write_header(header), body, timeout_s=timeout_s)
        status = STATUSES.get(answer.code)
        if status is None:
            raise MQBrokerException(answer.code, answer.remark, address)
        stored = _header(SendMessageResponseHeader, answer, address)
        where = MessageQueue(topic=queue.topic, broker_name=queue.broker_name, queue_id=stored.queue_id)
        handle = stored.recall_handle or ""
        return SendResult(status, stored.batch_uniq_id or "", where, stored.queue_offset, stored.msg_id, handle)

    async def recall_message(self, address: str, header: RecallMessageRequestHeader, timeout_s: float) -> str:
        """The id of the message that is taken back."""
        answer = await self.connection(address).invoke(
            RequestCode.RECALL_MESSAGE, write_header(header), timeout_s=timeout_s
        )
        check(answer, address)
        return _header(RecallMessageResponseHeader, answer, address).msg_id

    async def send_oneway(self, address: str, header: SendMessageRequestHeaderV2, body: bytes, code: int) -> None:
        await self.connection(address).oneway(code, write_header(header), body)

    async def end_transaction_oneway(self, address: str, header: EndTransactionRequestHeader) -> None:
        await self.connection(address).oneway(RequestCode.END_TRANSACTION, write_header(header))

    # --- Consumers --------------------------------------------------------------------------------------------

    def pull_message(
        self, address: str, header: PullMessageRequestHeader, timeout_s: float, code: int = RequestCode.PULL_MESSAGE
    ) -> "asyncio.Future[RemotingCommand]":
        """Send a pull; the future of its answer. Not awaited, since a broker may hold it."""
        return self.connection(address).begin(code, write_header(header), timeout_s=timeout_s)

    async def query_consumer_offset(
        self, address: str, group: str, queue: MessageQueue, *, set_zero_if_not_found: bool = True
    ) -> int | None:
        """The group's offset; None if it has none for this queue.

        On a young queue, brokers give a new group 0, unless ``set_zero_if_not_found`` is False.
        """
        header = QueryConsumerOffsetRequestHeader(group, queue.topic, queue.queue_id, set_zero_if_not_found)
        answer = await self.connection(address).invoke(
            RequestCode.QUERY_CONSUMER_OFFSET, write_header(header), timeout_s=OFFSET_SECONDS
        )
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        check(answer, address)
        offset = _header(OffsetResponseHeader, answer, address).offset
        return offset if offset >= 0 else None  # brokers store the -1 of Go clients

    async def update_consumer_offset(self, address: str, group: str, queue: MessageQueue, offset: int) -> None:
        header = UpdateConsumerOffsetRequestHeader(group, queue.topic, queue.queue_id, offset)
        answer = await self.connection(address).invoke(
            RequestCode.UPDATE_CONSUMER_OFFSET, write_header(header), timeout_s=OFFSET_SECONDS
        )
        check(answer, address)

    async def get_max_offset(self, address: str, queue: MessageQueue) -> int:
        return await self._queue_offset(
            address, RequestCode.GET_MAX_OFFSET, QueueRequestHeader(queue.topic, queue.queue_id)
        )

    async def get_min_offset(self, address: str, queue: MessageQueue) -> int:
        return await self._queue_offset(
            address, RequestCode.GET_MIN_OFFSET, QueueRequestHeader(queue.topic, queue.queue_id)
        )

    async def search_offset(self, address: str, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message that was stored at this time or later."""
        header = SearchOffsetRequestHeader(queue.topic, queue.queue_id, timestamp_ms)
        return await self._queue_offset(address, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)

    async def _queue_offset(self, address: str, code: int, header: Header) -> int:
        answer = await self.connection(address).invoke(code, write_header(header), timeout_s=OFFSET_SECONDS)
        check(answer, address)
        return _header(OffsetResponseHeader, answer, address).offset

    async def get_consumer_id_list(self, address: str, group: str) -> list[str]:
        """Client ids of the group's members at this broker."""
        answer = await self.connection(address).invoke(
            RequestCode.GET_CONSUMER_LIST_BY_GROUP,
            write_header(GetConsumerListByGroupRequestHeader(group)),
            timeout_s=CALL_SECONDS,
        )
        check(answer, address)
        try:
            return read_body(_consumer_list, answer.body).consumer_id_list
        except RequestError as error:
            raise _unreadable(error, address) from error

    async def get_subscriptions(self, address: str, group: str) -> dict[str, tuple[str, str]]:
        """(expression type, expression) of a group by topic, as its newest heartbeat has them."""
        fields = {"consumerGroup": group}
        answer = await self.connection(address).invoke(RequestCode.GET_CONSUMER_CONNECTION_LIST, fields)
        check(answer, address)
        try:
            table = read_body(_consumer_connection, answer.body).subscription_table
        except RequestError as error:
            raise _unreadable(error, address) from error
        return {topic: (data.expression_type or "TAG", data.sub_string or "*") for topic, data in table.items()}

    async def consumer_send_message_back(
        self, address: str, header: ConsumerSendMsgBackRequestHeader, timeout_s: float = OFFSET_SECONDS
    ) -> None:
        answer = await self.connection(address).invoke(
            RequestCode.CONSUMER_SEND_MSG_BACK, write_header(header), timeout_s=timeout_s
        )
        check(answer, address)

    async def lock_batch_mq(
        self, address: str, group: str, client_id: str, queues: list[MessageQueue]
    ) -> list[MessageQueue]:
        """Lock queues of this broker for a client, or renew its locks. Returns those that are locked for it now."""
        answer = await self.connection(address).invoke(
            RequestCode.LOCK_BATCH_MQ,
            {},
            encode_lock_batch_request(group, client_id, queues),
            timeout_s=LOCK_SECONDS,
        )
        check(answer, address)
        try:
            return read_body(_locked_queues, answer.body).queues()
        except RequestError as error:
            raise _unreadable(error, address) from error

    async def unlock_batch_mq(self, address: str, group: str, client_id: str, queues: list[MessageQueue]) -> None:
        """Release locks of a client."""
        body = encode_lock_batch_request(group, client_id, queues)
        connection = self.connection(address)
        check(await connection.invoke(RequestCode.UNLOCK_BATCH_MQ, {}, body, timeout_s=LOCK_SECONDS), address)

    async def check_client_in_broker(
        self, address: str, group: str, client_id: str, subscription: SubscriptionData
    ) -> None:
        """Whether the broker supports a subscription: MQBrokerException if it does not."""
        body = encode_check_client_request(group, client_id, subscription)
        check(await self.connection(address).invoke(RequestCode.CHECK_CLIENT_CONFIG, {}, body), address)

    # --- Both -------------------------------------------------------------------------------------------------

    async def send_heartbeat(self, address: str, heartbeat: HeartBeat) -> None:
        body = encode_heart_beat(heartbeat)
        check(await self.connection(address).invoke(RequestCode.HEART_BEAT, {}, body), address)

    async def unregister_client(
        self, address: str, client_id: str, *, producer_group: str = "", consumer_group: str = ""
    ) -> None:
        header = UnregisterClientRequestHeader(client_id, producer_group, consumer_group)
        fields = {name: value for name, value in write_header(header).items() if value}
        check(await self.connection(address).invoke(RequestCode.UNREGISTER_CLIENT, fields), address)


def check(answer: RemotingCommand, address: str) -> None:
    """Raise MQBrokerException unless the answer is a success."""
    if answer.code != ResponseCode.SUCCESS:
        raise MQBrokerException(answer.code, answer.remark, address)


def _header(kind: type[H], answer: RemotingCommand, address: str) -> H:
    try:
        return read_header(kind, answer.ext_fields)
    except RequestError as error:
        raise _unreadable(error, address) from error


def _unreadable(error: Exception, address: str) -> MQBrokerException:
    return MQBrokerException(ResponseCode.SYSTEM_ERROR, f"the answer cannot be read: {error}", address)
