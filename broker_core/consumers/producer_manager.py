"""The members of producer groups."""

from broker_core.consumers.memberships import Memberships


class ProducerManager(Memberships):
    """RocketMQ's ProducerManager."""
