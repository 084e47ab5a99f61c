"""Requests about consumer groups: configuration, members, producers."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from broker_core.codes import LANGUAGES, ResponseCode
from broker_core.commands import (
    ClientView,
    ConsumerConnections,
    DeleteSubscriptionGroup,
    GetConsumerConnections,
    GetProducerConnections,
    GetSubscriptionGroups,
    GroupForbidden,
    ProducerConnections,
    SubscriptionData,
    SubscriptionGroups,
    UpdateGroupForbidden,
    UpdateSubscriptionGroup,
    UpdateSubscriptionGroupList,
)
from broker_core.formats.tags_code import hash_code
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests.headers import Header, Name, NonEmpty, json_body, read_body, read_header
from broker_core.remoting.requests.request_type import Identity, Peer

MAX_GROUPS = 4096
"""Of one list."""

# --- Configuration ----------------------------------------------------------------------------------------------------

_config = msgspec.json.Decoder(dict[str, Any])


def decode_update_subscription_group(request: RemotingCommand, peer: Peer) -> UpdateSubscriptionGroup:
    return UpdateSubscriptionGroup(config=read_body(_config, request.body))


class _SubscriptionGroupList(Header):
    group_config_list: Annotated[list[dict[str, Any]], Meta(max_length=MAX_GROUPS)]


_subscription_group_list = msgspec.json.Decoder(_SubscriptionGroupList)


def decode_update_subscription_group_list(request: RemotingCommand, peer: Peer) -> UpdateSubscriptionGroupList:
    return UpdateSubscriptionGroupList(configs=read_body(_subscription_group_list, request.body).group_config_list)


def decode_get_all_subscription_group_config(request: RemotingCommand, peer: Peer) -> GetSubscriptionGroups:
    """Tools may ask for a page (groupSeq, maxGroupNum). They get all groups, which they treat as the last page."""
    return GetSubscriptionGroups()


def encode_all_subscription_group_config(
    reply: SubscriptionGroups, request: RemotingCommand, identity: Identity
) -> RemotingCommand:
    """RocketMQ's SubscriptionGroupWrapper."""
    return request.response(
        ResponseCode.SUCCESS,
        "",
        {"totalGroupNum": str(len(reply.configs))},
        json_body(
            {
                "dataVersion": reply.data_version,
                "forbiddenTable": reply.forbidden,
                "subscriptionGroupTable": reply.configs,
            }
        ),
    )


class GetSubscriptionGroupConfigRequestHeader(Header):
    group: NonEmpty


def decode_get_subscription_group_config(request: RemotingCommand, peer: Peer) -> GetSubscriptionGroups:
    """RocketMQ creates an unknown group on this request. Here the answer is the same, and nothing is created."""
    header = read_header(GetSubscriptionGroupConfigRequestHeader, request.ext_fields)
    return GetSubscriptionGroups(group=header.group, or_default=True)


def encode_subscription_group_config(
    reply: SubscriptionGroups, request: RemotingCommand, identity: Identity
) -> RemotingCommand:
    (config,) = reply.configs.values()
    return request.response(ResponseCode.SUCCESS, body=json_body(config))


class DeleteSubscriptionGroupRequestHeader(Header):
    group_name: Name
    clean_offset: bool = False


def decode_delete_subscription_group(request: RemotingCommand, peer: Peer) -> DeleteSubscriptionGroup:
    header = read_header(DeleteSubscriptionGroupRequestHeader, request.ext_fields)
    return DeleteSubscriptionGroup(group=header.group_name, clean_offset=header.clean_offset)


class UpdateGroupForbiddenRequestHeader(Header):
    group: Name
    topic: Name
    readable: bool | None = None


def decode_update_group_forbidden(request: RemotingCommand, peer: Peer) -> UpdateGroupForbidden:
    header = read_header(UpdateGroupForbiddenRequestHeader, request.ext_fields)
    return UpdateGroupForbidden(group=header.group, topic=header.topic, readable=header.readable)


def encode_group_forbidden(reply: GroupForbidden, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    return request.response(
        ResponseCode.SUCCESS, body=json_body({"group": reply.group, "readable": reply.readable, "topic": reply.topic})
    )


# --- Connections ------------------------------------------------------------------------------------------------------


class GetConsumerConnectionListRequestHeader(Header):
    consumer_group: Name


def decode_get_consumer_connection_list(request: RemotingCommand, peer: Peer) -> GetConsumerConnections:
    return GetConsumerConnections(
        group=read_header(GetConsumerConnectionListRequestHeader, request.ext_fields).consumer_group
    )


def encode_consumer_connection_list(
    reply: ConsumerConnections, request: RemotingCommand, identity: Identity
) -> RemotingCommand:
    """RocketMQ's ConsumerConnection."""
    return request.response(
        ResponseCode.SUCCESS,
        body=json_body(
            {
                "connectionSet": [_connection(client) for client in reply.clients],
                "consumeFromWhere": reply.consume_from_where,
                "consumeType": reply.consume_type,
                "messageModel": reply.message_model,
                "subscriptionTable": {one.topic: subscription_data(one) for one in reply.subscriptions},
            }
        ),
    )


class GetProducerConnectionListRequestHeader(Header):
    producer_group: NonEmpty


def decode_get_producer_connection_list(request: RemotingCommand, peer: Peer) -> GetProducerConnections:
    return GetProducerConnections(
        group=read_header(GetProducerConnectionListRequestHeader, request.ext_fields).producer_group
    )


def encode_producer_connection_list(
    reply: ProducerConnections, request: RemotingCommand, identity: Identity
) -> RemotingCommand:
    """RocketMQ's ProducerConnection."""
    (clients,) = reply.groups.values()
    return request.response(
        ResponseCode.SUCCESS, body=json_body({"connectionSet": [_connection(client) for client in clients]})
    )


def decode_get_all_producer_info(request: RemotingCommand, peer: Peer) -> GetProducerConnections:
    return GetProducerConnections()


def encode_all_producer_info(
    reply: ProducerConnections, request: RemotingCommand, identity: Identity
) -> RemotingCommand:
    """RocketMQ's ProducerTableInfo."""
    return request.response(
        ResponseCode.SUCCESS,
        body=json_body(
            {
                "data": {
                    group: [
                        {
                            "clientId": client.client_id,
                            "language": _language(client),
                            "lastUpdateTimestamp": client.last_heartbeat_ms,
                            "remoteIP": f"/{client.remote}",
                            "version": client.version,
                        }
                        for client in clients
                    ]
                    for group, clients in reply.groups.items()
                }
            }
        ),
    )


def _connection(client: ClientView) -> dict[str, Any]:
    """RocketMQ's Connection."""
    return {
        "clientAddr": client.remote,
        "clientId": client.client_id,
        "language": _language(client),
        "version": client.version,
    }


def _language(client: ClientView) -> str:
    """Java's tools accept RocketMQ's names only."""
    return client.language if client.language in LANGUAGES else "OTHER"


def subscription_data(subscription: SubscriptionData) -> dict[str, Any]:
    """RocketMQ's SubscriptionData, with the tags of the expression and their hash codes."""
    tags: list[str] = []
    if subscription.expression_type in ("", "TAG") and subscription.sub_string not in ("", "*"):
        tags = [tag for part in subscription.sub_string.split("||") if (tag := part.strip())]
    return {
        "classFilterMode": False,
        "codeSet": [hash_code(tag) for tag in tags],
        "expressionType": subscription.expression_type,
        "subString": subscription.sub_string,
        "subVersion": subscription.sub_version,
        "tagsSet": tags,
        "topic": subscription.topic,
    }
