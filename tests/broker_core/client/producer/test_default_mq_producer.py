"""Producers at real engines, on a virtual clock."""

import asyncio
import zlib
from typing import Any

import pytest

from broker_core import commands as c
from broker_core.client import (
    DefaultMQProducer,
    Message,
    MQBrokerException,
    MQClientException,
    MQClientInstance,
    SendResult,
)
from broker_core.codes import RequestCode, ResponseCode
from broker_core.commands import MessageQueue
from broker_core.formats.commit_log_record import CommitLogRecord, decode_all
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.tasks import start_task
from tests.fakes.client import instance_of, producer_of
from tests.fakes.engine import context_of
from tests.fakes.timers import small_wheel
from tests.fakes.virtual_cluster import NAMESRV, SEND, VirtualBroker, VirtualCluster, run_virtually

__all__ = ["small_wheel"]

BATCH = RequestCode.SEND_BATCH_MESSAGE


def queue(queue_id: int, broker: str = "a", topic: str = "orders") -> MessageQueue:
    return MessageQueue(topic=topic, broker_name=broker, queue_id=queue_id)


def stored(broker: VirtualBroker, topic: str = "orders", queue_id: int = 0) -> list[CommitLogRecord]:
    """The messages of a queue."""
    pull = c.PullMessage(topic=topic, queue_id=queue_id, queue_offset=0)
    out = broker.engine.handle_batch([("test", 1, pull)], broker.loop.now())
    [(_, _, reply)] = [entry for entry in out.replies if entry[0] == "test"]
    assert isinstance(reply, c.Pulled)
    return decode_all(reply.records)


def test_a_message_is_stored_as_it_was_sent() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 2)
        async with producer_of(cluster) as producer:
            message = Message("orders", b"hello", "TagA", ["k1", "k2"], properties={"color": "red"}, flag=7)
            result = await producer.send(message, queue=queue(1))
            assert (result.send_status, result.message_queue, result.queue_offset) == ("SEND_OK", queue(1), 0)
            [record] = stored(broker, queue_id=1)
            assert (record.body, record.flag, record.sys_flag) == (b"hello", 7, 0)
            assert f"UNIQ_KEY\x01{result.msg_id}\x02" in record.properties
            assert "TAGS\x01TagA\x02KEYS\x01k1 k2\x02" in record.properties and "color\x01red" in record.properties
            again = await producer.send(message, queue=queue(1))
            assert (again.queue_offset, again.msg_id != result.msg_id) == (1, True)
            assert len(result.offset_msg_id) == 32

    run_virtually(story)


def test_queues_take_turns_and_selectors_choose() -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        cluster.create_topic("orders", 4)
        async with producer_of(cluster) as producer:
            results = [await producer.send(Message("orders", b"x")) for _ in range(8)]
            queue_ids = [result.message_queue.queue_id for result in results]
            assert sorted(queue_ids[:4]) == [0, 1, 2, 3] and queue_ids[:4] == queue_ids[4:]
            chosen = await producer.send(
                Message("orders", b"x"), selector=lambda queues, message, arg: queues[arg % len(queues)], arg=6
            )
            assert chosen.message_queue.queue_id == 2

    run_virtually(story)


def test_large_bodies_are_compressed() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        async with producer_of(cluster) as producer:
            await producer.send(Message("orders", b"x" * 4095))
            await producer.send(Message("orders", b"x" * 4096))
            small, large = stored(broker)
            assert (small.body, small.sys_flag) == (b"x" * 4095, 0)
            assert (zlib.decompress(large.body), large.sys_flag) == (b"x" * 4096, 0x301)

    run_virtually(story)


