"""Fixtures for tests of programs that use RocketMQ clients. pytest finds them where glassmq is installed.

    def test_orders(glassmq_broker):
        send_orders(glassmq_broker.namesrv_addr)

    def test_retries(glassmq_virtual_cluster):
        async def story(cluster):
            ...
        glassmq_virtual_cluster(story)

Both are empty for every test. ``glassmq_broker`` has real sockets and real time. It starts in some milliseconds,
because it has no web, and stops with the test. ``glassmq_virtual_cluster`` has neither: see ``virtual_cluster.py``.
"""

from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from broker_core.testing.running_broker import RunningBroker
from broker_core.testing.virtual_cluster import VirtualCluster, run_virtually

Story = Callable[[VirtualCluster], Coroutine[Any, Any, Any]]


@pytest.fixture
def glassmq_broker() -> Iterator[RunningBroker]:
    """A broker with a name server at ``namesrv_addr``, on free ports of this machine."""
    with RunningBroker() as broker:
        yield broker


@pytest.fixture
def glassmq_virtual_cluster(tmp_path: Path) -> Callable[[Story], Any]:
    """Runs a coroutine function on a virtual clock, with a cluster without brokers; returns its result."""
    return partial(run_virtually, folder=tmp_path)
