"""The answer to a send."""

from typing import Literal, NamedTuple

from broker_core.commands import MessageQueue

SendStatus = Literal["SEND_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE"]

STATUSES: dict[int, SendStatus] = {
    0: "SEND_OK",
    10: "FLUSH_DISK_TIMEOUT",
    11: "SLAVE_NOT_AVAILABLE",
    12: "FLUSH_SLAVE_TIMEOUT",
}
"""The codes of a message that is stored; all but the first say that it is not as safe as the broker promises."""

RETRY_CODES = frozenset((1, 2, 14, 16, 17, 204, 205, 1500))
"""RocketMQ's retryResponseCodes: another broker may accept the message."""


class SendResult(NamedTuple):
    """RocketMQ's SendResult. Of a batch, the ids are joined by commas and the offset is that of the first message.

    If the broker stores a batch as one record, ``msg_id`` is the batch's own.

    With ``recall_handle``, not empty for a message for an exact time, the producer can take it back.
    """

    send_status: SendStatus
    msg_id: str
    message_queue: MessageQueue
    queue_offset: int
    offset_msg_id: str
    recall_handle: str = ""
