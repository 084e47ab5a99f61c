"""Push consumers at real engines, on a virtual clock."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker_core.client import DefaultMQPushConsumer, Message, MQClientException
from broker_core.codes import RequestCode, ResponseCode
from broker_core.testing import virtual_cluster
from tests.fakes.client import Inbox, consumer_of, instance_of, producer_of
from tests.fakes.engine import context_of
from tests.fakes.virtual_cluster import (
    NAMESRV,
    PULL,
    SEND,
    SEND_BACK,
    UPDATE_OFFSET,
    WALL_MS,
    VirtualBroker,
    VirtualCluster,
    run_virtually,
)

QUERY_OFFSET = RequestCode.QUERY_CONSUMER_OFFSET


def one_broker(cluster: VirtualCluster, queues: int = 1) -> VirtualBroker:
    broker = cluster.add_broker()
    cluster.create_topic("orders", queues)
    return broker


def test_messages_are_consumed_and_committed() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster, 4)
        inbox = Inbox()
        async with producer_of(cluster) as producer, consumer_of(cluster, inbox):
            for n in range(10):
                await producer.send(Message("orders", b"%d" % n))
            assert sorted(await inbox.until(10)) == [b"%d" % n for n in range(10)]
        assert sum(broker.offset("g", "orders", queue_id) or 0 for queue_id in range(4)) == 10
        assert context_of(broker.engine).consumers.members("g") == {}

    run_virtually(story)


@pytest.mark.parametrize("hours", [-24, 24])
def test_the_wall_clock_may_jump(monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster)
        inbox = Inbox(fail=lambda message: message.body == b"bad" and message.reconsume_times == 0)
        async with producer_of(cluster) as producer, consumer_of(cluster, inbox):
            await producer.send(Message("orders", b"before"))
            await inbox.until(1)
            monkeypatch.setattr(virtual_cluster, "WALL_MS", WALL_MS + hours * 3_600_000)
            for body in (b"bad", b"after"):
                await producer.send(Message("orders", body))
            await inbox.until(3)
            await asyncio.sleep(60)  # heartbeats, rebalances, held pulls and a retry
            await producer.send(Message("orders", b"later"))
            assert set(await inbox.until(5)) == {b"before", b"bad", b"after", b"later"}
        assert broker.offset("g", "orders", 0) == 4

    run_virtually(story)


def test_offsets_are_committed_every_five_seconds_and_with_pulls() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster)
        inbox = Inbox()
        async with producer_of(cluster) as producer, consumer_of(cluster, inbox):
            await asyncio.sleep(10)
            await producer.send(Message("orders", b"1"))
            await inbox.until(1)
            await asyncio.sleep(5)
            assert broker.offset("g", "orders", 0) == 1
            await asyncio.sleep(20)
            commits = len(broker.sent(UPDATE_OFFSET))
            await asyncio.sleep(20)  # nothing changes: nothing is sent
            assert len(broker.sent(UPDATE_OFFSET)) == commits
            pull = [request for request in broker.sent(PULL) if request.ext_fields["topic"] == "orders"][-1]
            assert (pull.ext_fields["sysFlag"], pull.ext_fields["commitOffset"]) == ("3", "1")

    run_virtually(story)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"consume_from_where": "CONSUME_FROM_FIRST_OFFSET"}, [b"old", b"middle", b"new"]),
        ({"consume_from_where": "CONSUME_FROM_LAST_OFFSET"}, [b"new"]),
        ({"consume_from_where": "CONSUME_FROM_TIMESTAMP"}, [b"middle", b"new"]),
    ],
)
def test_a_new_group_begins_as_consume_from_where_says(options: dict[str, Any], expected: list[bytes]) -> None:
    """A message that is sent when ``start`` has returned is consumed, even before the first pull."""

    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster)
        broker.refuse[QUERY_OFFSET] = ResponseCode.QUERY_NOT_FOUND  # as for a topic whose first messages are old
        inbox = Inbox()
        async with producer_of(cluster) as producer:
            await producer.send(Message("orders", b"old"))
            await asyncio.sleep(3600)
            await producer.send(Message("orders", b"middle"))
            async with consumer_of(cluster, inbox, **options):
                await producer.send(Message("orders", b"new"))
                assert len(broker.sent(PULL)) == 0
                assert await inbox.until(len(expected)) == expected

    run_virtually(story)


def test_a_group_that_began_at_the_end_begins_there_again_after_a_restart() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster)
        async with producer_of(cluster) as producer:
            await producer.send(Message("orders", b"old"))
            broker.refuse[QUERY_OFFSET] = ResponseCode.QUERY_NOT_FOUND
            async with consumer_of(cluster, Inbox()):
                pass
            assert broker.offset("g", "orders", 0) == 1

    run_virtually(story)


def test_a_new_group_begins_where_it_says_in_a_young_queue_too() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster)
        async with producer_of(cluster) as producer:
            for _ in range(3):
                await producer.send(Message("orders", b"old"))
                await asyncio.sleep(1)
        now_ms = cluster.loop.now().wall_ms
        asked = {
            "last": {"consume_from_where": "CONSUME_FROM_LAST_OFFSET"},
            "time": {"consume_from_where": "CONSUME_FROM_TIMESTAMP", "consume_timestamp": now_ms - 1500},
        }
        for group, start in asked.items():
            async with consumer_of(cluster, Inbox(), group=group, set_zero_if_not_found=False, **start):
                pass
        assert [broker.offset(group, "orders", 0) for group in asked] == [3, 2]

    run_virtually(story)


def test_a_queue_that_was_empty_is_read_from_its_first_message_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker reports offset 0 for it, and no offset once that message has left the memory."""

    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster)
        async with producer_of(cluster) as producer:
            async with consumer_of(cluster, Inbox()):
                assert broker.offset("g", "orders", 0) == 0
            await producer.send(Message("orders", b"while nobody is there"))
            monkeypatch.setattr(context_of(broker.engine).store, "is_in_memory", lambda *_: False)
            inbox = Inbox()
            async with consumer_of(cluster, inbox):
                await producer.send(Message("orders", b"later"))
                assert await inbox.until(2) == [b"while nobody is there", b"later"]

    run_virtually(story)


