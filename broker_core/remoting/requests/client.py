"""Requests of clients: heartbeat, unregister, lock queues."""

from typing import Annotated, get_args

import msgspec
from msgspec import Meta

from broker_core.codes import ResponseCode
from broker_core.commands import (
    CheckClientConfig,
    ConsumerData,
    ConsumeType,
    HeartBeat,
    HeartBeatDone,
    LockBatchMq,
    LockedQueues,
    MessageModel,
    MessageQueue,
    SubscriptionData,
    UnlockBatchMq,
    UnregisterClient,
)
from broker_core.formats.tags_code import hash_code
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests.headers import Header, Int, Long, Name, NonEmpty, json_body, read_body, read_header
from broker_core.remoting.requests.request_type import Identity, Peer

MAX_ENTRIES = Meta(max_length=4096)
"""Groups of one client, subscriptions of one group, queues of one lock."""

CONSUME_TYPES = get_args(ConsumeType)

# --- HEART_BEAT, UNREGISTER_CLIENT, CHECK_CLIENT_CONFIG -----------------------------------------------------------


class _SubscriptionData(Header):
    """tagsSet and codeSet are not read: they follow from subString, and clients compute them differently."""

    topic: Name
    sub_string: str | None = "*"
    expression_type: Name | None = "TAG"
    sub_version: Long = 0

    def as_command(self) -> SubscriptionData:
        return SubscriptionData(
            topic=self.topic,
            sub_string=self.sub_string or "*",
            expression_type=self.expression_type or "TAG",
            sub_version=self.sub_version,
        )


class _SentSubscriptionData(_SubscriptionData):
    """What clients write. RocketMQ's broker filters by ``code_set``."""

    tags_set: list[str] = msgspec.field(default_factory=list)
    code_set: list[int] = msgspec.field(default_factory=list)
    class_filter_mode: bool = False

    @classmethod
    def of(cls, data: SubscriptionData) -> "_SentSubscriptionData":
        tags = [tag.strip() for tag in data.sub_string.split("||")] if data.expression_type == "TAG" else []
        tags = [tag for tag in tags if tag not in ("", "*")]
        return cls(
            data.topic,
            data.sub_string,
            data.expression_type,
            data.sub_version,
            tags,
            [hash_code(tag) for tag in tags],
        )


class _ProducerData(Header):
    group_name: Name


class _ConsumerData(Header):
    """Old Go clients send PUSH for CONSUME_PASSIVELY."""

    group_name: Name
    consume_type: Name | None = "CONSUME_PASSIVELY"
    message_model: MessageModel = "CLUSTERING"
    consume_from_where: Name | None = "CONSUME_FROM_LAST_OFFSET"
    unit_mode: bool = False
    subscription_data_set: Annotated[list[_SubscriptionData], MAX_ENTRIES] | None = None

    def as_command(self) -> ConsumerData:
        consume_type = self.consume_type if self.consume_type in CONSUME_TYPES else "CONSUME_PASSIVELY"
        return ConsumerData(
            group=self.group_name,
            consume_type=consume_type,  # type: ignore[arg-type]
            message_model=self.message_model,
            unit_mode=self.unit_mode,
            consume_from_where=self.consume_from_where or "CONSUME_FROM_LAST_OFFSET",
            subscriptions=[entry.as_command() for entry in self.subscription_data_set or ()],
        )


class _HeartbeatData(Header):
    client_id: NonEmpty = msgspec.field(name="clientID")
    producer_data_set: Annotated[list[_ProducerData], MAX_ENTRIES] | None = None
    consumer_data_set: Annotated[list[_ConsumerData], MAX_ENTRIES] | None = None
    without_sub: bool = False


_heartbeat_data = msgspec.json.Decoder(_HeartbeatData)


def decode_heart_beat(request: RemotingCommand, peer: Peer) -> HeartBeat:
    data = read_body(_heartbeat_data, request.body)
    return HeartBeat(
        client_id=data.client_id,
        protocol="remoting",
        language=request.language,
        version=request.version,
        producer_groups=[entry.group_name for entry in data.producer_data_set or ()],
        consumers=[entry.as_command() for entry in data.consumer_data_set or ()],
        without_sub=data.without_sub,
    )


