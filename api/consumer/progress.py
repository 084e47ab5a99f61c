"""How far a client is in one queue: what it was sent, what of it is done, and so which offset its group may commit."""

from collections import OrderedDict
from collections.abc import Iterator


class QueueProgress:
    """The messages of one queue on their way through a client, by offset.

         committed           done_to                       next_offset
         |                   |                             |
         done . done . done  open . done . done . open ... not sent yet

    ``committed`` is None while the group has no offset for the queue. Offsets are sent ascending, with gaps where the
    filter said no.
    """

    def __init__(self, next_offset: int, committed: int | None) -> None:
        self.next_offset = next_offset
        self.committed = committed
        self._open: OrderedDict[int, int] = OrderedDict()  # offset -> physical offset

    def __len__(self) -> int:
        """How many are sent and not done."""
        return len(self._open)

    def __iter__(self) -> Iterator[int]:
        """The offsets that are sent and not done, ascending."""
        return iter(self._open)

    def __contains__(self, offset: int) -> bool:
        """Whether it is sent and not done."""
        return offset in self._open

    def send(self, offset: int, physical_offset: int) -> None:
        """This message leaves for the client now."""
        self._open[offset] = physical_offset
        self.next_offset = offset + 1

    def pass_over(self, next_offset: int) -> None:
        """Everything before ``next_offset`` was sent, or is nothing that the client wants."""
        self.next_offset = max(self.next_offset, next_offset)

    def move(self, next_offset: int) -> None:
        """Go on elsewhere; what is open will never be done."""
        self._open.clear()
        self.next_offset = next_offset

    def finish(self, offset: int) -> None:
        """The client is done with it. What is not open is passed over."""
        self._open.pop(offset, None)

    def physical_offset(self, offset: int) -> int:
        return self._open[offset]

    @property
    def done_to(self) -> int:
        """The end of the contiguous range that is done: the first open offset, or else the next one."""
        return next(iter(self._open), self.next_offset)

    @property
    def span(self) -> int:
        """Offsets from the first open one to the next one."""
        return self.next_offset - self.done_to
