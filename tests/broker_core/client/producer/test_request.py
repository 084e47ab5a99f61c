"""Requests of a producer and the replies to them, at real engines, on a virtual clock."""

import asyncio
from typing import Any

import pytest

from broker_core.client import (
    DefaultMQProducer,
    Message,
    MessageExt,
    MQClientException,
    RequestTimeoutException,
    create_reply_message,
)
from broker_core.client.client_remoting_processor import ClientRemotingProcessor
from broker_core.codes import RequestCode
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests.headers import write_header
from broker_core.remoting.requests.send import ReplyMessageRequestHeader
from tests.fakes.client import Inbox, consumer_of, instance_of, producer_of
from tests.fakes.virtual_cluster import HEART_BEAT, SEND, VirtualCluster, run_virtually

SEND_REPLY = RequestCode.SEND_REPLY_MESSAGE_V2


class Replier:
    """A listener that replies with the request's body and an exclamation mark, as often as ``times``."""

    def __init__(self, cluster: VirtualCluster, times: int = 1) -> None:
        self.producer = DefaultMQProducer("repliers", instance=instance_of(cluster))
        self.times = times
        self.requests: list[MessageExt] = []
        self.open = asyncio.Event()
        self.open.set()
        self.done = asyncio.Event()
        """A request was replied to."""

    async def __call__(self, messages: list[MessageExt], context: Any) -> None:
        await self.open.wait()
        for message in messages:
            self.requests.append(message)
            for _ in range(self.times):
                await self.producer.send(create_reply_message(message, message.body + b"!"))
        self.done.set()


def test_a_request_returns_the_reply() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 2)
        replier = Replier(cluster)
        async with replier.producer, consumer_of(cluster, replier), producer_of(cluster) as producer:
            message = Message("orders", b"7", "TagA", properties={"color": "red"})
            reply = await producer.request(message, 3000)  # at once, before the first heartbeat of the timer
            assert (reply.topic, reply.body) == ("DefaultCluster_REPLY_TOPIC", b"7!")
            [request] = replier.requests
            assert request.properties["REPLY_TO_CLIENT"] == producer.instance.client_id
            assert (request.properties["TTL"], request.tags, request.properties["color"]) == ("3000", "TagA", "red")
            assert reply.properties["CORRELATION_ID"] == request.properties["CORRELATION_ID"]
            assert (reply.properties["MSG_TYPE"], reply.properties["TTL"]) == ("reply", "3000")
            assert int(reply.properties["ARRIVE_TIME"]) >= int(reply.properties["PUSH_REPLY_TIME"]) > 0
            assert message.properties == {"TAGS": "TagA", "color": "red", "WAIT": "true"}
            assert len(broker.sent(SEND_REPLY)) == 1
            futures = producer.instance.request_futures
            assert (len(futures), futures.unmatched_replies) == (0, 0)

    run_virtually(story)


def test_many_requests_of_one_message_at_once() -> None:
    """Each gets its own reply, and one heartbeat of each client is enough for all."""

    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 4)
        replier = Replier(cluster)
        async with replier.producer, consumer_of(cluster, replier), producer_of(cluster) as producer:
            before = len(broker.sent(HEART_BEAT))
            bodies = [b"%d" % n for n in range(50)] + [b"same"] * 2
            replies = await asyncio.gather(*(producer.request(Message("orders", body), 3000) for body in bodies))
            assert [reply.body for reply in replies] == [body + b"!" for body in bodies]
            assert len(broker.sent(HEART_BEAT)) == before + 2  # the replier's producer connects, too

    run_virtually(story)


def test_large_requests_and_replies_are_compressed() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        replier = Replier(cluster)
        async with replier.producer, consumer_of(cluster, replier), producer_of(cluster) as producer:
            reply = await producer.request(Message("orders", b"x" * 9000), 3000)
            assert reply.body == b"x" * 9000 + b"!"
            assert len(broker.sent(SEND_REPLY)[0].body) < 1000

    run_virtually(story)


