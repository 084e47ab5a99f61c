"""What a subscription asks of a message, at the two places where it can be asked."""

from typing import Protocol


class MessageFilter(Protocol):
    """RocketMQ's MessageFilter."""

    def matches_tags_code(self, tags_code: int) -> bool:
        """The consume queue entry may match; False is certain, True is not (hashes collide)."""
        ...

    def matches_record(self, properties: bytes) -> bool:
        """The record, by its property string, does match."""
        ...
