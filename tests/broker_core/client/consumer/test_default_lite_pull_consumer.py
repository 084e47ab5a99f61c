"""Lite pull consumers at real engines, on a virtual clock."""

import asyncio
from pathlib import Path

import pytest

from broker_core.client import (
    DefaultLitePullConsumer,
    DefaultMQPullConsumer,
    Message,
    MessageQueue,
    MQClientException,
)
from broker_core.codes import RequestCode
from tests.fakes.client import instance_of, lite_consumer_of, producer_of, pull_consumer_of
from tests.fakes.engine import context_of
from tests.fakes.virtual_cluster import UPDATE_OFFSET, VirtualBroker, VirtualCluster, run_virtually

FIRST = "CONSUME_FROM_FIRST_OFFSET"
LITE_PULL = RequestCode.LITE_PULL_MESSAGE
QUEUE = MessageQueue(topic="orders", broker_name="a", queue_id=0)


def one_broker(cluster: VirtualCluster, queues: int = 1) -> VirtualBroker:
    broker = cluster.add_broker()
    cluster.create_topic("orders", queues)
    return broker


async def send(cluster: VirtualCluster, *bodies: bytes, tags: str = "", queue: MessageQueue | None = None) -> None:
    async with producer_of(cluster) as producer:
        for body in bodies:
            await producer.send(Message("orders", body, tags), queue=queue)


async def poll_bodies(consumer: DefaultLitePullConsumer, timeout_ms: int = 3000) -> list[bytes]:
    """All messages until there are no more."""
    bodies = []
    while messages := await consumer.poll(timeout_ms):
        bodies += [message.body for message in messages]
    return bodies


def test_messages_are_polled_and_committed_by_a_later_poll() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster)
        await send(cluster, *(b"%d" % n for n in range(25)))
        consumer = lite_consumer_of(cluster, consume_from_where=FIRST)
        consumer.subscribe("orders")
        async with consumer:
            first = await consumer.poll()
            assert [message.body for message in first] == [b"%d" % n for n in range(10)]
            await asyncio.sleep(20)
            assert not broker.offset("g", "orders", 0)  # nobody has said that they are consumed
            await consumer.poll()
            await asyncio.sleep(20)
            assert broker.offset("g", "orders", 0) == 10
            assert [message.body for message in await consumer.poll()] == [b"%d" % n for n in range(20, 25)]
            assert await consumer.poll(0) == []
            begin = cluster.loop.time()
            assert await consumer.poll() == []
            assert cluster.loop.time() - begin == pytest.approx(5)

    run_virtually(story)


def test_without_auto_commit_only_what_is_committed_is_stored() -> None:
    """Also when later pulls find nothing, or nothing that is wanted: what was polled is not passed over."""

    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster)
        await send(cluster, b"0", tags="A")
        consumer = lite_consumer_of(cluster, consume_from_where=FIRST, auto_commit=False)
        consumer.subscribe("orders", "A")
        async with consumer:
            [message] = await consumer.poll()
            await send(cluster, b"-", tags="B")
            await asyncio.sleep(60)
            assert not broker.offset("g", "orders", 0)
            await consumer.commit()
            assert broker.offset("g", "orders", 0) == 1 and message.body == b"0"
            await asyncio.sleep(60)
            assert broker.offset("g", "orders", 0) == 2  # nothing is left to commit before it
            assert await consumer.committed(QUEUE) == 2

    run_virtually(story)


def test_members_share_the_queues() -> None:
    async def story(cluster: VirtualCluster) -> None:
        one_broker(cluster, 4)
        members = [lite_consumer_of(cluster, client_id=f"c{n}", consume_from_where=FIRST) for n in range(2)]
        for member in members:
            member.subscribe("orders")
        await send(cluster, *(b"%d" % n for n in range(40)))
        async with members[0], members[1]:
            await asyncio.sleep(1)
            assert [len(member.assignment()) for member in members] == [2, 2]
            bodies = await poll_bodies(members[0]) + await poll_bodies(members[1])
            assert set(bodies) == {b"%d" % n for n in range(40)}

    run_virtually(story)


