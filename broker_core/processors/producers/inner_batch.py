"""A batch of a RocketMQ client that becomes one record. In RocketMQ a part of SendMessageProcessor.sendBatchMessage."""

import msgspec

from broker_core.codes import ResponseCode
from broker_core.commands import OutgoingMessage, SendMessage
from broker_core.errors import RequestError
from broker_core.formats import message_properties
from broker_core.formats.inner_batch import INNER_FLAGS, encode_inner_batch
from broker_core.formats.message_batch import BatchEntry, MessageBatchError
from broker_core.formats.message_properties import TRAN_MSG, UNIQ_KEY
from broker_core.processors.producers.half_message import is_half
from broker_core.processors.schedule_message import DELAYS, checked_level, wants_time
from broker_core.topics import TopicConfig


def joined_messages(topic: TopicConfig, command: SendMessage) -> tuple[SendMessage, str]:
    """(a send of one message, whose body has all messages of the batch; the UNIQ_KEY of the batch).

    (``command``, "") if each message gets a record of its own. RequestError (MESSAGE_ILLEGAL) for more messages than a
    record can have, and for delayed messages and half messages, as in other topics.
    """
    unique_key = ""
    if command.batch_properties and topic.has_batch_queues:
        unique_key = message_properties.find(command.batch_properties, UNIQ_KEY)
    if not unique_key:
        return command, ""
    for index, message in enumerate(command.messages):
        _check(message.properties, f"/messages/{index}/properties")
    _check(command.batch_properties, "/messages")
    first = command.messages[0]
    entries = [BatchEntry(message.flag, message.body, message.properties) for message in command.messages]
    try:
        body, properties = encode_inner_batch(entries, command.batch_properties)
    except MessageBatchError as error:
        raise RequestError(
            f"the batch cannot be one record: {error}", code=ResponseCode.MESSAGE_ILLEGAL, pointer="/messages"
        ) from error
    joined = OutgoingMessage(
        body=body,
        properties=properties,
        queue_id=first.queue_id,
        sys_flag=first.sys_flag | INNER_FLAGS,
        born_timestamp=first.born_timestamp,
        reconsume_times=first.reconsume_times,
    )
    return msgspec.structs.replace(command, messages=[joined]), unique_key


def _check(properties: str, pointer: str) -> None:
    """RequestError (MESSAGE_ILLEGAL) for a message that is stored in another topic first."""
    if TRAN_MSG in properties and is_half(properties):
        kind = "transactional"
    elif DELAYS in properties and (checked_level(properties, pointer) > 0 or wants_time(properties)):
        kind = "delayed"
    else:
        return
    raise RequestError(
        f"a {kind} message cannot be part of a batch; send it alone",
        code=ResponseCode.MESSAGE_ILLEGAL,
        pointer=pointer,
    )
