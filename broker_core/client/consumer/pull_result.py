"""The answer to a pull, and what it leads to."""

from typing import Literal, NamedTuple

from broker_core.client.message import MessageExt
from broker_core.client.mq_client_exception import MQBrokerException
from broker_core.codes import ResponseCode

PullStatus = Literal["FOUND", "NO_NEW_MSG", "NO_MATCHED_MSG", "OFFSET_ILLEGAL"]

STATUSES: dict[int, PullStatus] = {
    ResponseCode.SUCCESS: "FOUND",
    ResponseCode.PULL_NOT_FOUND: "NO_NEW_MSG",
    ResponseCode.PULL_RETRY_IMMEDIATELY: "NO_MATCHED_MSG",
    ResponseCode.PULL_OFFSET_MOVED: "OFFSET_ILLEGAL",
}
"""The codes that answer a pull. Every other code is an error."""

EXCEPTION_DELAY_MS = 1000
"""RocketMQ's pullTimeDelayMillsWhenException."""
BROKER_FLOW_CONTROL_DELAY_MS = 20


class PullResult(NamedTuple):
    """RocketMQ's PullResult. ``messages`` are those that the subscription wants."""

    status: PullStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    messages: list[MessageExt]


class NextPull(NamedTuple):
    """What follows an answer.

    The next pull is sent from ``offset`` after ``delay_ms``. ``correct_offset``: if nothing of the queue is being
    consumed, the group's offset moves to ``offset``. ``reset``: the group's offset is wrong; the queue is given up and
    taken again from ``offset``.
    """

    offset: int
    delay_ms: int = 0
    correct_offset: bool = False
    reset: bool = False


def next_pull(asked_offset: int, result: PullResult) -> NextPull:
    """What the answer to a pull from ``asked_offset`` leads to.

    An answer that does not move on although it found or skipped messages would be repeated at full speed for ever, so
    the next pull is delayed as after an error.
    """
    offset = result.next_begin_offset
    if result.status == "OFFSET_ILLEGAL":
        return NextPull(offset, reset=True)
    stuck = offset < asked_offset or (offset == asked_offset and result.status != "NO_NEW_MSG")
    return NextPull(offset, EXCEPTION_DELAY_MS if stuck else 0, correct_offset=not result.messages)


def delay_after_error(error: BaseException) -> int:
    """ms until the same pull is sent again."""
    if isinstance(error, MQBrokerException) and error.response_code == ResponseCode.FLOW_CONTROL:
        return BROKER_FLOW_CONTROL_DELAY_MS
    return EXCEPTION_DELAY_MS