def test_tags_are_filtered() -> None:
    async def story(cluster: VirtualCluster) -> None:
        one_broker(cluster)
        inbox = Inbox()
        async with producer_of(cluster) as producer, consumer_of(cluster, inbox, tags="A || B"):
            for tag in ("A", "C", "B", ""):
                await producer.send(Message("orders", tag.encode() or b"-", tag))
            assert await inbox.until(2) == [b"A", b"B"]

    run_virtually(story)


def test_failed_messages_come_again_and_end_in_the_dead_letter_queue() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster)
        inbox = Inbox(fail=lambda message: message.body == b"bad")
        async with producer_of(cluster) as producer, consumer_of(cluster, inbox, max_reconsume_times=2):
            sent = await producer.send(Message("orders", b"bad", "A", properties={"color": "red"}))
            await producer.send(Message("orders", b"good"))
            assert await inbox.until(4) == [b"bad", b"good", b"bad", b"bad"]
            again = inbox.messages[2:]
            assert [message.reconsume_times for message in again] == [1, 2]
            assert {message.topic for message in again} == {"orders"}
            assert {message.msg_id for message in again} == {sent.msg_id}
            assert again[0].properties["color"] == "red" and again[0].tags == "A"
            await asyncio.sleep(600)
            assert len(inbox.messages) == 4
            assert broker.engine.queue_view("%DLQ%g", 0).max_offset == 1

    run_virtually(story)


def test_a_listener_that_raises_has_failed(caplog: pytest.LogCaptureFixture) -> None:
    async def story(cluster: VirtualCluster) -> None:
        one_broker(cluster)
        attempts: list[int] = []
        done = asyncio.Event()

        async def listener(messages: Any, context: Any) -> None:
            attempts.append(messages[0].reconsume_times)
            if len(attempts) < 2:
                raise ValueError("broken")
            done.set()

        async with producer_of(cluster) as producer, consumer_of(cluster, listener):
            await producer.send(Message("orders", b"x"))
            await done.wait()
        assert attempts == [0, 1]

    run_virtually(story)
    assert "ValueError: broken" in caplog.text


