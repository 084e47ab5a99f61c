"""Requests of consumers that pop: POP_MESSAGE, ACK_MESSAGE, CHANGE_MESSAGE_INVISIBLETIME, NOTIFICATION and others.

RocketMQ calls a popped message by its extraInfo, eight words: the first offset of its check point, pop time, invisible
time, revive queue, kind of topic, broker, queue, offset. Clients build it from the answer to a pop.
"""

from base64 import b64decode
from typing import Literal

import msgspec

from broker_core.codes import ResponseCode
from broker_core.commands import (
    AckMessage,
    Acknowledged,
    ChangeInvisibleTime,
    Command,
    GetMessageRequestModes,
    InvisibleTimeChanged,
    MessageRequestModes,
    Notification,
    Notified,
    PeekMessage,
    PollingInfo,
    PollingNumber,
    PopMessage,
    Popped,
    SetMessageRequestMode,
)
from broker_core.errors import RequestError
from broker_core.formats.pop_check_point import NORMAL, POP_ORDER_REVIVE_QUEUE, RETRY, RETRY_V2, kind_of, popped_topic
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests.headers import (
    Header,
    Int,
    Long,
    Name,
    json_body,
    read_body,
    read_header,
    write_header,
)
from broker_core.remoting.requests.request_type import Identity, Peer
from broker_core.remoting.requests.response_template import success_frame

MAX_ACKS = 1000
"""Check points in one BATCH_ACK_MESSAGE."""
MAX_BITS = 512
"""Bytes of a bit set of offsets."""
MAX_MESSAGES = 32
"""Of a check point."""


class PopMessageRequestHeader(Header):
    """RocketMQ's PopMessageRequestHeader. The time of a hold counts from the arrival of the request here, because
    ``bornTime`` is by the client's clock."""

    consumer_group: Name
    topic: Name
    queue_id: Int
    max_msg_nums: Int
    invisible_time: Long
    poll_time: Long
    born_time: Long
    init_mode: Int
    exp_type: Name = "TAG"
    exp: str = ""
    order: bool = False
    attempt_id: str = ""


def decode_pop_message(request: RemotingCommand, peer: Peer) -> PopMessage:
    header = read_header(PopMessageRequestHeader, request.ext_fields)
    return PopMessage(
        topic=header.topic,
        consumer_group=header.consumer_group,
        queue_id=header.queue_id,
        max_msg_nums=header.max_msg_nums,
        invisible_ms=header.invisible_time,
        poll_ms=max(0, header.poll_time),
        from_max=header.init_mode == 1,
        expression=header.exp,
        expression_type=header.exp_type or "TAG",
        order=header.order,
        attempt_id=header.attempt_id,
        client_id=peer.client_id,
        protocol="remoting",
    )


class PopMessageResponseHeader(Header):
    """RocketMQ's PopMessageResponseHeader."""

    pop_time: Long
    invisible_time: Long
    revive_qid: Int
    rest_num: Long
    start_offset_info: str = ""
    msg_offset_info: str = ""
    order_count_info: str | None = None


