"""The client in Python: the same tests at GlassMQ and, with ``--compat``, at Apache RocketMQ. A group is shared with
stock clients.
"""

import asyncio
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from broker_core.client import (
    DefaultLitePullConsumer,
    DefaultMQProducer,
    DefaultMQPullConsumer,
    DefaultMQPushConsumer,
    LocalTransactionState,
    Message,
    MessageExt,
    MessageQueue,
    MessageSelector,
    MQBrokerException,
    MQClientException,
    MQClientInstance,
    RequestTimeoutException,
    TransactionMQProducer,
    create_reply_message,
    sync,
)
from broker_core.client.consumer.queue_locks import QueueLocks
from broker_core.client.listeners.async_trace_dispatcher import AsyncTraceDispatcher
from broker_core.codes import ResponseCode
from tests.compat import go_program, java_program
from tests.compat.conftest import needs
from tests.compat.glassmq_broker import Address
from tests.compat.mqadmin_scenario import printed_by
from tests.compat.program import running_client
from tests.fakes.client import Inbox

PATIENCE = 90
FIRST: dict[str, Any] = {"consume_from_where": "CONSUME_FROM_FIRST_OFFSET"}


def consumer_of(server: Address, topic: str, listener: Any, tags: str = "*", **options: Any) -> DefaultMQPushConsumer:
    """A consumer of group ``g-TOPIC``."""
    consumer = DefaultMQPushConsumer(f"g-{topic}", namesrv_addr=server.namesrv, **options)
    consumer.subscribe(topic, tags)
    consumer.register_message_listener(listener)
    return consumer


def producer_of(server: Address) -> DefaultMQProducer:
    return DefaultMQProducer("python-producers", namesrv_addr=server.namesrv, send_msg_timeout=30_000)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.05)


async def received(inbox: Inbox, count: int) -> list[MessageExt]:
    async with asyncio.timeout(PATIENCE):
        await inbox.until(count)
    return inbox.messages


async def test_messages_arrive_as_they_were_sent(server: Address) -> None:
    inbox = Inbox()
    large = Message("PyAll", b"large" * 2000, "TagB", ["k1", "k2"], properties={"color": "red"}, flag=5)
    async with producer_of(server) as producer:
        first = await producer.send(Message("PyAll", b"first", "TagA"))  # which creates the topic
        async with consumer_of(server, "PyAll", inbox, **FIRST):
            sent = await producer.send(large)
            batch = await producer.send_batch([Message("PyAll", b"%d" % n, "TagC") for n in range(3)])
            await producer.send_oneway(Message("PyAll", b"oneway"))
            by_body = {message.body: message for message in await received(inbox, 6)}
    assert set(by_body) == {b"first", large.body, b"0", b"1", b"2", b"oneway"}
    message = by_body[large.body]
    assert (message.msg_id, message.offset_msg_id) == (sent.msg_id, sent.offset_msg_id)
    assert (message.tags, message.keys, message.record.flag) == ("TagB", "k1 k2", 5)
    assert (message.properties["color"], message.message_queue) == ("red", sent.message_queue)
    assert [by_body[b"%d" % n].queue_offset for n in range(3)] == [batch.queue_offset + n for n in range(3)]
    assert [by_body[b"%d" % n].msg_id for n in range(3)] == batch.msg_id.split(",")
    assert by_body[b"first"].msg_id == first.msg_id


async def test_consumed_messages_are_not_delivered_again(server: Address) -> None:
    async with producer_of(server) as producer:
        for n in range(8):
            await producer.send(Message("PyAgain", b"%d" % n))
        inbox, later = Inbox(), Inbox()
        async with consumer_of(server, "PyAgain", inbox, **FIRST):
            await received(inbox, 8)
        async with consumer_of(server, "PyAgain", later, **FIRST):
            await producer.send(Message("PyAgain", b"new"))
            assert [message.body for message in await received(later, 1)] == [b"new"]