def test_assigned_queues_are_read_whatever_others_do() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster, 2)
        other = MessageQueue(topic="orders", broker_name="a", queue_id=1)
        await send(cluster, b"0", queue=QUEUE)
        await send(cluster, b"1", queue=other)
        one, two = (lite_consumer_of(cluster, client_id=name, consume_from_where=FIRST) for name in "xy")
        for consumer in (one, two):
            consumer.assign([QUEUE])
        async with one, two:
            assert await poll_bodies(one) == await poll_bodies(two) == [b"0"]
            assert one.assignment() == [QUEUE]
            one.assign([other])
            assert await poll_bodies(one) == [b"1"]
            assert one.assignment() == [other]
        assert broker.sent(RequestCode.GET_CONSUMER_LIST_BY_GROUP) == []

    run_virtually(story)


def test_queues_are_assigned_and_sought_while_the_consumer_runs() -> None:
    """As RocketMQ's example LitePullConsumerAssign does."""

    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster, 2)
        await send(cluster, b"0", b"1", queue=QUEUE)
        async with lite_consumer_of(cluster, auto_commit=False) as consumer:
            assert consumer.assignment() == [] and await consumer.poll(60_000) == []
            queues = await consumer.fetch_message_queues("orders")
            for queue, offset in zip(queues, (1, 0), strict=True):
                consumer.assign(queues if offset == 0 else [queue])
                await consumer.seek(queue, offset)
            assert consumer.assignment() == queues
            assert await poll_bodies(consumer) == [b"1"]
            await send(cluster, b"2", queue=queues[1])
            assert await poll_bodies(consumer) == [b"2"]
            await consumer.commit()
            assert [broker.offset("g", "orders", queue_id) for queue_id in range(2)] == [2, 1]

    run_virtually(story)


def test_seek() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster)
        await send(cluster, *(b"%d" % n for n in range(5)))
        consumer = lite_consumer_of(cluster, consume_from_where=FIRST)
        consumer.subscribe("orders")
        async with consumer:
            assert await poll_bodies(consumer) == [b"0", b"1", b"2", b"3", b"4"]
            await consumer.seek(QUEUE, 3)
            await consumer.commit()
            assert broker.offset("g", "orders", 0) == 3
            assert await poll_bodies(consumer) == [b"3", b"4"]
            await consumer.seek_to_begin(QUEUE)
            assert (await consumer.poll())[0].body == b"0"
            await consumer.seek_to_end(QUEUE)
            await send(cluster, b"5")
            assert await poll_bodies(consumer) == [b"5"]
            for offset in (-1, 7):
                with pytest.raises(MQClientException, match=rf"has the offsets 0 to 6, not {offset}"):
                    await consumer.seek(QUEUE, offset)
            with pytest.raises(MQClientException, match="is not a queue of this consumer"):
                await consumer.seek(MessageQueue(topic="orders", broker_name="a", queue_id=9), 0)
            assert await consumer.offset_for_timestamp(QUEUE, 0) == 0
            assert await consumer.fetch_message_queues("orders") == [QUEUE]
            with pytest.raises(MQClientException, match="'none' has no route"):
                await consumer.fetch_message_queues("none")

    run_virtually(story)


def test_paused_queues_are_not_pulled() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster)
        consumer = lite_consumer_of(cluster)
        consumer.subscribe("orders")
        consumer.pause([QUEUE])
        async with consumer:
            await send(cluster, b"0")
            assert await poll_bodies(consumer, 60_000) == []
            assert [request for request in broker.sent(LITE_PULL) if request.ext_fields["topic"] == "orders"] == []
            consumer.resume([QUEUE])
            assert await poll_bodies(consumer) == [b"0"]

    run_virtually(story)


def test_what_nobody_polls_stops_the_pulls() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster, 2)
        await send(cluster, *(b"%d" % n for n in range(200)))
        consumer = lite_consumer_of(cluster, consume_from_where=FIRST, pull_threshold_for_all=45)
        consumer.subscribe("orders")
        async with consumer:
            await asyncio.sleep(60)
            assert sum(request.ext_fields["topic"] == "orders" for request in broker.sent(LITE_PULL)) <= 6
            assert len(await poll_bodies(consumer)) == 200

    run_virtually(story)


