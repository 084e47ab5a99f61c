"""RocketMQ's requests to a broker, in one table by request code. A new request is a line and two functions.

    RemotingCommand --decode--> Command --engine--> Reply --encode--> RemotingCommand

This package only translates. Invalid requests are refused with RocketMQ's codes.
"""

import logging

from broker_core.codes import RequestCode, ResponseCode
from broker_core.commands import Failed, Reply
from broker_core.errors import BrokerError
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests import (
    admin_broker,
    admin_group,
    admin_ha,
    admin_offset,
    admin_topic,
    client,
    consumer,
    pop,
    pull,
    query,
    relay,
    send,
)
from broker_core.remoting.requests.refused_requests import REFUSED_REQUESTS
from broker_core.remoting.requests.request_type import (
    Decoded,
    Encoded,
    Identity,
    Peer,
    Relay,
    RequestType,
    encode_done,
)

log = logging.getLogger(__name__)

REQUESTS: dict[int, RequestType] = {
    RequestCode.SEND_MESSAGE: RequestType(send.decode_send_message, send.encode_sent),
    RequestCode.SEND_MESSAGE_V2: RequestType(send.decode_send_message_v2, send.encode_sent),
    RequestCode.SEND_BATCH_MESSAGE: RequestType(send.decode_send_message_v2, send.encode_sent),
    RequestCode.END_TRANSACTION: RequestType(send.decode_end_transaction, encode_done),
    RequestCode.RECALL_MESSAGE: RequestType(send.decode_recall_message, send.encode_recalled),
    RequestCode.SEND_REPLY_MESSAGE: RequestType(send.decode_send_reply_message, send.encode_reply_message),
    RequestCode.SEND_REPLY_MESSAGE_V2: RequestType(send.decode_send_reply_message_v2, send.encode_reply_message),
    RequestCode.PULL_MESSAGE: RequestType(pull.decode_pull_message, pull.encode_pulled),
    RequestCode.LITE_PULL_MESSAGE: RequestType(pull.decode_pull_message, pull.encode_pulled),
    RequestCode.POP_MESSAGE: RequestType(pop.decode_pop_message, pop.encode_popped),
    RequestCode.ACK_MESSAGE: RequestType(pop.decode_ack_message, pop.encode_acknowledged),
    RequestCode.BATCH_ACK_MESSAGE: RequestType(pop.decode_batch_ack_message, pop.encode_acknowledged),
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: RequestType(
        pop.decode_change_invisible_time, pop.encode_invisible_time_changed
    ),
    RequestCode.NOTIFICATION: RequestType(pop.decode_notification, pop.encode_notified),
    RequestCode.PEEK_MESSAGE: RequestType(pop.decode_peek_message, pop.encode_popped),
    RequestCode.POLLING_INFO: RequestType(pop.decode_polling_info, pop.encode_polling_number),
    RequestCode.QUERY_CONSUMER_OFFSET: RequestType(consumer.decode_query_consumer_offset, consumer.encode_offset),
    RequestCode.UPDATE_CONSUMER_OFFSET: RequestType(consumer.decode_update_consumer_offset, encode_done),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: RequestType(consumer.decode_search_offset, consumer.encode_offset),
    RequestCode.GET_MAX_OFFSET: RequestType(consumer.decode_get_max_offset, consumer.encode_offset),
    RequestCode.GET_MIN_OFFSET: RequestType(consumer.decode_get_min_offset, consumer.encode_offset),
    RequestCode.GET_EARLIEST_MSG_STORETIME: RequestType(
        consumer.decode_get_earliest_msg_store_time, consumer.encode_store_time
    ),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: RequestType(
        consumer.decode_get_consumer_list_by_group, consumer.encode_consumer_list
    ),
    RequestCode.CONSUMER_SEND_MSG_BACK: RequestType(consumer.decode_consumer_send_msg_back, encode_done),
    RequestCode.HEART_BEAT: RequestType(client.decode_heart_beat, client.encode_heart_beat_done),
    RequestCode.UNREGISTER_CLIENT: RequestType(client.decode_unregister_client, encode_done),
    RequestCode.CHECK_CLIENT_CONFIG: RequestType(client.decode_check_client_config, encode_done),
    RequestCode.LOCK_BATCH_MQ: RequestType(client.decode_lock_batch_mq, client.encode_locked_queues),
    RequestCode.UNLOCK_BATCH_MQ: RequestType(client.decode_unlock_batch_mq, encode_done),
    RequestCode.VIEW_MESSAGE_BY_ID: RequestType(query.decode_view_message_by_id, query.encode_record),
    RequestCode.QUERY_MESSAGE: RequestType(query.decode_query_message, query.encode_query_message),
    RequestCode.GET_CONSUMER_RUNNING_INFO: RequestType(
        relay.decode_get_consumer_running_info, relay.encode_get_consumer_running_info
    ),
    RequestCode.CONSUME_MESSAGE_DIRECTLY: RequestType(
        relay.decode_consume_message_directly, relay.encode_consume_message_directly
    ),
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: RequestType(
        relay.decode_get_consumer_status, relay.encode_get_consumer_status
    ),
    RequestCode.UPDATE_AND_CREATE_TOPIC: RequestType(admin_topic.decode_update_and_create_topic, encode_done),
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: RequestType(admin_topic.decode_update_and_create_topic_list, encode_done),
    RequestCode.DELETE_TOPIC_IN_BROKER: RequestType(admin_topic.decode_delete_topic, encode_done),
    RequestCode.GET_ALL_TOPIC_CONFIG: RequestType(
        admin_topic.decode_get_all_topic_config, admin_topic.encode_all_topic_config
    ),
    RequestCode.GET_TOPIC_CONFIG: RequestType(admin_topic.decode_get_topic_config, admin_topic.encode_topic_config),
    RequestCode.GET_TOPIC_STATS_INFO: RequestType(
        admin_topic.decode_get_topic_stats_info, admin_topic.encode_topic_stats
    ),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: RequestType(
        admin_topic.decode_get_system_topic_list, admin_topic.encode_system_topic_list
    ),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: RequestType(
        admin_group.decode_update_subscription_group, encode_done
    ),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: RequestType(
        admin_group.decode_update_subscription_group_list, encode_done
    ),
    RequestCode.DELETE_SUBSCRIPTIONGROUP: RequestType(admin_group.decode_delete_subscription_group, encode_done),
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: RequestType(
        admin_group.decode_get_all_subscription_group_config, admin_group.encode_all_subscription_group_config
    ),
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: RequestType(
        admin_group.decode_get_subscription_group_config, admin_group.encode_subscription_group_config
    ),
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: RequestType(
        admin_group.decode_update_group_forbidden, admin_group.encode_group_forbidden
    ),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: RequestType(
        admin_group.decode_get_consumer_connection_list, admin_group.encode_consumer_connection_list
    ),
    RequestCode.GET_PRODUCER_CONNECTION_LIST: RequestType(
        admin_group.decode_get_producer_connection_list, admin_group.encode_producer_connection_list
    ),
    RequestCode.GET_ALL_PRODUCER_INFO: RequestType(
        admin_group.decode_get_all_producer_info, admin_group.encode_all_producer_info
    ),
    RequestCode.GET_CONSUME_STATS: RequestType(
        admin_offset.decode_get_consume_stats, admin_offset.encode_consume_stats
    ),
    RequestCode.GET_BROKER_CONSUME_STATS: RequestType(
        admin_offset.decode_get_broker_consume_stats, admin_offset.encode_broker_consume_stats
    ),
    RequestCode.QUERY_CONSUME_TIME_SPAN: RequestType(
        admin_offset.decode_query_consume_time_span, admin_offset.encode_consume_time_span
    ),
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: RequestType(
        admin_offset.decode_query_topic_consume_by_who, admin_offset.encode_group_list
    ),
    RequestCode.QUERY_TOPICS_BY_CONSUMER: RequestType(
        admin_offset.decode_query_topics_by_consumer, admin_offset.encode_topic_list
    ),
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: RequestType(
        admin_offset.decode_query_subscription_by_consumer, admin_offset.encode_subscription
    ),
    RequestCode.QUERY_ASSIGNMENT: RequestType(admin_offset.decode_query_assignment, admin_offset.encode_assignment),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: RequestType(
        admin_offset.decode_reset_offset, admin_offset.encode_offsets_reset
    ),
    RequestCode.CLONE_GROUP_OFFSET: RequestType(admin_offset.decode_clone_group_offset, encode_done),
    RequestCode.QUERY_CORRECTION_OFFSET: RequestType(
        admin_offset.decode_query_correction_offset, admin_offset.encode_correction_offset
    ),
    RequestCode.GET_ALL_CONSUMER_OFFSET: RequestType(
        admin_offset.decode_get_all_consumer_offset, admin_offset.encode_offset_table
    ),
    RequestCode.GET_ALL_DELAY_OFFSET: RequestType(
        admin_offset.decode_get_all_delay_offset, admin_offset.encode_offset_table
    ),
    RequestCode.GET_BROKER_RUNTIME_INFO: RequestType(
        admin_broker.decode_get_broker_runtime_info, admin_broker.encode_runtime_info
    ),
    RequestCode.VIEW_BROKER_STATS_DATA: RequestType(
        admin_broker.decode_view_broker_stats_data, admin_broker.encode_broker_stats_data
    ),
    RequestCode.GET_BROKER_HA_STATUS: RequestType(admin_ha.decode_get_broker_ha_status, admin_ha.encode_ha_status),
    RequestCode.EXCHANGE_BROKER_HA_INFO: RequestType(admin_ha.decode_exchange_broker_ha_info, admin_ha.encode_ha_info),
    RequestCode.GET_TIMER_CHECK_POINT: RequestType(
        admin_ha.decode_get_timer_check_point, admin_ha.encode_timer_check_point
    ),
    RequestCode.GET_TIMER_METRICS: RequestType(
        admin_broker.decode_get_timer_metrics, admin_broker.encode_timer_metrics
    ),
    RequestCode.GET_BROKER_CONFIG: RequestType(
        admin_broker.decode_get_broker_config, admin_broker.encode_broker_config
    ),
    RequestCode.UPDATE_BROKER_CONFIG: RequestType(admin_broker.decode_update_broker_config, encode_done),
    RequestCode.QUERY_CONSUME_QUEUE: RequestType(
        admin_broker.decode_query_consume_queue, admin_broker.encode_consume_queue
    ),
    RequestCode.DELETE_EXPIRED_COMMITLOG: RequestType(admin_broker.decode_delete_expired_commit_log, encode_done),
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: RequestType(admin_broker.decode_clean, encode_done),
    RequestCode.CLEAN_UNUSED_TOPIC: RequestType(admin_broker.decode_clean, encode_done),
    RequestCode.SET_MESSAGE_REQUEST_MODE: RequestType(pop.decode_set_message_request_mode, encode_done),
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: RequestType(
        pop.decode_get_all_message_request_mode, pop.encode_all_message_request_mode
    ),
}


