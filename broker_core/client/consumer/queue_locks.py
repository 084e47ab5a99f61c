"""The locks of queues that are consumed in order: only one member of a group has the lock of a queue."""

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from broker_core.client.mq_client_exception import MQClientException
from broker_core.commands import MessageQueue

if TYPE_CHECKING:
    from broker_core.client.mq_client_instance import MQClientInstance

log = logging.getLogger(__name__)


class QueueLocks:
    """RebalanceImpl's lock, lockAll, unlock and unlockAll of RocketMQ, for one group of a client."""

    def __init__(self, instance: "MQClientInstance", group: str) -> None:
        self._instance = instance
        self._group = group

    async def lock(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, bool]:
        """Lock queues, or renew their locks, by one request for each broker.

        Returns whether each is locked for this client now. Queues of a broker that does not answer are left out.
        """
        answers = await asyncio.gather(*(self._lock(name, own) for name, own in _by_broker(queues).items()))
        return {queue: locked for answer in answers for queue, locked in answer.items()}

    async def _lock(self, broker_name: str, queues: list[MessageQueue]) -> dict[MessageQueue, bool]:
        instance = self._instance
        try:
            address = instance.broker_address(broker_name)
            locked = await instance.api.lock_batch_mq(address, self._group, instance.client_id, queues)
        except (OSError, MQClientException) as error:
            log.warning("group %s could not lock %d queues of %s: %s", self._group, len(queues), broker_name, error)
            return {}
        return {queue: queue in locked for queue in queues}

    async def unlock(self, queues: Iterable[MessageQueue]) -> None:
        """Release locks. One that cannot be released ends by itself when its time is over."""
        await asyncio.gather(*(self._unlock(name, own) for name, own in _by_broker(queues).items()))

    async def _unlock(self, broker_name: str, queues: list[MessageQueue]) -> None:
        instance = self._instance
        try:
            address = instance.broker_address(broker_name)
            await instance.api.unlock_batch_mq(address, self._group, instance.client_id, queues)
        except (OSError, MQClientException) as error:
            log.info("group %s could not unlock %d queues of %s: %s", self._group, len(queues), broker_name, error)


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    table: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        table.setdefault(queue.broker_name, []).append(queue)
    return table
