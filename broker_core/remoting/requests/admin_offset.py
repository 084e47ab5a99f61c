"""Requests about consume progress, and resets of it."""

from typing import Any

import msgspec

from broker_core.codes import ResponseCode
from broker_core.commands import (
    Assignment,
    BrokerConsumeStats,
    CloneGroupOffset,
    ConsumeStats,
    ConsumeTimeSpans,
    CorrectionOffsets,
    FoundSubscription,
    GetAllConsumerOffset,
    GetAllDelayOffset,
    GetBrokerConsumeStats,
    GetConsumeStats,
    GroupNames,
    MessageModel,
    MessageQueue,
    OffsetsReset,
    OffsetTable,
    OffsetWrapper,
    QueryAssignment,
    QueryConsumeTimeSpan,
    QueryCorrectionOffset,
    QuerySubscriptionByConsumer,
    QueryTopicConsumeByWho,
    QueryTopicsByConsumer,
    QueueOffset,
    ResetConsumerOffset,
    TopicNames,
)
from broker_core.remoting import fastjson
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests.admin_group import subscription_data
from broker_core.remoting.requests.headers import Header, Int, Long, Name, json_body, read_body, read_header
from broker_core.remoting.requests.request_type import Identity, Peer

# --- Progress ---------------------------------------------------------------------------------------------------------


class GetConsumeStatsRequestHeader(Header):
    """``topic_list`` is separated by semicolons, and overrides ``topic``."""

    consumer_group: Name
    topic: Name = ""
    topic_list: str = ""


def decode_get_consume_stats(request: RemotingCommand, peer: Peer) -> GetConsumeStats:
    header = read_header(GetConsumeStatsRequestHeader, request.ext_fields)
    topics = header.topic_list.split(";") if header.topic_list else [header.topic]
    return GetConsumeStats(group=header.consumer_group, topics=[topic for topic in topics if topic])


