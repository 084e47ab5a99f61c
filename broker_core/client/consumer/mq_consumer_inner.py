"""What the machinery of a client needs of any consumer."""

from typing import TYPE_CHECKING, Any, Protocol

from broker_core.commands import ConsumerData, MessageQueue, SubscriptionData

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker_core.client.message import MessageExt


class OffsetStore(Protocol):
    """RocketMQ's OffsetStore. Offsets are of the next message to consume."""

    def update_offset(self, queue: MessageQueue, offset: int, *, increase_only: bool = False) -> None:
        """Note an offset."""

    def read_memory(self, queue: MessageQueue) -> int:
        """The offset noted last; -1 if there is none."""

    async def read_store(self, queue: MessageQueue) -> int | None:
        """The stored offset, which is noted too; None if there is none. Raises as MQClientAPI."""

    async def store_now(self, queue: MessageQueue, offset: int) -> None:
        """Note an offset and store it. Raises as MQClientAPI."""

    async def persist(self, queues: "Iterable[MessageQueue]") -> None:
        """Store the offsets that have changed. A failure is logged, and they are stored the next time."""

    def remove_offset(self, queue: MessageQueue) -> None:
        """Forget a queue that belongs to another client now."""

    def table(self) -> dict[MessageQueue, int]:
        """All offsets noted."""


class MQConsumerInner(Protocol):
    """RocketMQ's MQConsumerInner: what MQClientInstance needs of a consumer."""

    group: str
    subscriptions: dict[str, SubscriptionData]
    offset_store: OffsetStore

    async def do_rebalance(self) -> bool:
        """Take and give up queues. Returns False if something has to be tried again soon."""

    async def reset_offset(self, queue: MessageQueue, offset: int) -> None:
        """An administrator moves the group: consume a queue from this offset, if it is one of this consumer."""

    async def persist_offsets(self) -> None:
        """Store the offsets that have changed."""

    def consumer_data(self) -> ConsumerData:
        """What heartbeats say about this consumer."""

    async def consume_message_directly(self, message: "MessageExt") -> dict[str, Any] | None:
        """RocketMQ's ConsumeMessageDirectlyResult of the listener; None for a consumer that has none."""

    def running_info(self) -> dict[str, Any]:
        """RocketMQ's ConsumerRunningInfo."""
