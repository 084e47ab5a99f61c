"""Which queues of a topic producers send to and consumers read, by the topic's route."""

from collections.abc import Callable

from broker_core.commands import MessageQueue
from broker_core.namesrv.route_data import MASTER_ID, TopicRouteData
from broker_core.topics import PERM_READ, PERM_WRITE


def queue_order(queue: MessageQueue) -> tuple[str, str, int]:
    """The order in which all clients of a group share out queues."""
    return queue.topic, queue.broker_name, queue.queue_id


def queues_to_read(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    """The queues of a topic for consumers, sorted."""
    return sorted(
        (
            MessageQueue(topic=topic, broker_name=data.broker_name, queue_id=queue_id)
            for data in route.queue_datas
            if data.perm & PERM_READ
            for queue_id in range(data.read_queue_nums)
        ),
        key=queue_order,
    )


def queues_to_write(topic: str, route: TopicRouteData, max_queues: int | None = None) -> list[MessageQueue]:
    """The queues of a topic for producers, sorted; brokers without a master have none.

    ``max_queues`` limits the queues of each broker: a topic that does not exist yet has no more than the producer asks
    for.
    """
    masters = {data.broker_name for data in route.broker_datas if MASTER_ID in data.broker_addrs}
    return sorted(
        (
            MessageQueue(topic=topic, broker_name=data.broker_name, queue_id=queue_id)
            for data in route.queue_datas
            if data.perm & PERM_WRITE and data.broker_name in masters
            for queue_id in range(
                data.write_queue_nums if max_queues is None else min(max_queues, data.write_queue_nums)
            )
        ),
        key=queue_order,
    )


class TopicPublishInfo:
    """RocketMQ's TopicPublishInfo: the queues take turns. ``first`` is the place of the first one to be picked."""

    def __init__(self, queues: list[MessageQueue], first: int) -> None:
        self.queues = queues
        self._next = first

    def select_one(self, accept: Callable[[MessageQueue], bool]) -> MessageQueue | None:
        """The next queue that is accepted; None if no queue is."""
        for _ in self.queues:
            queue = self.queues[self._next % len(self.queues)]
            self._next += 1
            if accept(queue):
                return queue
        return None
