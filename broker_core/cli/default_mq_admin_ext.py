"""RocketMQ's requests for administrators, as calls. They work with GlassMQ and with Apache RocketMQ."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, TypeVar

import msgspec

from broker_core.client import MessageExt, MQBrokerException, MQClientException, MQClientInstance
from broker_core.codes import RequestCode, ResponseCode
from broker_core.commands import MessageQueue
from broker_core.formats.commit_log_record import RecordError, decode_all
from broker_core.formats.message_id import decode_offset_message_id
from broker_core.namesrv.route_data import MASTER_ID, TopicRouteData, decode_route
from broker_core.remoting import fastjson
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.topics import AUTO_CREATE_TOPIC

CALLS_AT_ONCE = 16
CALL_SECONDS = 5.0
LONGEST_TIME_MS = (1 << 63) - 1
RETRY_PREFIX, DLQ_PREFIX = "%RETRY%", "%DLQ%"
POP_RETRY_MARKS = "_+"
"""Between group and topic in the name of a pop retry topic; the second one with ``enableRetryTopicV2``."""
SYSTEM_GROUPS = frozenset(
    (
        "DEFAULT_CONSUMER",
        "DEFAULT_PRODUCER",
        "TOOLS_CONSUMER",
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "SELF_TEST_P_GROUP",
        "__MONITOR_CONSUMER",
        "CLIENT_INNER_PRODUCER",
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PERMISSION",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PULL",
        "CID_RMQ_SYS_TRANS",
    )
)
"""Groups that every RocketMQ broker has."""

T = TypeVar("T")
R = TypeVar("R")


class TopicOffset(msgspec.Struct, frozen=True, rename="camel"):
    """RocketMQ's TopicOffset: the ends of one queue. ``last_update_timestamp`` is 0 if there is none."""

    min_offset: int
    max_offset: int
    last_update_timestamp: int = 0


class OffsetWrapper(msgspec.Struct, frozen=True, rename="camel"):
    """RocketMQ's OffsetWrapper: a group in one queue. An offset of -1 means that nothing is committed."""

    broker_offset: int
    consumer_offset: int
    last_timestamp: int = 0
    pull_offset: int = -1

    @property
    def lag(self) -> int | None:
        """Messages after the committed offset; None if nothing is committed."""
        return None if self.consumer_offset < 0 else max(0, self.broker_offset - self.consumer_offset)


class Connection(msgspec.Struct, frozen=True, rename="camel"):
    """RocketMQ's Connection: a member of a group."""

    client_id: str
    client_addr: str = ""
    language: str = ""
    version: int = 0


class ConsumerConnection(msgspec.Struct, frozen=True, rename="camel"):
    """RocketMQ's ConsumerConnection, without the subscriptions."""

    connection_set: list[Connection]
    message_model: str | None = ""


