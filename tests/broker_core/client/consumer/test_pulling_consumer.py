"""What both consumers that pull in the background do alike."""

from typing import Any

import pytest

from broker_core.client import MQClientException
from tests.fakes.client import Inbox, consumer_of, lite_consumer_of
from tests.fakes.virtual_cluster import NAMESRV, VirtualCluster, run_virtually


def push_of(cluster: VirtualCluster) -> Any:
    return consumer_of(cluster, Inbox())


def lite_of(cluster: VirtualCluster) -> Any:
    consumer = lite_consumer_of(cluster)
    consumer.subscribe("orders")
    return consumer


@pytest.mark.parametrize("make", [push_of, lite_of])
def test_a_start_that_fails_leaves_nothing_and_can_be_repeated(make: Any) -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        cluster.create_topic("orders", 2)
        consumer = make(cluster)
        server = cluster.loop.servers.pop(NAMESRV)
        with pytest.raises(MQClientException, match="no name server answers"):
            await consumer.start()
        assert (consumer.running, consumer.instance.consumers) == (False, {})
        cluster.loop.servers[NAMESRV] = server
        async with consumer:
            assert (consumer.started, len(consumer.rebalance.process_queues)) == (True, 3)
            for change in (lambda: consumer.subscribe("others"), lambda: consumer._require_stopped()):
                with pytest.raises(MQClientException, match="running already"):
                    change()
        assert (consumer.started, consumer.rebalance.process_queues) == (False, {})

    run_virtually(story)
