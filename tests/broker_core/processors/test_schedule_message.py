"""Delayed messages: put aside, and there when they are due, not before and not after."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_core import commands as c
from broker_core.codes import ResponseCode
from broker_core.engine import Engine
from broker_core.events import DelayedMessagesLost, DelayElapsed, Event, MessagesDelayed, TopicChanged
from broker_core.formats import rocketmq_json
from broker_core.formats.commit_log_record import CommitLogRecord, decode_all
from broker_core.formats.message_properties import decode, encode, find
from broker_core.options import Options
from broker_core.processors import schedule_message
from broker_core.store.delay_level import SCHEDULE_TOPIC, DelayLevels
from broker_core.store.files import RealFiles
from broker_core.store.message_store import MessageStore, PendingMessage
from tests.fakes.clock import VirtualClock
from tests.fakes.engine import ROOT, Bench, bodies, context_of, records, send
from tests.fakes.golden_store import STORES, unpack

LEVELS = DelayLevels(Options().message_delay_level).ms


def delayed(topic: str, body: bytes, level: Any, queue_id: int = 0, **properties: str) -> c.SendMessage:
    return send(topic, body, queue_id=queue_id, properties=encode({"DELAY": str(level)} | properties))


def content(bench: Bench, topic: str, queue_id: int = 0) -> list[CommitLogRecord]:
    """All messages of a queue."""
    found: list[CommitLogRecord] = []
    store = bench.context.store
    while len(found) < store.max_offset(topic, queue_id):
        found += records(bench.pulled(bench.pull(topic, len(found), queue_id=queue_id, suspend_timeout_ms=0)))
    return found


def read(bench: Bench, topic: str = "orders", queue_id: int = 0) -> list[bytes]:
    return [record.body for record in content(bench, topic, queue_id)]


def events(bench: Bench, kind: type[Event]) -> list[Any]:
    return list(bench.engine.events.after(0, kind))


@pytest.mark.parametrize("level", range(1, 19))
@pytest.mark.covers("delay-due")
def test_every_level_delivers_to_the_millisecond(level: int) -> None:
    bench = Bench()
    bench.call(delayed("orders", b"x", level))
    bench.tick(LEVELS[level - 1] - 1)
    assert read(bench) == []
    bench.tick(1)
    assert read(bench) == [b"x"]


def test_the_answer_is_rocketmqs() -> None:
    bench = Bench()
    bench.call(delayed("orders", b"0", 3, queue_id=1))
    sent = bench.call(delayed("orders", b"1", 3, queue_id=2))
    assert isinstance(sent, c.Sent) and sent.topic == "orders"
    (message,) = sent.messages
    assert (message.queue_id, message.queue_offset) == (2, 1)  # the queue is the real one, the offset the level's
    (_, stored) = content(bench, SCHEDULE_TOPIC, 2)
    assert stored.physical_offset == message.physical_offset


def test_a_delivered_message_equals_the_sent_one() -> None:
    bench = Bench()
    bench.call(
        c.SendMessage(
            topic="orders",
            born_host="10.1.2.3",
            born_port=4711,
            messages=[
                c.OutgoingMessage(
                    body=b"x",
                    properties=encode({"DELAY": "1", "TAGS": "A", "KEYS": "k", "WAIT": "true", "mine": "1"}),
                    queue_id=3,
                    flag=7,
                    sys_flag=0x301,
                    born_timestamp=99,
                    reconsume_times=2,
                )
            ],
        )
    )
    bench.tick(1000)
    (record,) = content(bench, "orders", 3)
    assert (
        record.body,
        record.flag,
        record.sys_flag,
        record.born_timestamp,
        record.born_host,
        record.born_port,
        record.reconsume_times,
    ) == (b"x", 7, 0x301, 99, "10.1.2.3", 4711, 2)
    assert record.store_timestamp == bench.clock.now().wall_ms
    (aside,) = content(bench, SCHEDULE_TOPIC, 0)
    assert record.properties == aside.properties
    assert decode(record.properties) | {"UNIQ_KEY": ""} == {
        "DELAY": "1",
        "TAGS": "A",
        "KEYS": "k",
        "WAIT": "true",
        "mine": "1",
        "UNIQ_KEY": "",
        "CLUSTER": "DefaultCluster",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "REAL_TOPIC": "orders",
        "REAL_QID": "3",
    }
    assert bodies(bench.pulled(bench.pull("orders", 0, queue_id=3, subscription="A"))) == [b"x"]


def test_a_held_pull_wakes_when_the_delay_is_over() -> None:
    bench = Bench()
    bench.send("orders", b"0")
    pull = bench.pull("orders", 1)
    bench.call(delayed("orders", b"1", 2))
    bench.tick(4999)
    assert bench.final(pull) is None
    bench.tick(1)
    pulled = bench.pulled(pull)
    assert bodies(pulled) == [b"1"] and pulled.hold is not None and pulled.hold.wake_cause == "arrival"


@pytest.mark.parametrize(("value", "level"), [("18", 18), ("19", 18), ("2147483647", 18), ("+2", 2), ("01", 1)])
def test_levels_above_the_last_are_the_last(value: str, level: int) -> None:
    bench = Bench()
    bench.call(delayed("orders", b"x", value))
    (record,) = content(bench, SCHEDULE_TOPIC, level - 1)
    assert find(record.properties, "DELAY") == str(level)


@pytest.mark.parametrize("value", ["0", "-1"])
def test_level_0_is_no_delay(value: str) -> None:
    bench = Bench()
    bench.call(delayed("orders", b"x", value))
    assert read(bench) == [b"x"]


def test_the_levels_are_an_option() -> None:
    bench = Bench(message_delay_level="2s 1m")
    bench.call(delayed("orders", b"1", 1))
    bench.call(delayed("orders", b"2", 2))
    bench.call(delayed("orders", b"3", 18))
    bench.tick(2000)
    assert read(bench) == [b"1"]
    bench.tick(58_000)
    assert read(bench) == [b"1", b"2", b"3"]


def test_a_delay_level_wins_over_a_time_and_a_clients_own_real_topic_counts_for_nothing() -> None:
    bench = Bench()
    bench.call(delayed("orders", b"x", 1, TIMER_DELIVER_MS="1", TIMER_DELAY_SEC="7", REAL_TOPIC="theirs", REAL_QID="9"))
    bench.tick(1000)
    (record,) = content(bench, "orders")
    assert "TIMER" not in record.properties and record.properties.count("REAL_TOPIC") == 1


@pytest.mark.parametrize(
    ("level", "more"), [("soon", {}), ("1.5", {}), ("99999999999", {}), ("soon", {"TIMER_DELAY_SEC": "1"})]
)
def test_invalid_delays_are_refused(level: str, more: dict[str, str]) -> None:
    bench = Bench()
    reply = bench.call(send("orders", b"x", properties=encode({"DELAY": level} | more)))
    assert isinstance(reply, c.Failed) and "DELAY" in reply.remark
    assert (reply.code, reply.pointer) == (ResponseCode.MESSAGE_ILLEGAL, "/messages/0/properties")


def test_a_batch_with_a_delayed_message_is_refused_whole() -> None:
    bench = Bench()
    reply = bench.call(
        c.SendMessage(
            topic="orders",
            messages=[c.OutgoingMessage(body=b"1"), c.OutgoingMessage(body=b"2", properties=encode({"DELAY": "1"}))],
        )
    )
    assert isinstance(reply, c.Failed)
    assert (reply.code, reply.pointer) == (ResponseCode.MESSAGE_ILLEGAL, "/messages/1/properties")
    bench.tick(2000)
    assert bench.context.store.queues() == []


def test_properties_similar_to_delay_do_not_delay() -> None:
    bench = Bench()
    bench.send("orders", b"x", b"y", properties=encode({"KEYS": "MODEL-1", "MYDELAY": "3", "DELAYED": "1"}))
    assert read(bench) == [b"x", b"y"]


def test_events_and_totals() -> None:
    bench = Bench()
    bench.submit(delayed("orders", b"1", 1), delayed("others", b"2", 1), delayed("orders", b"3", 2))
    now = bench.clock.now().wall_ms
    assert [(e.level, e.from_offset, e.to_offset, e.deliver_ms) for e in events(bench, MessagesDelayed)] == [
        (1, 0, 2, now + 1000),
        (2, 0, 1, now + 5000),
    ]
    bench.clock.advance(1250)  # a turn that comes late
    bench.tick()
    assert [(e.level, e.from_offset, e.to_offset, e.late_ms) for e in events(bench, DelayElapsed)] == [(1, 0, 2, 250)]
    counters = bench.engine.counters
    assert (counters.messages_delayed, counters.delays_elapsed) == (3, 2)


# --- Many ---


def test_thousands_at_once_come_in_order_over_many_turns() -> None:
    bench = Bench()
    count = 2500
    bench.submit(*(delayed("orders", b"%d" % n, 1, queue_id=n % 4) for n in range(count)))
    bench.clock.advance(1000)
    turns = 0
    while (due := bench.engine.next_deadline()) is not None and due <= bench.clock.now().mono_ns:
        before = bench.engine.counters.delays_elapsed
        bench.take(bench.engine.tick(bench.clock.now()))
        assert bench.engine.counters.delays_elapsed - before <= schedule_message.MESSAGES_A_TURN
        turns += 1
    assert turns >= count // schedule_message.MESSAGES_A_TURN
    for queue_id in range(4):
        assert read(bench, queue_id=queue_id) == [b"%d" % n for n in range(queue_id, count, 4)]


def test_a_turn_takes_no_more_bytes_than_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule_message, "BYTES_A_TURN", 10_000)
    bench = Bench()
    bench.submit(*(delayed("orders", b"x" * 6000, 1) for _ in range(6)))
    bench.take(bench.engine.tick(bench.clock.advance(1000)))
    assert bench.engine.counters.delays_elapsed == 2
    bench.tick()
    assert len(read(bench)) == 6


def test_levels_that_are_due_together_come_by_their_times() -> None:
    bench = Bench()
    bench.call(delayed("orders", b"4", 2))
    bench.tick(100)
    bench.call(delayed("orders", b"5", 2))
    bench.tick(3850)
    bench.call(delayed("orders", b"3", 1))
    bench.clock.advance(60_000)
    bench.tick()
    assert read(bench) == [b"3", b"4", b"5"]


deliveries = st.lists(
    st.tuples(st.integers(1, 18), st.integers(0, 3), st.sampled_from([0, 1, 700, 30_000, 4_000_000])), max_size=25
)


@settings(max_examples=60, deadline=None)
@given(deliveries, st.lists(st.integers(1, 5_000_000), max_size=12))
def test_exactly_the_due_messages_are_delivered_at_every_moment(
    plan: list[tuple[int, int, int]], looks: list[int]
) -> None:
    bench = Bench()
    expected: list[tuple[int, int, bytes]] = []  # (when, queue, body)
    begin = bench.clock.now().wall_ms
    for number, (level, queue_id, pause) in enumerate(plan):
        bench.tick(pause)
        bench.call(delayed("orders", b"%d" % number, level, queue_id=queue_id))
        expected.append((bench.clock.now().wall_ms + LEVELS[level - 1], queue_id, b"%d" % number))
    for pause in [*looks, 7_200_000]:
        now = bench.tick(pause)
        for queue_id in range(4):
            there = [body for when, queue, body in expected if queue == queue_id and when <= now.wall_ms]
            assert sorted(read(bench, queue_id=queue_id) if expected else []) == sorted(there)
    assert bench.clock.now().wall_ms >= begin
    assert bench.context.store.delayed.next_deadline_ns is None
    for record in [record for queue_id in range(4) for record in (content(bench, "orders", queue_id) if plan else [])]:
        number = int(record.body)
        assert record.store_timestamp >= expected[number][0]


# --- The clock ---


def test_a_clock_that_is_set_forward_delivers_within_a_second() -> None:
    bench = Bench()
    bench.call(delayed("orders", b"x", 18))
    bench.tick(10_000)
    bench.clock.step_wall(7_200_000)
    bench.tick(1000)
    assert read(bench) == [b"x"]


def test_a_clock_that_is_set_back_delivers_what_would_wait_too_long() -> None:
    bench = Bench()
    bench.call(delayed("orders", b"x", 3))
    bench.clock.step_wall(-3_600_000)
    bench.tick(1000)
    assert read(bench) == [b"x"]


def test_a_clock_that_is_set_back_a_little_delays_by_that_and_no_more_than_the_level() -> None:
    bench = Bench()
    bench.call(delayed("orders", b"x", 3))
    bench.tick(8000)
    bench.clock.step_wall(-5000)
    bench.tick(6900)
    assert read(bench) == []
    bench.tick(100)
    assert read(bench) == [b"x"]


def test_delay_queues_are_not_read_while_no_message_waits() -> None:
    bench = Bench(hold_check_interval_mills=0)
    assert bench.engine.next_deadline() is None
    bench.call(delayed("orders", b"x", 18))
    bench.tick()
    due = bench.engine.next_deadline()
    assert due is not None and due - bench.clock.mono_ns() == 1_000_000_000
    bench.tick(7_200_000)
    bench.tick()
    assert bench.engine.next_deadline() is None


# --- Where to ---


@pytest.mark.covers("delay-topic-gone")
def test_a_topic_that_is_gone_is_made_again_for_a_message_that_was_acknowledged() -> None:
    bench = Bench()
    bench.call(delayed("orders", b"x", 1, queue_id=2))
    bench.call(c.DeleteTopic(topic="orders"))
    bench.tick(1000)
    assert read(bench, queue_id=2) == [b"x"]
    made = [e for e in events(bench, TopicChanged) if e.topic == "orders"]
    assert [(e.action, e.read_queues) for e in made] == [("created", 4), ("deleted", 4), ("created", 4)]


def test_a_queue_that_is_gone_is_another_one_of_the_topic() -> None:
    bench = Bench()
    bench.call(delayed("orders", b"x", 1, queue_id=3))
    bench.call(c.DeleteTopic(topic="orders"))
    bench.call(c.UpdateAndCreateTopic(topic="orders", read_queues=2, write_queues=2))
    bench.tick(1000)
    assert read(bench, queue_id=1) == [b"x"]


@pytest.mark.parametrize(
    ("topic", "queue"),
    [
        ("", "0"),
        ("orders", ""),
        ("orders", "x"),
        ("orders", "-1"),
        ("../x", "0"),
        ("RMQ_SYS_TRANS_HALF_TOPIC", "0"),
        (SCHEDULE_TOPIC, "0"),
        ("orders", "9" * 12),
    ],
)
def test_a_message_that_has_nowhere_to_go_holds_nobody_up(topic: str, queue: str) -> None:
    bench = Bench()
    bench.send("orders", b"0")
    pending = content(bench, "orders")[0]
    store = bench.context.store
    where = f"DELAY\x011\x02REAL_TOPIC\x01{topic}\x02REAL_QID\x01{queue}\x02"
    store.append(
        [
            PendingMessage(
                topic=SCHEDULE_TOPIC,
                queue_id=0,
                body=b"lost",
                properties=where,
                flag=0,
                sys_flag=0,
                born_timestamp=0,
                born_host=pending.born_host,
                born_port=0,
            )
        ],
        bench.clock.now(),
    )
    bench.call(delayed("orders", b"1", 1))
    bench.tick(1000)
    assert read(bench) == [b"0", b"1"]
    (lost,) = events(bench, DelayedMessagesLost)
    assert (lost.level, lost.from_offset, lost.to_offset) == (1, 0, 1) and lost.reason
    assert store.delayed.progress() == {1: (2, 2)}


# --- The disk ---


def test_under_sync_flush_only_what_is_on_the_disk_is_seen() -> None:
    bench = Bench(flush_disk_type="SYNC_FLUSH")
    bench.submit(send("orders", b"0", queue_id=0))
    bench.flush()
    pull = bench.pull("orders", 1, suspend_timeout_ms=30_000)
    (request,) = bench.submit(delayed("orders", b"1", 1))
    bench.tick(3000)
    assert bench.final(request) is None and bench.final(pull) is None  # not confirmed, so not even waiting
    bench.flush()
    assert isinstance(bench.final(request), c.Sent)
    bench.tick()
    assert bench.final(pull) is None
    bench.flush()
    assert bodies(bench.pulled(pull)) == [b"1"]


@pytest.mark.parametrize("call", ["allocate", "create"])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_full_disk_is_tried_again_and_loses_nothing(call: str, nth: int, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(mapped_file_size_commit_log=65_536)
    bench.submit(*(delayed("orders", b"%d" % n + b"x" * 30_000, 1, queue_id=n % 2) for n in range(6)))
    bench.files.fail(call, nth, 28)
    bench.tick(1000)
    assert read(bench) == [] and "wait until the store accepts messages" in caplog.text
    bench.tick(9999)
    assert read(bench) == []
    bench.tick(1)
    assert [[body[:1] for body in read(bench, queue_id=queue_id)] for queue_id in (0, 1)] == [
        [b"0", b"2", b"4"],
        [b"1", b"3", b"5"],
    ]


def test_delayed_messages_that_retention_deleted_are_reported_and_delay_no_others() -> None:
    bench = Bench(mapped_file_size_commit_log=65_536)
    bench.submit(*(delayed("orders", b"%d" % n + b"x" * 30_000, 7) for n in range(6)))
    bench.tick(100_000)
    assert bench.flush()
    bench.files.used_percent = 89.0
    bench.file_work()
    bench.tick(80_000)
    assert [body[:1] for body in read(bench)] == [b"4", b"5"]
    assert [(e.level, e.from_offset, e.to_offset) for e in events(bench, DelayedMessagesLost)] == [(7, 0, 4)]


def test_a_failed_delivery_is_tried_again_after_ten_seconds() -> None:
    bench = Bench()
    bench.call(delayed("orders", b"x", 1))
    bench.take(bench.engine.flush_failed(OSError(5, "Input/output error"), bench.clock.now()))
    bench.tick(1000)
    due = bench.engine.next_deadline()
    assert due is not None and due == bench.clock.mono_ns() + 10_000_000_000


def test_a_defect_does_not_stop_the_engine(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.call(delayed("orders", b"x", 1))
    with monkeypatch.context() as broken:
        broken.setattr(schedule_message, "real_copy", lambda *_: 1 / 0)
        bench.tick(1000)
    assert "could not be delivered" in caplog.text
    assert read(bench) == []
    bench.tick(10_000)
    assert read(bench) == [b"x"]


# --- Restarts ---


def reopened(bench: Bench, **options: Any) -> Bench:
    return Bench(files=bench.files, clock=bench.clock, **options)


def test_a_clean_restart_delivers_each_once() -> None:
    bench = Bench()
    bench.submit(delayed("orders", b"1", 1), delayed("orders", b"2", 2))
    bench.tick(1000)
    bench.take(bench.engine.close(bench.clock.now()))
    table = rocketmq_json.decode(bench.files.read(ROOT / "config" / "delayOffset.json") or b"")
    assert table["offsetTable"] == {1: 1}
    again = reopened(bench)
    again.tick(60_000)
    assert read(again) == [b"1", b"2"]


def test_a_killed_broker_repeats_deliveries_after_its_last_recorded_progress() -> None:
    bench = Bench()
    bench.submit(delayed("orders", b"1", 1), delayed("orders", b"2", 2))
    bench.tick(1000)
    bench.files.kill()
    again = reopened(bench)
    again.tick(4000)
    assert read(again) == [b"1", b"1", b"2"]


def test_progress_is_noted_at_its_interval_and_never_before_the_copies_are_on_the_disk() -> None:
    bench = Bench(
        flush_commit_log_thorough_interval=1_000_000,
        flush_interval_consume_queue=1_000_000,
        flush_commit_log_least_pages=1_000_000,
    )
    bench.call(delayed("orders", b"1", 1))
    bench.tick(1000)
    bench.file_work()
    path = ROOT / "config" / "delayOffset.json"
    assert read(bench) == [b"1"] and not bench.files.exists(path)
    bench.tick(1_000_000)
    assert bench.flush()
    bench.file_work()
    assert b"1:1" in (bench.files.read(path) or b"")
    bench.call(delayed("orders", b"2", 1))
    bench.tick(1_000_000)
    assert bench.flush()
    bench.file_work()
    assert b"1:2" in (bench.files.read(path) or b"")


def test_a_table_that_could_not_be_written_is_written_later() -> None:
    bench = Bench()
    bench.file_work()
    bench.call(delayed("orders", b"1", 1))
    bench.tick(20_000)
    assert bench.flush()
    bench.file_work()
    bench.call(delayed("orders", b"2", 1))
    bench.tick(20_000)
    assert bench.flush()
    work = bench.engine.next_file_work(bench.clock.now())
    assert work is not None
    bench.engine.file_work_failed(work, bench.clock.now())
    bench.tick(10_000)
    bench.file_work()
    assert b"1:2" in (bench.files.read(ROOT / "config" / "delayOffset.json") or b"")


def test_a_broker_that_stops_delivers_nothing_more() -> None:
    bench = Bench()
    bench.call(delayed("orders", b"x", 1))
    bench.take(bench.engine.drain(bench.clock.now()))
    bench.tick(60_000)
    assert bench.engine.counters.delays_elapsed == 0
    bench.take(bench.engine.close(bench.clock.now()))
    again = reopened(bench)
    again.tick()
    assert read(again) == [b"x"]


@pytest.mark.parametrize("change", ["1s 5s", "1h 2h 3h", " ".join(["7s"] * 30)])
def test_levels_that_change_over_a_restart(change: str) -> None:
    bench = Bench()
    for level in (1, 3, 18):
        bench.call(delayed("orders", b"%d" % level, level))
    bench.take(bench.engine.close(bench.clock.now()))
    again = reopened(bench, message_delay_level=change)
    again.tick(7_200_000)
    assert sorted(read(again)) == [b"1", b"18", b"3"]


def test_an_idempotent_repeat_finds_the_delayed_message_before_and_after_its_delivery() -> None:
    bench = Bench()
    command = c.SendMessage(
        topic="orders",
        idempotency_key="k",
        messages=[c.OutgoingMessage(body=b"x", properties=encode({"DELAY": "2"}), queue_id=1)],
    )
    first = bench.call(command)
    assert isinstance(first, c.Sent) and bench.call(command) == first
    for pause in (0, 10_000):
        bench.tick(pause)
        bench.take(bench.engine.close(bench.clock.now()))
        bench = reopened(bench)
        assert bench.call(command) == first
    bench.tick(60_000)
    assert read(bench, queue_id=1) == [b"x"]


# --- Stores of RocketMQ ---


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("golden"))


@pytest.fixture(params=STORES)
def root(request: pytest.FixtureRequest, golden: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(golden / request.param, tmp_path / "store"))


def deliver(root: Path, wall_ms: int, *, adopt: bool = True) -> tuple[MessageStore, Engine]:
    """Open a store on the disk in an engine, let everything be delivered that is due, and close it."""
    clock = VirtualClock(wall_ms)
    options = Options(mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=20_000)
    engine = Engine.open(root, options, RealFiles(), clock, lambda ms: "ID", adopt=adopt)
    while (due := engine.next_deadline()) is not None and due <= clock.mono_ns():
        engine.tick(clock.now())
    return context_of(engine).store, engine


LATER = 1_800_000_000_000


def test_a_store_of_rocketmqs_that_delivered_everything_delivers_nothing(root: Path) -> None:
    store, engine = deliver(root, LATER)
    assert engine.counters.delays_elapsed == 0
    assert store.delayed.progress() == {1: (1, 1), 2: (1, 1), 3: (2, 2)}
    engine.close(VirtualClock(LATER).now())


def test_delayed_messages_of_a_rocketmq_store_are_delivered(root: Path) -> None:
    """The same messages once more, since its own copies are there to compare with."""
    for name in ("delayOffset.json", "delayOffset.json.bak"):
        (root / "config" / name).unlink()
    store, engine = deliver(root, LATER)
    assert engine.counters.delays_elapsed == 4
    for topic, count in (("debian-delayed", 3), ("%RETRY%golden_retry_group", 1)):
        found = store.get_message(topic, 0, 0, 32, 1 << 20, None)
        theirs, ours = decode_all(found.records)[:count], decode_all(found.records)[count:]
        for their, our in zip(theirs, ours, strict=True):
            for field in (
                "body",
                "topic",
                "queue_id",
                "properties",
                "flag",
                "sys_flag",
                "born_timestamp",
                "born_host",
                "born_port",
                "reconsume_times",
                "prepared_transaction_offset",
                "size",
            ):
                assert getattr(our, field) == getattr(their, field), field
            assert store._queues.table[topic, 0].unit(our.queue_offset)[2] == store._queues.tags_code(
                store._queues.table[topic, 0], store._queues.table[topic, 0].unit(their.queue_offset)[2]
            )
    engine.close(VirtualClock(LATER).now())


def test_deliver_times_of_an_adopted_store_are_read_from_ext_units_too(root: Path) -> None:
    """Levels were 1, 2 and 3 s when it was written; they are 1, 5 and 10 s for the broker that adopts it."""
    (root / "config" / "delayOffset.json").write_text('{"offsetTable":{1:0,2:0,3:0}}')
    store, engine = deliver(root, 1_795_252_823_055)
    assert store.delayed.progress() == {1: (1, 1), 2: (1, 1), 3: (0, 2)}
    engine.close(VirtualClock(LATER).now())


def test_delayed_messages_of_a_read_only_store_are_not_delivered(root: Path) -> None:
    (root / "config" / "delayOffset.json").write_text('{"offsetTable":{1:0,2:0,3:0}}')
    store, engine = deliver(root, LATER, adopt=False)
    assert store.read_only and engine.next_deadline() is None
    assert store.delayed.progress() == {1: (0, 1), 2: (0, 1), 3: (0, 2)}
    assert store.max_offset("debian-delayed", 0) == 3
    engine.close(VirtualClock(LATER).now())
    assert (root / "config" / "delayOffset.json").read_text() == '{"offsetTable":{1:0,2:0,3:0}}'
