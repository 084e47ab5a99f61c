"""What follows an append: it is reported, dispatched, and the holds that it concerns are woken."""

from broker_core.clock import Now
from broker_core.events import MessagesDelayed, MessagesStored
from broker_core.longpolling.notify_message_arriving import notify_message_arriving
from broker_core.processors.context import Context, Waking
from broker_core.processors.producers.half_message import half_messages_stored
from broker_core.store.commit_log import Batch
from broker_core.store.delay_level import SCHEDULE_TOPIC
from broker_core.store.transactional_message_service import HALF_TOPIC


def message_stored(context: Context, batch: Batch, now: Now) -> None:
    """Report messages that were appended, one event per queue, and dispatch them.

    The messages of one block are consecutive within a queue.
    """
    counters, topic_put = context.counters, context.stats.topic_put
    counters.messages_stored += len(batch.requests)
    for arrival in batch.arrivals:
        counters.bytes_stored += arrival.size
        topic_put.add((arrival.topic, arrival.to_offset - arrival.from_offset, arrival.size, now.mono_ns))
        context.events.emit(
            MessagesStored,
            now,
            arrival.topic,
            arrival.queue_id,
            arrival.from_offset,
            arrival.to_offset,
            arrival.fields[0],
            arrival.size,
        )
        if arrival.topic == SCHEDULE_TOPIC:
            counters.messages_delayed += arrival.to_offset - arrival.from_offset
            context.events.emit(
                MessagesDelayed, now, arrival.queue_id + 1, arrival.from_offset, arrival.to_offset, arrival.fields[2]
            )
        elif arrival.topic == HALF_TOPIC:
            half_messages_stored(context, arrival, batch.requests, now)
    dispatch(context, now)


def dispatch(context: Context, now: Now) -> None:
    """Dispatch the confirmed messages, and queue the holds that they concern to be run again."""
    events, counters, waking = context.events, context.counters, context.waking
    holds, wake = context.holds, context.options.long_polling_enable
    properties_of = context.store.reader.properties
    holds.start_turn(now.mono_ns)
    for arrival in context.store.reput():
        if arrival.topic == SCHEDULE_TOPIC:
            context.store.delayed.arrived(arrival.queue_id, now)
        for request in notify_message_arriving(holds, arrival, properties_of, wake, events, counters, now):
            waking.append(Waking(request, "arrival", now.mono_ns, arrival))
