"""Shares the queues of a topic among the members of a group. Each client does this by itself, with the same result.

Source: RocketMQ's AllocateMessageQueueAveragely, the clients' default. Queues are sorted by topic, broker name and
queue id, client ids as text.
"""

from collections.abc import Sequence
from itertools import repeat
from typing import TypeVar

Q = TypeVar("Q")


def averagely(queues: int, members: int, index: int) -> range:
    """Indices of the queues of member ``index`` of ``members``: neighbours. The first members have one more."""
    share, rest = divmod(queues, members)
    start = index * share + min(index, rest)
    return range(start, start + share + (index < rest))


def averagely_owners(queues: int, client_ids: Sequence[str]) -> list[str]:
    """The member of each queue, in the order of the queues; empty without members."""
    return [
        owner
        for index, client_id in enumerate(client_ids)
        for owner in repeat(client_id, len(averagely(queues, len(client_ids), index)))
    ]


def allocate_averagely(queues: Sequence[Q], client_ids: Sequence[str], client_id: str) -> list[Q]:
    """The queues of one client; none if it is not a member."""
    if client_id not in client_ids:
        return []
    return [queues[place] for place in averagely(len(queues), len(client_ids), client_ids.index(client_id))]


def allocate_averagely_by_circle(queues: Sequence[Q], client_ids: Sequence[str], client_id: str) -> list[Q]:
    """RocketMQ's AllocateMessageQueueAveragelyByCircle: the members take turns."""
    return list(queues[client_ids.index(client_id) :: len(client_ids)]) if client_id in client_ids else []
