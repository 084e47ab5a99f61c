"""The virtual cluster as other projects use it: on files of the machine."""

import asyncio
from pathlib import Path

import pytest

from broker_core.client import DefaultMQProducer, Message, MQClientException
from broker_core.errors import RequestError
from broker_core.testing.virtual_cluster import NAMESRV, VirtualCluster, run_virtually


def test_time_jumps_to_the_next_event(tmp_path: Path) -> None:
    async def story(cluster: VirtualCluster) -> float:
        began = cluster.loop.time()
        await asyncio.sleep(3600)
        return cluster.loop.time() - began

    assert run_virtually(story, tmp_path) == 3600


def test_what_never_happens_is_an_error(tmp_path: Path) -> None:
    async def story(cluster: VirtualCluster) -> None:
        await asyncio.Event().wait()

    with pytest.raises(AssertionError, match="no event is scheduled any more"):
        run_virtually(story, tmp_path)

    async def endless(cluster: VirtualCluster) -> None:
        while True:
            await asyncio.sleep(60)

    with pytest.raises(AssertionError, match="in a virtual day"):
        run_virtually(endless, tmp_path)


def test_a_broker_keeps_its_store_when_it_is_killed(tmp_path: Path) -> None:
    async def story(cluster: VirtualCluster) -> list[int]:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        offsets = []
        async with DefaultMQProducer("p", namesrv_addr=NAMESRV) as producer:
            offsets.append((await producer.send(Message("orders", b"one"))).queue_offset)
            broker.kill()
            with pytest.raises(MQClientException, match="nobody listens"):
                await producer.send(Message("orders", b"lost"))
            broker.start()
            offsets.append((await producer.send(Message("orders", b"two"))).queue_offset)
        return offsets

    assert run_virtually(story, tmp_path) == [0, 1]


def test_an_illegal_topic_is_refused(tmp_path: Path) -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        cluster.create_topic("a b")

    with pytest.raises(RequestError, match="contains characters"):
        run_virtually(story, tmp_path)