def test_batches() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        async with producer_of(cluster, max_message_size=1000) as producer:
            result = await producer.send_batch([Message("orders", b"%d" % n, f"T{n}") for n in range(3)])
            assert (result.queue_offset, result.msg_id.count(",")) == (0, 2)
            records = stored(broker)
            assert [record.body for record in records] == [b"0", b"1", b"2"]
            for record, msg_id in zip(records, result.msg_id.split(","), strict=True):
                assert msg_id in record.properties
            assert len(broker.sent(BATCH)) == 1
            for messages, words in [
                ([], "no message"),
                ([Message("orders", b"x"), Message("other", b"x")], "one topic"),
                ([Message("orders", b"x"), Message("orders", b"x", wait_store_msg_ok=False)], "one topic"),
                ([Message("orders", b"x", delay_level=1)], "one by one"),
                ([Message("orders", b"x", delay_time_ms=1)], "one by one"),
                ([Message("%RETRY%g", b"x")], "one by one"),
                ([Message("orders", bytes(600))] * 2, "limit is 1000"),
            ]:
                with pytest.raises(MQClientException, match=words):
                    await producer.send_batch(messages)

    run_virtually(story)


def test_one_way_messages_are_not_answered() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        async with producer_of(cluster) as producer:
            await producer.send_oneway(Message("orders", b"x"), queue=queue(0))
            await producer.send_oneway(Message("orders", b"y"))
            await producer.send(Message("orders", b"z"))
            assert [record.body for record in stored(broker)] == [b"x", b"y", b"z"]
            assert [request.flag for request in broker.sent(SEND)] == [2, 2, 0]
            broker.kill()
            await asyncio.sleep(1)
            with pytest.raises(MQClientException, match="could not be sent to a: nobody listens"):
                await producer.send_oneway(Message("orders", b"x"))

    run_virtually(story)


def test_the_callback_of_a_send_is_called_with_its_result_or_error(caplog: pytest.LogCaptureFixture) -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        ended: list[str] = []

        def callback(result: SendResult | None, error: MQClientException | None) -> None:
            ended.append(result.send_status if result else str(error))
            if len(ended) == 1:
                raise ValueError("of the program")

        async with producer_of(cluster) as producer:
            await producer.send_async(Message("orders", b"1"), callback)
            assert ended == []
            await asyncio.sleep(1)
            broker.refuse[SEND] = ResponseCode.MESSAGE_ILLEGAL
            await producer.send_async(Message("orders", b"2"), callback)
            with pytest.raises(MQClientException, match="body"):
                await producer.send_async(Message("orders", b""), callback)
            await asyncio.sleep(1)
            broker.refuse.clear()
            await producer.send_async(Message("orders", b"3"), callback)
        assert (ended[0], ended[2:]) == ("SEND_OK", ["SEND_OK"])  # shutdown waits for the last one
        assert "refused by the test" in ended[1]
        assert [record.body for record in stored(broker)] == [b"1", b"3"]

    run_virtually(story)
    assert "of the program" in caplog.text


def test_shutdown_waits_for_the_sends_that_wait_for_their_turn() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        ended: list[bool] = []
        producer = producer_of(cluster, back_pressure_for_async_send_num=2)
        await producer.start()
        await producer.send(Message("orders", b"x"))
        sends = [
            start_task(
                producer.send_async(Message("orders", b"x"), lambda _, error: ended.append(error is None)), "send"
            )
            for _ in range(20)
        ]
        await asyncio.sleep(0)
        await producer.shutdown()
        assert ended == [True] * 20 and all(send.done() for send in sends)
        assert len(stored(broker)) == 21
        assert not producer.instance.api._connections

    run_virtually(story)


def test_shutdown_waits_for_a_send_that_begins_meanwhile() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        ended: list[bool] = []
        producer = producer_of(cluster, back_pressure_for_async_send_num=1)
        await producer.start()
        await producer.send(Message("orders", b"x"))
        broker.ignore.add(SEND)
        begin = cluster.loop.time()
        for timeout_ms in (1000, 2000):
            send = producer.send_async(
                Message("orders", b"x"), lambda _, error: ended.append(error is None), timeout_ms=timeout_ms
            )
            start_task(send, "send")
        await asyncio.sleep(0)
        await producer.shutdown()
        assert ended == [False, False] and cluster.loop.time() - begin == pytest.approx(2, abs=0.01)

    run_virtually(story)