def test_a_message_that_its_broker_does_not_take_back_is_sent_to_the_retry_topic() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster)
        broker.refuse[SEND_BACK] = ResponseCode.SYSTEM_ERROR
        inbox = Inbox(fail=lambda message: message.reconsume_times < 2)
        async with producer_of(cluster) as producer, consumer_of(cluster, inbox):
            sent = await producer.send(Message("orders", b"bad" * 2000, keys="k"))
            await inbox.until(3)
            assert [message.reconsume_times for message in inbox.messages] == [0, 1, 2]
            last = inbox.messages[-1]
            assert (last.topic, last.msg_id, last.keys, last.body) == ("orders", sent.msg_id, "k", b"bad" * 2000)
        assert broker.offset("g", "orders", 0) == 1

    run_virtually(story)


def test_a_message_that_nobody_takes_back_is_consumed_again_here_and_not_committed() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster)
        inbox = Inbox(fail=lambda message: message.reconsume_times < 2)
        async with producer_of(cluster) as producer, consumer_of(cluster, inbox):
            await producer.send(Message("orders", b"bad"))
            broker.refuse[SEND_BACK] = broker.refuse[SEND] = ResponseCode.SYSTEM_ERROR
            await inbox.until(2)
            assert [message.reconsume_times for message in inbox.messages] == [1, 1]  # one and the same object
            await asyncio.sleep(4)
            assert not broker.offset("g", "orders", 0)
            await inbox.until(3)
        assert broker.offset("g", "orders", 0) == 1

    run_virtually(story)


def test_members_share_the_queues_and_take_over_those_of_one_that_leaves() -> None:
    async def story(cluster: VirtualCluster) -> None:
        one_broker(cluster, 4)
        inboxes = [Inbox(), Inbox()]
        first, second = (consumer_of(cluster, inbox, client_id=f"c{n}") for n, inbox in enumerate(inboxes))

        def owned() -> list[list[int]]:
            return [
                sorted(queue.queue_id for queue in member.rebalance.process_queues if queue.topic == "orders")
                for member in (first, second)
            ]

        async with producer_of(cluster) as producer:
            await first.start()
            assert owned() == [[0, 1, 2, 3], []]
            await second.start()
            await asyncio.sleep(1)  # the notice; the periodic rebalance comes after 20 s
            assert owned() == [[0, 1], [2, 3]]
            for n in range(8):
                await producer.send(Message("orders", b"%d" % n))
            await asyncio.sleep(2)
            assert [len(inbox.messages) for inbox in inboxes] == [4, 4]
            await first.shutdown()
            await asyncio.sleep(1)
            assert owned()[1] == [0, 1, 2, 3]
            for n in range(8, 16):
                await producer.send(Message("orders", b"%d" % n))
            await asyncio.sleep(2)
            assert sorted(inboxes[0].bodies + inboxes[1].bodies) == sorted(b"%d" % n for n in range(16))
            await second.shutdown()

    run_virtually(story)


def test_a_broker_that_is_killed_and_comes_back() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster)
        inbox = Inbox()
        async with producer_of(cluster, retry_times_when_send_failed=0) as producer, consumer_of(cluster, inbox):
            await producer.send(Message("orders", b"1"))
            await inbox.until(1)
            broker.kill()
            await asyncio.sleep(40)
            with pytest.raises(MQClientException, match="nobody listens"):
                await producer.send(Message("orders", b"lost"))
            broker.start()
            await producer.send(Message("orders", b"2"))
            await inbox.until(2)
            assert set(inbox.bodies) == {b"1", b"2"}

    run_virtually(story)