def encode_consume_stats(reply: ConsumeStats, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    return request.response(ResponseCode.SUCCESS, body=fastjson.encode(_consume_stats(reply, identity)))


def _consume_stats(stats: ConsumeStats, identity: Identity) -> dict[str, Any]:
    """RocketMQ's ConsumeStats."""
    return {
        "consumeTps": stats.consume_tps,
        "offsetTable": fastjson.encode_table(
            [(queue.topic, queue.queue_id, _offset_wrapper(queue)) for queue in stats.queues], identity.broker_name
        ),
    }


def _offset_wrapper(queue: OffsetWrapper) -> str:
    return (
        f'{{"brokerOffset":{queue.broker_offset},"consumerOffset":{queue.consumer_offset},'
        f'"lastTimestamp":{queue.last_timestamp},"pullOffset":{queue.pull_offset}}}'
    )


class GetConsumeStatsInBrokerRequestHeader(Header):
    is_order: bool


def decode_get_broker_consume_stats(request: RemotingCommand, peer: Peer) -> GetBrokerConsumeStats:
    return GetBrokerConsumeStats(
        is_order=read_header(GetConsumeStatsInBrokerRequestHeader, request.ext_fields).is_order
    )


def encode_broker_consume_stats(
    reply: BrokerConsumeStats, request: RemotingCommand, identity: Identity
) -> RemotingCommand:
    """RocketMQ's ConsumeStatsList."""
    return request.response(
        ResponseCode.SUCCESS,
        body=fastjson.encode(
            {
                "brokerAddr": reply.broker_addr,
                "consumeStatsList": [
                    {group: [_consume_stats(stats, identity) for stats in topics]}
                    for group, topics in reply.groups.items()
                ],
                "totalDiff": reply.total_diff,
                "totalInflightDiff": reply.total_inflight_diff,
            }
        ),
    )


class QueryConsumeTimeSpanRequestHeader(Header):
    topic: Name
    group: Name


def decode_query_consume_time_span(request: RemotingCommand, peer: Peer) -> QueryConsumeTimeSpan:
    header = read_header(QueryConsumeTimeSpanRequestHeader, request.ext_fields)
    return QueryConsumeTimeSpan(topic=header.topic, group=header.group)


def encode_consume_time_span(reply: ConsumeTimeSpans, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    """RocketMQ's QueryConsumeTimeSpanBody."""
    return request.response(
        ResponseCode.SUCCESS,
        body=fastjson.encode(
            {
                "consumeTimeSpanSet": [
                    {
                        "consumeTimeStamp": span.consume_timestamp,
                        "delayTime": span.delay_time,
                        "maxTimeStamp": span.max_timestamp,
                        "messageQueue": MessageQueue(
                            topic=reply.topic, broker_name=identity.broker_name, queue_id=span.queue_id
                        ),
                        "minTimeStamp": span.min_timestamp,
                    }
                    for span in reply.spans
                ]
            }
        ),
    )


# --- Who consumes what ------------------------------------------------------------------------------------------------


class QueryTopicConsumeByWhoRequestHeader(Header):
    topic: Name


def decode_query_topic_consume_by_who(request: RemotingCommand, peer: Peer) -> QueryTopicConsumeByWho:
    return QueryTopicConsumeByWho(topic=read_header(QueryTopicConsumeByWhoRequestHeader, request.ext_fields).topic)


def encode_group_list(reply: GroupNames, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    return request.response(ResponseCode.SUCCESS, body=json_body({"groupList": reply.groups}))


class QueryTopicsByConsumerRequestHeader(Header):
    group: Name


def decode_query_topics_by_consumer(request: RemotingCommand, peer: Peer) -> QueryTopicsByConsumer:
    return QueryTopicsByConsumer(group=read_header(QueryTopicsByConsumerRequestHeader, request.ext_fields).group)


def encode_topic_list(reply: TopicNames, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    return request.response(
        ResponseCode.SUCCESS, body=json_body({"brokerAddr": reply.broker_addr, "topicList": reply.topics})
    )


class QuerySubscriptionByConsumerRequestHeader(Header):
    group: Name
    topic: Name = ""


def decode_query_subscription_by_consumer(request: RemotingCommand, peer: Peer) -> QuerySubscriptionByConsumer:
    header = read_header(QuerySubscriptionByConsumerRequestHeader, request.ext_fields)
    return QuerySubscriptionByConsumer(group=header.group, topic=header.topic)


def encode_subscription(reply: FoundSubscription, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    """RocketMQ's QuerySubscriptionResponseBody."""
    body: dict[str, Any] = {"group": reply.group, "topic": reply.topic}
    if reply.subscription is not None:
        body["subscriptionData"] = subscription_data(reply.subscription)
    return request.response(ResponseCode.SUCCESS, body=json_body(body))


class _QueryAssignmentRequestBody(Header):
    topic: Name
    consumer_group: Name
    client_id: Name
    strategy_name: str | None = ""
    message_model: MessageModel = "CLUSTERING"


_query_assignment_request_body = msgspec.json.Decoder(_QueryAssignmentRequestBody)


def decode_query_assignment(request: RemotingCommand, peer: Peer) -> QueryAssignment:
    body = read_body(_query_assignment_request_body, request.body)
    return QueryAssignment(
        group=body.consumer_group,
        topic=body.topic,
        client_id=body.client_id,
        strategy=body.strategy_name or "",
        message_model=body.message_model,
    )


def encode_assignment(reply: Assignment, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    """RocketMQ's QueryAssignmentResponseBody."""
    return request.response(
        ResponseCode.SUCCESS,
        body=fastjson.encode(
            {"messageQueueAssignments": [{"messageQueue": queue, "mode": reply.mode} for queue in reply.queues]}
        ),
    )


# --- Moving -----------------------------------------------------------------------------------------------------------


class ResetOffsetRequestHeader(Header):
    """``timestamp`` below 0 is the end. ``offset`` applies to a single queue only; -1 is none."""

    topic: Name
    group: Name
    timestamp: Long
    queue_id: Int = -1
    offset: Long | None = None
    is_force: bool = True


def decode_reset_offset(request: RemotingCommand, peer: Peer) -> ResetConsumerOffset:
    header = read_header(ResetOffsetRequestHeader, request.ext_fields)
    is_exact = header.queue_id >= 0 and header.offset is not None and header.offset >= 0
    return ResetConsumerOffset(
        group=header.group,
        topic=header.topic,
        to="max" if header.timestamp < 0 else str(header.timestamp),
        queue_id=max(-1, header.queue_id),
        offset=header.offset if is_exact else None,
        through_members=True,
        is_force=header.is_force,
    )


def encode_offsets_reset(reply: OffsetsReset, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    """RocketMQ's ResetOffsetBody."""
    return request.response(
        ResponseCode.SUCCESS,
        body=encode_reset_offsets(reply.offsets, identity.broker_name),
    )


def encode_reset_offsets(offsets: list[QueueOffset], broker_name: str) -> bytes:
    """RocketMQ's ResetOffsetBody."""
    table = {MessageQueue(topic=at.topic, broker_name=broker_name, queue_id=at.queue_id): at.offset for at in offsets}
    return fastjson.encode({"offsetTable": table})


class CloneGroupOffsetRequestHeader(Header):
    src_group: Name
    dest_group: Name
    topic: Name = ""
    offline: bool = False


def decode_clone_group_offset(request: RemotingCommand, peer: Peer) -> CloneGroupOffset:
    header = read_header(CloneGroupOffsetRequestHeader, request.ext_fields)
    return CloneGroupOffset(
        src_group=header.src_group, dest_group=header.dest_group, topic=header.topic, offline=header.offline
    )


class QueryCorrectionOffsetHeader(Header):
    """``filter_groups`` is separated by commas."""

    topic: Name
    filter_groups: str = ""
    compare_group: Name = ""


def decode_query_correction_offset(request: RemotingCommand, peer: Peer) -> QueryCorrectionOffset:
    header = read_header(QueryCorrectionOffsetHeader, request.ext_fields)
    return QueryCorrectionOffset(
        topic=header.topic,
        compare_group=header.compare_group,
        filter_groups=[group for group in header.filter_groups.split(",") if group],
    )


def encode_correction_offset(reply: CorrectionOffsets, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    return request.response(ResponseCode.SUCCESS, body=fastjson.encode({"correctionOffsets": reply.offsets}))


# --- Tables -----------------------------------------------------------------------------------------------------------


def decode_get_all_consumer_offset(request: RemotingCommand, peer: Peer) -> GetAllConsumerOffset:
    return GetAllConsumerOffset()


def decode_get_all_delay_offset(request: RemotingCommand, peer: Peer) -> GetAllDelayOffset:
    return GetAllDelayOffset()


def encode_offset_table(reply: OffsetTable, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    return request.response(ResponseCode.SUCCESS, body=fastjson.encode(reply.table))
