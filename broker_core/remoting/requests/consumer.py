"""Requests of consumers but for pulls: offsets of groups and queues, members of a group, send back."""

from typing import Literal, cast

from broker_core.codes import ResponseCode
from broker_core.commands import (
    ConsumerList,
    ConsumerSendMsgBack,
    Done,
    FoundOffset,
    GetConsumerListByGroup,
    GetEarliestMsgStoreTime,
    GetMaxOffset,
    GetMinOffset,
    QueryOffset,
    QueueOffset,
    SearchOffset,
    StoreTime,
    UpdateConsumerOffset,
)
from broker_core.errors import RequestError
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests.headers import Header, Int, Long, Name, json_body, read_header, write_header
from broker_core.remoting.requests.request_type import Identity, Peer
from broker_core.remoting.requests.send import KNOWS_MAX_RECONSUME_TIMES

# --- Offsets of groups ----------------------------------------------------------------------------------------


class QueryConsumerOffsetRequestHeader(Header):
    consumer_group: Name
    topic: Name
    queue_id: Int
    set_zero_if_not_found: bool = True


def decode_query_consumer_offset(request: RemotingCommand, peer: Peer) -> QueryOffset:
    header = read_header(QueryConsumerOffsetRequestHeader, request.ext_fields)
    return QueryOffset(
        group=header.consumer_group,
        topic=header.topic,
        queue_id=header.queue_id,
        set_zero_if_not_found=header.set_zero_if_not_found,
    )


class UpdateConsumerOffsetRequestHeader(Header):
    consumer_group: Name
    topic: Name
    queue_id: Int
    commit_offset: Long


def decode_update_consumer_offset(request: RemotingCommand, peer: Peer) -> UpdateConsumerOffset | Done:
    """Go clients commit -1 for queues that they have not consumed yet: there is nothing to store."""
    header = read_header(UpdateConsumerOffsetRequestHeader, request.ext_fields)
    if header.commit_offset < 0:
        return Done()
    return UpdateConsumerOffset(
        group=header.consumer_group,
        client_id=peer.client_id,
        offsets=[QueueOffset(topic=header.topic, queue_id=header.queue_id, offset=header.commit_offset)],
    )


# --- Offsets of queues ------------------------------------------------------------------------------------------


class QueueRequestHeader(Header):
    """The header of GET_MAX_OFFSET, GET_MIN_OFFSET and GET_EARLIEST_MSG_STORETIME."""

    topic: Name
    queue_id: Int


def decode_get_max_offset(request: RemotingCommand, peer: Peer) -> GetMaxOffset:
    header = read_header(QueueRequestHeader, request.ext_fields)
    return GetMaxOffset(topic=header.topic, queue_id=header.queue_id)


def decode_get_min_offset(request: RemotingCommand, peer: Peer) -> GetMinOffset:
    header = read_header(QueueRequestHeader, request.ext_fields)
    return GetMinOffset(topic=header.topic, queue_id=header.queue_id)


def decode_get_earliest_msg_store_time(request: RemotingCommand, peer: Peer) -> GetEarliestMsgStoreTime:
    header = read_header(QueueRequestHeader, request.ext_fields)
    return GetEarliestMsgStoreTime(topic=header.topic, queue_id=header.queue_id)


class SearchOffsetRequestHeader(Header):
    topic: Name
    queue_id: Int
    timestamp: Long
    boundary_type: str = "LOWER"


def decode_search_offset(request: RemotingCommand, peer: Peer) -> SearchOffset:
    header = read_header(SearchOffsetRequestHeader, request.ext_fields)
    boundary = header.boundary_type.lower()
    if boundary not in ("lower", "upper"):
        raise RequestError(
            f"extFields: boundaryType is LOWER or UPPER, not {header.boundary_type[:100]!r}",
            code=ResponseCode.SYSTEM_ERROR,
        )
    return SearchOffset(
        topic=header.topic,
        queue_id=header.queue_id,
        timestamp_ms=header.timestamp,
        boundary=cast('Literal["lower", "upper"]', boundary),
    )


class OffsetResponseHeader(Header):
    """The header of all answers with one offset."""

    offset: Long


def encode_offset(reply: FoundOffset, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    return request.response(ResponseCode.SUCCESS, "", write_header(OffsetResponseHeader(reply.offset)))


def encode_store_time(reply: StoreTime, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    return request.response(ResponseCode.SUCCESS, "", {"timestamp": str(reply.timestamp_ms)})


# --- Members and retries ----------------------------------------------------------------------------------------


class GetConsumerListByGroupRequestHeader(Header):
    consumer_group: Name


def decode_get_consumer_list_by_group(request: RemotingCommand, peer: Peer) -> GetConsumerListByGroup:
    return GetConsumerListByGroup(
        group=read_header(GetConsumerListByGroupRequestHeader, request.ext_fields).consumer_group
    )


class GetConsumerListByGroupResponseBody(Header):
    """RocketMQ's GetConsumerListByGroupResponseBody: client ids."""

    consumer_id_list: list[str]


def encode_consumer_list(reply: ConsumerList, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    body = GetConsumerListByGroupResponseBody(reply.client_ids)
    return request.response(ResponseCode.SUCCESS, body=json_body(body))


class ConsumerSendMsgBackRequestHeader(Header):
    offset: Long
    group: Name
    delay_level: Int
    origin_msg_id: str = ""
    origin_topic: Name = ""
    max_reconsume_times: Int | None = None


def decode_consumer_send_msg_back(request: RemotingCommand, peer: Peer) -> ConsumerSendMsgBack:
    header = read_header(ConsumerSendMsgBackRequestHeader, request.ext_fields)
    known = request.version >= KNOWS_MAX_RECONSUME_TIMES
    return ConsumerSendMsgBack(
        group=header.group,
        physical_offset=header.offset,
        delay_level=header.delay_level,
        origin_message_id=header.origin_msg_id,
        origin_topic=header.origin_topic,
        max_reconsume_times=header.max_reconsume_times if known else None,
    )
