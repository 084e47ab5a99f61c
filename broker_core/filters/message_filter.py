"""How a subscription selects messages: first by the queue unit, then by the record."""

from typing import Protocol


class MessageFilter(Protocol):
    """RocketMQ's MessageFilter."""

    def matches_tags_code(self, tags_code: int) -> bool:
        """Whether the message may match, by the tagsCode of its queue unit. Only False is certain: hashes collide."""
        ...

    def matches_record(self, properties: bytes) -> bool:
        """Whether the message matches, by the property string of its record."""
        ...
