"""The end of a transaction: once, by its producer group, and never lost or repeated by a crash."""

from errno import EIO
from random import Random
from typing import Any

import pytest

from broker_core import commands as c
from broker_core.clock import Now
from broker_core.errors import RequestError
from broker_core.events import TransactionEnded
from broker_core.formats.commit_log_record import decode
from broker_core.formats.message_properties import decode as properties_of
from broker_core.processors.producers.half_message import GROUP
from broker_core.store.commit_log import Batch, PendingMessage
from broker_core.store.transactional_message_service import ENDED_AT_ONCE, HALF_TOPIC, OP_TOPIC
from tests.fakes.engine import Bench, bodies
from tests.fakes.simulated_files import SimulatedFiles
from tests.fakes.transactions import (
    asked,
    begin,
    connect,
    end,
    ending,
    events,
    half,
    ops,
    pending,
    refused,
    seen,
    settle,
)


def outcomes(bench: Bench) -> list[str]:
    return [event.outcome for event in events(bench, TransactionEnded)]


def progress(bench: Bench) -> tuple[int | None, int | None]:
    """The offsets of both queues, as consumerOffset.json has them."""
    return tuple(bench.context.offsets.query(GROUP, topic, 0) for topic in (HALF_TOPIC, OP_TOPIC))  # type: ignore[return-value]


def test_a_commit_shows_the_message_in_its_own_queue() -> None:
    bench = Bench()
    sent = begin(bench, b"body", TAGS="a")
    waiting = bench.pull("orders", 0, queue_id=1)
    end(bench, sent)
    data = bench.pulled(waiting).records
    record = decode(data)
    assert (record.topic, record.queue_id, record.queue_offset, record.body) == ("orders", 1, 0, b"body")
    assert (record.sys_flag, record.prepared_transaction_offset) == (8, sent.physical_offset)
    properties = properties_of(record.properties)
    assert properties["TRAN_MSG"] == "true" and properties["__transactionId__"] == sent.message_id
    assert not {"REAL_TOPIC", "REAL_QID"} & set(properties)
    assert outcomes(bench) == ["committed"] and pending(bench) == []
    assert bench.engine.counters.transactions_committed == 1


def test_a_rollback_shows_nothing() -> None:
    bench = Bench()
    end(bench, begin(bench), "rollback")
    assert seen(bench) == [] and pending(bench) == []
    assert outcomes(bench) == ["rolled_back"] and bench.engine.counters.transactions_rolled_back == 1


def test_a_producer_that_does_not_know_yet_ends_nothing() -> None:
    bench = Bench()
    end(bench, begin(bench), "unknown")
    assert pending(bench) == [0] and outcomes(bench) == []


def test_the_ends_of_a_batch_are_stored_as_one_block_and_each_transaction_ends_once() -> None:
    bench = Bench()
    first, second, third = begin(bench, b"1"), begin(bench, b"2"), begin(bench, b"3")
    waiting = bench.pull("orders", 0, queue_id=1)
    commands = [ending(first), ending(second, "rollback"), ending(third), ending(first), ending(second)]
    replies = [bench.final(request) for request in bench.submit(*commands)]
    assert replies[:3] == [c.Done()] * 3
    assert all(isinstance(reply, c.Failed) and "ended already" in reply.remark for reply in replies[3:]), replies
    assert bodies(bench.pulled(waiting)) == [b"1", b"3"], "one arrival"
    assert outcomes(bench) == ["committed", "rolled_back", "committed"] and pending(bench) == []


