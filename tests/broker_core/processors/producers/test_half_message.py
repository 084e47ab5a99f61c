"""Half messages: what is one, where it waits, and that no consumer sees it."""

import pytest

from broker_core import commands as c
from broker_core.events import HalfMessageStored
from broker_core.formats.commit_log_record import decode
from broker_core.formats.message_properties import decode as properties_of
from broker_core.processors.producers import half_message
from broker_core.store.transactional_message_service import HALF_TOPIC
from tests.fakes.engine import Bench
from tests.fakes.transactions import begin, end, events, half, pending, refused, seen, settle


def test_a_half_message_waits_in_its_own_topic_and_no_consumer_sees_it() -> None:
    bench = Bench()
    sent = begin(bench, b"body", KEYS="k")
    assert (sent.queue_id, sent.queue_offset) == (1, 0), "the real queue, and the offset in the half queue"
    assert seen(bench) == [] and bench.context.store.max_offset("orders", 1) == 0
    data = bench.context.store.look_message_by_offset(sent.physical_offset)
    assert data is not None
    record = decode(data)
    assert (record.topic, record.queue_id, record.sys_flag, record.body) == (HALF_TOPIC, 0, 0, b"body")
    assert properties_of(record.properties) == {
        "TRAN_MSG": "true",
        "PGROUP": "pg",
        "KEYS": "k",
        "UNIQ_KEY": sent.message_id,
        "__transactionId__": sent.message_id,
        "REAL_TOPIC": "orders",
        "REAL_QID": "1",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "CLUSTER": "DefaultCluster",
    }
    (event,) = events(bench, HalfMessageStored)
    assert (event.topic, event.message_id, event.producer_group, event.half_offset) == (
        "orders",
        sent.message_id,
        "pg",
        0,
    )
    counters = bench.engine.counters
    assert (counters.half_messages_stored, counters.transactions_pending_now) == (1, 1)


@pytest.mark.covers("transaction-flag")
def test_the_property_decides_not_the_flag() -> None:
    bench = Bench()
    begin(bench, sys_flag=0)
    assert pending(bench) == [0] and seen(bench) == []
    assert refused(bench, half(TRAN_MSG="", sys_flag=4)).code == 13
    assert refused(bench, half(TRAN_MSG="false", sys_flag=12)).code == 13
    bench.call(half(b"plain", TRAN_MSG="false", sys_flag=0))
    assert pending(bench) == [0] and seen(bench) == [b"plain"]


def test_half_messages_of_one_batch_of_commands() -> None:
    bench = Bench()
    bench.submit(half(b"1"), half(b"2", topic="other"), half(b"3"))
    assert pending(bench) == [0, 1, 2]
    assert [e.topic for e in events(bench, HalfMessageStored)] == ["orders", "other", "orders"]


def test_a_broker_may_refuse_transactions() -> None:
    assert refused(Bench(reject_transaction_message=True), half()).code == 16


@pytest.mark.covers("transaction-group")
def test_a_half_message_without_a_producer_group_is_refused() -> None:
    assert refused(Bench(), half(PGROUP="")).code == 13


def test_a_batch_is_no_transaction() -> None:
    command = half()
    both = c.SendMessage(topic="orders", messages=command.messages * 2)
    bench = Bench()
    assert refused(bench, both).code == 13 and pending(bench) == []


def test_the_number_of_pending_transactions_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_message, "MAX_PENDING", 1)
    bench = Bench()
    sent = begin(bench)
    assert refused(bench, half()).code == 2
    end(bench, sent)
    begin(bench)


@pytest.mark.parametrize("sys_flag", [0, 4])
def test_an_old_client_that_sends_a_message_of_a_transaction_back(sys_flag: int) -> None:
    """RocketMQ's clients before 4.6.1 leave TRAN_MSG in it."""
    bench = Bench()
    message = half(DELAY="3").messages[0]
    again = c.OutgoingMessage(
        body=b"again", properties=message.properties, queue_id=0, reconsume_times=1, sys_flag=sys_flag
    )
    bench.call(c.SendMessage(topic="%RETRY%g", messages=[again]))
    assert pending(bench) == [] and bench.engine.counters.messages_delayed == 1
    bench.tick(10_000)
    assert seen(bench, "%RETRY%g", 0) == [b"again"]


@pytest.mark.parametrize("delay", [{"DELAY": "abc"}, {"TIMER_DELAY_SEC": "soon"}, {"TIMER_DELAY_SEC": "259201"}])
def test_a_half_message_whose_commit_would_be_refused_for_its_delay_is_refused(delay: dict[str, str]) -> None:
    bench = Bench()
    failed = refused(bench, half(**delay))
    assert failed.pointer.startswith("/messages/0/properties") and pending(bench) == []


def test_the_brokers_own_group_is_not_among_those_that_stand_still() -> None:
    bench = Bench()
    end(bench, begin(bench))
    begin(bench)
    settle(bench)
    assert half_message.GROUP in bench.context.offsets.groups()
    groups = bench.call(c.GetConsumerGroups())
    assert isinstance(groups, c.ConsumerGroups) and groups.groups == []