def test_a_request_that_nobody_replies_to() -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        cluster.create_topic("orders", 1)
        async with producer_of(cluster) as producer:
            begin_s = cluster.loop.time()
            words = "send request message to <orders> OK, but wait reply message timeout, 2000 ms."
            with pytest.raises(RequestTimeoutException, match=words) as caught:
                await producer.request(Message("orders", b"7"), 2000)
            assert caught.value.response_code == 10006
            assert cluster.loop.time() - begin_s == pytest.approx(2)
            assert len(producer.instance.request_futures) == 0

    run_virtually(story)


def test_late_and_double_replies_are_counted() -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        cluster.create_topic("orders", 1)
        replier = Replier(cluster, times=2)
        async with replier.producer, consumer_of(cluster, replier), producer_of(cluster) as producer:
            futures = producer.instance.request_futures
            assert (await producer.request(Message("orders", b"1"), 3000)).body == b"1!"
            await replier.done.wait()
            assert futures.unmatched_replies == 1
            replier.open.clear()
            replier.done.clear()
            with pytest.raises(RequestTimeoutException):
                await producer.request(Message("orders", b"2"), 3000)
            replier.open.set()
            await replier.done.wait()
            assert futures.unmatched_replies == 3

    run_virtually(story)


def test_the_reply_may_come_before_the_brokers_answer() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        async with producer_of(cluster) as producer:
            await producer.send(Message("orders", b"opens the connection"))
            broker.ignore.add(SEND)
            waiting = asyncio.ensure_future(producer.request(Message("orders", b"7"), 3000))
            while len(broker.sent(SEND)) < 2:
                await asyncio.sleep(0)
            push(producer, broker.sent(SEND)[1].ext_fields["i"])
            assert (await waiting).body == b"the reply"

    run_virtually(story)


def test_a_request_that_is_not_sent() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        async with producer_of(cluster) as producer:
            broker.refuse[SEND] = 13
            begin_s = cluster.loop.time()
            with pytest.raises(
                MQClientException, match=r"answered MESSAGE_ILLEGAL \(13\): refused by the test"
            ) as refused:
                await producer.request(Message("orders", b"7"), 3000)
            assert cluster.loop.time() == begin_s  # it does not wait for a reply that cannot come
            broker.refuse.clear()
            broker.ignore.add(SEND)
            with pytest.raises(MQClientException, match="send request message to <orders> fail") as unanswered:
                await producer.request(Message("orders", b"7"), 3000)
            assert not isinstance(refused.value, RequestTimeoutException)
            assert not isinstance(unanswered.value, RequestTimeoutException)
            assert len(producer.instance.request_futures) == 0

    run_virtually(story)


def test_requests_that_make_no_sense() -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        cluster.create_topic("orders", 1)
        producer = producer_of(cluster)
        with pytest.raises(MQClientException, match="not running"):
            await producer.request(Message("orders", b"7"), 3000)
        async with producer:
            for message, timeout_ms, words in [
                (Message("orders", b"7"), 0, "timeout_ms is 1 to 3600000, not 0"),
                (Message("orders", b"7"), 3_600_001, "timeout_ms is 1 to"),
                (Message("orders", b"7", properties={"TTL": "5"}), 3000, "'TTL' is RocketMQ's own"),
                (Message("orders", b""), 3000, "at least one"),
            ]:
                with pytest.raises(MQClientException, match=words):
                    await producer.request(message, timeout_ms)
            assert len(producer.instance.request_futures) == 0

    run_virtually(story)


def test_shutdown_ends_the_requests_that_wait() -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        cluster.create_topic("orders", 1)
        inbox = Inbox()
        async with consumer_of(cluster, inbox):
            producer = producer_of(cluster)
            await producer.start()
            waiting = asyncio.ensure_future(producer.request(Message("orders", b"7"), 60_000))
            await inbox.until(1)
            begin_s = cluster.loop.time()
            await producer.shutdown()
            with pytest.raises(MQClientException, match="shut down while its request waited"):
                await waiting
            assert cluster.loop.time() == begin_s

    run_virtually(story)


