"""Which queue a message is sent to, when brokers are slow or gone."""

from bisect import bisect_right

from broker_core.client.producer.topic_publish_info import TopicPublishInfo
from broker_core.commands import MessageQueue

LATENCY_MAX_MS = (50, 100, 550, 1800, 3000, 5000, 15000)
NOT_AVAILABLE_MS = (0, 0, 2000, 5000, 6000, 10000, 30000)
"""A send that took at least ``LATENCY_MAX_MS[i]`` makes its broker unavailable for ``NOT_AVAILABLE_MS[i]``."""

ISOLATION_LATENCY_MS = 10_000
"""A broker that could not be reached counts as one that took so long."""


class MQFaultStrategy:
    """RocketMQ's MQFaultStrategy. Without ``send_latency_fault_enable`` only the broker that just failed is avoided."""

    def __init__(self, *, send_latency_fault_enable: bool = False) -> None:
        self.send_latency_fault_enable = send_latency_fault_enable
        self._unavailable_until_ns: dict[str, int] = {}

    def select_one_message_queue(
        self, publish_info: TopicPublishInfo, last_broker: str, now_ns: int
    ) -> MessageQueue | None:
        """The next queue in turn: of an available broker, else of another broker than ``last_broker``, else any.

        ``last_broker`` is where the last attempt of this send failed; empty at the first attempt.
        """
        if self.send_latency_fault_enable:
            queue = publish_info.select_one(
                lambda queue: queue.broker_name != last_broker and self.is_available(queue.broker_name, now_ns)
            )
            if queue is not None:
                return queue
        return publish_info.select_one(lambda queue: queue.broker_name != last_broker) or publish_info.select_one(
            lambda queue: True
        )

    def is_available(self, broker_name: str, now_ns: int) -> bool:
        return self._unavailable_until_ns.get(broker_name, 0) <= now_ns

    def update_fault_item(self, broker_name: str, latency_ms: float, now_ns: int, *, isolation: bool = False) -> None:
        """A send to this broker took so long; ``isolation``: the broker could not be reached or refused it."""
        if not self.send_latency_fault_enable:
            return
        place = bisect_right(LATENCY_MAX_MS, ISOLATION_LATENCY_MS if isolation else latency_ms) - 1
        pause_ms = NOT_AVAILABLE_MS[place] if place >= 0 else 0
        if pause_ms:
            self._unavailable_until_ns[broker_name] = now_ns + pause_ms * 1_000_000
        else:
            self._unavailable_until_ns.pop(broker_name, None)
