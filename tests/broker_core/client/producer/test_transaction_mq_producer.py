"""Messages in transactions: what the listener returns decides, now or when the broker asks."""

import asyncio
import threading
from typing import Any

import pytest

from broker_core.client import Message, MessageExt, MQClientException, SendResult, TransactionMQProducer
from broker_core.client.producer import transaction_mq_producer
from broker_core.codes import RequestCode
from broker_core.remoting.requests.notices import CheckTransactionStateRequestHeader
from tests.fakes.client import Inbox, consumer_of, instance_of
from tests.fakes.virtual_cluster import SEND, VirtualCluster, run_virtually

END = RequestCode.END_TRANSACTION
FIRST: dict[str, Any] = {"consume_from_where": "CONSUME_FROM_FIRST_OFFSET"}


class Listener:
    """Returns, or raises, the ``arg`` of a send, and ``checked`` at each check while ``open`` is set."""

    def __init__(self, checked: Any = "COMMIT_MESSAGE") -> None:
        self.executed: list[Message] = []
        self.checks: list[MessageExt] = []
        self.checked = checked
        self.open = asyncio.Event()
        self.open.set()

    async def execute_local_transaction(self, message: Message, arg: Any) -> Any:
        self.executed.append(message)
        if isinstance(arg, Exception):
            raise arg
        return arg

    async def check_local_transaction(self, message: MessageExt) -> Any:
        self.checks.append(message)
        await self.open.wait()
        return self.checked


def producer_of(cluster: VirtualCluster, listener: Any, **options: Any) -> TransactionMQProducer:
    return TransactionMQProducer("tg", listener, instance=instance_of(cluster), **options)


def test_consumers_get_what_is_committed() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        inbox, listener = Inbox(), Listener()
        async with consumer_of(cluster, inbox, **FIRST), producer_of(cluster, listener) as producer:
            for body, state in ((b"rolled back", "ROLLBACK_MESSAGE"), (b"committed " * 600, "COMMIT_MESSAGE")):
                result = await producer.send_message_in_transaction(Message("orders", body, "A", "7"), state)
                assert (result.send_status, result.local_transaction_state) == ("SEND_OK", state)
                assert listener.executed[-1].transaction_id == result.msg_id
            assert await inbox.until(1) == [b"committed " * 600]
            message = inbox.messages[0]
            assert (message.msg_id, message.transaction_id, message.tags) == (result.msg_id, result.msg_id, "A")
            await producer.send(Message("orders", b"without a transaction"))
            await inbox.until(2)
            await asyncio.sleep(600)
            assert (len(inbox.messages), listener.checks) == (2, [])
        ends = [request.ext_fields["commitOrRollback"] for request in broker.sent(END)]
        assert ends == ["12", "8"] and all(request.is_oneway for request in broker.sent(END))

    run_virtually(story)


@pytest.mark.parametrize("returned", [None, "UNKNOW", "COMMITTED", ValueError("no database")])
def test_the_broker_asks_about_a_transaction_whose_end_is_unknown(
    returned: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        inbox, listener = Inbox(), Listener(checked=None)
        async with consumer_of(cluster, inbox, **FIRST), producer_of(cluster, listener) as producer:
            result = await producer.send_message_in_transaction(Message("orders", b"7", keys="k"), returned)
            assert result.local_transaction_state == "UNKNOW"
            while len(listener.checks) < 2:
                await asyncio.sleep(1)
            assert (broker.sent(END), inbox.messages) == ([], [])
            listener.checked = "COMMIT_MESSAGE"
            assert await inbox.until(1) == [b"7"]
            check = listener.checks[-1]
            assert (check.topic, check.body, check.keys, check.broker_name) == ("orders", b"7", "k", "a")
            assert check.transaction_id == result.msg_id
            await asyncio.sleep(120)
            assert (len(listener.checks), len(broker.sent(END))) == (3, 1)
            assert broker.sent(END)[0].ext_fields["fromTransactionCheck"] == "true"

    run_virtually(story)
    assert ("the transaction listener of group tg failed" in caplog.text) is (returned not in (None, "UNKNOW"))


def test_a_lost_report_is_made_up_for_by_a_check_after_the_brokers_restart() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        inbox, listener = Inbox(), Listener()
        async with consumer_of(cluster, inbox, **FIRST), producer_of(cluster, listener) as producer:
            broker.ignore.add(END)
            await producer.send_message_in_transaction(Message("orders", b"7"), "COMMIT_MESSAGE")
            broker.kill()
            broker.ignore.clear()
            broker.start()
            assert await inbox.until(1) == [b"7"]
            assert len(listener.checks) == 1

    run_virtually(story)


def test_a_broker_that_cannot_be_reached_asks_later(caplog: pytest.LogCaptureFixture) -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)

        class Killer(Listener):
            async def execute_local_transaction(self, message: Message, arg: Any) -> Any:
                broker.kill()
                return "COMMIT_MESSAGE"

        async with producer_of(cluster, Killer()) as producer:
            result = await producer.send_message_in_transaction(Message("orders", b"7"))
            assert result.local_transaction_state == "COMMIT_MESSAGE"
            odd = SendResult("SEND_OK", "M", result.message_queue, 0, "no id")
            await producer.end_transaction(odd, "COMMIT_MESSAGE")

    run_virtually(story)
    assert "was not reported to 127.0.0.1:10911" in caplog.text
    assert "the end of transaction M cannot be reported" in caplog.text