async def test_tags(server: Address) -> None:
    inbox = Inbox()
    async with producer_of(server) as producer:
        for tag in ("A", "B", "C"):
            await producer.send(Message("PyTags", tag.encode(), tag))
        async with consumer_of(server, "PyTags", inbox, "A || C", **FIRST):
            await received(inbox, 2)
            await producer.send(Message("PyTags", b"B", "B"))
            await producer.send(Message("PyTags", b"end", "C"))
            await received(inbox, 3)
    assert sorted(inbox.bodies) == [b"A", b"C", b"end"]


async def test_a_held_pull_is_woken(server: Address) -> None:
    """Nothing is lost between the answer of ``start`` and the first pull either."""
    inbox = Inbox()
    async with producer_of(server) as producer:
        await producer.send(Message("PyHeld", b"creates the topic"))
        async with consumer_of(server, "PyHeld", inbox):
            await producer.send(Message("PyHeld", b"at once"))
            await until(lambda: b"at once" in inbox.bodies)
            await producer.send(Message("PyHeld", b"later"))
            await until(lambda: b"later" in inbox.bodies)


async def test_failed_messages_come_again_and_then_go_to_the_dead_letter_queue(server: Address) -> None:
    times: list[int] = []

    async def listener(messages: list[MessageExt], context: Any) -> str:
        times.append(messages[0].reconsume_times)
        assert messages[0].topic == "PyRetry"
        context.delay_level_when_next_consume = 1
        return "RECONSUME_LATER"

    dead = Inbox()
    async with producer_of(server) as producer:
        sent = await producer.send(Message("PyRetry", b"bad"))
        async with consumer_of(server, "PyRetry", listener, max_reconsume_times=2, **FIRST):
            await until(lambda: times == [0, 1, 2])
            letters = DefaultMQPushConsumer("g-dead-letters", namesrv_addr=server.namesrv, **FIRST)
            letters.subscribe("%DLQ%g-PyRetry")
            letters.register_message_listener(dead)
            async with letters:
                [message] = await received(dead, 1)
    assert (message.body, message.msg_id) == (b"bad", sent.msg_id)


def test_a_program_without_an_event_loop(server: Address) -> None:
    bodies: list[bytes] = []
    threads: set[str] = set()
    done = threading.Event()

    def listener(messages: list[MessageExt], context: Any) -> None:
        bodies.append(messages[0].body)
        threads.add(threading.current_thread().name)
        if len(set(bodies)) == 20:
            done.set()

    consumer = sync.DefaultMQPushConsumer("g-PySync", namesrv_addr=server.namesrv, **FIRST)
    consumer.subscribe("PySync")
    consumer.register_message_listener(listener)
    with sync.DefaultMQProducer("python-producers", namesrv_addr=server.namesrv) as producer:
        producer.send(Message("PySync", b"0"))
        with consumer:
            for n in range(1, 20):
                producer.send(Message("PySync", b"%d" % n))
            assert done.wait(PATIENCE)
    assert all(name.startswith("consume-g-PySync-") for name in threads)


async def test_a_group_is_shared_with_java_and_go(server: Address) -> None:
    """Each member has its fair share; when the others are gone, Python has all queues and gets all messages."""
    needs(java_program.classes)
    go, topic = needs(go_program.program), "PyShared"
    inbox = Inbox()
    consumer = consumer_of(server, topic, inbox, **FIRST)

    def queues() -> int:
        return sum(queue.topic == topic for queue in consumer.rebalance.process_queues)

    async with producer_of(server) as producer:
        await producer.send(Message(topic, b"creates four queues"))
        async with consumer:
            await until(lambda: queues() == 4)
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home, ExitStack() as stock:
                group = consumer.group
                java = java_program.command(
                    "member", "--namesrv", server.namesrv, "--group", group, "--topic", topic, home=home
                )
                stock.enter_context(running_client(java, home))
                await until(lambda: queues() == 2)
                command = [str(go), "member", "-namesrv", server.namesrv, "-group", group, "-topic", topic]
                stock.enter_context(running_client(command, home))
                while len(await consumer.instance.find_consumer_id_list(topic, group)) < 3:
                    await asyncio.sleep(0.1)
                await until(lambda: queues() in (1, 2))
            await until(lambda: queues() == 4)
            for n in range(8):
                await producer.send(Message(topic, b"%d" % n))
            await until(lambda: {b"%d" % n for n in range(8)} <= set(inbox.bodies))


