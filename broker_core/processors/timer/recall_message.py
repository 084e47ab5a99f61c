"""RECALL_MESSAGE: a producer takes back a message that waits for an exact time. RocketMQ's RecallMessageProcessor.

The recall is a message of the timer queue itself, in the slot of the message that it takes back.
"""

from heapq import nlargest
from operator import itemgetter

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.commands import Recalled, RecallMessage, Reply, TimerMetrics
from broker_core.errors import NotFoundError, RequestError, StoreReadOnlyError, UnavailableError
from broker_core.formats import message_properties, recall_handle
from broker_core.formats.message_properties import PGROUP, TAGS, TIMER_DELIVER_MS, UNIQ_KEY
from broker_core.processors.context import Context, Request
from broker_core.processors.message_stored import message_stored
from broker_core.processors.schedule_message import make_timer
from broker_core.store.commit_log import PendingMessage
from broker_core.store.timer.timer_message import TIMER_DEL_UNIQKEY

RECALL_TAG = "_RECALL_TAG_"
TOPICS_SHOWN = 1000


def recall_message(context: Context, request: Request, now: Now) -> Reply:
    """Store the recall. Raises RequestError, NotFoundError, UnavailableError with RocketMQ's codes and words."""
    command: RecallMessage = request.command
    if not context.options.recall_message_enable:
        raise RequestError(
            "recall failed, operation is forbidden (recallMessageEnable)", code=ResponseCode.NO_PERMISSION
        )
    if context.draining:
        raise UnavailableError("recall failed, broker service not available", code=ResponseCode.SERVICE_NOT_AVAILABLE)
    context.require_writable()
    if context.topics.get(command.topic) is None:
        raise NotFoundError(
            f"recall failed, the topic[{command.topic}] not exist", code=ResponseCode.TOPIC_NOT_EXIST, pointer="/topic"
        )
    handle = recall_handle.decode(command.recall_handle)
    if handle is None:
        raise _illegal("recall handle is invalid")
    if handle.topic != command.topic:
        raise _illegal("recall failed, topic not match")
    if handle.broker_name != context.options.broker_name:
        raise _illegal("recall failed, broker service not available")
    left_ms = handle.timestamp - now.wall_ms
    if not 0 < left_ms < context.options.timer_max_delay_sec * 1000:
        raise _illegal("recall failed, timestamp invalid")
    if handle.timestamp <= context.store.timers.delivered_ms:
        raise _illegal("recall failed, messages due at that time were delivered before the clock was set back")
    properties = {
        TAGS: RECALL_TAG,
        TIMER_DEL_UNIQKEY: handle.message_id,
        UNIQ_KEY: handle.message_id,
        TIMER_DELIVER_MS: str(handle.timestamp),
        "BORN_TIMESTAMP": str(now.wall_ms),
    }
    if command.producer_group:
        properties[PGROUP] = command.producer_group
    message = PendingMessage(
        topic=command.topic,
        queue_id=0,
        body=b"0",
        properties=message_properties.encode(properties),
        flag=0,
        sys_flag=0,
        born_timestamp=now.wall_ms,
        born_host=command.born_host,
        born_port=command.born_port,
    )
    make_timer(context, message, now, "/recall_handle")
    message_stored(context, context.store.append([message], now), now)
    return Recalled(message_id=handle.message_id)


def _illegal(remark: str) -> RequestError:
    return RequestError(remark, code=ResponseCode.ILLEGAL_OPERATION, pointer="/recall_handle")


def get_timer_metrics(context: Context, request: Request, now: Now) -> Reply:
    """What waits in the timer wheel.

    Raises UnavailableError while that is not known, StoreReadOnlyError if another broker delivers the messages.
    """
    store, timers = context.store, context.store.timers
    if store.read_only or store.follows:
        raise StoreReadOnlyError(
            "the store is another broker's, which delivers its timer messages; they are not counted here",
            code=ResponseCode.SYSTEM_ERROR,
        )
    if not timers.loaded or not timers.counts.is_complete:
        what = "being counted after the start" if timers.loaded else "not loaded"
        raise UnavailableError(f"the timer messages are {what}; ask again later", code=ResponseCode.SYSTEM_ERROR)
    return TimerMetrics(
        time_ms=now.wall_ms,
        messages=timers.counts.pending + timers.behind,
        by_topic=dict(nlargest(TOPICS_SHOWN, timers.counts.by_topic.items(), key=itemgetter(1))),
        read_time_ms=timers.read_ms,
        queue_offset=timers.queue_offset,
        version=timers.version[1],
    )
