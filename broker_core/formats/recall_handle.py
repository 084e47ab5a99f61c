"""The recall handle of a timer message: what a producer needs to recall it.

URL-safe Base64 of ``v1 topic broker time id``: the time is that of the message's slot in the timer wheel plus 1, ms,
the id its UNIQ_KEY.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

VERSION = "v1"
LENGTH_MAX = 4096


class RecallHandle(NamedTuple):
    """RocketMQ's RecallMessageHandle.HandleV1. ``timestamp`` is -1 if it is not a number."""

    topic: str
    broker_name: str
    timestamp: int
    message_id: str


def encode(handle: RecallHandle) -> str:
    text = " ".join((VERSION, handle.topic, handle.broker_name, str(handle.timestamp), handle.message_id))
    return urlsafe_b64encode(text.encode("utf-8", "surrogateescape")).decode()


def decode(text: str) -> RecallHandle | None:
    """The handle; None if the text is none."""
    if not 0 < len(text) <= LENGTH_MAX:
        return None
    try:
        data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        items = data.decode().split(" ")
    except ValueError:  # not ASCII, not Base64, or not UTF-8
        return None
    if len(items) < 5 or items[0] != VERSION:
        return None
    digits = items[3]
    is_number = digits.isascii() and digits.isdecimal() and len(digits) < 19
    return RecallHandle(items[1], items[2], int(digits) if is_number else -1, items[4])
