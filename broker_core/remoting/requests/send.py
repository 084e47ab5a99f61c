"""SEND_MESSAGE, SEND_MESSAGE_V2, SEND_BATCH_MESSAGE: one message, or a batch of them.

SEND_MESSAGE has the full names of its fields, the other two have a letter for each. The ``batch`` field (``m``), not
the request code, says whether the body is a batch.
"""

from typing import Literal

from broker_core.codes import RequestCode, ResponseCode
from broker_core.commands import (
    EndTransaction,
    Failed,
    OutgoingMessage,
    Recalled,
    RecallMessage,
    ReplyMessage,
    SendMessage,
    SendReplyMessage,
    Sent,
)
from broker_core.errors import RequestError
from broker_core.formats import message_properties
from broker_core.formats.commit_log_record import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_ROLLBACK
from broker_core.formats.inner_batch import INNER_FLAGS, INNER_NUM
from broker_core.formats.message_batch import MessageBatchError, decode_batch
from broker_core.formats.message_properties import DELAY, ENTRY_END, NAME_END, UNIQ_KEY
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests.headers import Header, Int, Long, Name, json_body, read_header, write_header
from broker_core.remoting.requests.request_type import Identity, Peer, Relay
from broker_core.remoting.requests.response_template import ResponseTemplate

RETRY_PREFIX = "%RETRY%"
PUSH_SECONDS = 10.0
"""How long a requester may take to answer the push of a reply, as in RocketMQ's callClient."""

KNOWS_MAX_RECONSUME_TIMES = 121
"""RocketMQ 3.4.9: older clients send an unrelated value in maxReconsumeTimes."""


class SendMessageRequestHeader(Header):
    """RocketMQ's SendMessageRequestHeader."""

    producer_group: Name
    topic: Name
    default_topic: Name
    default_topic_queue_nums: Int
    queue_id: Int
    sys_flag: Int
    born_timestamp: Long
    flag: Int
    properties: str = ""
    reconsume_times: Int = 0
    max_reconsume_times: Int | None = None
    batch: bool = False


class SendMessageRequestHeaderV2(
    Header, rename=dict(zip(SendMessageRequestHeader.__struct_fields__, "abcdefghijlm", strict=True))
):
    """RocketMQ's SendMessageRequestHeaderV2: the same, by letters."""

    producer_group: Name
    topic: Name
    default_topic: Name
    default_topic_queue_nums: Int
    queue_id: Int
    sys_flag: Int
    born_timestamp: Long
    flag: Int
    properties: str = ""
    reconsume_times: Int = 0
    max_reconsume_times: Int | None = None
    batch: bool = False


SendHeader = SendMessageRequestHeader | SendMessageRequestHeaderV2


def decode_send_message(request: RemotingCommand, peer: Peer) -> SendMessage:
    return _command(read_header(SendMessageRequestHeader, request.ext_fields), request, peer)


def decode_send_message_v2(request: RemotingCommand, peer: Peer) -> SendMessage:
    return _command(read_header(SendMessageRequestHeaderV2, request.ext_fields), request, peer)


def decode_send_reply_message(request: RemotingCommand, peer: Peer) -> SendReplyMessage:
    return SendReplyMessage(send=decode_send_message(request, peer))


def decode_send_reply_message_v2(request: RemotingCommand, peer: Peer) -> SendReplyMessage:
    return SendReplyMessage(send=decode_send_message_v2(request, peer))


def _command(header: SendHeader, request: RemotingCommand, peer: Peer) -> SendMessage:
    if header.sys_flag & INNER_FLAGS:
        raise _illegal("sysFlag says that the body is an inner batch; only the broker makes these")
    messages = (
        _batch(header, request.body)
        if header.batch
        else [
            OutgoingMessage(
                body=request.body,
                properties=_checked(header.properties),
                queue_id=header.queue_id,
                flag=header.flag,
                sys_flag=header.sys_flag,
                born_timestamp=header.born_timestamp,
                reconsume_times=header.reconsume_times,
            )
        ]
    )
    return SendMessage(
        topic=header.topic,
        messages=messages,
        producer_group=header.producer_group,
        default_topic=header.default_topic,
        default_topic_queue_nums=header.default_topic_queue_nums,
        born_host=peer.host,
        born_port=peer.port,
        max_reconsume_times=header.max_reconsume_times if request.version >= KNOWS_MAX_RECONSUME_TIMES else None,
        batch_properties=_checked(header.properties) if header.batch else "",
    )