def encode_popped(reply: Popped, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    """Each queue is named by its kind of topic and its id: ``0 2 100`` is offset 100 of queue 2."""
    topic, group = request.ext_fields.get("topic", ""), request.ext_fields.get("consumerGroup", "")
    places = [(f"{kind_of(queue.topic, topic, group)} {queue.queue_id} ", queue) for queue in reply.queues]
    header = PopMessageResponseHeader(
        pop_time=reply.pop_time_ms,
        invisible_time=reply.invisible_ms,
        revive_qid=reply.revive_queue_id,
        rest_num=reply.rest,
        start_offset_info=";".join(f"{place}{queue.start_offset}" for place, queue in places),
        msg_offset_info=";".join(place + ",".join(map(str, queue.offsets)) for place, queue in places),
        order_count_info=_order_count_info(reply) if reply.revive_queue_id == POP_ORDER_REVIVE_QUEUE else None,
    )
    remark = "FOUND" if reply.records else "NO_MESSAGE_IN_QUEUE"
    return request.response(reply.code, remark, write_header(header), reply.records)


def _order_count_info(reply: Popped) -> str:
    """How often messages were popped in order before: ``0 qo2%100 1`` is once for offset 100 of queue 2.

    Old clients read the last entry of each queue, ``0 2 0``: the least of its messages.
    """
    entries: list[str] = []
    for queue in reply.queues:
        entries += [f"{NORMAL} qo{queue.queue_id}%{offset} {count}" for offset, count in queue.counts.items()]
        least = min(queue.counts.get(offset, 0) for offset in queue.offsets)
        entries.append(f"{NORMAL} {queue.queue_id} {least}")
    return ";".join(entries)


class PeekMessageRequestHeader(Header):
    """RocketMQ's PeekMessageRequestHeader."""

    consumer_group: Name
    topic: Name
    queue_id: Int
    max_msg_nums: Int


def decode_peek_message(request: RemotingCommand, peer: Peer) -> PeekMessage:
    header = read_header(PeekMessageRequestHeader, request.ext_fields)
    return PeekMessage(
        topic=header.topic,
        consumer_group=header.consumer_group,
        queue_id=header.queue_id,
        max_msg_nums=header.max_msg_nums,
    )


# --- Acknowledging ----------------------------------------------------------------------------------------------------


class AckMessageRequestHeader(Header):
    """RocketMQ's AckMessageRequestHeader."""

    consumer_group: Name
    topic: Name
    queue_id: Int
    extra_info: str
    offset: Long


def read_extra_info(header: AckMessageRequestHeader) -> tuple[int, int, bool]:
    """What an extraInfo says: the check point's start offset, the pop's time in ms, and whether it was a pop in order.

    RequestError (INVALID_PARAMETER) for a text that no pop returns, and for one that names another message than the
    header does. RocketMQ does not compare them, and acknowledges a message whose extraInfo the client does not have.
    The last word may be missing. The broker's name is not compared, because the broker may have had another name before
    its store was adopted.
    """
    words = header.extra_info.split(" ")
    try:
        start_offset, pop_time, _, revive_queue, kind, _, *place = words[:8]
        numbers = [int(start_offset), int(pop_time), int(revive_queue), *map(int, place)]
        if kind not in (NORMAL, RETRY, RETRY_V2) or not place or min(numbers) < 0 or max(numbers) >> 63:
            raise ValueError(header.extra_info)
    except ValueError as error:
        raise RequestError(
            f"extraInfo {header.extra_info[:100]!r} is not one that a pop returns: those have 7 or 8 words, and all "
            "but the broker's name are numbers"
        ) from error
    is_retry = header.topic.startswith(f"%RETRY%{header.consumer_group}")
    if numbers[3:] != [header.queue_id, header.offset][: len(place)] or (kind != NORMAL and not is_retry):
        raise RequestError(
            f"extraInfo {header.extra_info[:100]!r} belongs to another message than the request names: "
            f"offset {header.offset} of queue {header.queue_id} of topic {header.topic}"
        )
    return numbers[0], numbers[1], numbers[2] == POP_ORDER_REVIVE_QUEUE


def decode_ack_message(request: RemotingCommand, peer: Peer) -> AckMessage:
    header = read_header(AckMessageRequestHeader, request.ext_fields)
    start_offset, pop_time_ms, order = read_extra_info(header)
    return AckMessage(
        consumer_group=header.consumer_group,
        topic=header.topic,
        queue_id=header.queue_id,
        start_offset=start_offset,
        pop_time_ms=pop_time_ms,
        offsets=[header.offset],
        order=order,
    )


def encode_acknowledged(
    reply: Acknowledged | list[Acknowledged], request: RemotingCommand, identity: Identity
) -> RemotingCommand | bytes:
    """As in RocketMQ, a message that is not invisible any more makes no difference."""
    if request.serialize_type == "JSON":
        return success_frame(request)
    return request.response(ResponseCode.SUCCESS)


class _BatchAck(msgspec.Struct, gc=False):
    """RocketMQ's BatchAck: messages of one check point, as a bit set of offsets behind ``so``, in Base64."""

    c: Name
    t: Name
    so: Long
    q: Int
    pt: Long
    b: str
    r: str = NORMAL
    rq: Int = 0
    it: Long = 0


class _BatchAckMessageRequestBody(Header):
    acks: list[_BatchAck]


_batch_ack_message_request_body = msgspec.json.Decoder(_BatchAckMessageRequestBody)


def decode_batch_ack_message(request: RemotingCommand, peer: Peer) -> list[Command]:
    """One command for each check point."""
    body = read_body(_batch_ack_message_request_body, request.body)
    if not 0 < len(body.acks) <= MAX_ACKS:
        raise RequestError(f"a batch acknowledges 1 to {MAX_ACKS} check points", code=ResponseCode.NO_MESSAGE)
    return [
        AckMessage(
            consumer_group=ack.c,
            topic=_topic(ack),
            queue_id=ack.q,
            start_offset=ack.so,
            pop_time_ms=ack.pt,
            offsets=_offsets(ack),
            order=ack.rq == POP_ORDER_REVIVE_QUEUE,
        )
        for ack in body.acks
    ]


def _topic(ack: _BatchAck) -> str:
    if ack.r not in (NORMAL, RETRY, RETRY_V2):
        raise RequestError(f"this broker has no topics of kind {ack.r[:10]!r}")
    return popped_topic(ack.r, ack.t, ack.c)


def _offsets(ack: _BatchAck) -> list[int]:
    if len(ack.b) > 2 * MAX_BITS:
        raise RequestError(f"the bit set of an acknowledgement has at most {MAX_BITS} bytes")
    try:
        data = b64decode(ack.b, validate=True)
    except ValueError as error:
        raise RequestError("the bit set of an acknowledgement is not Base64") from error
    if int.from_bytes(data).bit_count() > MAX_MESSAGES:
        raise RequestError(f"a check point has at most {MAX_MESSAGES} messages to acknowledge")
    return [ack.so + 8 * place + bit for place, byte in enumerate(data) if byte for bit in range(8) if byte >> bit & 1]


class ChangeInvisibleTimeRequestHeader(AckMessageRequestHeader):
    """RocketMQ's ChangeInvisibleTimeRequestHeader."""

    invisible_time: Long


def decode_change_invisible_time(request: RemotingCommand, peer: Peer) -> ChangeInvisibleTime:
    header = read_header(ChangeInvisibleTimeRequestHeader, request.ext_fields)
    start_offset, pop_time_ms, order = read_extra_info(header)
    return ChangeInvisibleTime(
        consumer_group=header.consumer_group,
        topic=header.topic,
        queue_id=header.queue_id,
        start_offset=start_offset,
        pop_time_ms=pop_time_ms,
        offset=header.offset,
        invisible_ms=header.invisible_time,
        order=order,
    )


class ChangeInvisibleTimeResponseHeader(Header):
    """RocketMQ's ChangeInvisibleTimeResponseHeader."""

    pop_time: Long
    invisible_time: Long
    revive_qid: Int


def encode_invisible_time_changed(
    reply: InvisibleTimeChanged, request: RemotingCommand, identity: Identity
) -> RemotingCommand:
    header = ChangeInvisibleTimeResponseHeader(reply.pop_time_ms, reply.invisible_ms, reply.revive_queue_id)
    return request.response(ResponseCode.SUCCESS, "", write_header(header))


# --- Waiting ----------------------------------------------------------------------------------------------------------


class NotificationRequestHeader(Header):
    """RocketMQ's NotificationRequestHeader."""

    consumer_group: Name
    topic: Name
    queue_id: Int
    poll_time: Long
    born_time: Long
    order: bool = False
    attempt_id: str = ""


def decode_notification(request: RemotingCommand, peer: Peer) -> Notification:
    header = read_header(NotificationRequestHeader, request.ext_fields)
    return Notification(
        topic=header.topic,
        consumer_group=header.consumer_group,
        queue_id=header.queue_id,
        poll_ms=max(0, header.poll_time),
        order=header.order,
        attempt_id=header.attempt_id,
        client_id=peer.client_id,
    )


class NotificationResponseHeader(Header):
    """RocketMQ's NotificationResponseHeader."""

    has_msg: bool
    polling_full: bool


def encode_notified(reply: Notified, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    header = NotificationResponseHeader(reply.has_message, reply.polling_full)
    return request.response(ResponseCode.SUCCESS, "", write_header(header))


class PollingInfoRequestHeader(Header):
    """RocketMQ's PollingInfoRequestHeader."""

    consumer_group: Name
    topic: Name
    queue_id: Int


def decode_polling_info(request: RemotingCommand, peer: Peer) -> PollingInfo:
    header = read_header(PollingInfoRequestHeader, request.ext_fields)
    return PollingInfo(topic=header.topic, consumer_group=header.consumer_group, queue_id=header.queue_id)


def encode_polling_number(reply: PollingNumber, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    return request.response(ResponseCode.SUCCESS, "", {"pollingNum": str(reply.number)})


# --- Modes ------------------------------------------------------------------------------------------------------------


class _SetMessageRequestModeRequestBody(Header):
    topic: Name
    consumer_group: Name
    mode: Literal["PULL", "POP"] = "PULL"
    pop_share_queue_num: Int = 0


_set_message_request_mode_request_body = msgspec.json.Decoder(_SetMessageRequestModeRequestBody)


def decode_set_message_request_mode(request: RemotingCommand, peer: Peer) -> SetMessageRequestMode:
    body = read_body(_set_message_request_mode_request_body, request.body)
    return SetMessageRequestMode(
        topic=body.topic,
        consumer_group=body.consumer_group,
        mode=body.mode,
        share_queues=body.pop_share_queue_num,
    )


def decode_get_all_message_request_mode(request: RemotingCommand, peer: Peer) -> GetMessageRequestModes:
    return GetMessageRequestModes()


def encode_all_message_request_mode(
    reply: MessageRequestModes, request: RemotingCommand, identity: Identity
) -> RemotingCommand:
    return request.response(ResponseCode.SUCCESS, body=json_body(reply.table))
