"""The SQL92 filter of a group's subscription, whose bits in the bitmaps of messages are known."""

from typing import ClassVar

from broker_core.filters.bloom_filter import BloomFilterData
from broker_core.filters.sql92.sql_filter import SqlFilter

NEVER = 1 << 63
"""A physical offset after all messages."""


class ConsumerFilterData:
    """RocketMQ's ConsumerFilterData and its ExpressionMessageFilter: a MessageFilter that can test bitmaps.

    The bitmaps of messages from physical offset ``bitmaps_from`` on were computed with this filter. Only they may be
    tested: older messages have bitmaps too, in which its bits are not set. RocketMQ compares two times of day for
    this, so a clock that was set back makes it pass over messages that match. ``born_ms`` and ``dead_ms`` are only
    kept for RocketMQ; ``dead_ms`` is 0 while the group has members.

    ``columns`` are the bytes of a bitmap that contain bits of this filter: the byte's number, and a table that maps
    its values to 1 if these bits are set and to 0 otherwise.
    """

    __slots__ = (
        "bitmaps_from",
        "bits",
        "bloom",
        "born_ms",
        "columns",
        "dead_ms",
        "expression",
        "group",
        "matches_record",
        "sql",
        "topic",
        "version",
        "work",
    )
    reads_properties: ClassVar[bool] = True

    def __init__(
        self, topic: str, group: str, sql: SqlFilter, bloom: BloomFilterData, version: int, born_ms: int
    ) -> None:
        self.topic = topic
        self.group = group
        self.sql = sql
        self.expression = sql.expression
        self.work = sql.work
        self.matches_record = sql.matches_record
        self.bloom = bloom
        self.bits = bloom.bits
        self.columns = _columns(bloom)
        self.version = version
        self.born_ms = born_ms
        self.dead_ms = 0
        self.bitmaps_from = NEVER

    def matches_tags_code(self, tags_code: int) -> bool:
        return True


def _columns(bloom: BloomFilterData) -> tuple[tuple[int, bytes], ...]:
    masks: dict[int, int] = {}
    for position in bloom.bit_pos:
        masks[position // 8] = masks.get(position // 8, 0) | 1 << position % 8
    return tuple(
        (number, bytes(value & mask == mask for value in range(256))) for number, mask in sorted(masks.items())
    )
