"""Finds the holds that new messages of a queue concern. RocketMQ's NotifyMessageArrivingListener."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from broker_core.clock import Now
from broker_core.counters import Counters
from broker_core.event_log import EventLog
from broker_core.events import MessagesDispatched, PullPassedOver
from broker_core.longpolling.pull_request import PullRequest
from broker_core.longpolling.pull_request_hold import Arrival, PullRequestHold

SomeArrival = TypeVar("SomeArrival", bound=Arrival)


def notify_message_arriving(
    holds: PullRequestHold,
    arrivals: Iterable[SomeArrival],
    now: Now,
    *,
    wake: bool,
    events: EventLog,
    counters: Counters,
) -> Iterator[tuple[PullRequest, SomeArrival]]:
    """Report messages that were dispatched, and take the holds that they concern out of the table.

    Yields each of these holds with the arrival that woke it; the caller runs its pull again. With ``wake`` False
    (longPollingEnable off) no hold is taken out.
    """
    for arrival in arrivals:
        counters.messages_dispatched += arrival.to_offset - arrival.from_offset
        events.emit(MessagesDispatched, now, arrival.topic, arrival.queue_id, arrival.from_offset, arrival.to_offset)
        woken, passed_over = holds.arrive(arrival, wake=wake)
        for request in woken:
            yield request, arrival
        for request in passed_over:
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
