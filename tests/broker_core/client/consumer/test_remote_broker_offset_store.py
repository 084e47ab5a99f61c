"""Offsets are noted here and kept by the broker."""

import pytest

from broker_core.client.consumer.remote_broker_offset_store import RemoteBrokerOffsetStore
from broker_core.codes import RequestCode, ResponseCode
from broker_core.commands import ConsumerData, HeartBeat, MessageQueue
from tests.fakes.client import instance_of
from tests.fakes.virtual_cluster import UPDATE_OFFSET, VirtualCluster, run_virtually

QUEUES = [MessageQueue(topic="orders", broker_name="a", queue_id=n) for n in range(2)]


def test_offsets_reach_the_broker_when_they_have_changed(caplog: pytest.LogCaptureFixture) -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 2)
        instance = instance_of(cluster)
        store = RemoteBrokerOffsetStore(instance, "g")
        await store.persist(QUEUES)
        await instance.update_topic_route("orders")
        beat = HeartBeat(client_id="c", protocol="remoting", consumers=[ConsumerData(group="g")])
        await instance.api.send_heartbeat(broker.address, beat)  # which creates the group
        assert [await store.read_store(queue) for queue in QUEUES] == [0, 0]  # as the broker reports for empty queues
        broker.refuse[RequestCode.QUERY_CONSUMER_OFFSET] = ResponseCode.QUERY_NOT_FOUND
        assert [await store.read_store(queue) for queue in QUEUES] == [None, None]
        broker.refuse.clear()
        store.update_offset(QUEUES[0], 5)
        store.update_offset(QUEUES[0], 3, increase_only=True)
        await store.persist(QUEUES)
        await store.persist(QUEUES)
        assert (broker.offset("g", "orders", 0), len(broker.sent(UPDATE_OFFSET))) == (5, 1)
        store.update_offset(QUEUES[0], 3)
        broker.refuse[UPDATE_OFFSET] = ResponseCode.SYSTEM_BUSY
        await store.persist(QUEUES)
        assert broker.offset("g", "orders", 0) == 5
        broker.refuse.clear()
        await store.persist(QUEUES)
        assert (broker.offset("g", "orders", 0), store.table()) == (3, {QUEUES[0]: 3, QUEUES[1]: 0})
        store.remove_offset(QUEUES[0])
        store.remove_offset(QUEUES[1])
        assert store.read_memory(QUEUES[0]) == -1
        assert await store.read_store(QUEUES[0]) == 3 == store.read_memory(QUEUES[0])
        await store.persist(QUEUES)
        assert len(broker.sent(UPDATE_OFFSET)) == 3  # what was just read is not sent back
        await instance.api.update_consumer_offset(broker.address, "g", QUEUES[0], 9)  # as a pull does
        store.update_offset(QUEUES[0], 3)
        await store.persist(QUEUES)
        assert broker.offset("g", "orders", 0) == 3
        await instance.api.close()

    run_virtually(story)
    assert caplog.text.count("could not be stored for g") == 1