async def test_a_queue_is_consumed_in_order_while_members_come_and_go(server: Address) -> None:
    topic, count = "PyOrder", 60
    consumed: dict[MessageQueue, list[int]] = {}
    at_work: set[MessageQueue] = set()

    async def listener(messages: list[MessageExt], context: Any) -> str:
        message, queue = messages[0], messages[0].message_queue
        assert queue not in at_work
        at_work.add(queue)
        await asyncio.sleep(0.02)
        at_work.discard(queue)
        if message.body == b"13" and message.reconsume_times == 0:
            context.suspend_current_queue_time_millis = 100
            return "SUSPEND_CURRENT_QUEUE_A_MOMENT"
        consumed.setdefault(queue, []).append(message.queue_offset)
        return "SUCCESS"

    def member() -> DefaultMQPushConsumer:
        consumer = consumer_of(server, topic, None, **FIRST)
        consumer.register_message_listener(listener, orderly=True)
        return consumer

    def is_complete() -> bool:
        return sum(len(set(offsets)) for offsets in consumed.values()) == count

    async with producer_of(server) as producer:
        for n in range(count):
            await producer.send(Message(topic, b"%d" % n))
        async with member():
            await until(lambda: len(consumed) > 0)
            async with member():
                await asyncio.sleep(1)
            await until(is_complete)
    for offsets in consumed.values():
        for n, offset in enumerate(offsets):  # what comes again begins with the first that was not committed
            assert offset <= max(offsets[:n], default=-1) + 1


async def test_a_queue_that_another_client_has_locked_is_not_consumed(server: Address) -> None:
    topic = "PyLocks"
    inbox = Inbox()
    async with producer_of(server) as producer:
        sent = await producer.send(Message(topic, b"x"))
        other = QueueLocks(producer.instance, f"g-{topic}")
        assert await other.lock([sent.message_queue]) == {sent.message_queue: True}
        consumer = consumer_of(server, topic, None, **FIRST)
        consumer.register_message_listener(inbox, orderly=True)
        async with consumer:
            await until(lambda: len(consumer.rebalance.process_queues) >= 3)
            assert sent.message_queue not in consumer.rebalance.process_queues and inbox.messages == []
            await other.unlock([sent.message_queue])
            await received(inbox, 1)


async def test_broadcasting(server: Address, tmp_path: Path) -> None:
    """Each consumer gets every message, and the next one with the same file goes on where the last one ended."""
    topic = "PyBroadcast"
    inboxes = [Inbox(), Inbox(), Inbox()]

    def broadcast_to(number: int, folder: str) -> DefaultMQPushConsumer:
        options = {"message_model": "BROADCASTING", "local_offset_store_dir": str(tmp_path / folder)}
        return consumer_of(server, topic, inboxes[number], **FIRST, **options)

    async with producer_of(server) as producer:
        await producer.send(Message(topic, b"0"))
        async with broadcast_to(0, "one"), broadcast_to(1, "two"):
            await producer.send(Message(topic, b"1"))
            for inbox in inboxes[:2]:
                await until(lambda inbox=inbox: set(inbox.bodies) == {b"0", b"1"})  # type: ignore[misc]
        await producer.send(Message(topic, b"2"))
        async with broadcast_to(2, "one"):
            await until(lambda: inboxes[2].bodies == [b"2"])


