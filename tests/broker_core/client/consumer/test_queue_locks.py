"""Locks are asked for by one request for each broker, and say nothing about brokers that do not answer."""

from broker_core.client.consumer.queue_locks import QueueLocks
from broker_core.codes import RequestCode, ResponseCode
from broker_core.commands import MessageQueue
from tests.fakes.client import instance_of
from tests.fakes.virtual_cluster import VirtualCluster, run_virtually

QUEUES = [MessageQueue(topic="orders", broker_name=name, queue_id=number) for name in "ab" for number in range(2)]


def test_a_queue_is_locked_for_one_client() -> None:
    async def story(cluster: VirtualCluster) -> None:
        brokers = [cluster.add_broker(name) for name in "ab"]
        cluster.create_topic("orders", 2)
        instances = [instance_of(cluster, name) for name in ("one", "two")]
        one, two = (QueueLocks(instance, "g") for instance in instances)
        for instance in instances:
            await instance.update_topic_route("orders")
        assert await one.lock(QUEUES[:3]) == dict.fromkeys(QUEUES[:3], True)
        assert [len(broker.sent(RequestCode.LOCK_BATCH_MQ)) for broker in brokers] == [1, 1]
        assert list((await two.lock(QUEUES)).values()) == [False, False, False, True]
        await two.unlock(QUEUES)  # those of the other stay
        assert list((await one.lock(QUEUES)).values()) == [True, True, True, True]
        await one.unlock(QUEUES[:1])
        assert list((await two.lock(QUEUES)).values()) == [True, False, False, False]
        brokers[1].refuse[RequestCode.LOCK_BATCH_MQ] = ResponseCode.SYSTEM_BUSY
        assert await one.lock(QUEUES) == {QUEUES[0]: False, QUEUES[1]: True}
        brokers[0].kill()
        assert await one.lock(QUEUES) == {}
        await one.unlock(QUEUES)
        for instance in instances:
            await instance.api.close()

    run_virtually(story)
