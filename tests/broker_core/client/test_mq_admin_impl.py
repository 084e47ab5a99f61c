"""Questions about queues; the answers of whole clusters are in the tests of pull consumers."""

import pytest

from broker_core.client import MessageQueue, MQClientException
from tests.fakes.client import instance_of
from tests.fakes.virtual_cluster import VirtualCluster, run_virtually


def test_the_route_is_asked_for_first() -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        cluster.create_topic("orders", 2)
        admin = instance_of(cluster).admin
        queue = MessageQueue(topic="orders", broker_name="a", queue_id=1)
        assert await admin.max_offset(queue) == 0
        assert await admin.fetch_group_offset("g", queue) is None
        with pytest.raises(MQClientException, match="no name server has reported a master of broker 'b'"):
            await admin.min_offset(MessageQueue(topic="orders", broker_name="b", queue_id=1))
        await admin._instance.api.close()

    run_virtually(story)