async def test_lite_pull(server: Address) -> None:
    """Two members share the queues; a third is assigned one. Positions are moved, and kept by the broker."""
    topic = "PyLite"

    def lite(group: str) -> DefaultLitePullConsumer:
        return DefaultLitePullConsumer(group, namesrv_addr=server.namesrv, **FIRST)

    async with producer_of(server) as producer:
        sent = [await producer.send(Message(topic, b"%d" % n, "AB"[n % 2])) for n in range(12)]
        members = [lite("g-PyLite"), lite("g-PyLite")]
        for member in members:
            member.subscribe(topic, "A")
        async with members[0], members[1]:
            bodies: set[bytes] = set()
            async with asyncio.timeout(PATIENCE):
                while len(bodies) < 6 or [len(member.assignment()) for member in members] != [2, 2]:
                    for member in members:
                        bodies |= {message.body for message in await member.poll(200)}
            assert bodies == {b"%d" % n for n in range(0, 12, 2)}
            for member in members:
                await member.commit()
        reader = lite("g-PyLite-2")
        queue = sent[0].message_queue
        reader.assign([queue])
        async with reader:
            async with asyncio.timeout(PATIENCE):
                while not (messages := await reader.poll()):
                    pass
            assert messages[0].body == b"0"
            await reader.seek_to_end(queue)
            await producer.send(Message(topic, b"new"), queue=queue)
            async with asyncio.timeout(PATIENCE):
                while not (messages := await reader.poll()):
                    pass
            assert messages[0].body == b"new"
            await reader.commit()
            assert await reader.committed(queue) == messages[0].queue_offset + 1


async def test_pulls_by_hand(server: Address) -> None:
    topic = "PyPull"
    async with (
        producer_of(server) as producer,
        DefaultMQPullConsumer("g-PyPull", namesrv_addr=server.namesrv) as consumer,
    ):
        sent = await producer.send(Message(topic, b"1", "A"))
        queue, behind = sent.message_queue, sent.queue_offset + 1
        assert queue in await consumer.fetch_subscribe_message_queues(topic)
        result = await consumer.pull(queue, "A", 0, 32)
        assert (result.status, [message.body for message in result.messages]) == ("FOUND", [b"1"])
        assert (await consumer.pull(queue, "B", 0, 32)).status == "NO_MATCHED_MSG"
        assert (await consumer.pull(queue, "A", behind, 32)).status == "NO_NEW_MSG"
        assert (await consumer.pull(queue, "A", 99, 32)).status == "OFFSET_ILLEGAL"
        waiting = asyncio.ensure_future(consumer.pull_block_if_not_found(queue, "A", behind, 32))
        await asyncio.sleep(0.5)
        await producer.send(Message(topic, b"2", "A"), queue=queue)
        assert [message.body for message in (await waiting).messages] == [b"2"]
        assert (await consumer.min_offset(queue), await consumer.max_offset(queue)) == (0, behind + 1)
        consumer.update_consume_offset(queue, behind)
        await consumer.persist_offsets()
        assert await consumer.fetch_consume_offset(queue, from_store=True) == behind


async def test_requests_get_their_replies(server: Address) -> None:
    topic = "PyRequest"
    async with producer_of(server) as producer:

        async def listener(messages: list[MessageExt], context: Any) -> None:
            for message in messages:
                if message.tags != "ignored":
                    await producer.send(create_reply_message(message, message.body + b"!"))

        await producer.send(Message(topic, b"creates the topic", "ignored"))
        async with consumer_of(server, topic, listener, **FIRST):
            bodies = [b"%d" % n for n in range(20)] + [b"large" * 2000]
            asked = [producer.request(Message(topic, body), PATIENCE * 1000) for body in bodies]
            assert [reply.body for reply in await asyncio.gather(*asked)] == [body + b"!" for body in bodies]
            with pytest.raises(RequestTimeoutException, match="but wait reply message timeout, 3000 ms"):
                await producer.request(Message(topic, b"7", "ignored"), 3000)
        assert producer.instance.request_futures.unmatched_replies == 0


async def test_a_reply_to_nobody_is_refused(server: Address) -> None:
    topic, inbox = "PyReplyGone", Inbox()
    async with producer_of(server) as producer:
        await producer.send(Message(topic, b"creates the topic"))
        async with consumer_of(server, topic, inbox, **FIRST):
            asking = producer_of(server)
            await asking.start()
            waiting = asyncio.ensure_future(asking.request(Message(topic, b"7"), PATIENCE * 1000))
            await until(lambda: b"7" in inbox.bodies)
            await asking.shutdown()
            with pytest.raises(MQClientException, match="shut down while its request waited"):
                await waiting
            [request] = [message for message in inbox.messages if message.body == b"7"]
            with pytest.raises(MQClientException, match=r"answered SYSTEM_ERROR \(1\): "):
                await producer.send(create_reply_message(request, b"too late"))