def test_a_cancelled_shutdown_is_finished() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        producer = producer_of(cluster)
        await producer.start()
        await producer.send(Message("orders", b"x"))
        broker.ignore.add(SEND)
        await producer.send_async(Message("orders", b"x"), lambda result, error: None)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await producer.shutdown()
        with pytest.raises(MQClientException, match="still being shut down"):
            await producer.start()
        await producer.shutdown()
        assert not asyncio.all_tasks() - {asyncio.current_task()}
        assert not producer.instance.api._connections

    run_virtually(story)


def test_the_wait_and_the_send_have_one_timeout() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        ended: list[float] = []
        async with producer_of(cluster, back_pressure_for_async_send_num=1) as producer:
            await producer.send(Message("orders", b"x"))
            broker.ignore.add(SEND)
            begin = cluster.loop.time()
            for timeout_ms in (2000, 3000):
                await producer.send_async(
                    Message("orders", b"x"), lambda *_: ended.append(cluster.loop.time() - begin), timeout_ms=timeout_ms
                )
        assert ended == [pytest.approx(2, abs=0.01), pytest.approx(3, abs=0.01)]

    run_virtually(story)


@pytest.mark.parametrize("chosen", [7, None, "a"])
def test_a_selector_that_returns_no_queue_is_refused(chosen: Any) -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        cluster.create_topic("orders", 1)
        async with producer_of(cluster) as producer:
            for send in (producer.send, producer.send_oneway):
                with pytest.raises(MQClientException, match=f"the selector returned {chosen!r}, which is no Message"):
                    await send(Message("orders", b"x"), selector=lambda *_: chosen)
            with pytest.raises(MQClientException, match="queue is 7, which is no MessageQueue"):
                await producer.send(Message("orders", b"x"), queue=7)  # type: ignore[arg-type]

    run_virtually(story)


def test_sends_wait_while_too_many_are_under_way() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        ended: list[bool] = []
        async with producer_of(cluster, back_pressure_for_async_send_num=2) as producer:
            await producer.send(Message("orders", b"x"))
            broker.ignore.add(SEND)
            for _ in range(2):
                await producer.send_async(Message("orders", b"x"), lambda result, error: ended.append(error is None))
            with pytest.raises(MQClientException, match="2 sends of 2 bytes are under way, and none has ended within"):
                await producer.send_async(Message("orders", b"x"), print, timeout_ms=1000)
            begin = cluster.loop.time()
            cluster.loop.call_later(1.5, broker.ignore.clear)
            await producer.send_async(Message("orders", b"x"), lambda result, error: ended.append(error is None))
            assert cluster.loop.time() - begin == pytest.approx(2, abs=0.1)  # when the first two have failed
        assert ended == [False, False, True]

    run_virtually(story)


def test_delayed_messages_wait_at_the_broker() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        async with producer_of(cluster) as producer:
            await producer.send(Message("orders", b"x", delay_level=2))
            await asyncio.sleep(4.9)
            assert broker.engine.queue_view("orders", 0).max_offset == 0
            await asyncio.sleep(0.2)
            assert broker.engine.queue_view("orders", 0).max_offset == 1

    run_virtually(story)


@pytest.mark.usefixtures("small_wheel")
def test_messages_for_an_exact_time_wait_at_the_broker_and_may_be_recalled() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        async with producer_of(cluster) as producer:
            due_ms = producer.instance.clock.now().wall_ms + 5500
            await producer.send(Message("orders", b"at", deliver_time_ms=due_ms))
            await producer.send(Message("orders", b"after", delay_time_ms=6500))
            recalled = await producer.send(Message("orders", b"never", delay_time_ms=5000))
            assert await producer.recall_message("orders", recalled.recall_handle) == recalled.msg_id
            await asyncio.sleep(5.4)
            assert broker.engine.queue_view("orders", 0).max_offset == 0
            await asyncio.sleep(3)
            assert [record.body for record in stored(broker)] == [b"at", b"after"]
            at_once = await producer.send(Message("orders", b"x"))
            assert at_once.recall_handle == ""
            for topic, handle, words in [
                ("orders", "nonsense", "not one of this topic"),
                ("others", recalled.recall_handle, "not one of this topic"),
                ("orders", recalled.recall_handle, "timestamp invalid"),
            ]:
                with pytest.raises(MQClientException, match=words):
                    await producer.recall_message(topic, handle)

    run_virtually(story)


