"""What a follower asks the name servers and brokers of a running cluster. It may send nothing that changes them."""

import asyncio
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from broker_core.client.mq_client_api import MQClientAPI, parse_address
from broker_core.client.mq_client_exception import MQBrokerException, MQClientException
from broker_core.codes import RequestCode, ResponseCode
from broker_core.commands import MessageQueue
from broker_core.formats import rocketmq_json
from broker_core.remoting import fastjson
from broker_core.remoting.remoting_command import RemotingCommand

T = TypeVar("T")
CALL_S = 3.0
MASTER_ID = 0
QUEUE_STATS = re.compile(rb'\{[^{}]*"queueId":(\d+)[^{}]*\}:\{[^{}]*"maxOffset":(\d+)[^{}]*\}')
"""An entry of a TopicStatsTable. It is no JSON, because its keys are objects."""
MAX_BODY = 64 << 20
"""Bytes of an answer that is decoded at most. A table with as many topics as a copy can hold is smaller."""

ALLOWED = frozenset(
    (
        RequestCode.GET_ALL_TOPIC_CONFIG,
        RequestCode.GET_BROKER_CONFIG,
        RequestCode.GET_BROKER_RUNTIME_INFO,
        RequestCode.VIEW_MESSAGE_BY_ID,
        RequestCode.GET_ALL_CONSUMER_OFFSET,
        RequestCode.GET_ALL_DELAY_OFFSET,
        RequestCode.GET_BROKER_CLUSTER_INFO,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.GET_CONSUMER_CONNECTION_LIST,
        RequestCode.GET_TOPIC_STATS_INFO,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        RequestCode.GET_CONSUME_STATS,
        RequestCode.GET_CONSUMER_RUNNING_INFO,
    )
)
"""Every request that is ever sent to a cluster. Each only reads: none registers, commits, locks or is a heartbeat.

The last three are sent only when a person asks.
"""


WHITELIST = ",".join(str(int(code)) for code in sorted(ALLOWED - {RequestCode.GET_BROKER_CLUSTER_INFO}))
"""All requests that a broker gets, in the form of its options authenticationWhitelist and authorizationWhitelist."""


class AccessRefused(MQBrokerException):
    """The broker's access control refuses a request. The text says how to allow it."""

    def __init__(self, request: RequestCode, reason: str, address: str) -> None:
        text = (
            f"access control refuses {request.name} ({reason or 'no reason was given'}). To allow all that GlassMQ "
            f"asks, add {WHITELIST} to authenticationWhitelist and authorizationWhitelist of the broker, and restart it"
        )
        super().__init__(ResponseCode.NO_PERMISSION, text, address)
        self.request = request
        self.reason = reason


class BrokerMembers(msgspec.Struct, frozen=True, rename="camel"):
    """RocketMQ's BrokerData: the addresses of the master (id 0) and the slaves of one broker name."""

    cluster: str
    broker_name: str
    broker_addrs: dict[int, str]


class _ClusterInfo(msgspec.Struct, rename="camel"):
    broker_addr_table: dict[str, BrokerMembers] = {}


class _ConsumerList(msgspec.Struct, rename="camel"):
    """RocketMQ's GetConsumerListByGroupResponseBody."""

    consumer_id_list: list[str] = []


class Source(NamedTuple):
    """What one broker says about itself (GET_BROKER_CONFIG, GET_BROKER_RUNTIME_INFO).

    ``min_offset`` and ``max_offset`` are physical; both are 0 while its log is empty. ``config`` has RocketMQ's names.
    """

    address: str
    broker_id: int
    version: str
    min_offset: int
    max_offset: int
    config: dict[str, str]

    @property
    def segment_size(self) -> int:
        """Bytes of a segment of its commit log; MQClientException if it does not say."""
        return self._number("mappedFileSizeCommitLog")

    @property
    def host(self) -> str:
        """The host at which it answered."""
        return parse_address(self.address)[0]

    @property
    def ha_address(self) -> tuple[str, int]:
        """(host, port) of its HA port, as it announces it."""
        return self.config.get("brokerIP2") or self.host, self._number("haListenPort")

    def _number(self, name: str) -> int:
        value = self.config.get(name, "")
        if not value.isascii() or not value.isdigit():
            raise MQClientException(f"{self.address} gives no {name} in its configuration; is it a RocketMQ broker?")
        return int(value)

    @property
    def controller_mode(self) -> bool:
        """Whether its HA port speaks the protocol of brokers with a controller."""
        return self.config.get("enableControllerMode") == "true"

    @property
    def obstacle(self) -> str:
        """Why this broker cannot be followed, as a sentence; empty if it can."""
        if self.config.get("enableDLegerCommitLog") == "true":
            return f"{self.address} has a DLedger commit log (enableDLegerCommitLog), which has no HA port"
        if self.config.get("haListenPort") == "0":
            return f"{self.address} has no HA port (haListenPort=0), from which its log would be copied"
        if self.controller_mode and self.version.startswith("V5_0"):
            return f"{self.address} runs in controller mode of RocketMQ 5.0, whose protocol is not supported"
        if self.version.startswith("V4") and self.config.get("brokerRole") == "SYNC_MASTER":
            return (
                f"{self.address} is a SYNC_MASTER of RocketMQ 4: a connection to its HA port would make senders wait "
                "where they are refused at once today; follow a slave of it"
            )
        return ""