async def test_requests_and_replies_of_java(server: Address) -> None:
    """Before Java replies to Python, it sends a request to Python itself."""
    needs(java_program.classes)
    to_java, to_python = "PyToJava", "JavaToPython"
    async with producer_of(server) as producer:

        async def listener(messages: list[MessageExt], context: Any) -> None:
            for message in messages:
                if message.body.startswith(b"from Java"):
                    await producer.send(create_reply_message(message, message.body + b", from Python"))

        for topic in (to_java, to_python):
            await producer.send(Message(topic, b"creates the topic"))
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home, ExitStack() as stock:
            java = java_program.command(
                "replier", "--namesrv", server.namesrv, "--topic", to_java, "--asks", to_python, home=home
            )
            async with consumer_of(server, to_python, listener, **FIRST):
                stock.enter_context(running_client(java, home))
                reply = await producer.request(Message(to_java, b"from Python"), PATIENCE * 1000)
        assert reply.body == b"from Java: from Python, from Python"


async def test_mqadmin_reads_message_traces(server: Address, everything: bool) -> None:
    """mqadmin is one of the long tests; traces are sent in any case."""
    topic, inbox = "PyTraced", Inbox()
    trace = AsyncTraceDispatcher(namesrv_addr=server.namesrv)
    instance = MQClientInstance(server.namesrv, event_listener=trace)
    consumer = DefaultMQPushConsumer("g-PyTraced", instance=instance, **FIRST)
    consumer.subscribe(topic)
    consumer.register_message_listener(inbox)
    async with trace, DefaultMQProducer("python-producers", instance=instance, send_msg_timeout=30_000) as producer:
        sent = await producer.send(Message(topic, b"creates the topic", "TagA"))
        async with consumer:
            await received(inbox, 1)
    assert trace.discarded == 0
    if everything:
        needs(java_program.classes)
        with java_program.start_program("mqadmin", "--namesrv", server.namesrv) as mqadmin:
            printed = await asyncio.to_thread(printed_by, mqadmin, "queryMsgTraceById", "-i", sent.msg_id)
        pub, sub = (line.split() for line in printed.splitlines() if "success" in line)
        assert (pub[0], pub[1], sub[0], sub[1]) == ("Pub", "python-producers", "Sub", "g-PyTraced")