def test_a_topic_that_does_not_exist_is_created_by_the_first_message() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        async with producer_of(cluster, default_topic_queue_nums=3) as producer:
            for _ in range(6):
                await producer.send(Message("fresh", b"x"))
            assert [len(stored(broker, "fresh", queue_id)) for queue_id in range(3)] == [2, 2, 2]

    run_virtually(story)


def test_no_route() -> None:
    async def story(cluster: VirtualCluster) -> None:
        async with producer_of(cluster) as producer:
            with pytest.raises(MQClientException, match="'orders' has no route: it does not exist"):
                await producer.send(Message("orders", b"x"))
        broker = cluster.add_broker()
        context_of(broker.engine).topics.update("closed", 1, 1, 4, cluster.loop.now())
        cluster.register(broker)
        async with producer_of(cluster) as producer:
            with pytest.raises(MQClientException, match="no queue that can be written to"):
                await producer.send(Message("closed", b"x"))

    run_virtually(story)


@pytest.mark.parametrize("fault_tolerance", [False, True])
def test_another_broker_is_tried(fault_tolerance: bool) -> None:
    async def story(cluster: VirtualCluster) -> None:
        bad, good = cluster.add_broker("a"), cluster.add_broker("b")
        cluster.create_topic("orders", 2)
        bad.refuse[SEND] = ResponseCode.SYSTEM_BUSY
        async with producer_of(cluster, send_latency_fault_enable=fault_tolerance) as producer:
            results = [await producer.send(Message("orders", b"x")) for _ in range(8)]
            assert {result.message_queue.broker_name for result in results} == {"b"}
            assert len(good.sent(SEND)) == 8
            # with fault tolerance, the bad one is asked once and then rests
            assert len(bad.sent(SEND)) <= 1 if fault_tolerance else len(bad.sent(SEND)) >= 3
            keys = [request.ext_fields["i"] for request in good.sent(SEND)]
            assert {request.ext_fields["i"] for request in bad.sent(SEND)} <= set(keys)  # a retry has the same id

    run_virtually(story)


def test_retries_come_to_an_end() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        broker.refuse[SEND] = ResponseCode.SYSTEM_BUSY
        async with producer_of(cluster) as producer:
            with pytest.raises(MQClientException, match=r"in 3 attempts .* at a, a, a: .*refused by the test"):
                await producer.send(Message("orders", b"x"))
            assert len(broker.sent(SEND)) == 3
            with pytest.raises(MQClientException, match="in 1 attempts"):
                await producer.send(Message("orders", b"x"), queue=queue(0))  # no other queue may be taken
            broker.refuse[SEND] = ResponseCode.MESSAGE_ILLEGAL
            before = len(broker.sent(SEND))
            with pytest.raises(MQBrokerException) as caught:
                await producer.send(Message("orders", b"x"))
            assert (caught.value.response_code, len(broker.sent(SEND)) - before) == (13, 1)

    run_virtually(story)


def test_the_timeout_is_for_all_attempts() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        async with producer_of(cluster) as producer:
            await producer.send(Message("orders", b"x"))
            broker.links[0].drop_answers = True
            begin = cluster.loop.time()
            with pytest.raises(MQClientException, match=r"in 1 attempts and 2000 ms, at a: no answer within 2 s"):
                await producer.send(Message("orders", b"x"), timeout_ms=2000)
            assert cluster.loop.time() - begin == pytest.approx(2)
            await producer.send(Message("orders", b"x"))  # on a new connection

    run_virtually(story)


class SilentServer:
    """A server's end of a connection that reads and never answers."""

    def __init__(self, requests: list[RemotingCommand]) -> None:
        self._requests = requests

    def receive(self, commands: list[RemotingCommand]) -> None:
        self._requests += commands

    def closed(self) -> None:
        pass