def _batch(header: SendHeader, body: bytes) -> list[OutgoingMessage]:
    """The messages of a batch. RequestError (MESSAGE_ILLEGAL) for messages that a batch cannot contain."""
    if header.topic.startswith(RETRY_PREFIX):
        raise _illegal("messages for a retry topic are sent one by one")
    if header.sys_flag & TRANSACTION_MASK:
        raise _illegal("transactional messages are sent one by one")
    if _is_delayed(header.properties):
        raise _illegal("delayed messages are sent one by one")
    try:
        entries = decode_batch(body)
    except MessageBatchError as error:
        raise _illegal(f"the batch is damaged: {error}") from error
    messages = []
    for entry in entries:
        if _is_delayed(entry.properties):
            raise _illegal("delayed messages are sent one by one")
        messages.append(
            OutgoingMessage(
                body=entry.body,
                properties=_checked(entry.properties),
                queue_id=header.queue_id,
                flag=entry.flag,
                sys_flag=header.sys_flag,
                born_timestamp=header.born_timestamp,
                reconsume_times=header.reconsume_times,
            )
        )
    return messages


def _is_delayed(properties: str) -> bool:
    return DELAY in properties and message_properties.find(properties, DELAY) not in ("", "0")


def _checked(properties: str) -> str:
    """Check that every entry of a property string has a name and a value."""
    for entry in properties.split(ENTRY_END):
        if entry and entry.find(NAME_END) < 1:
            raise _illegal(f"properties: {entry[:100]!r} is not a name, 0x01 and a value")
    if INNER_NUM in properties and message_properties.find(properties, INNER_NUM):
        raise _illegal("properties: INNER_NUM is set by the broker alone, for inner batches")
    return properties


def _illegal(remark: str) -> RequestError:
    return RequestError(remark, code=ResponseCode.MESSAGE_ILLEGAL)


class SendMessageResponseHeader(Header):
    """RocketMQ's SendMessageResponseHeader. ``transaction_id`` is the message's UNIQ_KEY."""

    msg_id: str
    queue_id: Int
    queue_offset: Long
    transaction_id: str = ""
    batch_uniq_id: str | None = None
    recall_handle: str | None = None


_SENT = ResponseTemplate(
    b'"MSG_REGION":"DefaultRegion","TRACE_ON":"true","msgId":"%b","queueId":"%d","queueOffset":"%d","transactionId":%b'
)


