"""Routes, heartbeats and the members of groups."""

import asyncio

import pytest

from broker_core.client import DefaultMQProducer, Message
from broker_core.client.mq_client_exception import MQClientException
from broker_core.client.mq_client_instance import MQClientInstance, local_host
from broker_core.codes import RequestCode, ResponseCode
from broker_core.commands import ConsumerData, HeartBeat, SubscriptionData
from tests.fakes.client import Inbox, consumer_of, instance_of, producer_of
from tests.fakes.engine import context_of
from tests.fakes.virtual_cluster import HEART_BEAT, NAMESRV, WALL_MS, VirtualCluster, run_virtually


def test_the_next_name_server_is_asked_when_one_does_not_answer() -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        cluster.create_topic("orders", 2)
        instance = MQClientInstance(f"127.0.0.1:1;{NAMESRV}", clock=cluster.loop)
        assert await instance.update_topic_route("orders")
        del cluster.loop.servers[NAMESRV]
        await instance.api.close()
        with pytest.raises(MQClientException, match=r"no name server answers.*127\.0\.0\.1:9876: .*; 127\.0\.0\.1:1: "):
            await instance.update_topic_route("orders")

    run_virtually(story)


def test_connections_stay_open_while_a_consumer_that_shares_them_starts() -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        cluster.create_topic("orders", 2)
        instance = instance_of(cluster)
        async with instance.starting():
            await instance.update_topic_route("orders")
            async with DefaultMQProducer("pg", instance=instance):
                pass
            assert instance.api.connection(NAMESRV).connected
        assert not instance.api.connection(NAMESRV).connected

    run_virtually(story)


def test_heartbeats_every_half_minute(caplog: pytest.LogCaptureFixture) -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        async with consumer_of(cluster, Inbox(), client_id="c1"):
            await asyncio.sleep(2)
            before = len(broker.sent(HEART_BEAT))
            await asyncio.sleep(90)
            assert len(broker.sent(HEART_BEAT)) - before == 3
            broker.refuse[HEART_BEAT] = ResponseCode.SYSTEM_BUSY
            await asyncio.sleep(60)
            broker.refuse.clear()
            await asyncio.sleep(30)
            assert list(context_of(broker.engine).consumers.members("g")) == ["c1"]

    run_virtually(story)
    assert caplog.text.count("heartbeat to 127.0.0.1:10911 that was not accepted") == 1


def test_a_broker_that_comes_later_gets_a_heartbeat_before_its_queues_are_shared() -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker("a")
        cluster.create_topic("orders", 1)
        async with consumer_of(cluster, Inbox()) as consumer:
            second = cluster.add_broker("b")
            cluster.create_topic("orders", 1)
            await asyncio.sleep(31)
            codes = [request.code for request in second.requests]
            assert codes[0] == HEART_BEAT and RequestCode.PULL_MESSAGE in codes
            names = {queue.broker_name for queue in consumer.rebalance.process_queues if queue.topic == "orders"}
            assert names == {"a", "b"}

    run_virtually(story)


def test_a_broker_that_cannot_be_reached_does_not_hold_up_the_others() -> None:
    async def story(cluster: VirtualCluster) -> None:
        dark, well = cluster.add_broker("a"), cluster.add_broker("b")
        cluster.create_topic("orders", 64, [dark])
        cluster.create_topic("payments", 1, [well])
        consumer = consumer_of(cluster, Inbox(), client_id="c1")
        consumer.subscribe("payments")
        await consumer.start()
        await asyncio.sleep(20)
        cluster.loop.dark.add(dark.address)
        for link in dark.links:
            link.abort()
        before = len(well.sent(HEART_BEAT))
        for _ in range(300):
            await asyncio.sleep(1)
            assert list(context_of(well.engine).consumers.members("g")) == ["c1"]
        assert len(well.sent(HEART_BEAT)) - before >= 8
        begin = cluster.loop.time()
        await consumer.shutdown()
        assert cluster.loop.time() - begin < 10

    run_virtually(story)


def test_a_send_ends_in_time_although_no_connection_is_opened() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        async with producer_of(cluster) as producer:
            await producer.send(Message("orders", b"1"))
            cluster.loop.dark.add(broker.address)
            for link in broker.links:
                link.abort()
            await asyncio.sleep(0.1)
            begin = cluster.loop.time()
            with pytest.raises(MQClientException, match=r"no connection within 0\.5 s"):
                await producer.send(Message("orders", b"2"), timeout_ms=500)
            assert cluster.loop.time() - begin == pytest.approx(0.5)

    run_virtually(story)