def encode_heart_beat(command: HeartBeat) -> bytes:
    """The body of a client's HEART_BEAT."""
    return json_body(
        _HeartbeatData(
            command.client_id,
            [_ProducerData(group) for group in command.producer_groups],
            [
                _ConsumerData(
                    data.group,
                    data.consume_type,
                    data.message_model,
                    data.consume_from_where,
                    data.unit_mode,
                    [_SentSubscriptionData.of(subscription) for subscription in data.subscriptions],
                )
                for data in command.consumers
            ],
            command.without_sub,
        )
    )


def encode_heart_beat_done(reply: HeartBeatDone, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    """The first field allows clients to leave their subscriptions out (``withoutSub``)."""
    return request.response(
        ResponseCode.SUCCESS,
        "",
        {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true" if reply.sub_changed else "false"},
    )


class UnregisterClientRequestHeader(Header):
    client_id: NonEmpty = msgspec.field(name="clientID")
    producer_group: Name = ""
    consumer_group: Name = ""


def decode_unregister_client(request: RemotingCommand, peer: Peer) -> UnregisterClient:
    header = read_header(UnregisterClientRequestHeader, request.ext_fields)
    return UnregisterClient(
        client_id=header.client_id, producer_group=header.producer_group, consumer_group=header.consumer_group
    )


class _CheckClientRequestBody(Header):
    client_id: NonEmpty
    group: Name
    subscription_data: _SubscriptionData


_check_client_request_body = msgspec.json.Decoder(_CheckClientRequestBody)


def decode_check_client_config(request: RemotingCommand, peer: Peer) -> CheckClientConfig:
    body = read_body(_check_client_request_body, request.body)
    return CheckClientConfig(
        client_id=body.client_id, group=body.group, subscription=body.subscription_data.as_command()
    )


class ConsumerConnection(Header):
    """RocketMQ's ConsumerConnection, as far as clients read it: the subscriptions of a group, by topic."""

    subscription_table: dict[Name, _SubscriptionData] = msgspec.field(default_factory=dict)


class _SentCheckClientRequestBody(Header):
    client_id: NonEmpty
    group: Name
    subscription_data: _SentSubscriptionData


def encode_check_client_request(group: str, client_id: str, subscription: SubscriptionData) -> bytes:
    """The body of a client's CHECK_CLIENT_CONFIG."""
    return json_body(_SentCheckClientRequestBody(client_id, group, _SentSubscriptionData.of(subscription)))


# --- LOCK_BATCH_MQ, UNLOCK_BATCH_MQ --------------------------------------------------------------------------------


class _MessageQueue(Header):
    topic: Name
    broker_name: Name
    queue_id: Int


class _LockBatchRequestBody(Header):
    consumer_group: Name
    client_id: NonEmpty
    mq_set: Annotated[list[_MessageQueue], MAX_ENTRIES] | None = None

    def queues(self) -> list[MessageQueue]:
        return [
            MessageQueue(topic=queue.topic, broker_name=queue.broker_name, queue_id=queue.queue_id)
            for queue in self.mq_set or ()
        ]


_lock_batch_request_body = msgspec.json.Decoder(_LockBatchRequestBody)


def decode_lock_batch_mq(request: RemotingCommand, peer: Peer) -> LockBatchMq:
    body = read_body(_lock_batch_request_body, request.body)
    return LockBatchMq(group=body.consumer_group, client_id=body.client_id, queues=body.queues())


def decode_unlock_batch_mq(request: RemotingCommand, peer: Peer) -> UnlockBatchMq:
    body = read_body(_lock_batch_request_body, request.body)
    return UnlockBatchMq(group=body.consumer_group, client_id=body.client_id, queues=body.queues())


def encode_lock_batch_request(group: str, client_id: str, queues: list[MessageQueue]) -> bytes:
    """The body of a client's LOCK_BATCH_MQ or UNLOCK_BATCH_MQ."""
    return json_body(
        _LockBatchRequestBody(
            group, client_id, [_MessageQueue(queue.topic, queue.broker_name, queue.queue_id) for queue in queues]
        )
    )


class LockBatchResponseBody(Header):
    """RocketMQ's LockBatchResponseBody: the queues that are locked for the client now."""

    locked: list[_MessageQueue] | None = msgspec.field(name="lockOKMQSet", default=None)

    def queues(self) -> list[MessageQueue]:
        return [
            MessageQueue(topic=queue.topic, broker_name=queue.broker_name, queue_id=queue.queue_id)
            for queue in self.locked or ()
        ]


def encode_locked_queues(reply: LockedQueues, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    queues = [
        {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic} for queue in reply.queues
    ]
    return request.response(ResponseCode.SUCCESS, body=json_body({"lockOKMQSet": queues}))