def test_a_half_message_that_is_not_safe_is_rolled_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        listener = Listener()
        async with producer_of(cluster, listener) as producer:
            api = producer.instance.api
            send = api.send_message

            async def unsafe(*args: Any) -> SendResult:
                return (await send(*args))._replace(send_status="FLUSH_DISK_TIMEOUT")

            monkeypatch.setattr(api, "send_message", unsafe)
            result = await producer.send_message_in_transaction(Message("orders", b"7"), "COMMIT_MESSAGE")
            assert (result.send_status, result.local_transaction_state) == ("FLUSH_DISK_TIMEOUT", "ROLLBACK_MESSAGE")
            await asyncio.sleep(0.1)
        assert listener.executed == []
        assert [request.ext_fields["commitOrRollback"] for request in broker.sent(END)] == ["12"]

    run_virtually(story)


def test_a_half_message_that_is_not_stored_begins_no_transaction() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        listener = Listener()
        producer = producer_of(cluster, listener)
        with pytest.raises(MQClientException, match="not running"):
            await producer.send_message_in_transaction(Message("orders", b"7"))
        async with producer:
            with pytest.raises(MQClientException, match="cannot be delayed"):
                await producer.send_message_in_transaction(Message("orders", b"7", delay_level=3))
            with pytest.raises(MQClientException, match="at least one"):
                await producer.send_message_in_transaction(Message("orders", b""))
            broker.refuse[SEND] = 16
            with pytest.raises(MQClientException, match=r"answered NO_PERMISSION \(16\)"):
                await producer.send_message_in_transaction(Message("orders", b"7"))
        assert listener.executed == []

    run_virtually(story)


def test_the_newest_question_counts_and_too_many_are_dropped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(transaction_mq_producer, "MAX_CHECKS", 2)

    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        listener = Listener()
        async with producer_of(cluster, listener) as producer:
            for body in (b"1", b"2", b"3"):
                await producer.send_message_in_transaction(Message("orders", body))
            while len(listener.checks) < 3:
                await asyncio.sleep(1)
            broker.ignore.add(END)
            first, *others = listener.checks
            listener.checks.clear()
            listener.open.clear()
            for message, commit_log_offset in ((first, 1), (first, 2), (others[0], 3), (others[1], 4)):
                header = CheckTransactionStateRequestHeader(0, commit_log_offset)
                producer.check_transaction_state(broker.address, message, header)
            broker.requests.clear()
            await asyncio.sleep(0.1)
            listener.open.set()
            await asyncio.sleep(0.1)
            assert [request.ext_fields["commitLogOffset"] for request in broker.sent(END)] == ["2", "3"]
            assert listener.checks == [first, others[0]]

    run_virtually(story)
    assert "2 checks of group tg wait" in caplog.text


def test_nothing_is_reported_after_shutdown(caplog: pytest.LogCaptureFixture) -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        listener = Listener()
        listener.open.clear()
        producer = producer_of(cluster, listener)
        await producer.start()
        half, _ = await producer.send_half(Message("orders", b"7"))
        while not listener.checks:
            await asyncio.sleep(1)
        await producer.shutdown()  # it does not wait for a check that hangs
        await producer.end_transaction(half, "COMMIT_MESSAGE")
        assert (broker.sent(END), producer.instance.transaction_producers) == ([], {})

    run_virtually(story)
    assert "ended after shutdown()" in caplog.text


def test_plain_functions_are_called_in_threads() -> None:
    threads: list[str] = []

    class Plain:
        def execute_local_transaction(self, message: Message, arg: Any) -> Any:
            threads.append(threading.current_thread().name)
            return arg

        def check_local_transaction(self, message: MessageExt) -> Any:
            raise ValueError("no database")

    async def work() -> list[Any]:
        producer = TransactionMQProducer("tg", Plain(), namesrv_addr="127.0.0.1:9876")
        message = Message("orders", b"7")
        return [
            await producer._state_of(producer.listener.execute_local_transaction, message, "COMMIT_MESSAGE"),
            await producer._state_of(producer.listener.check_local_transaction, message),
        ]

    assert asyncio.run(work()) == ["COMMIT_MESSAGE", "UNKNOW"]
    assert threads[0] != threading.current_thread().name


def test_a_listener_needs_both_methods() -> None:
    with pytest.raises(MQClientException, match="no method execute_local_transaction"):
        TransactionMQProducer("tg", object(), namesrv_addr="127.0.0.1:9876")  # type: ignore[arg-type]
