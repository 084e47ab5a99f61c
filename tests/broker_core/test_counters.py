"""Totals and buckets."""

from broker_core.counters import Buckets, Counters


def test_a_value_falls_into_the_bucket_below_the_next_bound() -> None:
    buckets = Buckets([10, 20])
    for value in (0, 9, 10, 19, 20, 1_000_000):
        buckets.add(value)
    assert buckets.view().counts == [2, 2, 2]
    assert buckets.view().bounds == [10, 20]


def test_a_value_is_put_down_and_counted_once() -> None:
    counters = Counters()
    counters.wakeup_us.add(15)
    counters.held_ms.add(3)
    assert counters.unsettled == 2
    counters.settle()
    assert counters.unsettled == 0
    counters.wakeup_us.add(16)
    assert sum(counters.wakeup_us.view().counts) == 2 and sum(counters.held_ms.view().counts) == 1


def test_all_totals_have_public_names() -> None:
    counters = Counters()
    counters.woken["missed_arrival"] += 1
    counters.messages_stored += 3
    values = counters.as_dict()
    assert values["woken_missed_arrival"] == 1 and values["messages_stored"] == 3
    assert all(isinstance(value, int) for value in values.values())
    assert {
        "holds_now",
        "journal_entries",
        "journal_lost",
        "journal_write_errors",
        "pulls_answered_at_once",
        "pulls_passed_over",
        "requests_refused",
        "woken_shutdown",
    } <= set(values)
