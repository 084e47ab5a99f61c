"""Checks: the producers of transactions that do not end are asked, so often and no more."""

import pytest

from broker_core import commands as c
from broker_core.events import TransactionChecked, TransactionEnded
from broker_core.formats.commit_log_record import decode
from broker_core.formats.message_properties import decode as properties_of
from broker_core.processors.producers import check_transaction
from tests.fakes.engine import Bench
from tests.fakes.transactions import asked, begin, connect, end, events, ops, pending, seen, settle


def test_a_producer_is_asked_about_a_transaction_that_does_not_end() -> None:
    bench = Bench()
    connect(bench)
    sent = begin(bench, b"body")
    bench.tick(5999)
    assert asked(bench) == []
    bench.tick(30_000)
    (question,) = asked(bench)
    assert (question.topic, question.message_id, question.broker_name) == ("orders", sent.message_id, "broker-a")
    assert question.offset_message_id == sent.offset_message_id
    assert (question.tran_state_table_offset, question.commit_log_offset) == (sent.queue_offset, sent.physical_offset)
    record = decode(question.record)
    assert (record.topic, record.queue_id, record.queue_offset, record.physical_offset) == (
        "orders",
        1,
        sent.queue_offset,
        sent.physical_offset,
    )
    properties = properties_of(record.properties)
    assert record.body == b"body" and properties["PGROUP"] == "pg" and properties["TRANSACTION_CHECK_TIMES"] == "1"
    (event,) = events(bench, TransactionChecked)
    assert (event.client_id, event.checks, event.half_offset) == ("p1", 1, 0)
    end(bench, sent, from_transaction_check=True)
    bench.tick(30_000)
    assert asked(bench) == [] and seen(bench) == [b"body"]


@pytest.mark.covers("transaction-check")
def test_it_is_asked_once_a_round_and_its_offsets_stay_valid() -> None:
    bench = Bench(transaction_check_interval=1000, transaction_time_out=0)
    connect(bench)
    sent = begin(bench)
    bench.tick()
    for _ in range(4):
        bench.tick(1000)
    questions = asked(bench)
    assert len(questions) == 5
    assert {question.commit_log_offset for question in questions} == {sent.physical_offset}
    end(bench, sent)
    assert seen(bench) == [b"x"]


def test_a_transaction_that_nobody_ends_is_given_up() -> None:
    bench = Bench(transaction_check_max=3)
    connect(bench)
    begin(bench, b"body")
    for _ in range(10):
        bench.tick(30_000)
    assert len(asked(bench)) == 3 and pending(bench) == []
    assert seen(bench, check_transaction.CHECK_MAX_TIME_TOPIC, 0) == [b"body"] and seen(bench) == []
    (ended,) = events(bench, TransactionEnded)
    assert (ended.outcome, ended.topic) == ("given_up", "orders") and "3 checks" in ended.reason
    assert bench.engine.counters.transactions_given_up == 1
    settle(bench)
    assert ops(bench) == [b"0,"]


def test_a_kill_after_it_was_given_up_does_not_bring_it_back() -> None:
    bench = Bench(transaction_check_max=0)
    bench.send("orders", b"before it")
    begin(bench)
    bench.tick(30_000)
    assert pending(bench) == []
    bench.files.kill()
    again = Bench(files=bench.files, clock=bench.clock)
    assert pending(again) == []


def test_checks_count_also_without_a_producer() -> None:
    bench = Bench(transaction_check_max=2)
    begin(bench)
    for _ in range(5):
        bench.tick(30_000)
    assert [e.client_id for e in events(bench, TransactionChecked)] == ["", ""] and pending(bench) == []
    assert bench.engine.counters.transactions_checked == 0, "nobody was asked"


def test_the_members_of_a_group_are_asked_in_turn_and_others_never() -> None:
    bench = Bench()
    for number in (1, 2):
        connect(bench, f"p{number}", f"connection {number}")
    connect(bench, "other", "another group", group="pg2")
    begin(bench)
    for _ in range(5):
        bench.tick(30_000)
    assert [len(asked(bench, f"connection {number}")) for number in (1, 2)] == [2, 2]
    assert asked(bench, "another group") == []


