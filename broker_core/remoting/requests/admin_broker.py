"""Requests about the broker itself: figures, options, store."""

from typing import Any

from broker_core.codes import ResponseCode
from broker_core.commands import (
    BrokerConfig,
    BrokerStatsData,
    ConsumeQueueUnits,
    DeleteExpiredCommitLog,
    Done,
    GetBrokerConfig,
    GetBrokerRuntimeInfo,
    GetTimerMetrics,
    QueryConsumeQueue,
    RuntimeInfo,
    StatsSnapshot,
    TimerMetrics,
    UpdateBrokerConfig,
    ViewBrokerStatsData,
)
from broker_core.errors import RequestError
from broker_core.properties import parse_properties
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests.admin_group import subscription_data
from broker_core.remoting.requests.headers import Header, Int, Long, Name, json_body, read_header
from broker_core.remoting.requests.request_type import Identity, Peer

MAX_CONFIG_BYTES = 65_536
RETRY_PREFIX = "%RETRY%"

# --- Figures ----------------------------------------------------------------------------------------------------------


def decode_get_broker_runtime_info(request: RemotingCommand, peer: Peer) -> GetBrokerRuntimeInfo:
    return GetBrokerRuntimeInfo()


def encode_runtime_info(reply: RuntimeInfo, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    return request.response(ResponseCode.SUCCESS, body=json_body({"table": reply.table}))


class ViewBrokerStatsDataRequestHeader(Header):
    stats_name: str
    stats_key: str


def decode_view_broker_stats_data(request: RemotingCommand, peer: Peer) -> ViewBrokerStatsData:
    header = read_header(ViewBrokerStatsDataRequestHeader, request.ext_fields)
    return ViewBrokerStatsData(stats_name=header.stats_name, stats_key=header.stats_key)


def encode_broker_stats_data(reply: BrokerStatsData, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    return request.response(
        ResponseCode.SUCCESS,
        body=json_body(
            {
                "statsDay": _stats_item(reply.day),
                "statsHour": _stats_item(reply.hour),
                "statsMinute": _stats_item(reply.minute),
            }
        ),
    )


def _stats_item(snapshot: StatsSnapshot) -> dict[str, Any]:
    return {"avgpt": snapshot.avgpt, "sum": snapshot.sum, "tps": snapshot.tps}


def decode_get_timer_metrics(request: RemotingCommand, peer: Peer) -> GetTimerMetrics:
    return GetTimerMetrics()


def encode_timer_metrics(reply: TimerMetrics, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    """RocketMQ's TimerMetricsSerializeWrapper."""
    counts = {topic: {"count": count, "timeStamp": reply.time_ms} for topic, count in reply.by_topic.items()}
    return request.response(ResponseCode.SUCCESS, body=json_body({"timingCount": counts}))


# --- Options ----------------------------------------------------------------------------------------------------------


def decode_get_broker_config(request: RemotingCommand, peer: Peer) -> GetBrokerConfig:
    return GetBrokerConfig()


def encode_broker_config(reply: BrokerConfig, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    """Lines of ``name=value``."""
    lines = [f"{name}={_text(value)}\n" for name, value in sorted(reply.config.items())]
    return request.response(
        ResponseCode.SUCCESS, "", {"version": json_body(reply.data_version).decode()}, "".join(lines).encode()
    )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def decode_update_broker_config(request: RemotingCommand, peer: Peer) -> UpdateBrokerConfig:
    if len(request.body) > MAX_CONFIG_BYTES:
        raise RequestError(f"body: at most {MAX_CONFIG_BYTES} bytes", code=ResponseCode.SYSTEM_ERROR)
    try:
        changes = parse_properties(request.body.decode())
    except UnicodeDecodeError as error:
        raise RequestError(f"body: {error}", code=ResponseCode.SYSTEM_ERROR) from error
    return UpdateBrokerConfig(changes=changes)


# --- Store ------------------------------------------------------------------------------------------------------------


class QueryConsumeQueueRequestHeader(Header):
    topic: Name
    queue_id: Int
    index: Long
    count: Int
    consumer_group: Name = ""


def decode_query_consume_queue(request: RemotingCommand, peer: Peer) -> QueryConsumeQueue:
    header = read_header(QueryConsumeQueueRequestHeader, request.ext_fields)
    return QueryConsumeQueue(
        topic=header.topic,
        queue_id=header.queue_id,
        index=header.index,
        count=header.count,
        group=header.consumer_group,
    )


def encode_consume_queue(reply: ConsumeQueueUnits, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    """RocketMQ's QueryConsumeQueueResponseBody. No unit is evaluated with the group's filter."""
    body: dict[str, Any] = {
        "maxQueueIndex": reply.max_offset,
        "minQueueIndex": reply.min_offset,
        "queueData": [
            {"eval": False, "physicOffset": place, "physicSize": size, "tagsCode": code}
            for place, size, code in reply.units
        ],
    }
    group = request.ext_fields.get("consumerGroup")
    if reply.subscription is not None:
        body |= {"filterData": "null", "subscriptionData": subscription_data(reply.subscription)}
    elif group:
        body["filterData"] = f"{group}@{request.ext_fields['topic']} is not online!"
    return request.response(ResponseCode.SUCCESS, body=json_body(body))


def decode_delete_expired_commit_log(request: RemotingCommand, peer: Peer) -> DeleteExpiredCommitLog:
    return DeleteExpiredCommitLog()


def decode_clean(request: RemotingCommand, peer: Peer) -> Done:
    """CLEAN_EXPIRED_CONSUMEQUEUE, CLEAN_UNUSED_TOPIC: nothing to do.

    Queue files are deleted with the segments that they refer to, and queues with their topic.
    """
    return Done()