def test_connections_to_brokers_that_are_gone_are_closed() -> None:
    async def story(cluster: VirtualCluster) -> None:
        keeps, goes = cluster.add_broker("a"), cluster.add_broker("b")
        cluster.create_topic("orders", 1)
        async with producer_of(cluster) as producer:
            await producer.instance.update_topic_route("orders")
            await asyncio.sleep(2)
            assert (len(keeps.links), len(goes.links)) == (1, 1)
            cluster.unregister(goes)
            await asyncio.sleep(65)
            assert (keeps.links[0].is_closing(), goes.links[0].is_closing()) == (False, True)
            with pytest.raises(MQClientException, match="master of broker 'b'"):
                producer.instance.broker_address("b")

    run_virtually(story)


def test_members_are_asked_at_the_first_broker_that_answers() -> None:
    async def story(cluster: VirtualCluster) -> None:
        first, second = cluster.add_broker("a"), cluster.add_broker("b")
        cluster.create_topic("orders", 1)
        async with consumer_of(cluster, Inbox(), client_id="c1") as consumer:
            code = RequestCode.GET_CONSUMER_LIST_BY_GROUP
            for broker in (first, second):
                broker.refuse.clear()
                broker.refuse[code] = ResponseCode.SYSTEM_BUSY
                if broker is first:
                    assert await consumer.instance.find_consumer_id_list("orders", "g") == ["c1"]
            with pytest.raises(
                MQClientException, match=r"no broker of 'orders' reports the members of 'g': a: .*; b: "
            ):
                await consumer.instance.find_consumer_id_list("orders", "g")

    run_virtually(story)


def test_the_clients_own_address() -> None:
    assert local_host(("127.0.0.1", 9)) == "127.0.0.1"
    assert local_host(("::1", 9)) in ("::1", "127.0.0.1")
    assert MQClientInstance("127.0.0.1:1").client_id != MQClientInstance("127.0.0.1:1").client_id


def test_an_unexpected_error_does_not_end_a_timer(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        cluster.create_topic("orders", 1)
        async with consumer_of(cluster, Inbox()) as consumer:
            rounds: list[float] = []

            async def fail() -> None:
                rounds.append(cluster.loop.time())
                raise KeyError("unexpected")

            monkeypatch.setattr(consumer, "persist_offsets", fail)
            await asyncio.sleep(21)
            assert len(rounds) == 3
            monkeypatch.undo()

    run_virtually(story)
    assert caplog.text.count("could not persist offsets") == 3


def test_brokers_and_topics_are_visited_in_order() -> None:
    async def story(cluster: VirtualCluster) -> None:
        brokers = [cluster.add_broker(name) for name in "abcdefgh"]
        topics = ["orders", *(f"topic{n}" for n in range(8))]
        for topic in topics:
            cluster.create_topic(topic, 1)
        consumer = consumer_of(cluster, Inbox())
        for topic in reversed(topics):
            consumer.subscribe(topic)
        async with consumer:
            asked: list[str] = []
            ask = consumer.instance.update_topic_route

            async def note(topic: str, **options: int) -> bool:
                asked.append(topic)
                return await ask(topic, **options)

            consumer.instance.update_topic_route = note  # type: ignore[method-assign]
            await asyncio.sleep(31)
            assert asked == sorted(asked) and set(topics) < set(asked)
            assert consumer.instance._heartbeat_addresses() == [broker.address for broker in brokers]

    run_virtually(story)


def test_other_subscriptions_of_the_group_elsewhere_are_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        elsewhere = instance_of(cluster, "elsewhere")  # as another process sends it
        async with consumer_of(cluster, Inbox(), tags="A || D"), consumer_of(cluster, Inbox(), tags="D||A"):
            await asyncio.sleep(100)
            assert "elsewhere" not in caplog.text  # the tags are the same
            retry = SubscriptionData(topic="%RETRY%g", sub_version=1)
            data = [retry, SubscriptionData(topic="orders", sub_string="B", sub_version=WALL_MS + 10_000_000_000)]
            beat = HeartBeat(
                client_id="e", protocol="remoting", consumers=[ConsumerData(group="g", subscriptions=data)]
            )
            await elsewhere.api.send_heartbeat(broker.address, beat)
            await asyncio.sleep(100)
        await elsewhere.api.close()

    run_virtually(story)
    assert caplog.text.count("group g has a member elsewhere with other subscriptions") == 2  # once by each member
    assert "'orders': ('TAG', 'A || D')" in caplog.text and "'orders': ('TAG', 'B')" in caplog.text
