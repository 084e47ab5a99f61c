"""RocketMQ's ConsumerRunningInfo of consumers that run."""

import asyncio

from broker_core.client import MessageQueue
from tests.fakes.client import lite_consumer_of
from tests.fakes.virtual_cluster import VirtualCluster, run_virtually


def test_it_has_the_queues_and_what_the_consumer_is() -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        cluster.create_topic("orders", 1)
        consumer = lite_consumer_of(cluster)
        consumer.subscribe("orders", "A")
        async with consumer:
            await asyncio.sleep(3)
            info = consumer.running_info()
            queue = MessageQueue(topic="orders", broker_name="a", queue_id=0)
            assert info["mqTable"][queue]["lastPullTimestamp"] > 0
            assert info["properties"]["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
            assert info["subscriptionSet"][0]["subString"] == "A"

    run_virtually(story)