def test_the_name_server_may_go_away_while_the_consumer_runs() -> None:
    async def story(cluster: VirtualCluster) -> None:
        one_broker(cluster)
        inbox = Inbox()
        async with producer_of(cluster) as producer, consumer_of(cluster, inbox):
            del cluster.loop.servers[NAMESRV]
            await asyncio.sleep(100)
            cluster.serve_names()
            await asyncio.sleep(100)
            await producer.send(Message("orders", b"x"))
            await inbox.until(1)
        del cluster.loop.servers[NAMESRV]
        with pytest.raises(MQClientException, match=f"no name server answers for topic .* {NAMESRV}: nobody listens"):
            await consumer_of(cluster, inbox).start()
        assert not asyncio.all_tasks() - {asyncio.current_task()}

    run_virtually(story)


def test_a_topic_that_is_created_later_and_gets_more_queues() -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        inbox = Inbox()
        async with producer_of(cluster) as producer, consumer_of(cluster, inbox) as consumer:
            cluster.create_topic("orders", 1)
            await asyncio.sleep(31)
            await producer.send(Message("orders", b"1"))
            await inbox.until(1)
            cluster.create_topic("orders", 3)
            await asyncio.sleep(31)
            assert sum(queue.topic == "orders" for queue in consumer.rebalance.process_queues) == 3

    run_virtually(story)


def test_an_offset_that_an_administrator_resets() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster)
        inbox = Inbox()
        async with producer_of(cluster) as producer, consumer_of(cluster, inbox):
            for n in range(3):
                await producer.send(Message("orders", b"%d" % n))
            await inbox.until(3)
            context_of(broker.engine).offsets.assign_reset("g", "orders", 0, 1)
            await inbox.until(5)
            assert inbox.bodies == [b"0", b"1", b"2", b"1", b"2"]

    run_virtually(story)


def test_an_offset_behind_the_end_is_corrected() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster)
        inbox = Inbox()
        context_of(broker.engine).offsets.commit("g", "orders", 0, 50)
        async with producer_of(cluster) as producer:
            await producer.send(Message("orders", b"0"))
            async with consumer_of(cluster, inbox):
                await asyncio.sleep(5)
                await producer.send(Message("orders", b"1"))
                await inbox.until(1)
        assert inbox.bodies[-1] == b"1"
        assert broker.offset("g", "orders", 0) == 2

    run_virtually(story)


def test_a_slow_listener_stops_the_pulls() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster)
        inbox = Inbox()
        inbox.open.clear()
        options = {"pull_threshold_for_queue": 10, "pull_batch_size": 4, "consume_thread_max": 3}
        first = "CONSUME_FROM_FIRST_OFFSET"
        async with producer_of(cluster) as producer:
            for n in range(50):
                await producer.send(Message("orders", b"%d" % n))
            async with consumer_of(cluster, inbox, consume_from_where=first, **options) as consumer:
                await asyncio.sleep(60)
                assert len(inbox.messages) == 3  # as many calls as there are threads
                [work] = [work for queue, work in consumer.rebalance.process_queues.items() if queue.topic == "orders"]
                assert len(work) == 12
                pulls = [request for request in broker.sent(PULL) if request.ext_fields["topic"] == "orders"]
                assert len(pulls) == 3
                inbox.open.set()
                assert len(set(await inbox.until(50))) == 50

    run_virtually(story)


def test_suspended_consumers_do_not_pull() -> None:
    async def story(cluster: VirtualCluster) -> None:
        one_broker(cluster)
        inbox = Inbox()
        consumer = consumer_of(cluster, inbox)
        consumer.suspend()
        async with producer_of(cluster) as producer, consumer:
            await producer.send(Message("orders", b"x"))
            await asyncio.sleep(300)
            assert inbox.messages == []
            consumer.resume()
            await inbox.until(1)

    run_virtually(story)


def test_shutdown_does_not_wait_for_ever_for_a_listener() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster)
        inbox = Inbox()
        inbox.open.clear()
        async with producer_of(cluster) as producer, consumer_of(cluster, inbox):
            await producer.send(Message("orders", b"x"))
            await inbox.until(1)
            begin = cluster.loop.time()
        assert cluster.loop.time() - begin == pytest.approx(5, abs=0.1)
        assert not broker.offset("g", "orders", 0)

    run_virtually(story)


