"""A name server's data about topics and brokers, in RocketMQ's JSON.

    TopicRouteData   {"brokerDatas":[..],"filterServerTable":{},"queueDatas":[..]}
    ClusterInfo      {"brokerAddrTable":{"broker-a":{..}},"clusterAddrTable":{"DefaultCluster":["broker-a"]}}

Members are in alphabetical order and there are no spaces, because the Go client splits the text of ``brokerAddrs`` at
commas and colons. Broker ids, which are numbers, are keys: without quotes, as fastjson writes them
(``{0:"127.0.0.1:10911"}``), or in quotes for clients that require standard JSON.
"""

from typing import Any

import msgspec

from broker_core.formats import rocketmq_json
from broker_core.options import rocketmq_name

MASTER_ID = 0
"""The broker id of a master. Producers send to masters only."""


class DataVersion(msgspec.Struct, frozen=True, rename=rocketmq_name):
    """RocketMQ's DataVersion: the version of a broker's topics. Two versions are the same if all fields are equal."""

    counter: int = 0
    state_version: int = 0
    timestamp: int = 0


class QueueData(msgspec.Struct, frozen=True, kw_only=True, rename=rocketmq_name):
    """RocketMQ's QueueData: a topic on one broker. ``perm`` is the sum of 4 (read), 2 (write) and 1 (inherit)."""

    broker_name: str
    perm: int
    read_queue_nums: int
    topic_sys_flag: int = 0
    write_queue_nums: int


class BrokerData(msgspec.Struct, kw_only=True, rename=rocketmq_name, omit_defaults=True):
    """RocketMQ's BrokerData: the addresses of a master and its slaves, by broker id."""

    broker_addrs: dict[int, str]
    broker_name: str
    cluster: str
    enable_acting_master: bool
    zone_name: str | None = None


class TopicRouteData(msgspec.Struct, kw_only=True, rename=rocketmq_name, omit_defaults=True):
    """RocketMQ's TopicRouteData: the brokers with a topic's queues. ``filter_server_table`` is by broker address."""

    broker_datas: list[BrokerData]
    filter_server_table: dict[str, list[str]]
    order_topic_conf: str | None = None
    queue_datas: list[QueueData]


class ClusterInfo(msgspec.Struct, kw_only=True, rename=rocketmq_name):
    """RocketMQ's ClusterInfo: brokers by name, and broker names by cluster."""

    broker_addr_table: dict[str, BrokerData]
    cluster_addr_table: dict[str, list[str]]


def decode_route(body: bytes) -> TopicRouteData:
    """The TopicRouteData in a body, with keys in quotes or without. ValueError if it is not one."""
    value = rocketmq_json.decode(body)
    value.setdefault("filterServerTable", {})
    brokers = value.get("brokerDatas")
    if isinstance(brokers, list):  # old name servers leave some members out
        value["brokerDatas"] = [{"enableActingMaster": False} | b if isinstance(b, dict) else b for b in brokers]
    return msgspec.convert(value, TopicRouteData, strict=False)


def encode_standard(value: Any) -> bytes:
    """JSON with every key in quotes."""
    return msgspec.json.encode(value)


def encode_bare(value: Any) -> bytes:
    """fastjson's JSON, with numbers as keys without quotes."""
    return rocketmq_json.encode(msgspec.to_builtins(value)).encode()
