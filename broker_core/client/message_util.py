"""Replies to request messages.

async def listener(messages, context):
    for request in messages:
        await producer.send(create_reply_message(request, b"the answer"))
"""

from broker_core.client.message import Message, MessageExt
from broker_core.client.mq_client_exception import MQClientException
from broker_core.formats.message_properties import CLUSTER, CORRELATION_ID, MSG_TYPE, REPLY, REPLY_TO_CLIENT, TTL
from broker_core.topics import reply_topic


def create_reply_message(request: MessageExt, body: bytes) -> Message:
    """The reply to a message of a producer's ``request``, for any producer to ``send``. MessageUtil.createReplyMessage.

    Raises MQClientException for a message whose sender waits for no reply.
    """
    properties = {name: request.properties.get(name, "") for name in (CORRELATION_ID, REPLY_TO_CLIENT, TTL)}
    cluster = request.properties.get(CLUSTER)
    missing = [name for name, value in {**properties, CLUSTER: cluster}.items() if not value and name != TTL]
    if not cluster or missing:
        raise MQClientException(
            f"create reply message fail: message {request.msg_id} has no {' and no '.join(missing)}; only messages "
            "that a producer sent by request() can be replied to"
        )
    reply = Message(reply_topic(cluster), body)
    reply.properties |= {name: value for name, value in properties.items() if value} | {MSG_TYPE: REPLY}
    return reply
