"""Finds the holds that new messages of a queue concern. RocketMQ's NotifyMessageArrivingListener."""

from broker_core.clock import Now
from broker_core.counters import Counters
from broker_core.event_log import EventLog
from broker_core.events import MessagesDispatched, PullPassedOver, RejectedBy
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
    woken, passed_over, by_bitmap = holds.arrive(arrival, properties_of, wake=wake)
    for request in passed_over:
        by_sql = request.message_filter is not None and request.message_filter.reads_properties
        counters.pulls_passed_over_by_sql += by_sql
        _report(request, arrival, "properties" if by_sql else "tags", events, counters, now)
    for request in by_bitmap:
        counters.pulls_passed_over_by_sql += 1
        counters.pulls_passed_over_by_bitmap += 1
        _report(request, arrival, "bitmap", events, counters, now)
    return woken


def _report(
    request: PullRequest, arrival: Arrival, by: RejectedBy, events: EventLog, counters: Counters, now: Now
) -> None:
    counters.pulls_passed_over += 1
    events.emit(
        PullPassedOver,
        now,
        request.hold_id,
        arrival.topic,
        arrival.queue_id,
        arrival.from_offset,
        arrival.to_offset,
        by,
    )
