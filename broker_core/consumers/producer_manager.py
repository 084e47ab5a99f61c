"""Who sends for which producer group."""

from broker_core.consumers.memberships import Memberships


class ProducerManager(Memberships):
    """RocketMQ's ProducerManager."""
