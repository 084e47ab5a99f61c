"""Questions about whole tables, answered in pieces.

A processor of such a question is a generator, a walk. It yields after each piece of work, which takes about a
millisecond at most, and returns the reply. Between two pieces the engine handles other commands. So a walk never
iterates over a table itself but over a copy of its keys, and looks each key up again: it may be gone by then.

``seq`` of a reply is the number of the last event before the first piece. Rows that were read later may be newer than
that. All events from ``seq`` on may be applied to them, because an event contains the new state, not a difference.
"""

from collections.abc import Collection, Generator, Iterator, Sequence
from typing import Any, TypeVar

from broker_core.errors import RequestError

PIECE = 200
"""Rows of a piece, where a row takes some microseconds."""

NAMES = 1000
"""Names of a piece that are sorted."""

MAX_PAGE = 5000

MAX_DIGITS = 10
"""Of a queue id in a text."""

Item = TypeVar("Item")
Result = TypeVar("Result")
Steps = Generator[None, None, Result]


def pieces_of(items: Sequence[Item], size: int = 0) -> Iterator[Sequence[Item]]:
    """The items in slices of ``size``, or of PIECE."""
    size = size or PIECE
    return (items[start : start + size] for start in range(0, len(items), size))


def sort_names(*tables: Collection[str], after: str = "", limit: int = 0) -> Steps[list[str]]:
    """The names in any of the tables, sorted and each once: those behind ``after``, and at most ``limit`` unless 0."""
    known: set[str] = set()
    found: list[str] = []
    for table in tables:
        for piece in pieces_of(list(table), NAMES):
            new = {name for name in piece if name > after} - known
            known |= new
            found += new
            found.sort()  # which only has to merge the sorted ones and the few new ones
            if limit:
                del found[limit:]
            yield
    return found


def page_limit(limit: int) -> int:
    """How many rows a page has. Raises RequestError."""
    if limit < 1:
        raise RequestError("limit is 1 or more", pointer="/limit")
    return min(limit, MAX_PAGE)


def queue_of_text(text: str) -> tuple[str, int]:
    """Topic and id of the queue after which a page begins, from a text such as ``topic@3``. Raises RequestError.

    ("", -1), which is before every queue, if the text is empty.
    """
    if not text:
        return "", -1
    topic, _, queue_id = text.rpartition("@")
    if not topic or not queue_id.isdecimal() or len(queue_id) > MAX_DIGITS:
        raise RequestError(f"{text[:200]!r} names no queue; write it as in topic@3", pointer="/after")
    return topic, int(queue_id)


def finish(steps: Generator[Any, None, Result]) -> Result:
    """Take all steps at once. Returns the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