def test_a_reply_to_a_client_that_is_gone_is_refused() -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        cluster.create_topic("orders", 1)
        inbox = Inbox()
        async with consumer_of(cluster, inbox), producer_of(cluster) as replying:
            asking = producer_of(cluster)
            await asking.start()
            waiting = asyncio.ensure_future(asking.request(Message("orders", b"7"), 60_000))
            await inbox.until(1)
            await asking.shutdown()
            reply = create_reply_message(inbox.messages[0], b"too late")
            with pytest.raises(MQClientException, match="is not connected to this broker"):
                await replying.send(reply)
            with pytest.raises(MQClientException, match="replies are sent one by one"):
                await replying.send_batch([reply])
            await asyncio.gather(waiting, return_exceptions=True)

    run_virtually(story)


def test_a_broker_that_was_restarted_learns_of_the_producer_before_the_next_request() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        async with producer_of(cluster) as producer:

            async def codes_of_a_request() -> list[int]:
                broker.requests.clear()
                with pytest.raises(RequestTimeoutException):
                    await producer.request(Message("orders", b"1"), 1000)
                return [request.code for request in broker.requests]

            assert (await codes_of_a_request())[:2] == [HEART_BEAT, SEND]
            await asyncio.sleep(5)  # the next heartbeats of the timer are 25 s away
            assert await codes_of_a_request() == [SEND]
            broker.kill()
            broker.start()
            assert await codes_of_a_request() == [HEART_BEAT, SEND]
            assert await codes_of_a_request() == [SEND]

    run_virtually(story)


def test_a_reply_reaches_its_requester_in_a_cluster() -> None:
    """The requester is connected to one of three brokers; the others refuse the reply, and it is sent once more."""

    async def story(cluster: VirtualCluster) -> None:
        brokers = [cluster.add_broker(name) for name in "abc"]
        cluster.create_topic("orders", 1, brokers[:1])
        replier = Replier(cluster)
        async with replier.producer, consumer_of(cluster, replier), producer_of(cluster) as producer:
            for n in range(6):
                assert (await producer.request(Message("orders", b"%d" % n), 3000)).body == b"%d!" % n
        assert len(brokers[0].sent(SEND_REPLY)) == 6
        assert len(brokers[1].sent(SEND_REPLY)) + len(brokers[2].sent(SEND_REPLY)) > 0

    run_virtually(story)


def push(producer: DefaultMQProducer, properties: str, body: bytes = b"the reply", sys_flag: int = 0) -> Any:
    """The client's answer to the push of a reply with these properties."""
    header = ReplyMessageRequestHeader(
        "g", "C_REPLY_TOPIC", "TBW102", 4, 0, sys_flag, 0, 0, properties, 0, "10.0.0.9:1", "10.0.0.1:10911", 0
    )
    request = RemotingCommand.request(326, write_header(header), body, opaque=7)
    return ClientRemotingProcessor(producer.instance).process_request("h:1", request)


def test_pushes_that_cannot_be_read() -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        cluster.create_topic("orders", 1)
        inbox = Inbox()
        async with consumer_of(cluster, inbox), producer_of(cluster) as producer:
            request = RemotingCommand.request(326, {"topic": "T"}, opaque=7)
            answer = ClientRemotingProcessor(producer.instance).process_request("h:1", request)
            assert answer is not None
            assert (answer.code, answer.remark.startswith("process reply message fail: extFields")) == (1, True)
            assert push(producer, "CORRELATION_ID\x01nobody\x02").code == 0
            waiting = asyncio.ensure_future(producer.request(Message("orders", b"7"), 3000))
            await inbox.until(1)
            answer = push(producer, inbox.messages[0].record.properties, b"not zlib", 1)
            assert (answer.code, "cannot be decompressed" in answer.remark) == (1, True)
            with pytest.raises(MQClientException, match=r"reply from 10\.0\.0\.9:1 cannot be decompressed"):
                await waiting

    run_virtually(story)
