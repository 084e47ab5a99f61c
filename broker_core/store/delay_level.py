"""Delay levels: how long each delays a message, and what the queues of SCHEDULE_TOPIC_XXXX record for it."""

from broker_core.formats import message_properties

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MAX_DIGITS = 10


def delay_level(properties: str) -> int | None:
    """A message's DELAY property; 0 without one, None if it is not a 32-bit number."""
    text = message_properties.find(properties, message_properties.DELAY)
    if not text:
        return 0
    digits = text[1:] if text[0] in "+-" else text
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS):
        return None
    level = int(text)
    return level if -1 << 31 <= level < 1 << 31 else None


class DelayLevels:
    """RocketMQ's delayLevelTable, parsed from messageDelayLevel (``1s 5s ... 2h``). The first level is 1."""

    def __init__(self, text: str) -> None:
        self.ms = [int(entry[:-1]) * _UNIT_MS[entry[-1]] for entry in text.split(" ")]

    def __len__(self) -> int:
        return len(self.ms)

    def delay_ms(self, level: int) -> int:
        """Delay of a level, ms. Levels above the last one have the last one's delay."""
        return self.ms[min(level, len(self.ms)) - 1]

    def tags_code(self, properties: str, store_timestamp: int, otherwise: int) -> int:
        """The deliver time, ms, which queues of the schedule topic record in place of a tagsCode.

        ``otherwise`` for a message without a delay level.
        """
        level = delay_level(properties)
        return store_timestamp + self.delay_ms(level) if level and level > 0 else otherwise