class ClusterClient:
    """A connection to each server of a cluster that is asked.

    All calls raise MQBrokerException if a server refuses, MQClientException if its answer makes no sense, and an
    OSError if it cannot be reached or does not answer.
    """

    def __init__(self, namesrv_addr: str) -> None:
        """``host:port``, or several separated by semicolons. MQClientException for anything else."""
        self._name_servers = [address.strip() for address in namesrv_addr.split(";") if address.strip()]
        if not self._name_servers:
            raise MQClientException("no name server is given; write host:port")
        for address in self._name_servers:
            parse_address(address)
        self._api = MQClientAPI(lambda _address, _request: None)

    async def close(self) -> None:
        await self._api.close()

    async def _call(self, address: str, code: RequestCode, timeout_s: float = CALL_S, **fields: Any) -> RemotingCommand:
        if code not in ALLOWED:
            raise ValueError(f"a follower does not send request {code.name}")
        texts = {name: str(value) for name, value in fields.items()}
        answer = await self._invoke(address, code, texts, timeout_s)
        if answer.code == ResponseCode.NO_PERMISSION:
            raise AccessRefused(code, answer.remark, address)
        if answer.code != ResponseCode.SUCCESS:
            raise MQBrokerException(answer.code, answer.remark, address)
        if len(answer.body) > MAX_BODY:
            raise MQClientException(f"{address} answered {code.name} with {len(answer.body)} bytes, which is too much")
        return answer

    async def _invoke(
        self, address: str, code: RequestCode, ext_fields: dict[str, str], timeout_s: float
    ) -> RemotingCommand:
        """Send a request and return the answer. Raises OSError if none comes."""
        return await self._api.connection(address).invoke(code, ext_fields, timeout_s=timeout_s)

    async def brokers(self) -> dict[str, BrokerMembers]:
        """The brokers of the cluster by name, from the first name server that answers (GET_BROKER_CLUSTER_INFO)."""
        problems = []
        for address in self._name_servers:
            try:
                answer = await self._call(address, RequestCode.GET_BROKER_CLUSTER_INFO)
                return dict(sorted(_read(_ClusterInfo, address, answer.body).broker_addr_table.items()))
            except OSError as error:
                problems.append(f"{address}: {error}")
        raise OSError(f"no name server answers ({'; '.join(problems)})")

    async def source(self, address: str, broker_id: int) -> Source:
        """What the broker at ``address`` says about itself."""
        answer = await self._call(address, RequestCode.GET_BROKER_CONFIG)
        config = dict(
            line.split("=", 1)
            for line in answer.body.decode("utf-8", "replace").splitlines()
            if "=" in line and not line.startswith("#")
        )
        answer = await self._call(address, RequestCode.GET_BROKER_RUNTIME_INFO)
        table = _read(dict[str, dict[str, str]], address, answer.body).get("table", {})
        try:
            low, high = int(table["commitLogMinOffset"]), int(table["commitLogMaxOffset"])
        except (KeyError, ValueError):
            raise MQClientException(f"{address} does not say where its commit log begins and ends") from None
        return Source(address, broker_id, table.get("brokerVersionDesc", ""), max(low, 0), max(high, 0), config)

    async def max_offset(self, address: str) -> int:
        """The end of a broker's commit log."""
        answer = await self._call(address, RequestCode.GET_BROKER_RUNTIME_INFO)
        table = _read(dict[str, dict[str, str]], address, answer.body).get("table", {})
        value = table.get("commitLogMaxOffset", "")
        if not value.isascii() or not value.isdigit():
            raise MQClientException(f"{address} does not say where its commit log ends")
        return int(value)

    async def record(self, address: str, offset: int) -> bytes | None:
        """The bytes of the message at a physical offset; None if none begins there (VIEW_MESSAGE_BY_ID)."""
        try:
            return (await self._call(address, RequestCode.VIEW_MESSAGE_BY_ID, offset=offset)).body
        except MQBrokerException as error:
            if error.response_code in (ResponseCode.SYSTEM_ERROR, ResponseCode.QUERY_NOT_FOUND):
                return None
            raise

    async def table(self, address: str, code: RequestCode) -> dict[str, Any]:
        """A broker's topics (21), groups (201), consumer offsets (43) or delay offsets (45)."""
        answer = await self._call(address, code)
        return await asyncio.to_thread(_read, dict[str, Any], address, answer.body)

    async def ends(self, address: str, topic: str) -> dict[int, int]:
        """The max offset of each queue of a topic; empty if the broker does not have the topic."""
        try:
            body = (await self._call(address, RequestCode.GET_TOPIC_STATS_INFO, topic=topic)).body
        except MQBrokerException as error:
            if error.response_code in (ResponseCode.SYSTEM_ERROR, ResponseCode.TOPIC_NOT_EXIST):
                return {}
            raise
        return {int(queue[1]): int(queue[2]) for queue in QUEUE_STATS.finditer(body)}

    async def members(self, address: str, group: str) -> dict[str, Any] | None:
        """RocketMQ's ConsumerConnection of a group; None if it has no member."""
        try:
            answer = await self._call(address, RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup=group)
        except MQBrokerException as error:
            if error.response_code in (ResponseCode.CONSUMER_NOT_ONLINE, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST):
                return None
            raise
        return _read(dict[str, Any], address, answer.body)

    # --- When a person asks

    async def client_ids(self, address: str, group: str) -> set[str]:
        """The ids of a group's members at this broker."""
        try:
            answer = await self._call(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup=group)
        except MQBrokerException as error:
            if error.response_code == ResponseCode.SYSTEM_ERROR:  # no consumer for this group
                return set()
            raise
        return set(_read(_ConsumerList, address, answer.body).consumer_id_list)

    async def consume_stats(self, address: str, group: str) -> dict[MessageQueue, dict[str, Any]]:
        """RocketMQ's ConsumeStats: the entries of a group's queues at this broker, those of retries included."""
        answer = await self._call(address, RequestCode.GET_CONSUME_STATS, consumerGroup=group)
        return by_queue((await _read_object(address, answer.body)).get("offsetTable"))

    async def running_info(
        self, address: str, group: str, client_id: str, *, stacks: bool, timeout_s: float
    ) -> dict[str | int | MessageQueue, Any]:
        """A client's ConsumerRunningInfo, which the broker asks the client for."""
        answer = await self._call(
            address,
            RequestCode.GET_CONSUMER_RUNNING_INFO,
            timeout_s,
            consumerGroup=group,
            clientId=client_id,
            jstackEnable="true" if stacks else "false",
        )
        return await _read_object(address, answer.body)