def test_a_commit_that_cannot_be_stored_does_not_refuse_others(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    first, second = begin(bench, b"1"), begin(bench, b"2")
    append = bench.context.store.append

    def broken(messages: list[PendingMessage], now: Now) -> Batch:
        if any(message.body == b"1" for message in messages):
            raise RequestError("too long")
        return append(messages, now)

    monkeypatch.setattr(bench.context.store, "append", broken)
    replies = [bench.final(request) for request in bench.submit(ending(first), ending(second))]
    assert isinstance(replies[0], c.Failed) and replies[1] == c.Done()
    assert seen(bench) == [b"2"] and pending(bench) == [0]


@pytest.mark.parametrize("first", ["commit", "rollback"])
@pytest.mark.parametrize("second", ["commit", "rollback"])
@pytest.mark.covers("transaction-twice")
def test_a_transaction_ends_once(first: str, second: str) -> None:
    bench = Bench()
    sent = begin(bench)
    end(bench, sent, first)
    failed = refused(bench, ending(sent, second))
    assert failed.code == 1 and "ended already" in failed.remark
    assert seen(bench) == ([b"x"] if first == "commit" else [])


@pytest.mark.parametrize(
    ("lie", "remark"),
    [
        ({"producer_group": "other"}, "not of producer group"),
        ({"tran_state_table_offset": 1}, "at offset 0 of its queue"),
        ({"tran_state_table_offset": -1}, "at offset 0 of its queue"),
        ({"commit_log_offset": -1}, "no half message"),
        ({"commit_log_offset": 1}, "no half message"),
        ({"commit_log_offset": 1 << 62}, "no half message"),
    ],
)
@pytest.mark.parametrize("decision", ["commit", "rollback"])
def test_an_end_with_lies_ends_nothing(lie: dict[str, Any], remark: str, decision: str) -> None:
    bench = Bench()
    sent = begin(bench)
    failed = refused(bench, ending(sent, decision, **lie))
    assert failed.code == 1 and remark in failed.remark
    assert pending(bench) == [0] and seen(bench) == []


def test_what_is_no_half_message_cannot_be_ended() -> None:
    bench = Bench()
    plain = bench.send("orders", b"plain", queue_id=1).messages[0]
    assert refused(bench, ending(plain)).code == 1
    sent = begin(bench)
    end(bench, sent)
    copy = c.SentMessage(
        message_id="", offset_message_id="", queue_id=1, queue_offset=1, physical_offset=0, store_time_ms=0
    )
    assert refused(bench, ending(copy)).code == 1
    assert seen(bench) == [b"plain", b"x"]


def test_an_end_after_the_time_that_the_message_allows_is_refused_unless_it_answers_a_check() -> None:
    bench = Bench()
    sent = begin(bench, born=bench.clock.now().wall_ms, CHECK_IMMUNITY_TIME_IN_SECONDS="5")
    bench.clock.advance(5001)
    assert refused(bench, ending(sent)).code == 604
    assert refused(bench, ending(sent, "rollback")).code == 604
    end(bench, sent, from_transaction_check=True)
    assert seen(bench) == [b"x"]


@pytest.mark.covers("transaction-delay")
def test_a_commit_of_a_delayed_message_begins_its_delay() -> None:
    bench = Bench()
    end(bench, begin(bench, DELAY="1"))
    assert seen(bench) == []
    bench.tick(1000)
    assert seen(bench) == [b"x"]


def test_a_topic_that_was_deleted_meanwhile_is_created_again() -> None:
    bench = Bench()
    sent = begin(bench)
    bench.call(c.DeleteTopic(topic="orders"))
    end(bench, sent)
    assert seen(bench) == [b"x"]


def test_no_transaction_ends_while_the_broker_stops() -> None:
    bench = Bench()
    sent = begin(bench)
    bench.take(bench.engine.drain(bench.clock.now()))
    assert refused(bench, ending(sent)).code == 14


def test_under_sync_flush_an_end_is_acknowledged_when_it_is_on_the_disk() -> None:
    bench = Bench(flush_disk_type="SYNC_FLUSH")
    requests = bench.submit(half(b"1"), half(b"2"))
    bench.flush()
    first, second = [bench.final(request).messages[0] for request in requests]  # type: ignore[union-attr]
    ends = [*bench.submit(ending(first)), *bench.submit(ending(second, "rollback"))]
    assert [bench.final(request) for request in ends] == [None, None]
    bench.flush()
    assert [bench.final(request) for request in ends] == [c.Done(), c.Done()] and seen(bench) == [b"1"]


def test_a_disk_error_at_the_stop_does_not_lose_offsets() -> None:
    bench = Bench()
    end(bench, begin(bench))
    bench.call(c.UpdateConsumerOffset(group="g", offsets=[c.QueueOffset(topic="orders", queue_id=1, offset=1)]))
    bench.files.fail("flush", 1, EIO)
    bench.take(bench.engine.close(bench.clock.now()))
    bench.files.mend()
    assert again(bench).context.offsets.query("g", "orders", 1) == 1


def test_a_commit_that_the_store_refuses_leaves_the_transaction_pending() -> None:
    bench = Bench()
    sent = begin(bench)
    bench.engine.flush_failed(OSError("the disk is broken"), bench.clock.now())
    assert refused(bench, ending(sent)).code == 14
    assert pending(bench) == [0] and outcomes(bench) == []


# --- Op messages -----------------------------------------------------------------------------------------------------


def test_an_op_message_lists_what_ended_within_three_seconds() -> None:
    bench = Bench()
    sents = [begin(bench, b"%d" % number) for number in range(4)]
    for sent, decision in zip(sents, ("commit", "rollback", "unknown", "commit"), strict=True):
        end(bench, sent, decision)
    bench.clock.advance(1000)
    assert bench.flush()
    bench.tick()
    assert ops(bench) == [b"1,"], "more may be committed within 3 seconds"
    settle(bench)
    assert ops(bench) == [b"1,", b"0,3,"] and progress(bench) == (2, 1)
    end(bench, sents[2])
    settle(bench)
    assert ops(bench) == [b"1,", b"0,3,", b"2,"] and progress(bench) == (4, 3)
    reply = bench.call(c.PullMessage(topic=OP_TOPIC, queue_id=0, queue_offset=0))
    assert isinstance(reply, c.Pulled)
    assert properties_of(decode(reply.records).properties) == {"WAIT": "true", "TAGS": "d"}


def test_no_op_message_is_stored_before_its_copies_are_on_the_disk() -> None:
    """Otherwise a power cut could lose the copy and keep the op message: nobody would ask the producer again."""
    bench = Bench()
    end(bench, begin(bench))
    bench.tick(10_000)
    assert ops(bench) == []
    assert bench.flush()
    bench.tick()
    assert ops(bench) == [b"0,"]


def test_very_many_ends_do_not_wait_and_op_messages_are_short() -> None:
    bench = Bench()
    sents = [begin(bench) for _ in range(ENDED_AT_ONCE * 3)]
    for sent in sents:
        end(bench, sent)
    bench.clock.advance(1000)
    assert bench.flush()
    bench.tick()
    listed = ops(bench)
    assert b"".join(listed) == b"".join(b"%d," % number for number in range(len(sents)))
    assert len(listed) > 1 and max(map(len, listed)) <= 4096


# --- Starts and crashes ----------------------------------------------------------------------------------------------


def again(bench: Bench) -> Bench:
    return Bench(files=bench.files, clock=bench.clock, **OPTIONS)


OPTIONS: dict[str, Any] = {"flush_disk_type": "ASYNC_FLUSH"}


def test_a_clean_start_goes_on_and_says_how_many_are_pending() -> None:
    bench = Bench()
    sents = [begin(bench, b"%d" % number) for number in range(3)]
    end(bench, sents[1])
    bench.engine.close(bench.clock.now())
    bench = again(bench)
    assert ops(bench) == [b"1,"] and pending(bench) == [0, 2]
    assert ("transactions", "2 half messages wait for their transactions to end") in bench.context.store.recovery_steps
    end(bench, sents[0], "rollback")
    end(bench, sents[2])
    assert seen(bench) == [b"1", b"2"]
    bench.engine.close(bench.clock.now())
    bench = again(bench)
    assert pending(bench) == [] and progress(bench) == (3, 3)


def test_a_rollback_that_was_answered_survives_a_kill() -> None:
    bench = Bench()
    sents = [begin(bench, b"%d" % number) for number in range(2)]
    end(bench, sents[0], "rollback")
    bench.files.kill()
    bench = again(bench)
    assert pending(bench) == [1] and ops(bench) == [b"0,"]
    assert "ended already" in refused(bench, ending(sents[0])).remark


@pytest.mark.parametrize("seed", range(8))
def test_the_op_message_of_a_lost_half_message_ends_no_later_one(seed: int) -> None:
    """The next half message gets the same offset. The op message may have survived, and the written tables have."""
    bench = Bench(seed=seed)
    end(bench, begin(bench))
    bench.clock.advance(1000)
    bench.flush()
    end(bench, begin(bench), "rollback")
    end(bench, begin(bench), "rollback")
    bench.tick(10_000)
    bench.file_work()
    bench.files.crash()
    bench = again(bench)
    later = [begin(bench) for _ in range(2)]
    bench.files.kill()
    bench = again(bench)
    assert pending(bench) == [sent.queue_offset for sent in later]


def test_many_rollbacks_of_a_batch_are_short_op_messages() -> None:
    bench = Bench()
    sents = [begin(bench) for _ in range(1500)]
    bench.submit(*(ending(sent, "rollback") for sent in sents))
    listed = ops(bench)
    assert b"".join(listed) == b"".join(b"%d," % number for number in range(len(sents)))
    assert len(listed) == 2 and max(map(len, listed)) <= 4096 and pending(bench) == []
    bench.take(bench.engine.close(bench.clock.now()))
    assert progress(again(bench)) == (1500, 2)


def test_a_kill_between_the_copy_and_its_op_message_commits_nothing_twice() -> None:
    bench = Bench()
    sents = [begin(bench, b"%d" % number) for number in range(3)]
    end(bench, sents[0])
    bench.files.kill()
    bench = again(bench)
    assert pending(bench) == [1, 2]
    assert "ended already" in refused(bench, ending(sents[0])).remark
    assert seen(bench) == [b"0"]
    settle(bench)
    assert ops(bench) == [b"0,"]


def test_transactions_are_loaded_when_a_postponed_recovery_ends() -> None:
    bench = Bench()
    sent = begin(bench)
    bench.send("other", b"x")
    bench.files.kill()
    for path in [path for path in bench.files._names if "consumequeue" in str(path)]:
        del bench.files._names[path]  # so that recovery needs space
    bench.files.full = True
    bench = again(bench)
    assert not bench.context.store.transactions.loaded
    failed = refused(bench, ending(sent))
    assert failed.kind == "unavailable" and "recovery" in failed.remark
    bench.files.full = False
    connect(bench)
    for _ in range(100):
        bench.tick(1000)
    assert pending(bench) == [0] and len(asked(bench)) == 3
    end(bench, sent)
    assert seen(bench) == [b"x"]


class Transactions:
    """Random transactions of a broker on faulty files, and what their producer knows."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.number = 0
        self.waiting: dict[int, bytes] = {}
        self.open: dict[bytes, c.SentMessage] = {}
        self.sent: dict[bytes, c.SentMessage] = {}
        self.ended: dict[bytes, str] = {}
        self.ending: dict[int, bytes] = {}
        self.confirmed: set[bytes] = set()
        self.bench = Bench(files=SimulatedFiles(Random(seed + 1)), flush_disk_type="SYNC_FLUSH")

    def begin(self) -> None:
        self.number += 1
        body = b"%d" % self.number
        (request_id,) = self.bench.submit(half(body))
        self.waiting[request_id] = body
        self.hear()

    def hear(self) -> None:
        for request_id, body in list(self.waiting.items()):
            reply = self.bench.final(request_id)
            if isinstance(reply, c.Sent) and reply.code == 0:  # else it was not on the disk in time
                self.open[body] = self.sent[body] = reply.messages[0]
                del self.waiting[request_id]
        for request_id, body in list(self.ending.items()):
            if self.bench.final(request_id) == c.Done():
                self.confirmed.add(body)
                del self.ending[request_id]

    def end(self) -> None:
        if self.open:
            body = self.chance.choice(list(self.open))
            self.ended[body] = self.chance.choice(("commit", "rollback"))
            (request_id,) = self.bench.submit(ending(self.open.pop(body), self.ended[body]))
            self.ending[request_id] = body
            self.hear()

    def flush(self) -> None:
        self.bench.clock.advance(1000)
        self.bench.flush()
        self.hear()

    def wait(self) -> None:
        self.bench.tick(self.chance.choice((10, 1000, 4000)))
        self.bench.file_work()
        self.hear()

    def kill(self) -> None:
        self.bench.files.kill()
        self.start(lost=False)

    def power_cut(self) -> None:
        self.bench.files.crash()
        self.start(lost=True)

    def restart(self) -> None:
        self.bench.take(self.bench.engine.close(self.bench.clock.now()))
        self.hear()
        self.start(lost=False)

    def start(self, *, lost: bool) -> None:
        self.waiting.clear()
        self.ending.clear()
        self.bench = Bench(files=self.bench.files, clock=self.bench.clock, flush_disk_type="SYNC_FLUSH")
        while self.bench.flush():
            pass
        self.bench.tick()
        bodies = seen(self.bench)
        assert len(bodies) == len(set(bodies)), "a message was committed twice"
        assert not {body for body in bodies if self.ended.get(body) != "commit"}, "seen without a commit"
        still = {self.body_of(offset) for offset in pending(self.bench)}
        assert still.isdisjoint(bodies), "a committed half message is pending"
        assert set(self.open) <= still, "a half message that was acknowledged is lost"
        for body, decision in list(self.ended.items()):
            if body in still:  # the producer is asked again
                assert lost and body not in self.confirmed, f"a {decision} is lost"
                self.confirmed.discard(body)
                del self.ended[body]
                self.open[body] = self.sent[body]
            else:
                assert (body in bodies) == (decision == "commit"), "a commit is lost, and so is its half message"

    def body_of(self, offset: int) -> bytes:
        waiting = self.bench.context.store.transactions.pending[offset]
        data = self.bench.context.store.look_message_by_offset(waiting.physical_offset)
        assert data is not None
        return decode(data).body


@pytest.mark.parametrize("seed", range(12))
def test_crashes_lose_no_half_message_and_commit_nothing_twice(seed: int) -> None:
    work = Transactions(seed)
    steps = [work.begin] * 8 + [work.end] * 6 + [work.flush] * 5 + [work.wait] * 3
    steps += [work.kill, work.power_cut, work.restart]
    for _ in range(150):
        work.chance.choice(steps)()
    work.kill()
    assert work.number > 20 and len(work.ended) > 5


def test_the_time_line_of_a_message_shows_its_transaction() -> None:
    bench = Bench()
    sent = begin(bench)
    end(bench, sent)
    timeline = bench.call(c.GetMessageTimeline(message_id=sent.message_id, topic="orders"))
    assert isinstance(timeline, c.Timeline) and timeline.complete
    kinds = [event["type"] for event in timeline.events]
    assert kinds == [
        "messages_stored",
        "half_message_stored",
        "messages_dispatched",
        "messages_stored",
        "messages_dispatched",
        "transaction_ended",
    ]


@pytest.mark.parametrize("decision", ["unknown", "rollback"])
def test_the_time_line_of_a_message_that_is_not_committed_shows_its_transaction(decision: str) -> None:
    bench = Bench()
    sent = begin(bench)
    end(bench, sent, decision)
    timeline = bench.call(c.GetMessageTimeline(message_id=sent.message_id, topic="orders"))
    assert isinstance(timeline, c.Timeline) and timeline.topic == HALF_TOPIC
    assert ("transaction_ended" in [event["type"] for event in timeline.events]) == (decision == "rollback")
    assert refused(bench, c.GetMessageTimeline(message_id=sent.message_id, topic="other")).code == 22