class DefaultMQAdminExt:
    """RocketMQ's DefaultMQAdminExt, as far as the command line needs it.

    Calls raise MQBrokerException if a server refuses, and an OSError if it does not answer. If some of several brokers
    do not answer, calls that ask all brokers return what the others have, and ``unavailable`` says why, by broker name.
    """

    def __init__(self, namesrv_addr: str) -> None:
        """MQClientException for an invalid address."""
        self._name_servers = [address.strip() for address in namesrv_addr.split(";") if address.strip()]
        self.instance = MQClientInstance(namesrv_addr)
        self.unavailable: dict[str, str] = {}
        self._slots = asyncio.Semaphore(CALLS_AT_ONCE)

    async def __aenter__(self) -> "DefaultMQAdminExt":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.instance.api.close()

    # --- Calls ------------------------------------------------------------------------------------------------

    async def call(
        self, address: str, code: RequestCode, body: bytes = b"", /, *, timeout_s: float = CALL_SECONDS, **fields: Any
    ) -> RemotingCommand:
        """One request; ``fields`` by RocketMQ's names. MQBrokerException unless the answer is a success."""
        texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in fields.items()}
        async with self._slots:
            answer = await self.instance.api.connection(address).invoke(code, texts, body, timeout_s=timeout_s)
        if answer.code != ResponseCode.SUCCESS:
            raise MQBrokerException(answer.code, answer.remark, address)
        return answer

    async def _ask_name_servers(self, code: RequestCode, **fields: Any) -> RemotingCommand:
        """The answer of the first name server that answers."""
        problem: OSError | None = None
        for address in self._name_servers:
            try:
                return await self.call(address, code, **fields)
            except OSError as error:
                problem = problem or error
        assert problem is not None
        raise problem

    async def gather(self, call: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
        """``call`` for all items, some at a time; the results in their order."""
        return list(await asyncio.gather(*(call(item) for item in items)))

    async def ask_masters(self, masters: dict[str, str], ask: Callable[[str, str], Awaitable[R]]) -> list[R]:
        """The answers to ``ask(broker name, address)`` of those masters that answer. OSError if none does."""
        results: dict[str, R] = {}

        async def ask_one(name: str, address: str) -> None:
            try:
                results[name] = await ask(name, address)
            except OSError as error:
                self.unavailable[name] = f"broker {name} at {address}: {error}"

        await asyncio.gather(*(ask_one(*item) for item in masters.items() if item[0] not in self.unavailable))
        if masters and not results:
            raise OSError("; ".join(self.unavailable[name] for name in masters))
        return [results[name] for name in masters if name in results]

    # --- The cluster ------------------------------------------------------------------------------------------

    async def masters(self) -> dict[str, str]:
        """Addresses of the masters by broker name, from ClusterInfo. MQClientException if there is none."""
        answer = await self._ask_name_servers(RequestCode.GET_BROKER_CLUSTER_INFO)
        masters = {}
        for name, data in (_decode(answer.body).get("brokerAddrTable") or {}).items():
            addresses = {int(broker_id): address for broker_id, address in data["brokerAddrs"].items()}
            if MASTER_ID in addresses:
                masters[str(name)] = str(addresses[MASTER_ID])
        if not masters:
            raise MQClientException("the name server knows no broker: is one running that registers there?")
        return masters

    async def examine_topic_route_info(self, topic: str) -> TopicRouteData:
        """Which brokers have the topic. MQBrokerException (TOPIC_NOT_EXIST) if none has."""
        answer = await self._ask_name_servers(
            RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic, acceptStandardJsonOnly=True
        )
        try:
            return decode_route(answer.body)
        except ValueError as error:
            raise _unreadable(error) from error

    async def topic_masters(self, topic: str) -> dict[str, str]:
        """Addresses of the topic's masters by broker name."""
        route = await self.examine_topic_route_info(topic)
        addresses = {broker.broker_name: broker.broker_addrs.get(MASTER_ID, "") for broker in route.broker_datas}
        return {name: address for name, address in addresses.items() if address}

    async def fetch_all_topic_list(self) -> list[str]:
        """Names of all topics, sorted."""
        answer = await self._ask_name_servers(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return sorted(_decode(answer.body).get("topicList") or [])

    async def system_topics(self) -> set[str]:
        """Topics that brokers create for themselves."""
        masters = await self.masters()

        async def ask(_: str, address: str) -> list[str]:
            answer = await self.call(address, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
            return list(_decode(answer.body).get("topicList") or [])

        lists = await self.ask_masters(masters, ask)
        return {AUTO_CREATE_TOPIC, *masters, *(name for names in lists for name in names)}

    async def fetch_broker_runtime_stats(self, address: str) -> dict[str, str]:
        """A broker's own figures."""
        answer = await self.call(address, RequestCode.GET_BROKER_RUNTIME_INFO)
        return dict(_decode(answer.body).get("table") or {})

    # --- Topics -----------------------------------------------------------------------------------------------

    async def examine_topic_stats(self, topic: str) -> dict[MessageQueue, TopicOffset]:
        """The ends of a topic's queues on all brokers."""

        async def ask(_: str, address: str) -> dict[MessageQueue, TopicOffset]:
            answer = await self.call(address, RequestCode.GET_TOPIC_STATS_INFO, topic=topic)
            return _offset_table(TopicOffset, answer.body)

        return _merged(await self.ask_masters(await self.topic_masters(topic), ask))

    async def min_offset(self, address: str, queue: MessageQueue) -> int:
        return await self._queue_offset(address, RequestCode.GET_MIN_OFFSET, queue)

    async def max_offset(self, address: str, queue: MessageQueue) -> int:
        return await self._queue_offset(address, RequestCode.GET_MAX_OFFSET, queue)

    async def search_offset(self, address: str, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message that was stored at this time or later."""
        return await self._queue_offset(address, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, queue, timestamp=timestamp_ms)

    async def _queue_offset(self, address: str, code: RequestCode, queue: MessageQueue, **more: int) -> int:
        answer = await self.call(address, code, topic=queue.topic, queueId=queue.queue_id, **more)
        return int(answer.ext_fields["offset"])

    # --- Groups -----------------------------------------------------------------------------------------------

    async def consumer_groups(self) -> list[str]:
        """Names of all groups except RocketMQ's own, sorted: those that brokers know, and those with a retry topic."""

        async def ask(_: str, address: str) -> list[str]:
            answer = await self.call(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
            return list(_decode(answer.body).get("subscriptionGroupTable") or {})

        known = {name for names in await self.ask_masters(await self.masters(), ask) for name in names}
        topics = set(await self.fetch_all_topic_list())
        retried = {topic.removeprefix(RETRY_PREFIX) for topic in topics if topic.startswith(RETRY_PREFIX)}
        return sorted((known | {name for name in retried if not _is_popped(name, known, topics)}) - SYSTEM_GROUPS)

    async def examine_consume_stats(self, group: str) -> dict[MessageQueue, OffsetWrapper]:
        """The group in all queues of the topics that it consumes, sorted; empty if no broker knows any."""

        async def ask(_: str, address: str) -> dict[MessageQueue, OffsetWrapper]:
            try:
                answer = await self.call(address, RequestCode.GET_CONSUME_STATS, consumerGroup=group, topic="")
            except MQBrokerException as error:
                if error.response_code in (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, ResponseCode.TOPIC_NOT_EXIST):
                    return {}
                raise
            return _offset_table(OffsetWrapper, answer.body)

        return _merged(await self.ask_masters(await self.masters(), ask))

    async def examine_consumer_connection_info(self, group: str) -> ConsumerConnection | None:
        """The group's members at all brokers; None if it has none."""

        async def ask(_: str, address: str) -> ConsumerConnection | None:
            try:
                answer = await self.call(address, RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup=group)
            except MQBrokerException as error:
                if error.response_code in (ResponseCode.CONSUMER_NOT_ONLINE, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST):
                    return None
                raise
            return _convert(ConsumerConnection, _decode(answer.body))

        views = [view for view in await self.ask_masters(await self.masters(), ask) if view is not None]
        if not views:
            return None
        members = {member.client_id: member for view in views for member in view.connection_set}
        return ConsumerConnection([members[client_id] for client_id in sorted(members)], views[0].message_model)

    async def update_consumer_offset(self, address: str, group: str, queue: MessageQueue, offset: int) -> None:
        """Set the committed offset of a group without members."""
        await self.call(
            address,
            RequestCode.UPDATE_CONSUMER_OFFSET,
            consumerGroup=group,
            topic=queue.topic,
            queueId=queue.queue_id,
            commitOffset=offset,
        )

    async def reset_offset_by_timestamp(self, address: str, topic: str, group: str, timestamp_ms: int) -> None:
        """Have a broker notify the group's members to continue from this time; -1 is the end."""
        await self.call(
            address,
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
            topic=topic,
            group=group,
            timestamp=timestamp_ms,
            isForce=True,
        )

    # --- Messages ---------------------------------------------------------------------------------------------

    async def view_message(self, offset_message_id: str) -> MessageExt:
        """The message at a position of a log. MessageIdError for text that is no id."""
        place = decode_offset_message_id(offset_message_id)
        address = f"{place.host}:{place.port}"
        masters = await self.masters()
        name = next((name for name, master in masters.items() if master == address), None)
        if name is None:
            raise MQBrokerException(
                ResponseCode.QUERY_NOT_FOUND,
                f"no broker is registered as {address}, which is in the id {offset_message_id}",
                self._name_servers[0],
            )
        answer = await self.call(address, RequestCode.VIEW_MESSAGE_BY_ID, offset=place.physical_offset)
        return _messages(answer, name)[0]

    async def query_message(self, topic: str, key: str, *, unique: bool = False, max_num: int = 32) -> list[MessageExt]:
        """The messages of a topic with a key; with ``unique``, the one with this id. At most ``max_num`` a broker."""

        async def ask(name: str, address: str) -> list[MessageExt]:
            fields: dict[str, Any] = {"_UNIQUE_KEY_QUERY": True} if unique else {}
            try:
                answer = await self.call(
                    address,
                    RequestCode.QUERY_MESSAGE,
                    topic=topic,
                    key=key,
                    maxNum=max_num,
                    beginTimestamp=0,
                    endTimestamp=LONGEST_TIME_MS,
                    **fields,
                )
            except MQBrokerException as error:
                if error.response_code == ResponseCode.QUERY_NOT_FOUND:
                    return []
                raise
            return _messages(answer, name)

        found = await self.ask_masters(await self.topic_masters(topic), ask)
        return [message for messages in found for message in messages]


def _is_popped(name: str, groups: Collection[str], topics: Collection[str]) -> bool:
    """Whether the name is not a group's, but GROUP_TOPIC of a pop retry topic of these groups and topics."""
    return any(
        mark in POP_RETRY_MARKS and name[:place] in groups and name[place + 1 :] in topics
        for place, mark in enumerate(name)
    )


def _messages(answer: RemotingCommand, broker_name: str) -> list[MessageExt]:
    try:
        return [MessageExt(record, broker_name) for record in decode_all(answer.body)]  # a batch is one message
    except RecordError as error:
        raise _unreadable(error) from error


def _decode(body: bytes) -> dict[Any, Any]:
    try:
        return fastjson.decode(body)
    except ValueError as error:
        raise _unreadable(error) from error


def _offset_table(kind: type[T], body: bytes) -> dict[MessageQueue, T]:
    """The ``offsetTable`` of TopicStatsTable and ConsumeStats."""
    table = _decode(body).get("offsetTable") or {}
    return {queue: _convert(kind, value) for queue, value in table.items()}


def _merged(tables: Iterable[dict[MessageQueue, T]]) -> dict[MessageQueue, T]:
    merged = {queue: value for table in tables for queue, value in table.items()}
    return dict(sorted(merged.items(), key=lambda item: (item[0].topic, item[0].broker_name, item[0].queue_id)))


def _convert(kind: type[T], value: Any) -> T:
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _unreadable(error) from error


def _unreadable(error: Exception) -> MQBrokerException:
    return MQBrokerException(ResponseCode.SYSTEM_ERROR, f"the answer cannot be read: {error}", "the server")
