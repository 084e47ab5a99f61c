"""RocketMQ's requests to a broker: one table from request codes to what they mean. A new one is a line and a function.

    RemotingCommand --decode--> Command --engine--> Reply --encode--> RemotingCommand

Nothing is decided here but how things are said. What a request may not say is refused with RocketMQ's code for it.
"""

import logging

from broker_core.commands import Failed, Reply
from broker_core.errors import BrokerError
from broker_core.remoting.codes import RequestCode, ResponseCode
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests import client, consumer, pull, query, relay, send
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
    RequestCode.PULL_MESSAGE: RequestType(pull.decode_pull_message, pull.encode_pulled),
    RequestCode.LITE_PULL_MESSAGE: RequestType(pull.decode_pull_message, pull.encode_pulled),
    RequestCode.QUERY_CONSUMER_OFFSET: RequestType(consumer.decode_query_consumer_offset, consumer.encode_offset),
    RequestCode.UPDATE_CONSUMER_OFFSET: RequestType(consumer.decode_update_consumer_offset, encode_done),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: RequestType(consumer.decode_search_offset, consumer.encode_offset),
    RequestCode.GET_MAX_OFFSET: RequestType(consumer.decode_get_max_offset, consumer.encode_offset),
    RequestCode.GET_MIN_OFFSET: RequestType(consumer.decode_get_min_offset, consumer.encode_offset),
    RequestCode.GET_EARLIEST_MSG_STORETIME: RequestType(
        consumer.decode_get_earliest_msg_store_time, consumer.encode_store_time),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: RequestType(
        consumer.decode_get_consumer_list_by_group, consumer.encode_consumer_list),
    RequestCode.CONSUMER_SEND_MSG_BACK: RequestType(consumer.decode_consumer_send_msg_back, encode_done),
    RequestCode.HEART_BEAT: RequestType(client.decode_heart_beat, client.encode_heart_beat_done),
    RequestCode.UNREGISTER_CLIENT: RequestType(client.decode_unregister_client, encode_done),
    RequestCode.CHECK_CLIENT_CONFIG: RequestType(client.decode_check_client_config, encode_done),
    RequestCode.LOCK_BATCH_MQ: RequestType(client.decode_lock_batch_mq, client.encode_locked_queues),
    RequestCode.UNLOCK_BATCH_MQ: RequestType(client.decode_unlock_batch_mq, encode_done),
    RequestCode.VIEW_MESSAGE_BY_ID: RequestType(query.decode_view_message_by_id, query.encode_record),
    RequestCode.QUERY_MESSAGE: RequestType(query.decode_query_message, query.encode_query_message),
    RequestCode.GET_CONSUMER_RUNNING_INFO: RequestType(
        relay.decode_get_consumer_running_info, relay.encode_get_consumer_running_info),
    RequestCode.CONSUME_MESSAGE_DIRECTLY: RequestType(
        relay.decode_consume_message_directly, relay.encode_consume_message_directly),
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: RequestType(
        relay.decode_get_consumer_status, relay.encode_get_consumer_status),
}


def decode(request: RemotingCommand, peer: Peer) -> Decoded:
    """What the request asks of the engine; Failed for one that cannot be understood. Never raises."""
    known = REQUESTS.get(request.code)
    if known is None:
        return Failed(code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED, kind="request",
                      remark=f" request type {request.code} not supported")
    try:
        return known.decode(request, peer)
    except BrokerError as error:
        return Failed(code=error.code, kind="request", remark=error.remark)
    except Exception as error:
        log.exception("request %d failed in an unexpected way", request.code)
        return _defect(error)


def encode(reply: Reply | list[Reply], request: RemotingCommand, identity: Identity) -> Encoded:
    """The engine's answer in RocketMQ's words. Never raises.

    Of several replies the first that failed is the answer.
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
        log.exception("the answer of request %d cannot be said", request.code)
        failed = _defect(error)
        return request.response(failed.code, failed.remark)


def _defect(error: Exception) -> Failed:
    return Failed(code=ResponseCode.SYSTEM_ERROR, kind="store",
                  remark=f"the broker failed over this request ({type(error).__name__}); its log says more")


__all__ = ["REQUESTS", "Identity", "Peer", "Relay", "RequestType", "decode", "encode"]
