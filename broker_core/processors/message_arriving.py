"""From the dispatcher to the holds. RocketMQ's NotifyMessageArrivingListener."""

from broker_core.clock import Now
from broker_core.events import MessagesDispatched, PullPassedOver
from broker_core.processors.context import Context, Waking


def notify_message_arriving(context: Context, now: Now) -> None:
    """Dispatch what is confirmed, and take the holds that it concerns out of the table to be run again."""
    counters, events = context.counters, context.events
    for arrival in context.store.reput():
        counters.messages_dispatched += arrival.to_offset - arrival.from_offset
        events.emit(MessagesDispatched, now, arrival.topic, arrival.queue_id, arrival.from_offset, arrival.to_offset)
        woken, passed = context.holds.arrive(arrival, wake=context.options.long_polling_enable)
        for request in woken:
            context.waking.append(Waking(request, "arrival", now.mono_ns, arrival))
        for request in passed:
            counters.pulls_passed_over += 1
            events.emit(PullPassedOver, now, request.hold_id, arrival.topic, arrival.queue_id, arrival.from_offset,
                        arrival.to_offset)
