"""Fixtures for tests of programs that use RocketMQ clients. pytest finds them where glassmq is installed.

    def test_orders(glassmq_broker):
        send_orders(glassmq_broker.namesrv_addr)

``glassmq_broker`` is empty for every test. It starts in some milliseconds, because it has no web, and stops with the
test.
"""

from collections.abc import Iterator

import pytest

from broker_core.testing.running_broker import RunningBroker


@pytest.fixture
def glassmq_broker() -> Iterator[RunningBroker]:
    """A broker with a name server at ``namesrv_addr``, on free ports of this machine."""
    with RunningBroker() as broker:
        yield broker
