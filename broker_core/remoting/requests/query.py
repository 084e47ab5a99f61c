"""VIEW_MESSAGE_BY_ID and QUERY_MESSAGE: single messages, for administrators' tools."""

from broker_core.codes import ResponseCode
from broker_core.commands import QueryMessage, Records, ViewMessage
from broker_core.errors import RequestError
from broker_core.formats.index_unit import TAG_KEY
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests.headers import Header, Int, Long, Name, read_header
from broker_core.remoting.requests.request_type import Identity, Peer

UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
DEFAULT_QUERY_MAX_NUM = 32
KEY_TYPE, UNIQUE_TYPE, TAG_TYPE = "K", "U", "T"
INDEX_TYPES = ("", KEY_TYPE, UNIQUE_TYPE, TAG_TYPE)


class ViewMessageRequestHeader(Header):
    offset: Long


def decode_view_message_by_id(request: RemotingCommand, peer: Peer) -> ViewMessage:
    """The client has split the id: its address is this broker, ``offset`` is the offset in the log."""
    return ViewMessage(physical_offset=read_header(ViewMessageRequestHeader, request.ext_fields).offset)


def encode_record(reply: Records, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    return request.response(ResponseCode.SUCCESS, body=reply.records)


class QueryMessageRequestHeader(Header):
    topic: Name
    key: str
    max_num: Int
    begin_timestamp: Long
    end_timestamp: Long
    index_type: str = ""


def decode_query_message(request: RemotingCommand, peer: Peer) -> QueryMessage:
    """Clients of RocketMQ 5.4 say what the key is: one of KEYS (K), a UNIQ_KEY (U), or a tag (T)."""
    header = read_header(QueryMessageRequestHeader, request.ext_fields)
    if header.index_type not in INDEX_TYPES:
        raise RequestError(
            f"extFields: indexType is K (a key), U (a unique key) or T (a tag), not {header.index_type[:100]!r}"
        )
    by_id = request.ext_fields.get(UNIQUE_KEY_QUERY) == "true"
    by_tag = header.index_type == TAG_TYPE and not by_id
    return QueryMessage(
        topic=header.topic,
        key=TAG_KEY + header.key if by_tag else header.key,
        max_num=DEFAULT_QUERY_MAX_NUM if by_id else header.max_num,
        begin_ms=header.begin_timestamp,
        end_ms=header.end_timestamp,
    )


def encode_query_message(reply: Records, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    """RocketMQ's QueryMessageResponseHeader, also with QUERY_NOT_FOUND."""
    code, remark = ResponseCode.SUCCESS, ""
    if not reply.records:
        code, remark = ResponseCode.QUERY_NOT_FOUND, "no message of this topic has the key, in this time"
    return request.response(
        code,
        remark,
        {
            "indexLastUpdateTimestamp": str(reply.index_last_update_timestamp),
            "indexLastUpdatePhyoffset": str(reply.index_last_update_physical_offset),
        },
        reply.records,
    )
