"""REGISTER_BROKER, by which a broker reports itself and its topics to a name server: reading and writing it.

The body is RocketMQ's RegisterBrokerBody, as JSON:

    {"filterServerList":[],
     "topicConfigSerializeWrapper":{"dataVersion":{"counter":3,"stateVersion":0,"timestamp":1700000000000},
                                    "topicConfigTable":{"orders":{"perm":6,"readQueueNums":4,..},..},..}}

or, with ``compressed`` in the header, one zlib stream (numbers are big-endian int32):

    +--------+-------------+-------+----------------------------------+--------+------------------+- -
    | n      | DataVersion | count | count times                      | n      | filterServerList | queue mappings
    |        | JSON, n     |       | n, "name read write perm type    |        | JSON, n          | (not read)
    |        |             |       |     {attributes}"                |        |                  |
    +--------+-------------+-------+----------------------------------+--------+------------------+- -

Brokers before release 3.0.11 send only the inner ``topicConfigSerializeWrapper``.
"""

import zlib
from collections.abc import Collection
from struct import Struct
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from broker_core.codes import ResponseCode
from broker_core.errors import RequestError
from broker_core.formats import rocketmq_json
from broker_core.namesrv.route_data import BrokerData, DataVersion, QueueData, TopicRouteData, encode_standard
from broker_core.options import Options, rocketmq_name
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests.headers import Header, Int
from broker_core.topics import PERM_READ, PERM_WRITE, TopicConfig, TopicConfigManager

BODY_SINCE = 37
"""Version number of release 3.0.11, the first in which the body is a RegisterBrokerBody."""
MAX_NAME = 255
MAX_QUEUES = 65_536
MAX_TOPICS = 200_000
"""Limit of topics of all brokers together, and so of one broker."""
MAX_UNCOMPRESSED = 64 * 1024 * 1024
ZONE_NAME = "__ZONE_NAME"

T = TypeVar("T")
Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
"""Name of a topic, broker, cluster or zone, or an address."""

_COUNT = Struct(">i")


class Registration(msgspec.Struct, kw_only=True):
    """One broker at one address, and its topics.

    ``enable_acting_master`` is None if the broker is too old to send it. If ``heartbeat_timeout_ms`` is None, the name
    server uses its default.
    """

    cluster: str
    broker_name: str
    broker_id: int
    broker_addr: str
    ha_server_addr: str
    heartbeat_timeout_ms: int | None = None
    enable_acting_master: bool | None = None
    zone_name: str | None = None
    data_version: DataVersion = DataVersion()
    topics: dict[str, TopicConfig]
    filter_servers: list[str] = []


class _Topics(msgspec.Struct, rename=rocketmq_name):
    """RocketMQ's TopicConfigSerializeWrapper."""

    data_version: DataVersion | None = None
    topic_config_table: dict[str, TopicConfig] | None = None


class _Body(msgspec.Struct, rename=rocketmq_name):
    """RocketMQ's RegisterBrokerBody."""

    filter_server_list: Annotated[list[Name], Meta(max_length=100)] | None = None
    topic_config_serialize_wrapper: _Topics | None = None


def refused(remark: str) -> RequestError:
    """An error with the one code that a name server uses for every invalid request."""
    return RequestError(remark, code=ResponseCode.SYSTEM_ERROR)


# --- Reading --------------------------------------------------------------------------------------------------


class BrokerHeader(Header):
    """The broker that a request is about."""

    broker_name: Name
    broker_addr: Name
    cluster_name: Name


class RegisterBrokerHeader(BrokerHeader):
    """RocketMQ's RegisterBrokerRequestHeader."""

    broker_id: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
    ha_server_addr: Annotated[str, Meta(max_length=MAX_NAME)] = ""
    heartbeat_timeout_millis: Annotated[int, Meta(ge=1, le=24 * 3600 * 1000)] | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int = 0


