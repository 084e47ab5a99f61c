"""Sends for an exact time: which are accepted, and RocketMQ's codes and words for the others."""

from typing import Any

import msgspec
import pytest

from broker_core import commands as c
from broker_core.codes import ResponseCode
from broker_core.formats.message_properties import encode
from broker_core.store.delay_level import SCHEDULE_TOPIC
from broker_core.store.timer.timer_message import TIMER_TOPIC
from tests.fakes.engine import Bench, send
from tests.fakes.timers import content, read, small_wheel, timed

__all__ = ["small_wheel"]

YEARS = 100 * 365 * 86_400
ILLEGAL = (
    "timer message illegal, the delay time should not be bigger than the max delay 259200000ms; "
    "or if set del msg, the delay time should be bigger than the current time"
)


@pytest.mark.parametrize(
    "properties",
    [
        {"TIMER_DELAY_SEC": YEARS},
        {"TIMER_DELAY_SEC": 259_201},
        {"TIMER_DELAY_MS": 259_200_001},
        {"TIMER_DELIVER_MS": 1_700_000_000_000 + YEARS * 1000},
        {"TIMER_DELIVER_MS": "soon"},
        {"TIMER_DELAY_MS": "1e3"},
        {"TIMER_DELAY_SEC": "9" * 40},
        {"TIMER_DELIVER_MS": 1, "TIMER_DEL_UNIQKEY": "k"},
    ],
)
def test_what_is_refused(properties: dict[str, Any]) -> None:
    answer = Bench().call(timed(**properties))
    assert isinstance(answer, c.Failed)
    assert (answer.code, answer.remark) == (ResponseCode.MESSAGE_ILLEGAL, ILLEGAL)
    assert answer.pointer == f"/messages/0/properties/{next(iter(properties))}"


@pytest.mark.parametrize("properties", [{"TIMER_DELIVER_MS": 1}, {"TIMER_DELAY_MS": 0}, {"TIMER_DELAY_SEC": -5}])
def test_a_time_in_the_past_is_delivered_at_once(properties: dict[str, Any]) -> None:
    bench = Bench()
    bench.call(timed(**properties))
    assert read(bench) == [b"x"]


def test_the_longest_delay_is_accepted() -> None:
    bench = Bench()
    assert isinstance(bench.call(timed(TIMER_DELAY_SEC=259_200)), c.Sent)


def test_switched_off_it_is_refused() -> None:
    answer = Bench(timer_wheel_enable=False).call(timed(TIMER_DELAY_SEC=1))
    assert isinstance(answer, c.Failed)
    assert (answer.code, answer.remark) == (
        ResponseCode.SYSTEM_ERROR,
        "accurate timer message is not enabled, timerWheelEnable is false",
    )


@pytest.mark.covers("timer-disabled")
def test_switched_off_the_messages_that_wait_are_delivered() -> None:
    bench = Bench()
    bench.call(timed(TIMER_DELAY_MS=5000))
    bench.tick()
    bench.engine.close(bench.clock.now())
    bench = Bench(files=bench.files, clock=bench.clock, seed=2, timer_wheel_enable=False)
    bench.tick()
    metrics = bench.call(c.GetTimerMetrics())
    assert isinstance(metrics, c.TimerMetrics) and metrics.by_topic == {"orders": 1}
    bench.tick(5000)
    assert read(bench) == [b"x"]


def test_seconds_count_before_milliseconds_and_these_before_a_time() -> None:
    bench = Bench()
    bench.call(timed(b"s", TIMER_DELIVER_MS=1, TIMER_DELAY_MS=500, TIMER_DELAY_SEC=2))
    bench.call(timed(b"ms", TIMER_DELIVER_MS=1, TIMER_DELAY_MS=500))
    bench.tick(500)
    assert read(bench) == [b"ms"]
    bench.tick(1500)
    assert read(bench) == [b"ms", b"s"]


def test_a_delay_level_counts_before_all() -> None:
    bench = Bench()
    bench.call(timed(DELAY=1, TIMER_DELAY_SEC=9))
    assert bench.context.store.max_offset(SCHEDULE_TOPIC, 0) == 1
    bench.tick(1000)
    assert [record.body for record in content(bench)] == [b"x"]


def test_a_delivered_message_that_is_sent_again_is_not_delayed() -> None:
    bench = Bench()
    bench.call(timed(TIMER_DELAY_MS=500))
    bench.tick(500)
    (delivered,) = content(bench)
    bench.call(send("orders", b"again", properties=delivered.properties, queue_id=0))
    assert read(bench) == [b"x", b"again"]


def test_a_batch_is_refused() -> None:
    bench = Bench()
    answer = bench.call(send("orders", b"1", b"2", properties=encode({"TIMER_DELAY_SEC": "5"})))
    assert isinstance(answer, c.Failed) and answer.code == ResponseCode.MESSAGE_ILLEGAL


@pytest.mark.covers("timer-topic")
def test_nobody_sends_to_the_timer_topic() -> None:
    answer = Bench().call(timed(topic=TIMER_TOPIC))
    assert isinstance(answer, c.Failed) and answer.code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize("pass_ms", [0, 5000])
def test_a_repeat_with_an_idempotency_key_is_known_after_a_restart(pass_ms: int) -> None:
    bench = Bench()
    command = msgspec.structs.replace(timed(TIMER_DELAY_MS=3000), idempotency_key="k")
    first = bench.call(command)
    assert isinstance(first, c.Sent) and first.messages[0].recall_handle
    bench.tick(pass_ms)
    bench.engine.close(bench.clock.now())
    again = Bench(files=bench.files, clock=bench.clock)
    assert again.call(command) == first
    again.tick(5000)
    assert read(again) == [b"x"]
