"""Shares out queues anew: every 20 s, and at once when the members or the routes change."""

import asyncio
import logging
from typing import TYPE_CHECKING

from broker_core.client.mq_client_exception import MQClientException

if TYPE_CHECKING:
    from broker_core.client.mq_client_instance import MQClientInstance

log = logging.getLogger(__name__)

REBALANCE_SECONDS = 20.0
UNFINISHED_SECONDS = 1.0
"""Pause after a round in which a broker could not be asked."""


class RebalanceService:
    """RocketMQ's RebalanceService."""

    def __init__(self, instance: "MQClientInstance") -> None:
        self._instance = instance
        self._due = asyncio.Event()

    def wakeup(self) -> None:
        """Begin a round soon."""
        self._due.set()

    async def run(self) -> None:
        """Rebalance until cancelled."""
        pause = REBALANCE_SECONDS
        while True:
            try:
                async with asyncio.timeout(pause):
                    await self._due.wait()
            except TimeoutError:
                pass
            self._due.clear()
            pause = REBALANCE_SECONDS if await self._rebalance_all() else UNFINISHED_SECONDS

    async def _rebalance_all(self) -> bool:
        """Rebalance every consumer. Returns whether all could."""
        finished = True
        for consumer in list(self._instance.consumers.values()):
            try:
                finished &= await consumer.do_rebalance()
            except (OSError, MQClientException) as error:
                log.warning("group %s could not rebalance: %s", consumer.group, error)
                finished = False
            except Exception:  # of the allocate function, say; the other groups and later rounds go on
                log.exception("group %s could not rebalance", consumer.group)
        return finished
