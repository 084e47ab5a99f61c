"""Requests of administrators' tools that show, create, change and delete topics."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from broker_core.codes import ResponseCode
from broker_core.commands import (
    DeleteTopic,
    GetTopicConfigs,
    GetTopics,
    GetTopicStats,
    MessageQueue,
    TopicConfigs,
    Topics,
    TopicStats,
    UpdateAndCreateTopic,
    UpdateAndCreateTopicList,
)
from broker_core.remoting import fastjson
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests.headers import Header, Int, Name, NonEmpty, json_body, read_body, read_header
from broker_core.remoting.requests.request_type import Identity, Peer

FilterType = Literal["SINGLE_TAG", "MULTI_TAG"]
MAX_TOPICS = 4096
"""Of one list."""

# --- UPDATE_AND_CREATE_TOPIC, UPDATE_AND_CREATE_TOPIC_LIST, DELETE_TOPIC_IN_BROKER -----------------------------------


class CreateTopicRequestHeader(Header):
    """RocketMQ's CreateTopicRequestHeader without ``defaultTopic`` and ``force``, which are not used."""

    topic: Name
    read_queue_nums: Int
    write_queue_nums: Int
    perm: Int
    topic_filter_type: FilterType
    topic_sys_flag: Int = 0
    order: bool = False
    attributes: str = ""


def decode_update_and_create_topic(request: RemotingCommand, peer: Peer) -> UpdateAndCreateTopic:
    header = read_header(CreateTopicRequestHeader, request.ext_fields)
    return UpdateAndCreateTopic(
        topic=header.topic,
        read_queues=header.read_queue_nums,
        write_queues=header.write_queue_nums,
        perm=header.perm,
        order=header.order,
        filter_type=header.topic_filter_type,
        sys_flag=header.topic_sys_flag,
        attributes=_attributes(header.attributes),
    )


def _attributes(text: str) -> dict[str, str]:
    """RocketMQ's AttributeParser: ``+name=value,-name``. The engine refuses entries of another form."""
    pairs = (entry.partition("=") for entry in text.split(",") if entry.strip())
    return {name.strip(): value.strip() for name, _, value in pairs}


class _TopicConfig(Header):
    """RocketMQ's TopicConfig, with its defaults."""

    topic_name: Name
    read_queue_nums: Int = 16
    write_queue_nums: Int = 16
    perm: Int = 6
    topic_filter_type: FilterType = "SINGLE_TAG"
    topic_sys_flag: Int = 0
    order: bool = False
    attributes: dict[str, str] | None = None

    def as_command(self) -> UpdateAndCreateTopic:
        return UpdateAndCreateTopic(
            topic=self.topic_name,
            read_queues=self.read_queue_nums,
            write_queues=self.write_queue_nums,
            perm=self.perm,
            order=self.order,
            filter_type=self.topic_filter_type,
            sys_flag=self.topic_sys_flag,
            attributes=self.attributes,
        )


class _CreateTopicListRequestBody(Header):
    topic_config_list: Annotated[list[_TopicConfig], Meta(max_length=MAX_TOPICS)]


_create_topic_list_request_body = msgspec.json.Decoder(_CreateTopicListRequestBody)


def decode_update_and_create_topic_list(request: RemotingCommand, peer: Peer) -> UpdateAndCreateTopicList:
    body = read_body(_create_topic_list_request_body, request.body)
    return UpdateAndCreateTopicList(topics=[config.as_command() for config in body.topic_config_list])


class TopicRequestHeader(Header):
    """The header of GET_TOPIC_CONFIG, GET_TOPIC_STATS_INFO and DELETE_TOPIC_IN_BROKER."""

    topic: NonEmpty


def decode_delete_topic(request: RemotingCommand, peer: Peer) -> DeleteTopic:
    return DeleteTopic(topic=read_header(TopicRequestHeader, request.ext_fields).topic, missing_ok=True)


# --- Looking ----------------------------------------------------------------------------------------------------------


def decode_get_all_topic_config(request: RemotingCommand, peer: Peer) -> GetTopicConfigs:
    """Tools may ask for a page (topicSeq, maxTopicNum). They get all topics, which they treat as the last page."""
    return GetTopicConfigs()


def encode_all_topic_config(reply: TopicConfigs, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    """RocketMQ's TopicConfigAndMappingSerializeWrapper; there are no static topics."""
    return request.response(
        ResponseCode.SUCCESS,
        "",
        {"totalTopicNum": str(len(reply.configs))},
        json_body(
            {
                "dataVersion": reply.data_version,
                "topicConfigTable": reply.configs,
                "topicQueueMappingDetailMap": {},
                "topicQueueMappingInfoMap": {},
            }
        ),
    )


def decode_get_topic_config(request: RemotingCommand, peer: Peer) -> GetTopicConfigs:
    return GetTopicConfigs(topic=read_header(TopicRequestHeader, request.ext_fields).topic)


def encode_topic_config(reply: TopicConfigs, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    (config,) = reply.configs.values()
    return request.response(ResponseCode.SUCCESS, body=json_body(config))


def decode_get_topic_stats_info(request: RemotingCommand, peer: Peer) -> GetTopicStats:
    return GetTopicStats(topic=read_header(TopicRequestHeader, request.ext_fields).topic)


def encode_topic_stats(reply: TopicStats, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    """RocketMQ's TopicStatsTable."""
    return request.response(
        ResponseCode.SUCCESS,
        body=fastjson.encode(
            {
                "offsetTable": {
                    MessageQueue(topic=queue.topic, broker_name=identity.broker_name, queue_id=queue.queue_id): {
                        "lastUpdateTimestamp": queue.last_store_time_ms or 0,
                        "maxOffset": queue.max_offset,
                        "minOffset": queue.min_offset,
                    }
                    for queue in reply.queues
                },
                "topicPutTps": reply.put_tps,
            }
        ),
    )


def decode_get_system_topic_list(request: RemotingCommand, peer: Peer) -> GetTopics:
    return GetTopics()


def encode_system_topic_list(reply: Topics, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    return request.response(
        ResponseCode.SUCCESS, body=json_body({"topicList": [topic.topic for topic in reply.topics if topic.system]})
    )