def encode_sent(reply: Sent, request: RemotingCommand, identity: Identity) -> RemotingCommand | bytes:
    """The SendMessageResponseHeader. Of a batch: all ids, the first offset, and the id of the batch itself."""
    first = reply.messages[0]
    if len(reply.messages) == 1:
        ids, unique_key = first.offset_message_id, first.message_id
    else:
        ids = ",".join([message.offset_message_id for message in reply.messages])
        name = "properties" if request.code == RequestCode.SEND_MESSAGE else "i"
        unique_key = message_properties.find(request.ext_fields.get(name, ""), UNIQ_KEY)
    if request.serialize_type == "JSON" and not first.recall_handle and not reply.batch_uniq_id:
        return _SENT.frame(
            request, reply.code, "", (ids.encode(), first.queue_id, first.queue_offset, json_body(unique_key))
        )
    return request.response(
        reply.code,
        "",
        write_header(
            SendMessageResponseHeader(
                ids,
                first.queue_id,
                first.queue_offset,
                unique_key,
                reply.batch_uniq_id or None,
                first.recall_handle or None,
            )
        )
        | {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"},
    )


# --- SEND_REPLY_MESSAGE ----------------------------------------------------------------------------------------------


class ReplyMessageRequestHeader(Header):
    """RocketMQ's ReplyMessageRequestHeader, of PUSH_REPLY_MESSAGE_TO_CLIENT. Hosts are ``address:port``."""

    producer_group: Name
    topic: Name
    default_topic: Name
    default_topic_queue_nums: Int
    queue_id: Int
    sys_flag: Int
    born_timestamp: Long
    flag: Int
    properties: str
    reconsume_times: Int
    born_host: str
    store_host: str
    store_timestamp: Long
    unit_mode: bool = False


def encode_reply_message(reply: ReplyMessage, request: RemotingCommand, identity: Identity) -> Relay:
    """Push the reply to the requester first. The answer is a send's, or SYSTEM_ERROR if the push failed."""
    kind: type[SendHeader] = (
        SendMessageRequestHeader if request.code == RequestCode.SEND_REPLY_MESSAGE else SendMessageRequestHeaderV2
    )
    header = read_header(kind, request.ext_fields)
    push = ReplyMessageRequestHeader(
        producer_group=header.producer_group,
        topic=header.topic,
        default_topic=header.default_topic,
        default_topic_queue_nums=header.default_topic_queue_nums,
        queue_id=header.queue_id,
        sys_flag=header.sys_flag,
        born_timestamp=header.born_timestamp,
        flag=header.flag,
        properties=reply.properties,
        reconsume_times=header.reconsume_times,
        born_host=reply.born_host,
        store_host=reply.store_host,
        store_timestamp=reply.store_time_ms,
    )

    def answer(answers: list[RemotingCommand | Failed]) -> RemotingCommand:
        (pushed,) = answers
        if pushed.code == ResponseCode.SUCCESS:
            where = SendMessageResponseHeader(reply.offset_message_id, reply.queue_id, reply.queue_offset)
            return request.response(
                ResponseCode.SUCCESS,
                "",
                write_header(where) | {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"},
            )
        return request.response(
            ResponseCode.SYSTEM_ERROR, f"the reply was not taken by its requester {reply.client_id}: {pushed.remark}"
        )

    return Relay(
        [reply.client_id],
        RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
        write_header(push),
        reply.body,
        PUSH_SECONDS,
        answer,
    )


# --- END_TRANSACTION -------------------------------------------------------------------------------------------------


class EndTransactionRequestHeader(Header):
    """RocketMQ's EndTransactionRequestHeader."""

    producer_group: Name
    tran_state_table_offset: Long
    commit_log_offset: Long
    commit_or_rollback: Int
    from_transaction_check: bool = False
    msg_id: str = ""
    transaction_id: str = ""
    topic: Name = ""


DECISIONS: dict[int, Literal["commit", "rollback", "unknown"]] = {
    TRANSACTION_COMMIT: "commit",
    TRANSACTION_ROLLBACK: "rollback",
    0: "unknown",
}


def decode_end_transaction(request: RemotingCommand, peer: Peer) -> EndTransaction:
    header = read_header(EndTransactionRequestHeader, request.ext_fields)
    decision = DECISIONS.get(header.commit_or_rollback)
    if decision is None:
        raise RequestError(
            f"extFields: commitOrRollback is 8 (commit), 12 (rollback) or 0 (unknown), not {header.commit_or_rollback}",
            code=ResponseCode.SYSTEM_ERROR,
        )
    return EndTransaction(
        producer_group=header.producer_group,
        tran_state_table_offset=header.tran_state_table_offset,
        commit_log_offset=header.commit_log_offset,
        decision=decision,
        from_transaction_check=header.from_transaction_check,
    )


# --- RECALL_MESSAGE --------------------------------------------------------------------------------------------------


class RecallMessageRequestHeader(Header):
    """RocketMQ's RecallMessageRequestHeader."""

    topic: Name
    recall_handle: str
    producer_group: Name | None = None


class RecallMessageResponseHeader(Header):
    """RocketMQ's RecallMessageResponseHeader."""

    msg_id: str


def decode_recall_message(request: RemotingCommand, peer: Peer) -> RecallMessage:
    header = read_header(RecallMessageRequestHeader, request.ext_fields)
    return RecallMessage(
        topic=header.topic,
        recall_handle=header.recall_handle,
        producer_group=header.producer_group or "",
        born_host=peer.host,
        born_port=peer.port,
    )


def encode_recalled(reply: Recalled, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    header = RecallMessageResponseHeader(reply.message_id)
    return request.response(ResponseCode.SUCCESS, "", write_header(header) | {"MSG_REGION": "DefaultRegion"})