def test_a_cancelled_shutdown_is_finished() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster)
        inbox = Inbox()
        inbox.open.clear()
        consumer = consumer_of(cluster, inbox)
        await consumer.start()
        async with producer_of(cluster) as producer:
            await producer.send(Message("orders", b"1"))
            await inbox.until(1)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await consumer.shutdown()
            with pytest.raises(MQClientException, match="still being shut down"):
                await consumer.start()
            inbox.open.set()
            await consumer.shutdown()
            assert broker.offset("g", "orders", 0) == 1
            assert context_of(broker.engine).consumers.members("g") == {}
            await consumer.start()
            await producer.send(Message("orders", b"2"))
            assert await inbox.until(2) == [b"1", b"2"]
            await consumer.shutdown()

    run_virtually(story)


def test_shutdown_waits_for_a_listener_that_returns() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster)
        inbox = Inbox()
        inbox.open.clear()
        async with producer_of(cluster) as producer, consumer_of(cluster, inbox):
            await producer.send(Message("orders", b"x"))
            await inbox.until(1)
            cluster.loop.call_later(2, inbox.open.set)
        assert broker.offset("g", "orders", 0) == 1

    run_virtually(story)


def test_a_message_whose_listener_never_returns_is_sent_back_in_the_end() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster)
        inbox = Inbox()
        inbox.open.clear()
        async with producer_of(cluster) as producer, consumer_of(cluster, inbox, consume_timeout=1):
            await producer.send(Message("orders", b"x"))
            await inbox.until(2)
            assert [message.reconsume_times for message in inbox.messages] == [0, 1]
            assert broker.offset("g", "orders", 0) == 1
            inbox.open.set()

    run_virtually(story)


def test_pulls_that_are_refused_are_repeated_every_second(caplog: pytest.LogCaptureFixture) -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster)
        inbox = Inbox()
        broker.refuse[PULL] = ResponseCode.SUBSCRIPTION_NOT_EXIST
        async with producer_of(cluster) as producer, consumer_of(cluster, inbox):
            await asyncio.sleep(10.6)
            assert 10 <= len(broker.sent(PULL)) / 2 <= 11  # two queues: the topic's and the retry topic's
            broker.refuse.clear()
            await producer.send(Message("orders", b"x"))
            await inbox.until(1)

    with caplog.at_level("INFO"):
        run_virtually(story)
    assert caplog.text.count("cannot pull") == 2 and "refused by the test" in caplog.text
    assert "pulls MessageQueue(topic='orders'" in caplog.text


def test_an_answer_that_cannot_be_handled_is_asked_for_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(cluster: VirtualCluster) -> None:
        one_broker(cluster)
        inbox = Inbox()
        async with producer_of(cluster) as producer, consumer_of(cluster, inbox) as consumer:
            await producer.send(Message("orders", b"1"))
            await inbox.until(1)
            take, errors = consumer.pulls._take_answer, [KeyError("a defect")]

            def fail_once(*arguments: Any) -> None:
                if errors:
                    raise errors.pop()
                take(*arguments)

            monkeypatch.setattr(consumer.pulls, "_take_answer", fail_once)
            begin = cluster.loop.time()
            await producer.send(Message("orders", b"2"))
            await inbox.until(2)
            assert cluster.loop.time() - begin == pytest.approx(1, abs=0.1)

    run_virtually(story)
    assert "Traceback" in caplog.text and "KeyError: 'a defect'" in caplog.text


def test_a_connection_whose_answers_are_lost_is_replaced() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster)
        inbox = Inbox()
        async with consumer_of(cluster, inbox), producer_of(cluster) as producer:
            await asyncio.sleep(2)
            for link in broker.links:
                link.drop_answers = True
            await asyncio.sleep(60)
            await producer.send(Message("orders", b"x"))
            await inbox.until(1)

    run_virtually(story)


def test_every_pull_is_accounted_for_while_nothing_happens() -> None:
    """Each queue has one pull at the broker, which is repeated when its hold has ended."""

    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster, 8)
        async with consumer_of(cluster, Inbox()):
            await asyncio.sleep(1)
            for _ in range(10):
                assert broker.engine.hold_count == 9
                await asyncio.sleep(15.2)
            assert 90 <= len(broker.sent(PULL)) <= 99

    run_virtually(story)


