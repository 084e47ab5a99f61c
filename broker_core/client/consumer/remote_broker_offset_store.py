"""The offsets of a clustering group, which its brokers keep."""

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from broker_core.client.client_events import OffsetCommitted
from broker_core.client.mq_client_exception import MQClientException
from broker_core.commands import MessageQueue

if TYPE_CHECKING:
    from broker_core.client.mq_client_instance import MQClientInstance

log = logging.getLogger(__name__)


class RemoteBrokerOffsetStore:
    """RocketMQ's RemoteBrokerOffsetStore. Offsets are of the next message to consume."""

    def __init__(self, instance: "MQClientInstance", group: str, *, set_zero_if_not_found: bool = True) -> None:
        self._instance = instance
        self._group = group
        self._set_zero_if_not_found = set_zero_if_not_found
        self._offsets: dict[MessageQueue, int] = {}
        self._persisted: dict[MessageQueue, int] = {}

    def update_offset(self, queue: MessageQueue, offset: int, *, increase_only: bool = False) -> None:
        """Note an offset; it reaches the broker with the next pull or ``persist``."""
        if not increase_only:
            self._offsets[queue] = offset
            self._persisted.pop(queue, None)  # pulls commit too, so the broker may have a later offset than this says
        elif offset > self._offsets.get(queue, -1):
            self._offsets[queue] = offset

    def read_memory(self, queue: MessageQueue) -> int:
        """The offset noted last; -1 if there is none."""
        return self._offsets.get(queue, -1)

    async def read_store(self, queue: MessageQueue) -> int | None:
        """The broker's offset, which is noted too; None if it has none. Raises as MQClientAPI."""
        api, address = self._instance.api, self._instance.broker_address(queue.broker_name)
        offset = await api.query_consumer_offset(
            address, self._group, queue, set_zero_if_not_found=self._set_zero_if_not_found
        )
        if offset is not None:
            self._offsets[queue] = self._persisted[queue] = offset
        return offset

    async def persist(self, queues: Iterable[MessageQueue]) -> None:
        """Send the offsets that have changed. One that does not arrive is logged, and sent again the next time."""
        changed = [queue for queue in queues if self._offsets.get(queue, -1) != self._persisted.get(queue, -1)]
        await asyncio.gather(*map(self._persist_one, changed))

    async def store_now(self, queue: MessageQueue, offset: int) -> None:
        """Note an offset and have the broker store it now. Raises as MQClientAPI."""
        address = self._instance.broker_address(queue.broker_name)
        await self._instance.api.update_consumer_offset(address, self._group, queue, offset)
        self._offsets[queue] = offset
        self._note_persisted(queue, offset)

    def _note_persisted(self, queue: MessageQueue, offset: int) -> None:
        self._persisted[queue] = offset
        events = self._instance.events
        if events.listener is not None:
            events.emit(OffsetCommitted(self._instance.clock.mono_ns(), self._group, queue, offset))

    async def _persist_one(self, queue: MessageQueue) -> None:
        offset = self._offsets[queue]
        try:
            address = self._instance.broker_address(queue.broker_name)
            await self._instance.api.update_consumer_offset(address, self._group, queue, offset)
        except (OSError, MQClientException) as error:
            log.warning("the offset %d of %s could not be stored for %s: %s", offset, queue, self._group, error)
        else:
            self._note_persisted(queue, offset)

    def remove_offset(self, queue: MessageQueue) -> None:
        """Forget a queue that belongs to another client now."""
        self._offsets.pop(queue, None)
        self._persisted.pop(queue, None)

    def table(self) -> dict[MessageQueue, int]:
        """All offsets noted."""
        return dict(self._offsets)
