"""Which holds an arrival wakes, which it passes over, and what is reported."""

import pytest
from msgspec.structs import replace

from broker_core.clock import Now
from broker_core.counters import Counters
from broker_core.event_log import EventLog
from broker_core.events import MessagesDispatched, PullPassedOver
from broker_core.longpolling.notify_message_arriving import notify_message_arriving
from broker_core.longpolling.pull_request_hold import PullRequestHold
from tests.broker_core.longpolling.test_pull_request_hold import A, ArrivalInQueue0, B, hold, no_properties

NOW = Now(1000, 5)


@pytest.mark.parametrize("wake", [True, False])
def test_holds_are_woken_or_passed_over(wake: bool) -> None:
    holds, log, counters = PullRequestHold(), EventLog(), Counters()
    matching, other_tag = hold(holds, expression="TagA"), hold(holds, expression="TagC")
    first, second = ArrivalInQueue0(0, [B]), ArrivalInQueue0(1, [A, A])
    assert notify_message_arriving(holds, first, no_properties, wake, log, counters, NOW) == []
    assert notify_message_arriving(holds, second, no_properties, wake, log, counters, NOW) == (
        [matching] if wake else []
    )
    assert list(holds) == ([other_tag] if wake else [matching, other_tag])
    dispatched = [MessagesDispatched(0, 1000, 5, "T", 0, *offsets) for offsets in ((0, 1), (1, 3))]
    passed_over = [
        PullPassedOver(0, 1000, 5, held.hold_id, "T", 0, *offsets, "tags")
        for held, offsets in ((matching, (0, 1)), (other_tag, (0, 1)), (other_tag, (1, 3)))
    ]
    expected = [dispatched[0], *passed_over[:2], dispatched[1], passed_over[2]] if wake else dispatched
    assert [replace(event, seq=0) for event in log.after(0)] == expected
    assert (counters.messages_dispatched, counters.pulls_passed_over) == (3, 3 if wake else 0)