def test_several_messages_in_one_call() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster)
        calls: list[list[bytes]] = []

        async def listener(messages: Any, context: Any) -> None:
            calls.append([message.body for message in messages])
            if len(calls) == 1:
                context.ack_index = 1
                context.delay_level_when_next_consume = 1

        async with producer_of(cluster) as producer:
            await producer.send_batch([Message("orders", b"%d" % n) for n in range(5)])
            options = {"consume_message_batch_max_size": 3, "consume_from_where": "CONSUME_FROM_FIRST_OFFSET"}
            async with consumer_of(cluster, listener, **options):
                await asyncio.sleep(60)
        assert calls == [[b"0", b"1", b"2"], [b"3", b"4"], [b"2"]]
        assert broker.offset("g", "orders", 0) == 5
        [back] = broker.sent(SEND_BACK)
        assert back.ext_fields["delayLevel"] == "1"

    run_virtually(story)


def test_a_synchronous_listener_is_called_in_threads() -> None:
    """Threads run in real time, so this test waits for them without letting virtual time pass."""

    async def story(cluster: VirtualCluster) -> None:
        one_broker(cluster)
        bodies: list[bytes] = []
        async with producer_of(cluster) as producer, consumer_of(cluster, lambda m, _: bodies.append(m[0].body)):
            await asyncio.sleep(1)
            for n in range(20):
                await producer.send(Message("orders", b"%d" % n))
            while len(bodies) < 20:
                await asyncio.sleep(0)
        assert sorted(bodies) == sorted(b"%d" % n for n in range(20))

    run_virtually(story)


def test_set_up_that_is_wrong() -> None:
    async def story(cluster: VirtualCluster) -> None:
        one_broker(cluster)
        instance = instance_of(cluster)
        with pytest.raises(MQClientException, match="no name server is given"):
            DefaultMQPushConsumer("g")
        for address in ("127.0.0.1", "127.0.0.1:0", "a:b", "a:70000", ":1"):
            with pytest.raises(MQClientException, match="write host:port"):
                DefaultMQPushConsumer("g", namesrv_addr=address)
        for group in ("", "a b", "x" * 300):
            with pytest.raises(MQClientException, match="group"):
                DefaultMQPushConsumer(group, instance=instance)
        with pytest.raises(MQClientException, match=r"an option is wrong: .*pull_batch_size"):
            DefaultMQPushConsumer("g", instance=instance, pull_batch_size=0)
        with pytest.raises(MQClientException, match="unknown field `pull_batch`"):
            DefaultMQPushConsumer("g", instance=instance, pull_batch=5)
        consumer = DefaultMQPushConsumer("g", instance=instance)
        with pytest.raises(MQClientException, match="subscribe"):
            await consumer.start()
        with pytest.raises(MQClientException, match="topic"):
            consumer.subscribe("a b")
        with pytest.raises(MQClientException, match="contains no tag"):
            consumer.subscribe("orders", "||")
        consumer.subscribe("orders")
        consumer.register_message_listener(Inbox())
        async with consumer:
            with pytest.raises(MQClientException, match="running already"):
                consumer.subscribe("other")
            other = DefaultMQPushConsumer("g", instance=instance)
            other.subscribe("orders")
            other.register_message_listener(Inbox())
            with pytest.raises(MQClientException, match="has a consumer of group 'g' already"):
                await other.start()
        await consumer.shutdown()

    run_virtually(story)


def test_the_heartbeat_says_what_the_consumer_wants() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster)
        async with consumer_of(cluster, Inbox(), tags="A", consume_from_where="CONSUME_FROM_FIRST_OFFSET"):
            info = context_of(broker.engine).consumers.get("g")
            assert info is not None
            data = {topic: subscription.sub_string for topic, subscription in info.subscriptions.items()}
            assert data == {"orders": "A", "%RETRY%g": "*"}
            assert info.consume_from_where == "CONSUME_FROM_FIRST_OFFSET"

    run_virtually(story)


