"""The units of a queue, for diagnosis. Part of RocketMQ's AdminBrokerProcessor."""

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.commands import ConsumeQueueUnits, QueryConsumeQueue, Reply
from broker_core.errors import NotFoundError
from broker_core.processors.context import Context, Request

MAX_UNITS = 4096


def query_consume_queue(context: Context, request: Request, now: Now) -> Reply:
    """At most ``MAX_UNITS`` units."""
    command: QueryConsumeQueue = request.command
    topic, queue_id, store = command.topic, command.queue_id, context.store
    low, end = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
    if not low <= command.index < end:
        raise NotFoundError(
            f"queue {queue_id} of topic {topic[:300]} has no offset {command.index}; it has {low} up "
            f"to, not with, {end}",
            code=ResponseCode.SYSTEM_ERROR,
        )
    info = context.consumers.get(command.group)
    return ConsumeQueueUnits(
        min_offset=low,
        max_offset=end,
        subscription=info.subscriptions.get(topic) if info else None,
        units=store.reader.queue_units(topic, queue_id, command.index, max(0, min(command.count, MAX_UNITS))),
    )