@pytest.mark.parametrize(("seconds", "checks"), [("60", 0), ("1", 1), ("x", 1), ("", 1)])
def test_a_message_may_say_when_to_check_it(seconds: str, checks: int) -> None:
    bench = Bench()
    begin(bench, CHECK_IMMUNITY_TIME_IN_SECONDS=seconds)
    bench.tick()
    bench.tick(30_000)
    assert len(events(bench, TransactionChecked)) == checks


def test_a_turn_checks_so_many_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_transaction, "HALVES_A_TURN", 2)
    bench = Bench()
    for _ in range(5):
        begin(bench)
    bench.tick()
    now = bench.clock.advance(30_000)
    counts = []
    while bench.context.store.transactions.to_check or not counts:
        bench.engine.tick(now)
        counts.append(len(events(bench, TransactionChecked)))
    assert counts[:3] == [2, 4, 5]


def test_a_round_sends_no_more_than_a_producer_can_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """A channel with too many unsent bytes is closed, and with it the producer that is asked."""
    monkeypatch.setattr(check_transaction, "HALVES_A_TURN", 2)
    monkeypatch.setattr(check_transaction, "BYTES_A_SECOND", 1000)
    bench = Bench()
    connect(bench)
    for _ in range(5):
        begin(bench, b"x" * 1000)
    bench.tick()
    bench.tick(30_000)
    assert len(asked(bench)) == 2
    bench.tick(1000)
    assert asked(bench) == []
    bench.tick(3000)
    assert len(asked(bench)) == 2
    bench.tick(4000)
    assert len(asked(bench)) == 1


@pytest.mark.parametrize("seconds", ["99999999", ""])
def test_a_half_message_is_given_up_before_its_file_expires(seconds: str) -> None:
    bench = Bench(file_reserved_time=1, transaction_check_max=10_000)
    begin(bench, CHECK_IMMUNITY_TIME_IN_SECONDS=seconds)
    for _ in range(3):
        bench.tick(20 * 60_000 + 1)
    (ended,) = events(bench, TransactionEnded)
    assert ended.outcome == "given_up" and "fileReservedTime" in ended.reason
    assert seen(bench, check_transaction.CHECK_MAX_TIME_TOPIC, 0) == [b"x"]


@pytest.mark.parametrize("interval", [1000, 60_000])
def test_a_shorter_interval_of_checks_begins_at_once(interval: int) -> None:
    bench = Bench(transaction_check_interval=600_000, transaction_time_out=0)
    connect(bench)
    begin(bench)
    bench.tick()
    bench.call(c.UpdateBrokerConfig(changes={"transactionCheckInterval": interval}))
    bench.tick(interval)
    assert len(asked(bench)) == 2


def test_a_half_message_whose_record_is_lost_is_given_up() -> None:
    bench = Bench()
    sent = begin(bench)
    bench.context.store.transactions.pending[0].physical_offset = sent.physical_offset + 1
    bench.tick()
    bench.tick(30_000)
    (ended,) = events(bench, TransactionEnded)
    assert ended.outcome == "given_up" and "missing" in ended.reason and pending(bench) == []


def test_a_full_disk_does_not_give_up() -> None:
    bench = Bench(transaction_check_max=0)
    begin(bench)
    bench.engine.flush_failed(OSError("the disk is broken"), bench.clock.now())
    bench.tick()
    bench.tick(30_000)
    assert pending(bench) == [0] and events(bench, TransactionEnded) == []


def test_nothing_is_asked_while_the_broker_stops() -> None:
    bench = Bench()
    connect(bench)
    begin(bench)
    bench.take(bench.engine.drain(bench.clock.now()))
    bench.tick(60_000)
    assert asked(bench) == []


def test_a_client_that_is_not_of_rocketmqs_protocol_is_not_asked() -> None:
    bench = Bench()
    bench.submit(c.OpenConnection(client_id="w", protocol="websocket"), connection="w")
    bench.call(c.HeartBeat(client_id="w", protocol="websocket", producer_groups=["pg"]), connection="w")
    begin(bench)
    bench.tick()
    bench.tick(30_000)
    assert asked(bench, "w") == []
    assert [e.client_id for e in events(bench, TransactionChecked)] == [""]
