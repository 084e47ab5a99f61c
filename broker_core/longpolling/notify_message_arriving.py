"""Finds the holds that new messages of a queue concern. RocketMQ's NotifyMessageArrivingListener."""

from broker_core.clock import Now
from broker_core.counters import Counters
from broker_core.event_log import EventLog
from broker_core.events import MessagesDispatched, PullPassedOver
from broker_core.longpolling.pull_request import PullRequest
from broker_core.longpolling.pull_request_hold import Arrival, PropertiesOf, PullRequestHold


def notify_message_arriving(
    holds: PullRequestHold,
    arrival: Arrival,
    properties_of: PropertiesOf,
    wake: bool,
    events: EventLog,
    counters: Counters,
    now: Now,
) -> list[PullRequest]:
    """Report messages that were dispatched, and take the holds that they concern out of the table.

    Returns these holds; the caller runs their pulls again. With ``wake`` False (longPollingEnable off) there are none.
    """
    counters.messages_dispatched += arrival.to_offset - arrival.from_offset
    events.emit(MessagesDispatched, now, arrival.topic, arrival.queue_id, arrival.from_offset, arrival.to_offset)
    woken, passed_over = holds.arrive(arrival, properties_of, wake=wake)
    for request in passed_over:
        by_sql = request.message_filter is not None and request.message_filter.reads_properties
        counters.pulls_passed_over += 1
        counters.pulls_passed_over_by_sql += by_sql
        events.emit(
            PullPassedOver,
            now,
            request.hold_id,
            arrival.topic,
            arrival.queue_id,
            arrival.from_offset,
            arrival.to_offset,
            "properties" if by_sql else "tags",
        )
    return woken