def decode_registration(header: RegisterBrokerHeader, request: RemotingCommand) -> Registration:
    """The content of a REGISTER_BROKER request. RequestError, with RocketMQ's code, if its body is invalid."""
    if header.body_crc32 and header.body_crc32 != body_crc32(request.body):
        raise refused("crc32 not match")
    body = _decode_body(request, compressed=header.compressed)
    topics = body.topic_config_serialize_wrapper or _Topics()
    table = topics.topic_config_table or {}
    _check_topics(table)
    return Registration(
        cluster=header.cluster_name,
        broker_name=header.broker_name,
        broker_id=header.broker_id,
        broker_addr=header.broker_addr,
        ha_server_addr=header.ha_server_addr,
        heartbeat_timeout_ms=header.heartbeat_timeout_millis,
        enable_acting_master=header.enable_acting_master,
        zone_name=request.ext_fields.get(ZONE_NAME, "")[:MAX_NAME] or None,
        data_version=topics.data_version or DataVersion(),
        topics=table,
        filter_servers=body.filter_server_list or [],
    )


def body_crc32(body: bytes) -> int:
    """RocketMQ's UtilAll.crc32: the checksum without its highest bit."""
    return zlib.crc32(body) & 0x7FFFFFFF


def _decode_body(request: RemotingCommand, *, compressed: bool) -> _Body:
    body = request.body
    try:
        if not body:
            return _Body()
        if request.version < BODY_SINCE:
            return _Body(topic_config_serialize_wrapper=decode_json(body, _Topics))
        if compressed:
            return _decode_compressed(body)
        return decode_json(body, _Body)
    except (ValueError, RecursionError) as error:
        raise refused(f"the body is not a valid registration: {error}") from error


def decode_json(body: bytes, kind: type[T]) -> T:
    """A ``kind`` decoded from fastjson's JSON. ValueError or RecursionError if it is not one."""
    try:
        return msgspec.json.decode(body, type=kind, strict=False)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:  # not standard JSON; it may have numbers as keys
        value = rocketmq_json.decode(body)
        rocketmq_json.encode(value).encode()  # raises for lone surrogates, which no answer can contain
        return msgspec.convert(value, kind, strict=False)


def _check_topics(table: dict[str, TopicConfig]) -> None:
    for name, config in table.items():
        if not 0 < len(name) <= MAX_NAME:
            raise refused(f"a topic name has {len(name)} characters; 1 to {MAX_NAME} are allowed")
        if not 0 <= config.read_queue_nums <= MAX_QUEUES or not 0 <= config.write_queue_nums <= MAX_QUEUES:
            raise refused(
                f"topic {name} has {config.read_queue_nums} read and {config.write_queue_nums} write queues; "
                f"0 to {MAX_QUEUES} are allowed"
            )


class _Reader:
    """Reads the fields of a decompressed body. ValueError if it ends too early."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self) -> int:
        return int(_COUNT.unpack(self._take(4))[0])

    def text(self) -> bytes:
        return self._take(self.number())

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise ValueError(f"the data ends at byte {len(self._data)}, within a field of {size} bytes")
        part, self._at = self._data[self._at : end], end
        return part


def _decode_compressed(body: bytes) -> _Body:
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(body, MAX_UNCOMPRESSED)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if inflater.unconsumed_tail or not inflater.eof:
        raise ValueError(f"the zlib stream is truncated, or contains more than {MAX_UNCOMPRESSED} bytes")
    reader = _Reader(data)
    version = decode_json(reader.text(), DataVersion)
    table: dict[str, TopicConfig] = {}
    count = reader.number()
    if count > MAX_TOPICS:  # a few MB can decompress to millions of topics, which take seconds to read
        raise ValueError(f"the registration has {count} topics; the limit is {MAX_TOPICS}")
    for _ in range(count):
        config = _decode_topic(reader.text().decode())
        table[config.topic_name] = config
    servers = decode_json(reader.text(), list[Name])
    return _Body(
        filter_server_list=servers,
        topic_config_serialize_wrapper=_Topics(data_version=version, topic_config_table=table),
    )


def _decode_topic(text: str) -> TopicConfig:
    """RocketMQ's TopicConfig.decode, without the attributes, which name servers do not use."""
    name, read, write, perm, filter_type = text.split(" ", 5)[:5]
    return TopicConfig(
        topic_name=name,
        read_queue_nums=int(read),
        write_queue_nums=int(write),
        perm=int(perm),
        topic_filter_type=filter_type,
    )


# --- Writing --------------------------------------------------------------------------------------------------


