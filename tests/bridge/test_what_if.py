"""The same waits under other ways to poll."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.what_if import (
    HOLD_CHECK_US,
    LEAST_FOR_PERCENTILES,
    PULL_BATCH_SIZE,
    REPUT_US,
    SUSPEND_US,
    Outcome,
    Wait,
    compare_polling,
    decode_pulls,
    poll_long,
    poll_short,
    poll_stock,
    waits_of,
)
from broker_core.formats.poll_journal import JournalEntry

SECOND = 1_000_000


def pull(at_ms: int, held_us: int = 0, **fields: Any) -> JournalEntry:
    numbers = {name: -1 for name in JournalEntry.__struct_fields__ if name not in JournalEntry.__struct_defaults__}
    texts = {"topic": "orders", "group": "g", "client_id": "c", "kind": "woken", "cause": "timeout"}
    own = {"at_ms": at_ms, "held_us": held_us, "granted_ms": 15_000, "queue_id": 0, "messages": 0}
    return JournalEntry(**(numbers | texts | own | fields))


def found(at_ms: int, held_us: int, wake_us: int = 200, **fields: Any) -> JournalEntry:
    return pull(at_ms, held_us, **{"cause": "arrival", "wake_us": wake_us, "messages": 2} | fields)


def all_waits(pulls: list[JournalEntry]) -> list[Wait]:
    return [wait for of_one in waits_of(pulls) for wait in of_one]


def poll_short_alone(wait: Wait, interval_us: int) -> Outcome:
    (outcome,) = poll_short([wait], interval_us)
    return outcome


def test_pulls_without_messages_and_the_one_that_found_some_are_one_wait() -> None:
    pulls = [pull(15_000, 15 * SECOND), pull(30_010, 15 * SECOND), found(31_010, SECOND)]
    assert all_waits(pulls) == [Wait(0, 31 * SECOND, 15 * SECOND, 2, 200, 3)]


def test_each_consumer_waits_for_itself_at_each_queue() -> None:
    pulls = [found(1000, 1000), found(1000, 2000, client_id="d"), found(1000, 3000, queue_id=1)]
    assert [wait.waited_us for wait in all_waits(pulls)] == [1000, 2000, 3000]


def test_what_is_no_wait_and_what_ends_one() -> None:
    at_once = pull(1000, kind="answered_at_once", cause="", messages=3)
    assert all_waits([at_once]) == [Wait(SECOND, 0, 15 * SECOND, 3, None, 1)], "messages were there already"
    assert all_waits([pull(1000, granted_ms=0), pull(1000, granted_ms=-1)]) == [], "it was not to be held"
    away = [pull(15_000, 15 * SECOND), found(18_000, SECOND)]
    assert [wait.found for wait in all_waits(away)] == [False, True], "the client was away for two seconds"
    gone = [pull(4000, 4 * SECOND, kind="released", cause="channel_gone"), found(5000, SECOND)]
    assert [(wait.found, wait.waited_us) for wait in all_waits(gone)] == [(False, 4 * SECOND), (True, SECOND)]


def test_short_polls_that_were_recorded_are_one_wait_of_a_long_poller() -> None:
    pulls = [pull(at * 1000, SECOND, cause="short_poll", granted_ms=1000) for at in range(1, 5)]
    last = pull(4001, kind="answered_at_once", cause="", messages=1, granted_ms=1000)
    (wait,) = all_waits([*pulls, last])
    assert wait == Wait(0, 4 * SECOND, SUSPEND_US, 1, None)
    assert poll_long(wait) == Outcome(1, 0, None) and poll_short_alone(wait, SECOND) == Outcome(5, 4, None)


HELD = Wait(0, 2_300_200, 15 * SECOND, 1, 200)
LONG = Wait(400, 40 * SECOND + 700, 15 * SECOND, 1, 200)


@pytest.mark.parametrize(
    ("wait", "long", "short", "stock"),
    [
        (HELD, Outcome(1, 0, 200), Outcome(4, 3, 700_200), Outcome(1, 0, 200)),
        (LONG, Outcome(3, 2, 200), Outcome(42, 41, 999_700), Outcome(3, 2, 300)),
        (Wait(0, 0, 15 * SECOND, 1, None), Outcome(1, 0, None), Outcome(1, 0, None), Outcome(1, 0, None)),
        (Wait(0, 0, 15 * SECOND, 0, None), Outcome(1, 1, None), Outcome(1, 1, None), Outcome(1, 1, None)),
        # Held at 1 s for 15 s: stock's check at 20 s ends it; long polling has begun another pull.
        (
            Wait(SECOND, 18 * SECOND, 15 * SECOND, 0, None),
            Outcome(2, 2, None),
            Outcome(18, 18, None),
            Outcome(1, 1, None),
        ),
    ],
)
def test_a_wait_by_each_method(wait: Wait, long: Outcome, short: Outcome, stock: Outcome) -> None:
    assert (poll_long(wait), poll_short_alone(wait, SECOND), poll_stock(wait)) == (long, short, stock)


@st.composite
def waits(draw: st.DrawFn) -> Wait:
    is_found = draw(st.booleans())
    wake = draw(st.none() | st.integers(0, 50_000)) if is_found else None
    waited = draw(st.integers(0, 120 * SECOND)) + (wake or 0)
    return Wait(draw(st.integers(0, 1 << 50)), waited, draw(st.integers(1, 60_000)) * 1000, int(is_found), wake)


@given(waits(), st.integers(1, 60_000))
def test_nothing_is_earlier_than_long_polling_and_the_counts_add_up(wait: Wait, interval_ms: int) -> None:
    long, short, stock = poll_long(wait), poll_short_alone(wait, interval_ms * 1000), poll_stock(wait)
    for outcome in (long, short, stock):
        assert outcome.requests == outcome.empty + wait.found
        assert (outcome.delay_us is None) == (wait.wake_us is None)
    if wait.wake_us is not None:
        assert long.delay_us == wait.wake_us
        assert 0 <= short.delay_us - wait.wake_us < interval_ms * 1000  # type: ignore[operator]
        assert 0 <= stock.delay_us - wait.wake_us < REPUT_US  # type: ignore[operator]
    assert stock.requests <= long.requests + (wait.granted_us < REPUT_US)
    if wait.granted_us >= interval_ms * 1000:
        assert long.requests <= short.requests


@given(st.lists(waits(), max_size=30), st.integers(1, 10_000))
def test_totals_are_those_of_all_waits(several: list[Wait], interval_ms: int) -> None:
    by_method = {totals.method: totals for totals in compare_polling([several[:9], several[9:]], interval_ms)}
    assert list(by_method) == ["long_polling", "short_polling", "stock_rocketmq"]
    known = sorted(wait.wake_us for wait in several if wait.wake_us is not None)
    long = by_method["long_polling"]
    assert long.requests == sum(poll_long(wait).requests for wait in several)
    assert (long.samples, long.max_us) == (len(known), known[-1] if known else None)
    assert list(long.delays_us) == (known if len(known) < LEAST_FOR_PERCENTILES else [])
    if known:
        assert long.p50_us == known[(len(known) + 1) // 2 - 1]
        assert sum(delay <= (long.p99_us or 0) for delay in known) * 100 >= 99 * len(known)


def test_long_polling_is_what_happened() -> None:
    passed_over = [pull(at * 1000, SECOND, cause="filter_advanced") for at in (1, 2)]
    (wait,) = all_waits([*passed_over, found(3000, SECOND)])
    assert poll_long(wait) == Outcome(3, 2, 200), "the filter ended two holds"


def test_one_short_poll_has_all_messages_that_arrived_since_the_last_one() -> None:
    busy = [found(at * 100, 90_000, wake_us=0) for at in range(1, 41)]
    (waits,) = waits_of(busy)
    outcomes = list(poll_short(waits, SECOND))
    # Asked at 10 ms and 1.01, 2.01 and 3.01 s in vain, and answered at 1.01, 2.01, 3.01 and 4.01 s.
    assert sum(outcome.requests for outcome in outcomes) == 8
    assert sum(outcome.empty for outcome in outcomes) == 4
    assert [outcome.delay_us for outcome in outcomes] == [910_000 - at * 100_000 for at in range(10)] * 4


def test_an_answer_has_no_more_messages_than_a_batch() -> None:
    full = [found(at, 1000, wake_us=0, messages=PULL_BATCH_SIZE) for at in range(1, 11)]
    (waits,) = waits_of(full)
    outcomes = list(poll_short(waits, SECOND))
    assert [outcome.requests for outcome in outcomes] == [2] + [1] * 9
    assert [outcome.empty for outcome in outcomes] == [1] + [0] * 9


@given(st.lists(waits(), max_size=10), st.integers(1, 60_000))
def test_a_chain_of_short_polls_is_never_early_and_never_asks_more_often(several: list[Wait], interval_ms: int) -> None:
    several.sort(key=lambda wait: wait.arrived_us)
    together = list(poll_short(several, interval_ms * 1000))
    assert len(together) == len(several)
    for wait, outcome in zip(several, together, strict=True):
        assert 0 <= outcome.empty <= outcome.requests <= poll_short_alone(wait, interval_ms * 1000).requests + 1
        if wait.wake_us is not None:
            assert 0 <= (outcome.delay_us or 0) - wait.wake_us < interval_ms * 1000


def test_stock_checks_its_holds_every_five_seconds() -> None:
    assert HOLD_CHECK_US == 5 * SECOND
    nothing = Wait(0, 60 * SECOND, 14 * SECOND, 0, None)
    assert poll_stock(nothing).requests == 4 and poll_long(nothing).requests == 5


def test_no_pulls() -> None:
    assert decode_pulls([""], b"") == []
    assert [totals.requests for totals in compare_polling([], 1000)] == [0, 0, 0]
