"""What the properties of a timer message say: where it goes, and when it is due.

A message that asks for a time is stored in queue 0 of ``rmq_sys_wheel_timer``. TIMER_OUT_MS is the time of its slot:
its time, rounded down to timerPrecisionMs, and a whole precision less if that changed nothing. So the messages of a
slot are due after its time, and not later than a precision after it. RocketMQ delivers all of them then.
"""

from typing import NamedTuple

from broker_core.formats.commit_log_record import Buffer, properties_at, store_timestamp_at, topic_at
from broker_core.formats.message_properties import (
    REAL_TOPIC,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    find,
)

TIMER_TOPIC = "rmq_sys_wheel_timer"
TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS"
TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES"
TIMER_DEL_UNIQKEY = "TIMER_DEL_UNIQKEY"

_TOPIC = TIMER_TOPIC.encode()
_MAX_DIGITS = 18


class TimerMessage(NamedTuple):
    """A message of the timer queue. Times are wall times in ms.

    ``deletes`` is the UNIQ_KEY of the message that this one recalls, empty for others; with RocketMQ's
    ``appendTopicForTimerDeleteKey`` the topic and ``+`` are before it.
    """

    out_ms: int
    due_ms: int
    real_topic: str
    deletes: str


def number(text: str) -> int | None:
    """A property as a number; None if it is none that a Java long can hold."""
    digits = text[1:] if text[:1] == "-" else text
    return int(text) if digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS else None


def wanted_ms(properties: str, now_ms: int) -> int | None:
    """When a message wants to be delivered; None if a property is not a number. Call it for timer messages only."""
    if text := find(properties, TIMER_DELAY_SEC):
        seconds = number(text)
        return None if seconds is None else now_ms + seconds * 1000
    if text := find(properties, TIMER_DELAY_MS):
        delay_ms = number(text)
        return None if delay_ms is None else now_ms + delay_ms
    return number(find(properties, TIMER_DELIVER_MS))


def slot_of(due_ms: int, precision_ms: int) -> int:
    """The time of the slot of a message that is due at this time."""
    return (due_ms - 1) // precision_ms * precision_ms


def read(record: Buffer, precision_ms: int) -> TimerMessage | None:
    """What a record says; None if it is not one of the timer topic."""
    if topic_at(record, 0) != _TOPIC:
        return None
    properties = properties_at(record, 0).decode("utf-8", "surrogateescape")
    out_ms = number(find(properties, TIMER_OUT_MS))
    if out_ms is None or out_ms < 0:
        return None
    latest_ms = out_ms + precision_ms
    wanted = (wanted_ms(properties, store_timestamp_at(record, 0)), number(find(properties, TIMER_DELIVER_MS)))
    if find(properties, TIMER_ROLL_TIMES):  # it was stored again, and its delay counts from the first time
        wanted = wanted[::-1]
    due_ms = next((time_ms for time_ms in wanted if time_ms is not None and out_ms < time_ms <= latest_ms), latest_ms)
    return TimerMessage(out_ms, due_ms, find(properties, REAL_TOPIC), find(properties, TIMER_DEL_UNIQKEY))
