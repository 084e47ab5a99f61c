"""Which of a group's members has which queue. Every member works it out for itself, from the same two lists.

So all of them must use the same rule and see the same lists, sorted alike: queues by topic, broker name and queue id,
client ids as texts.
"""

from collections.abc import Sequence
from typing import TypeVar

Q = TypeVar("Q")


def allocate_averagely(queues: Sequence[Q], client_ids: Sequence[str], client_id: str) -> list[Q]:
    """RocketMQ's AllocateMessageQueueAveragely: neighbouring queues, the first members one more where it is uneven.

    Both lists are sorted. A client that is not among ``client_ids`` has none.
    """
    if client_id not in client_ids:
        return []
    index = client_ids.index(client_id)
    each, left = divmod(len(queues), len(client_ids))
    start = index * each + min(index, left)
    return list(queues[start:start + each + (index < left)])
