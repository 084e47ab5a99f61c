"""How a subscription selects messages: first by the queue unit, then by the record."""

from typing import ClassVar, Protocol

SEARCH_BYTES = 256
"""To begin a search in a property string takes as long as to read so many bytes, which is less than a microsecond."""


class MessageFilter(Protocol):
    """RocketMQ's MessageFilter. ``expression`` is as the client wrote it.

    ``reads_properties``: only the record says whether a message matches.
    """

    reads_properties: ClassVar[bool]

    @property
    def expression(self) -> str: ...

    @property
    def work(self) -> int:
        """How often the property string is searched at most."""
        ...

    def matches_tags_code(self, tags_code: int) -> bool:
        """Whether the message may match, by the tagsCode of its queue unit. Only False is certain: hashes collide."""
        ...

    def matches_record(self, properties: bytes) -> bool:
        """Whether the message matches, by the property string of its record."""
        ...
