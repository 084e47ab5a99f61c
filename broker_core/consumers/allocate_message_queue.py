"""Shares the queues of a topic among the members of a group. Each client does this by itself, with the same result.

Source: RocketMQ's AllocateMessageQueueAveragely, the clients' default, and its other strategies. Queues are sorted by
topic, broker name and queue id, client ids as text. All members of a group must use the same strategy.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from hashlib import md5
from itertools import repeat
from typing import TypeVar

from broker_core.commands import MessageQueue

Q = TypeVar("Q")
Allocate = Callable[[Sequence[MessageQueue], Sequence[str], str], list[MessageQueue]]
"""A strategy: sorted queues, sorted client ids, the id of the client that asks -> its queues."""

VIRTUAL_NODES = 10
"""Places of each client on the ring of the consistent hash."""


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


def allocate_by_consistent_hash(
    queues: Sequence[MessageQueue], client_ids: Sequence[str], client_id: str
) -> list[MessageQueue]:
    """RocketMQ's AllocateMessageQueueConsistentHash: few queues change their owner when a member comes or goes."""
    if client_id not in client_ids:
        return []
    ring = {_hash(f"{member}-{number}"): member for member in client_ids for number in range(VIRTUAL_NODES)}
    places = sorted(ring)
    mine = []
    for queue in queues:
        text = f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
        place = bisect_left(places, _hash(text)) % len(places)
        if ring[places[place]] == client_id:
            mine.append(queue)
    return mine


def _hash(text: str) -> int:
    """The first four bytes of the MD5 digest."""
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


def allocate_machine_room_nearby(
    inside: Allocate, room_of_broker: Callable[[str], str], room_of_client: Callable[[str], str]
) -> Allocate:
    """RocketMQ's AllocateMachineRoomNearby: queues stay in their room, shared by ``inside`` among its members.

    The queues of a room without a member are shared among all members. The two functions return the room of a broker
    name and of a client id.
    """

    def allocate(queues: Sequence[MessageQueue], client_ids: Sequence[str], client_id: str) -> list[MessageQueue]:
        if client_id not in client_ids:
            return []
        rooms: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            rooms.setdefault(room_of_broker(queue.broker_name), []).append(queue)
        neighbours: dict[str, list[str]] = {}
        for member in client_ids:
            neighbours.setdefault(room_of_client(member), []).append(member)
        own = room_of_client(client_id)
        mine = inside(rooms[own], neighbours[own], client_id) if own in rooms else []
        for room in sorted(set(rooms) - set(neighbours)):
            mine += inside(rooms[room], client_ids, client_id)
        return mine

    return allocate