async def _read_object(address: str, body: bytes) -> dict[str | int | MessageQueue, Any]:
    """A body whose keys may be queues."""
    try:
        return await asyncio.to_thread(fastjson.decode, body)
    except ValueError as error:
        raise MQClientException(f"the answer of {address} cannot be read: {error}") from error


def by_queue(table: Any) -> dict[MessageQueue, dict[str, Any]]:
    """The entries of a table whose keys are queues; empty if it is none."""
    entries = table.items() if isinstance(table, dict) else ()
    return {queue: entry for queue, entry in entries if isinstance(queue, MessageQueue) and isinstance(entry, dict)}


def _read(kind: type[T], address: str, body: bytes) -> T:
    """A body in RocketMQ's JSON, whose integer keys may have no quotes."""
    try:
        return msgspec.convert(rocketmq_json.decode(body), kind, strict=False)
    except (ValueError, msgspec.ValidationError) as error:
        raise MQClientException(f"the answer of {address} cannot be read: {error}") from error


def candidates(members: BrokerMembers, kind: str) -> Sequence[tuple[int, str]]:
    """(broker id, address) of the brokers to try, the best first. ``kind``: ``slave``, ``master`` or ``auto``."""
    slaves = [(number, address) for number, address in sorted(members.broker_addrs.items()) if number != MASTER_ID]
    masters = [(number, address) for number, address in members.broker_addrs.items() if number == MASTER_ID]
    return {"slave": slaves, "master": masters}.get(kind, slaves + masters)