# --- In order -------------------------------------------------------------------------------------------------


def test_in_order_a_failed_message_comes_again_before_the_next_and_ends_in_the_dead_letter_queue() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster)
        calls: list[tuple[bytes, int]] = []

        async def listener(messages: Any, context: Any) -> str:
            calls.append((messages[0].body, messages[0].reconsume_times))
            return "SUSPEND_CURRENT_QUEUE_A_MOMENT" if messages[0].body == b"bad" else "SUCCESS"

        consumer = consumer_of(cluster, None, max_reconsume_times=2)
        consumer.register_message_listener(listener, orderly=True)
        async with producer_of(cluster) as producer, consumer:
            await producer.send(Message("orders", b"bad"))
            await producer.send(Message("orders", b"good"))
            await asyncio.sleep(5)
        assert calls == [(b"bad", 0), (b"bad", 1), (b"bad", 2), (b"good", 0)]
        assert broker.engine.queue_view("%DLQ%g", 0).max_offset == 1
        assert broker.offset("g", "orders", 0) == 2

    run_virtually(story)


def test_a_plain_function_consumes_in_order_too() -> None:
    """Threads run in real time, so this test waits for them without letting virtual time pass."""

    async def story(cluster: VirtualCluster) -> None:
        one_broker(cluster)
        bodies: list[bytes] = []
        consumer = consumer_of(cluster, None)
        consumer.register_message_listener(lambda messages, _: bodies.append(messages[0].body), orderly=True)
        async with producer_of(cluster) as producer, consumer:
            await asyncio.sleep(1)
            for n in range(20):
                await producer.send(Message("orders", b"%d" % n))
            while len(bodies) < 20:
                await asyncio.sleep(0)
            assert bodies == [b"%d" % n for n in range(20)]
            assert consumer.running_info()["properties"]["PROP_CONSUMEORDERLY"] == "true"

    run_virtually(story)


# --- Broadcasting ---------------------------------------------------------------------------------------------


def test_in_broadcasting_each_consumer_gets_every_message_and_keeps_its_offsets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = one_broker(cluster, 2)
        inboxes = [Inbox(fail=lambda message: message.body == b"1"), Inbox(), Inbox()]

        def broadcast_to(inbox: Inbox, client_id: str) -> DefaultMQPushConsumer:
            return consumer_of(
                cluster,
                inbox,
                client_id=client_id,
                message_model="BROADCASTING",
                local_offset_store_dir=str(tmp_path),
            )

        async with producer_of(cluster) as producer:
            await producer.send(Message("orders", b"old"))
            await producer.send(Message("orders", b"old"))
            async with broadcast_to(inboxes[0], "c1"), broadcast_to(inboxes[1], "c2"):
                for n in range(4):
                    await producer.send(Message("orders", b"%d" % n))
                for inbox in inboxes[:2]:
                    assert sorted(await inbox.until(4)) == [b"0", b"1", b"2", b"3"]
                await asyncio.sleep(60)
                assert len(inboxes[0].messages) == 4  # what has failed does not come again
            await producer.send(Message("orders", b"4"))
            async with broadcast_to(inboxes[2], "c1"):
                assert await inboxes[2].until(1) == [b"4"]
                await asyncio.sleep(10)
        assert inboxes[2].bodies == [b"4"]
        for code in (UPDATE_OFFSET, QUERY_OFFSET, SEND_BACK, RequestCode.GET_CONSUMER_LIST_BY_GROUP):
            assert broker.sent(code) == []
        assert {request.ext_fields["sysFlag"] for request in broker.sent(PULL)} == {"2"}

    run_virtually(story)
    assert "in broadcasting it is not delivered to group" in caplog.text


def test_the_client_id_of_a_broadcasting_consumer_stays_the_same() -> None:
    """It names the folder of the offsets."""
    ids = [
        DefaultMQPushConsumer("g", namesrv_addr="127.0.0.1:9876", message_model="BROADCASTING").instance.client_id
        for _ in range(2)
    ]
    assert ids == ["127.0.0.1@DEFAULT"] * 2
