"""One-way requests of a broker to its clients, in one table."""

from collections.abc import Callable
from typing import Any

from broker_core.codes import RequestCode
from broker_core.commands import CheckTransactionState, ConsumerIdsChanged, Notice, ResetConsumerClientOffset
from broker_core.remoting.remoting_command import RemotingCommand, SerializeType
from broker_core.remoting.requests.admin_offset import encode_reset_offsets
from broker_core.remoting.requests.headers import Header, Long, Name, write_header

Content = tuple[dict[str, str], bytes]
"""extFields and body."""


def _consumer_ids_changed(notice: ConsumerIdsChanged) -> Content:
    return {"consumerGroup": notice.group}, b""


class CheckTransactionStateRequestHeader(Header):
    """RocketMQ's CheckTransactionStateRequestHeader. ``bname`` is the broker's name."""

    tran_state_table_offset: Long
    commit_log_offset: Long
    topic: Name = ""
    msg_id: str = ""
    transaction_id: str = ""
    offset_msg_id: str = ""
    bname: str = ""


def _check_transaction_state(notice: CheckTransactionState) -> Content:
    header = CheckTransactionStateRequestHeader(
        notice.tran_state_table_offset,
        notice.commit_log_offset,
        notice.topic,
        notice.message_id,
        notice.message_id,
        notice.offset_message_id,
        notice.broker_name,
    )
    return write_header(header), notice.record


class ResetConsumerClientOffsetHeader(Header):
    """RocketMQ's ResetOffsetRequestHeader. ``timestamp`` is that of the request; clients use the body only."""

    topic: Name
    group: Name
    timestamp: Long = 0
    is_force: bool = True


def _reset_consumer_client_offset(notice: ResetConsumerClientOffset) -> Content:
    header = ResetConsumerClientOffsetHeader(notice.topic, notice.group)
    return write_header(header), encode_reset_offsets(notice.offsets, notice.broker_name)


NOTICES: dict[type[Notice], tuple[RequestCode, Callable[[Any], Content]]] = {
    ConsumerIdsChanged: (RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, _consumer_ids_changed),
    CheckTransactionState: (RequestCode.CHECK_TRANSACTION_STATE, _check_transaction_state),
    ResetConsumerClientOffset: (RequestCode.RESET_CONSUMER_CLIENT_OFFSET, _reset_consumer_client_offset),
}
"""The engine's notice -> RocketMQ's request code for it, and its content."""


def encode_notice(notice: Notice, opaque: int, serialize_type: SerializeType) -> RemotingCommand | None:
    """The one-way request for a notice; None for a notice that RocketMQ's clients do not know."""
    known = NOTICES.get(type(notice))
    if known is None:
        return None
    code, content_of = known
    ext_fields, body = content_of(notice)
    return RemotingCommand.request(code, ext_fields, body, opaque=opaque, oneway=True, serialize_type=serialize_type)