def test_name_servers_that_do_not_answer_have_no_more_time_than_the_send() -> None:
    """Their answers are waited for once, and beyond the send's own time, or the second would never be asked."""

    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        asked: list[RemotingCommand] = []
        cluster.loop.servers["127.0.0.1:1"] = lambda link: SilentServer(asked)
        instance = MQClientInstance(f"127.0.0.1:1;{NAMESRV}", clock=cluster.loop)
        message, begin = Message("orders", b"x"), cluster.loop.time()
        async with DefaultMQProducer("pg", instance=instance, send_msg_timeout=1000) as producer:
            sends = [
                producer.send(message),
                producer.send(message, queue=queue(0)),
                producer.send_batch([message]),
                producer.send_oneway(message),
                producer.send_async(message, lambda *_: None),
                producer.request(message, 1000),
            ]
            for error in await asyncio.gather(*sends, return_exceptions=True):
                assert isinstance(error, MQClientException)
            assert (cluster.loop.time() - begin, len(asked)) == (pytest.approx(1), 1)
            assert (await producer.send(message, timeout_ms=3000)).send_status == "SEND_OK"
            assert cluster.loop.time() - begin == pytest.approx(3)
            cluster.loop.dark.add(NAMESRV)
            instance.api.connection(NAMESRV)._connection.close("a test")  # type: ignore[union-attr]
            with pytest.raises(MQClientException, match="has answered for topic 'others' in time; nothing was sent"):
                await producer.send(Message("others", b"x"))
        assert len(stored(broker)) == 1
        assert cluster.loop.time() - begin == pytest.approx(4)  # shutdown ends the lookup

    run_virtually(story)


def test_many_sends_at_once() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        async with producer_of(cluster) as producer:
            results = await asyncio.gather(*(producer.send(Message("orders", b"%d" % n)) for n in range(100)))
            assert sorted(result.queue_offset for result in results) == list(range(100))
            assert len({result.msg_id for result in results}) == 100
            assert len(broker.links) == 1

    run_virtually(story)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (Message("", b"x"), "topic is empty"),
        (Message("a b", b"x"), "characters other than"),
        (Message("SCHEDULE_TOPIC_XXXX", b"x"), "RocketMQ's own"),
        (Message("orders", b""), "at least one"),
        (Message("orders", "text"), "must be bytes"),  # type: ignore[arg-type]
        (Message("orders", bytes((4 << 20) + 1)), "4194305 bytes; the limit is 4194304"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_messages_that_are_refused_before_they_are_sent(message: Message, words: str) -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        async with producer_of(cluster) as producer:
            for work in (producer.send(message), producer.send_oneway(message), producer.send_batch([message])):
                with pytest.raises(MQClientException, match=words):
                    await work
            assert broker.requests == []

    run_virtually(story)


def test_life() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        producer = producer_of(cluster)
        with pytest.raises(MQClientException, match="not running"):
            await producer.send(Message("orders", b"x"))
        async with producer:
            await producer.start()
            await producer.send(Message("orders", b"x"))
            await asyncio.sleep(31)
            assert list(context_of(broker.engine).producers.members("pg")) == [producer.instance.client_id]
        await asyncio.sleep(1)
        assert not context_of(broker.engine).producers.members("pg")
        assert not asyncio.all_tasks() - {asyncio.current_task()}
        with pytest.raises(MQClientException, match="not running"):
            await producer.send(Message("orders", b"x"))

    run_virtually(story)


def test_two_producers_share_a_client() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        shared = instance_of(cluster)
        first, second = DefaultMQProducer("p1", instance=shared), DefaultMQProducer("p2", instance=shared)
        await first.start()
        with pytest.raises(MQClientException, match="has a producer of group 'p1' already"):
            await DefaultMQProducer("p1", instance=shared).start()
        await second.start()
        await first.send(Message("orders", b"x"))
        await first.shutdown()
        await second.send(Message("orders", b"x"))
        assert len(broker.links) == 1
        await second.shutdown()

    run_virtually(story)
