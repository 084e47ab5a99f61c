"""PULL_MESSAGE and LITE_PULL_MESSAGE: read a queue from an offset on, or be held if it has nothing new."""

from broker_core.codes import RequestCode
from broker_core.commands import Pulled, PullMessage
from broker_core.remoting.remoting_command import MAX_FRAME, RemotingCommand
from broker_core.remoting.requests.headers import Header, Int, Long, Name, read_header, write_header
from broker_core.remoting.requests.request_type import Identity, Peer
from broker_core.remoting.requests.response_template import ResponseTemplate

COMMIT_OFFSET, SUSPEND, SUBSCRIPTION, LITE_PULL = 1, 2, 4, 16
"""Bits of a pull's sysFlag: take commitOffset, hold me, my subscription is in the header, I am a lite pull consumer."""

MAX_RECORDS = MAX_FRAME - 64 * 1024
"""Bytes of records in one answer at most, so that clients accept its frame."""


class PullMessageRequestHeader(Header):
    """RocketMQ's PullMessageRequestHeader. Without maxMsgBytes the broker's own limits decide."""

    consumer_group: Name
    topic: Name
    queue_id: Int
    queue_offset: Long
    max_msg_nums: Int
    sys_flag: Int
    commit_offset: Long
    suspend_timeout_millis: Long
    sub_version: Long
    subscription: str = ""
    expression_type: Name = "TAG"
    max_msg_bytes: Int | None = None


def decode_pull_message(request: RemotingCommand, peer: Peer) -> PullMessage:
    """A pull for no messages, as Go's pull consumer sends it, gets one message, as from RocketMQ."""
    header = read_header(PullMessageRequestHeader, request.ext_fields)
    sys_flag, wanted = header.sys_flag, header.max_msg_bytes
    return PullMessage(
        topic=header.topic,
        queue_id=header.queue_id,
        queue_offset=header.queue_offset,
        max_msg_nums=max(1, header.max_msg_nums),
        max_msg_bytes=MAX_RECORDS if wanted is None or wanted > MAX_RECORDS else wanted,
        suspend_timeout_ms=max(0, header.suspend_timeout_millis) if sys_flag & SUSPEND else 0,
        consumer_group=header.consumer_group,
        client_id=peer.client_id,
        protocol="remoting",
        subscription=header.subscription or "*" if sys_flag & SUBSCRIPTION else None,
        expression_type=header.expression_type or "TAG",
        commit_offset=max(-1, header.commit_offset) if sys_flag & COMMIT_OFFSET else -1,
        sub_version=header.sub_version,
        check_group=True,
        lite=request.code == RequestCode.LITE_PULL_MESSAGE,
    )


class PullMessageResponseHeader(Header):
    """RocketMQ's PullMessageResponseHeader."""

    suggest_which_broker_id: Long
    next_begin_offset: Long
    min_offset: Long
    max_offset: Long


_PULLED = ResponseTemplate(b'"maxOffset":"%d","minOffset":"%d","nextBeginOffset":"%d","suggestWhichBrokerId":"%d"')


def encode_pulled(reply: Pulled, request: RemotingCommand, identity: Identity) -> RemotingCommand | bytes:
    """The PullMessageResponseHeader. Clients need all four fields, whatever the code."""
    if request.serialize_type == "JSON" and len(reply.records) <= MAX_RECORDS:
        return _PULLED.frame(
            request,
            reply.code,
            reply.status,
            (reply.max_offset, reply.min_offset, reply.next_begin_offset, identity.broker_id),
            reply.records,
        )
    return request.response(
        reply.code,
        reply.status,
        write_header(
            PullMessageResponseHeader(identity.broker_id, reply.next_begin_offset, reply.min_offset, reply.max_offset)
        ),
        reply.records,
    )
