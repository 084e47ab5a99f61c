"""From the log to the holds. RocketMQ's NotifyMessageArrivingListener."""

from broker_core.clock import Now
from broker_core.events import MessagesDelayed, MessagesDispatched, MessagesStored, PullPassedOver
from broker_core.processors.context import Context, Waking
from broker_core.store.commit_log import Batch
from broker_core.store.delay_level import SCHEDULE_TOPIC


def message_stored(context: Context, batch: Batch, now: Now) -> None:
    """What follows an append: report it, dispatch it, wake whom it concerns.

    One event per queue: appends of one block are consecutive within a queue.
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
    notify_message_arriving(context, now)


def notify_message_arriving(context: Context, now: Now) -> None:
    """Dispatch what is confirmed, and take the holds that it concerns out of the table to be run again."""
    counters, events = context.counters, context.events
    for arrival in context.store.reput():
        counters.messages_dispatched += arrival.to_offset - arrival.from_offset
        events.emit(MessagesDispatched, now, arrival.topic, arrival.queue_id, arrival.from_offset, arrival.to_offset)
        if arrival.topic == SCHEDULE_TOPIC:
            context.store.delayed.arrived(arrival.queue_id, now)
        woken, passed = context.holds.arrive(arrival, wake=context.options.long_polling_enable)
        for request in woken:
            context.waking.append(Waking(request, "arrival", now.mono_ns, arrival))
        for request in passed:
            counters.pulls_passed_over += 1
            events.emit(
                PullPassedOver,
                now,
                request.hold_id,
                arrival.topic,
                arrival.queue_id,
                arrival.from_offset,
                arrival.to_offset,
            )