class Orders:
    """A transaction listener: the ``arg`` of a send is the state, and checks commit."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.checked: list[str] = []

    def execute_local_transaction(self, message: Message, arg: LocalTransactionState) -> LocalTransactionState:
        self.threads.append(threading.current_thread())
        return arg

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        self.checked.append(message.transaction_id)
        return "COMMIT_MESSAGE"


async def test_transactions(server: Address, everything: bool) -> None:
    """The rounds of checks are 30 s apart, so a transaction whose end is unknown is one of the long tests."""
    topic, inbox, orders, committed = "PyTransaction", Inbox(), Orders(), b"committed" * 1000
    async with producer_of(server) as producer:
        await producer.send(Message(topic, b"creates the topic"))
    async with (
        TransactionMQProducer(
            "python-orders", orders, namesrv_addr=server.namesrv, send_msg_timeout=30_000
        ) as producer,
        consumer_of(server, topic, inbox, **FIRST),
    ):
        states: list[tuple[bytes, LocalTransactionState]] = [(b"no", "ROLLBACK_MESSAGE"), (committed, "COMMIT_MESSAGE")]
        for body, state in [(b"later", "UNKNOW"), *states] if everything else states:
            sent = await producer.send_message_in_transaction(Message(topic, body), state)
            if state == "UNKNOW":
                unknown = sent.msg_id
        await until(lambda: committed in inbox.bodies)
        assert [message.msg_id for message in inbox.messages if message.body == committed] == [sent.msg_id]
        if everything:
            await until(lambda: b"later" in inbox.bodies)
            assert orders.checked == [unknown]
        assert b"no" not in inbox.bodies


def test_a_transaction_without_an_event_loop(server: Address) -> None:
    orders = Orders()
    with sync.TransactionMQProducer("python-orders", orders, namesrv_addr=server.namesrv) as producer:
        producer.send(Message("PySyncTransaction", b"creates the topic"))
        sent = producer.send_message_in_transaction(Message("PySyncTransaction", b"7"), "COMMIT_MESSAGE")
        assert (sent.local_transaction_state, orders.threads) == ("COMMIT_MESSAGE", [threading.current_thread()])
        with sync.DefaultMQPullConsumer("g-PySyncTransaction", namesrv_addr=server.namesrv) as consumer:
            result = consumer.pull_block_if_not_found(sent.message_queue, "*", 0, 32)
            bodies = [message.body for message in result.messages]
        assert bodies[-1] == b"7"


def test_a_request_without_an_event_loop(server: Address) -> None:
    with sync.DefaultMQProducer("python-producers", namesrv_addr=server.namesrv) as producer:
        producer.send(Message("PySyncRequest", b"creates the topic", "ignored"))

        def listener(messages: list[MessageExt], context: Any) -> None:
            for message in messages:
                if message.tags != "ignored":
                    producer.send(create_reply_message(message, b"21"))

        consumer = sync.DefaultMQPushConsumer("g-PySyncRequest", namesrv_addr=server.namesrv, **FIRST)
        consumer.subscribe("PySyncRequest")
        consumer.register_message_listener(listener)
        with consumer:
            assert producer.request(Message("PySyncRequest", b"7"), PATIENCE * 1000).body == b"21"


async def test_messages_are_selected_by_sql92(server: Address) -> None:
    inbox = Inbox()
    async with producer_of(server) as producer:
        sizes = {b"no size": {}, b"9": {"size": "9"}, b"11": {"size": "11"}, b"large": {"size": "large"}}
        for body, properties in sizes.items():
            await producer.send(Message("PySql", body, properties=properties))
        consumer = consumer_of(server, "PySql", inbox, **FIRST)
        consumer.subscribe("PySql", MessageSelector.by_sql("size > 10"))
        async with consumer:
            await received(inbox, 1)
            await producer.send(Message("PySql", b"10", properties={"size": "10"}))
            await producer.send(Message("PySql", b"12", properties={"size": "12"}))
            assert {message.body for message in await received(inbox, 2)} == {b"11", b"12"}
        wrong = consumer_of(server, "PySql", Inbox())
        wrong.subscribe("PySql", "size >", "SQL92")
        with pytest.raises(MQBrokerException) as refused:
            await wrong.start()
    assert refused.value.response_code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


async def test_a_message_between_the_first_questions_of_a_new_group(server: Address) -> None:
    """It arrives at an empty queue when the client knows that its group has no offset, and is consumed nevertheless."""
    topic, inbox = "PyFirst", Inbox()
    async with producer_of(server) as producer:
        used = (await producer.send(Message(topic, b"creates four queues"))).message_queue
        empty = MessageQueue(topic=topic, broker_name=used.broker_name, queue_id=(used.queue_id + 1) % 4)
        consumer = consumer_of(server, topic, inbox)
        api = consumer.instance.api
        query_consumer_offset = api.query_consumer_offset
        answers: list[int | None] = []

        async def query_and_send(address: str, group: str, queue: MessageQueue, **options: Any) -> int | None:
            offset = await query_consumer_offset(address, group, queue, **options)
            if queue == empty:
                answers.append(offset)
                await producer.send(Message(topic, b"in between"), queue=queue)
            return offset

        api.query_consumer_offset = query_and_send  # type: ignore[method-assign]
        async with consumer:
            await until(lambda: b"in between" in inbox.bodies)
    is_glassmq = bool(server.web)
    assert answers == ([0] if is_glassmq else [None])