def describe_broker(
    options: Options, topics: TopicConfigManager, *, read_only: bool, only: Collection[str] | None = None
) -> Registration:
    """This broker's registration, with all its topics or those in ``only`` that exist.

    The permissions of the topics are limited to what the broker allows at the moment.
    """
    perm = options.broker_permission & (PERM_READ if read_only else PERM_READ | PERM_WRITE)
    configs = topics if only is None else [config for name in only if (config := topics.get(name)) is not None]
    table = {config.topic_name: config for config in configs}
    if perm != PERM_READ | PERM_WRITE:
        table = {topic: msgspec.structs.replace(config, perm=config.perm & perm) for topic, config in table.items()}
    return Registration(
        cluster=options.broker_cluster_name,
        broker_name=options.broker_name,
        broker_id=options.broker_id,
        broker_addr=address(options.broker_ip1, options.listen_port),
        ha_server_addr=(
            address(options.broker_ip1, options.ha_listen_port) if options.ha_listen_port and not read_only else ""
        ),
        data_version=msgspec.convert(topics.data_version, DataVersion),
        topics=table,
    )


def address(host: str, port: int) -> str:
    """``host:port``, with brackets around an IPv6 host."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def encode_registration(broker: Registration) -> tuple[dict[str, str], bytes]:
    """Header fields and body of a REGISTER_BROKER for ``broker``, as RocketMQ 5 sends it."""
    body = msgspec.json.encode(
        {
            "filterServerList": broker.filter_servers,
            "topicConfigSerializeWrapper": {
                "dataVersion": broker.data_version,
                "mappingDataVersion": DataVersion(),
                "topicConfigTable": broker.topics,
                "topicQueueMappingDetailMap": {},
                "topicQueueMappingInfoMap": {},
            },
        }
    )
    fields = identity(broker) | {
        "haServerAddr": broker.ha_server_addr,
        "compressed": "false",
        "bodyCrc32": str(body_crc32(body)),
        "enableActingMaster": "true" if broker.enable_acting_master else "false",
    }
    if broker.heartbeat_timeout_ms is not None:
        fields["heartbeatTimeoutMillis"] = str(broker.heartbeat_timeout_ms)
    if broker.zone_name:
        fields[ZONE_NAME] = broker.zone_name
    return fields, body


def split_registration(broker: Registration, size: int) -> list[Registration]:
    """``broker`` in registrations of at most ``size`` topics, as with RocketMQ's enableSplitRegistration.

    Each has another version, because a name server ignores the topics of a version that it has already.
    """
    topics, version = list(broker.topics.items()), broker.data_version
    return [
        msgspec.structs.replace(
            broker,
            topics=dict(topics[start : start + size]),
            data_version=msgspec.structs.replace(version, timestamp=version.timestamp + part),
        )
        for part, start in enumerate(range(0, max(len(topics), 1), size))
    ]


def encode_topic(broker: Registration, topic: TopicConfig) -> tuple[dict[str, str], bytes]:
    """Header fields and body of a REGISTER_TOPIC_IN_NAMESRV for one topic of ``broker``."""
    route = TopicRouteData(
        broker_datas=[
            BrokerData(
                broker_addrs={broker.broker_id: broker.broker_addr},
                broker_name=broker.broker_name,
                cluster=broker.cluster,
                enable_acting_master=bool(broker.enable_acting_master),
            )
        ],
        filter_server_table={},
        queue_datas=[queue_data(broker.broker_name, topic, topic.perm)],
    )
    return {"topic": topic.topic_name}, encode_standard(route)


def queue_data(broker_name: str, config: TopicConfig, perm: int) -> QueueData:
    """A topic on one broker, as a route contains it."""
    return QueueData(
        broker_name=broker_name,
        perm=perm,
        read_queue_nums=config.read_queue_nums,
        topic_sys_flag=config.topic_sys_flag,
        write_queue_nums=config.write_queue_nums,
    )


def identity(broker: Registration) -> dict[str, str]:
    """The header fields that identify a broker. UNREGISTER_BROKER has the same."""
    return {
        "brokerName": broker.broker_name,
        "brokerAddr": broker.broker_addr,
        "clusterName": broker.cluster,
        "brokerId": str(broker.broker_id),
    }
