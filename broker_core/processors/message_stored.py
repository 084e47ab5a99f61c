"""What follows an append: it is reported, dispatched, and the holds that it concerns are woken."""

from broker_core.clock import Now
from broker_core.events import MessagesDelayed, MessagesStored
from broker_core.longpolling.notify_message_arriving import notify_message_arriving
from broker_core.processors.context import Context, Waking
from broker_core.processors.producers.half_message import half_messages_stored
from broker_core.store.commit_log import Arrival, Batch
from broker_core.store.delay_level import SCHEDULE_TOPIC
from broker_core.store.timer.timer_message import TIMER_DEL_UNIQKEY, TIMER_ROLL_TIMES, TIMER_TOPIC, wanted_ms
from broker_core.store.transactional_message_service import HALF_TOPIC

DISPATCHED_A_TURN = 10_000
"""Messages that were appended by batches, whose queues are known."""

FOLLOWED_A_TURN = 128
"""Messages of a followed log, which are read from it again to be dispatched: about 2 ms."""


def message_stored(context: Context, batch: Batch, now: Now) -> None:
    """Report messages that were appended, one event per queue, and dispatch them.

    The messages of one block are consecutive within a queue.
    """
    counters = context.counters
    for arrival in batch.arrivals:
        counters.messages_stored += arrival.to_offset - arrival.from_offset
        _report_stored(context, arrival, now)
        if arrival.topic == SCHEDULE_TOPIC:
            counters.messages_delayed += arrival.to_offset - arrival.from_offset
            context.events.emit(
                MessagesDelayed, now, arrival.queue_id + 1, arrival.from_offset, arrival.to_offset, arrival.fields[2]
            )
        elif arrival.topic == TIMER_TOPIC:
            _report_timers(context, batch, arrival, now)
        elif arrival.topic == HALF_TOPIC:
            half_messages_stored(context, arrival, batch.requests, now)
    dispatch(context, now)


def _report_timers(context: Context, batch: Batch, arrival: Arrival, now: Now) -> None:
    """Count and report messages that wait for an exact time."""
    first = next(request for request in batch.requests if request.topic == TIMER_TOPIC)
    deliver_ms = wanted_ms(first.properties, now.wall_ms) or 0
    for request in batch.requests:
        properties = request.properties
        if request.topic == TIMER_TOPIC and (TIMER_DEL_UNIQKEY in properties or TIMER_ROLL_TIMES in properties):
            context.store.timers.note_stored(properties, request.queue_offset)
    context.counters.messages_delayed += arrival.to_offset - arrival.from_offset
    context.events.emit(MessagesDelayed, now, 0, arrival.from_offset, arrival.to_offset, deliver_ms)


def _report_stored(context: Context, arrival: Arrival, now: Now) -> None:
    """Count the messages that one queue got, and emit their event."""
    context.counters.bytes_stored += arrival.size
    context.stats.topic_put.add((arrival.topic, arrival.to_offset - arrival.from_offset, arrival.size, now.mono_ns))
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


def dispatch(context: Context, now: Now) -> None:
    """Dispatch the confirmed messages, and queue the holds that they concern to be run again."""
    events, counters, waking = context.events, context.counters, context.waking
    holds, wake, follows = context.holds, context.options.long_polling_enable, context.store.follows
    properties_of = context.store.reader.properties
    holds.start_turn(now.mono_ns)
    context.store.calc_bit_map.start_turn(now.mono_ns)
    for arrival in context.store.reput(FOLLOWED_A_TURN if follows else DISPATCHED_A_TURN):
        if follows:
            _report_followed(context, arrival, now)
        elif arrival.topic == SCHEDULE_TOPIC:
            context.store.delayed.arrived(arrival.queue_id, now)
        elif arrival.topic == TIMER_TOPIC:
            context.store.timers.note_arrival()
        for request in notify_message_arriving(holds, arrival, properties_of, wake, events, counters, now):
            waking.append(Waking(request, "arrival", now.mono_ns, arrival))
        if holds.has_pops:
            for pop in holds.arrive_pops(arrival.topic, arrival.queue_id):
                waking.append(Waking(pop, "arrival", now.mono_ns))


def _report_followed(context: Context, arrival: Arrival, now: Now) -> None:
    """Messages of the followed log: they are reported when they are dispatched, because no append of ours did so."""
    context.counters.messages_stored += arrival.to_offset - arrival.from_offset
    config = context.topics.get(arrival.topic)
    if config is None or arrival.queue_id >= config.read_queue_nums:
        context.topics.adopt(arrival.topic, arrival.queue_id + 1, now)
    _report_stored(context, arrival, now)
