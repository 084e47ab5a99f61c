"""Questions about queues and their offsets."""

from typing import TYPE_CHECKING

from broker_core.client.mq_client_exception import MQClientException
from broker_core.commands import MessageQueue

if TYPE_CHECKING:
    from broker_core.client.mq_client_instance import MQClientInstance


class MQAdminImpl:
    """RocketMQ's MQAdminImpl.

    All calls raise MQClientException if a broker is not known or refuses, and an OSError if it does not answer.
    """

    def __init__(self, instance: "MQClientInstance") -> None:
        self._instance = instance

    async def fetch_subscribe_message_queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic for consumers, sorted."""
        if not await self._instance.update_topic_route(topic):
            raise MQClientException(f"topic {topic!r} has no route: it does not exist. Create it first")
        return self._instance.subscribed_queues(topic) or []

    async def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the first message that can be read."""
        return await self._instance.api.get_min_offset(await self._address(queue), queue)

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset behind the last message."""
        return await self._instance.api.get_max_offset(await self._address(queue), queue)

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message that was stored at this time or later."""
        return await self._instance.api.search_offset(await self._address(queue), queue, timestamp_ms)

    async def fetch_group_offset(self, group: str, queue: MessageQueue) -> int | None:
        """The group's offset of a queue; None if it has none."""
        address = await self._address(queue)
        return await self._instance.api.query_consumer_offset(address, group, queue, set_zero_if_not_found=False)

    async def _address(self, queue: MessageQueue) -> str:
        if self._instance.subscribed_queues(queue.topic) is None:
            await self._instance.update_topic_route(queue.topic)
        return self._instance.broker_address(queue.broker_name)