def decode(request: RemotingCommand, peer: Peer) -> Decoded:
    """The command of a request, or Failed for an invalid one. Never raises."""
    known = REQUESTS.get(request.code)
    if known is None:
        return _not_supported(request.code)
    try:
        return known.decode(request, peer)
    except BrokerError as error:
        return Failed(code=error.code, kind="request", remark=error.remark)
    except Exception as error:
        log.exception("request %d failed in an unexpected way", request.code)
        return _defect(error)


def encode(reply: Reply | list[Reply], request: RemotingCommand, identity: Identity) -> Encoded:
    """The response for the engine's replies. Never raises.

    If several replies were asked for, the first that failed is the answer.
    """
    if type(reply) is Failed:
        return request.response(reply.code, reply.remark)
    if isinstance(reply, list):
        for one in reply:
            if type(one) is Failed:
                return request.response(one.code, one.remark)
    try:
        return REQUESTS[request.code].encode(reply, request, identity)
    except Exception as error:
        log.exception("the answer to request %d cannot be encoded", request.code)
        failed = _defect(error)
        return request.response(failed.code, failed.remark)


def _not_supported(code: int) -> Failed:
    """RocketMQ's words, and the reason if this broker knows the request."""
    reason = REFUSED_REQUESTS.get(code)
    return Failed(
        code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
        kind="request",
        remark=f" request type {code} not supported" + (f": {reason}" if reason else ""),
    )


def _defect(error: Exception) -> Failed:
    return Failed(
        code=ResponseCode.SYSTEM_ERROR,
        kind="store",
        remark=f"the broker failed on this request ({type(error).__name__}); see its log",
    )


__all__ = ["REFUSED_REQUESTS", "REQUESTS", "Identity", "Peer", "Relay", "RequestType", "decode", "encode"]
