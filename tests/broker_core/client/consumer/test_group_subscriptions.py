"""A group with two subscriptions in one process is refused."""

import pytest

from broker_core.client import MQClientException
from tests.fakes.client import Inbox, consumer_of, lite_consumer_of
from tests.fakes.virtual_cluster import VirtualCluster, run_virtually


def test_members_with_other_subscriptions_do_not_start() -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        cluster.create_topic("orders", 1)
        async with consumer_of(cluster, Inbox(), tags="A"), consumer_of(cluster, Inbox(), tags="A"):
            with pytest.raises(MQClientException, match=r"to topic 'orders' it subscribes by 'A', and this one .* 'B'"):
                await consumer_of(cluster, Inbox(), tags="B").start()
            lite = lite_consumer_of(cluster)
            lite.subscribe("payments")
            with pytest.raises(MQClientException, match="'orders' it subscribes by 'A', and this one does not"):
                await lite.start()
            async with consumer_of(cluster, Inbox(), tags="B", group="another"):
                pass
        async with consumer_of(cluster, Inbox(), tags="A || B"):  # the others have ended
            async with consumer_of(cluster, Inbox(), tags="B||A||"):  # the same tags
                pass
            with pytest.raises(MQClientException, match=r"by 'A \|\| B', and this one subscribes by 'A \|\| C'"):
                await consumer_of(cluster, Inbox(), tags="A||C").start()

    run_virtually(story)