def test_the_pull_is_javas() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster)
        consumer = lite_consumer_of(cluster)
        consumer.subscribe("orders", "A")
        async with consumer:
            await asyncio.sleep(50)
            pulls = [request for request in broker.sent(LITE_PULL) if request.ext_fields["topic"] == "orders"]
            fields = pulls[0].ext_fields
            assert (fields["sysFlag"], fields["suspendTimeoutMillis"], fields["maxMsgNums"]) == ("22", "20000", "10")
            assert (fields["subscription"], "maxMsgBytes" in fields) == ("A", False)
            assert len(pulls) == 3  # each is held for 20 s

    run_virtually(story)


def test_broadcasting_keeps_its_offsets_in_a_file(tmp_path: Path) -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster)
        await send(cluster, b"0")
        for bodies in ([b"0"], [b"1"]):
            consumer = lite_consumer_of(
                cluster,
                client_id="c",
                message_model="BROADCASTING",
                consume_from_where=FIRST,
                local_offset_store_dir=str(tmp_path),
            )
            consumer.subscribe("orders")
            async with consumer:
                assert await poll_bodies(consumer) == bodies
                await consumer.commit()
                assert await consumer.committed(QUEUE) == int(bodies[0]) + 1
            await send(cluster, b"1")
        assert broker.sent(UPDATE_OFFSET) == []

    run_virtually(story)


def test_set_up_that_is_wrong() -> None:
    async def story(cluster: VirtualCluster) -> None:
        one_broker(cluster)
        instance = instance_of(cluster)
        with pytest.raises(MQClientException, match=r"\(20000\) must be greater than broker_suspend.* \(20000\)"):
            DefaultLitePullConsumer("g", instance=instance, consumer_timeout_millis_when_suspend=20_000)
        with pytest.raises(MQClientException, match="broker_suspend_max_time_millis"):  # or it would pull all the time
            DefaultLitePullConsumer("g", instance=instance, broker_suspend_max_time_millis=0)
        with pytest.raises(MQClientException, match="DEFAULT_CONSUMER"):
            DefaultLitePullConsumer("DEFAULT_CONSUMER", instance=instance)
        with pytest.raises(MQClientException, match="unknown field `pull`"):
            DefaultLitePullConsumer("g", instance=instance, pull=5)
        consumer = DefaultLitePullConsumer("g", instance=instance)
        with pytest.raises(MQClientException, match="not running"):
            await consumer.poll()
        consumer.subscribe("orders")
        with pytest.raises(MQClientException, match="not both"):
            consumer.assign([QUEUE])
        async with consumer:
            with pytest.raises(MQClientException, match="running already"):
                consumer.subscribe("more")
            with pytest.raises(MQClientException, match="0 ms or more"):
                await consumer.poll(-1)
        assert not asyncio.all_tasks() - {asyncio.current_task()}

    run_virtually(story)


def test_a_poll_ends_with_the_consumer() -> None:
    async def story(cluster: VirtualCluster) -> None:
        one_broker(cluster)
        consumer = lite_consumer_of(cluster)
        consumer.subscribe("orders")
        await consumer.start()
        cluster.loop.call_later(2, lambda: tasks.append(asyncio.ensure_future(consumer.shutdown())))
        tasks: list[asyncio.Future[None]] = []
        assert await consumer.poll(60_000) == []
        assert cluster.loop.time() < 1010
        await tasks[0]

    run_virtually(story)


@pytest.mark.parametrize("kind", ["lite", "pull"])
def test_a_cancelled_shutdown_is_finished(kind: str) -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster)
        consumer: DefaultLitePullConsumer | DefaultMQPullConsumer
        if kind == "lite":
            consumer = lite_consumer_of(cluster)
            consumer.subscribe("orders")
        else:
            consumer = pull_consumer_of(cluster)
        await consumer.start()
        await consumer.instance.admin.fetch_subscribe_message_queues("orders")
        await asyncio.sleep(3)
        assert context_of(broker.engine).consumers.members("g") != {}
        broker.ignore.add(RequestCode.UNREGISTER_CLIENT)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await consumer.shutdown()
        with pytest.raises(MQClientException, match="still being shut down"):
            await consumer.start()
        await consumer.shutdown()
        assert not asyncio.all_tasks() - {asyncio.current_task()}
        assert not consumer.instance.api._connections

    run_virtually(story)
