"""A client's progress in one queue: which messages were sent, which are acknowledged, and so what may be committed."""

from collections import OrderedDict
from collections.abc import Iterator


class QueueProgress:
    """The messages of one queue at a client, by offset. A message is open from its sending until it is acknowledged.

         committed           done_to                       next_offset
         |                   |                             |
         done . done . done  open . done . done . open ... not sent yet

    ``committed`` is None while the group has no offset for the queue. Offsets are sent ascending, with gaps where the
    filter rejected messages.
    """

    def __init__(self, next_offset: int, committed: int | None) -> None:
        self.next_offset = next_offset
        self.committed = committed
        self._open: OrderedDict[int, int] = OrderedDict()  # offset -> physical offset

    def __len__(self) -> int:
        """How many messages are open."""
        return len(self._open)

    def __iter__(self) -> Iterator[int]:
        """The open offsets, ascending."""
        return iter(self._open)

    def __contains__(self, offset: int) -> bool:
        """Whether the message is open."""
        return offset in self._open

    def send(self, offset: int, physical_offset: int) -> None:
        """This message is sent to the client now."""
        self._open[offset] = physical_offset
        self.next_offset = offset + 1

    def pass_over(self, next_offset: int) -> None:
        """Everything before ``next_offset`` was sent, or was rejected by the filter."""
        self.next_offset = max(self.next_offset, next_offset)

    def move(self, next_offset: int) -> None:
        """Continue at another offset. Open messages are forgotten: they can no longer be acknowledged."""
        self._open.clear()
        self.next_offset = next_offset

    def finish(self, offset: int) -> None:
        """The client acknowledged the message. An offset that is not open is ignored."""
        self._open.pop(offset, None)

    def physical_offset(self, offset: int) -> int:
        return self._open[offset]

    @property
    def done_to(self) -> int:
        """The offset to commit, where the range without open messages ends: the first open offset, or the next one."""
        return next(iter(self._open), self.next_offset)

    @property
    def span(self) -> int:
        """Offsets from the first open one to the next one."""
        return self.next_offset - self.done_to
