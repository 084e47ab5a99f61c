"""Messages that a group could not consume: again after a delay, at last dead; acknowledged as durably as a send."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from broker_core import commands as c
from broker_core.codes import ResponseCode
from broker_core.engine import Engine
from broker_core.events import Event, MessageDeadLettered, MessageSentBack, TopicChanged
from broker_core.formats.commit_log_record import CommitLogRecord, decode_all
from broker_core.formats.message_id import encode_offset_message_id
from broker_core.formats.message_properties import decode, encode
from broker_core.options import Options
from broker_core.store.delay_level import SCHEDULE_TOPIC, DelayLevels
from broker_core.store.files import RealFiles
from tests.fakes.clock import VirtualClock
from tests.fakes.engine import Bench, context_of, records, send
from tests.fakes.golden_store import unpack
from tests.fakes.store_cases import query_message
from tests.fakes.transactions import begin

LEVELS = DelayLevels(Options().message_delay_level).ms


def content(bench: Bench, topic: str, queue_id: int = 0) -> list[CommitLogRecord]:
    """All messages of a queue, also of one that no pull may reach."""
    found: list[CommitLogRecord] = []
    store = bench.context.store
    while len(found) < store.max_offset(topic, queue_id):
        found += decode_all(store.get_message(topic, queue_id, len(found), 32, 1 << 20, None).records)
    return found


def events(bench: Bench, kind: type[Event]) -> list[Any]:
    return list(bench.engine.events.after(0, kind))


def store_message(bench: Bench, **more: Any) -> CommitLogRecord:
    """A message of topic orders, and the record of it."""
    bench.send("orders", b"x", **more)
    return content(bench, "orders")[-1]


def send_back_of(record: CommitLogRecord, **more: Any) -> c.ConsumerSendMsgBack:
    return c.ConsumerSendMsgBack(group="g", physical_offset=record.physical_offset, **more)


def configure(bench: Bench, **config: Any) -> None:
    reply = bench.call(c.UpdateSubscriptionGroup(config={"groupName": "g"} | config))
    assert isinstance(reply, c.SubscriptionGroups), reply


def test_a_message_sent_back_is_delivered_again_after_ten_seconds() -> None:
    bench = Bench()
    record = store_message(bench, properties=encode({"KEYS": "k"}), tag="A")
    assert bench.call(send_back_of(record)) == c.Done()
    bench.tick(9999)
    assert content(bench, "%RETRY%g") == []
    bench.tick(1)
    (copy,) = content(bench, "%RETRY%g")
    assert (
        copy.body,
        copy.reconsume_times,
        copy.born_timestamp,
        copy.born_host,
        copy.born_port,
        copy.flag,
        copy.sys_flag,
    ) == (b"x", 1, record.born_timestamp, record.born_host, record.born_port, 0, 0)
    before, after = decode(record.properties), decode(copy.properties)
    assert after == before | {
        "RETRY_TOPIC": "orders",
        "WAIT": "false",
        "DELAY": "3",
        "REAL_TOPIC": "%RETRY%g",
        "REAL_QID": "0",
        "ORIGIN_MESSAGE_ID": encode_offset_message_id(record.store_host, record.store_port, record.physical_offset),
    }


def test_a_pull_that_is_held_on_the_retry_topic_wakes() -> None:
    bench = Bench()
    record = store_message(bench)
    bench.call(send_back_of(record))
    pull = bench.pull("%RETRY%g", 0)
    bench.tick(10_000)
    pulled = bench.pulled(pull)
    assert [copy.reconsume_times for copy in records(pulled)] == [1]
    assert pulled.hold is not None and pulled.hold.wake_cause == "arrival"


def test_sixteen_times_with_growing_delays_and_then_it_is_dead() -> None:
    bench = Bench()
    record = store_message(bench)
    origin = encode_offset_message_id(record.store_host, record.store_port, record.physical_offset)
    for time in range(16):
        assert bench.call(send_back_of(record)) == c.Done()
        bench.tick(LEVELS[2 + time] - 1)
        assert len(content(bench, "%RETRY%g")) == time
        bench.tick(1)
        record = content(bench, "%RETRY%g")[-1]
        assert record.reconsume_times == time + 1
        properties = decode(record.properties)
        assert (properties["RETRY_TOPIC"], properties["ORIGIN_MESSAGE_ID"]) == ("orders", origin)
    assert bench.call(send_back_of(record)) == c.Done()
    (dead,) = content(bench, "%DLQ%g")
    properties = decode(dead.properties)
    assert (dead.body, dead.reconsume_times) == (b"x", 17)
    assert (properties["RETRY_TOPIC"], properties["ORIGIN_MESSAGE_ID"], properties["DELAY"], properties["WAIT"]) == (
        "orders",
        origin,
        "0",
        "false",
    )
    bench.tick(7_200_000)
    assert len(content(bench, "%RETRY%g")) == 16 and len(content(bench, "%DLQ%g")) == 1
    assert (bench.engine.counters.messages_sent_back, bench.engine.counters.messages_dead_lettered) == (16, 1)


def test_events_say_what_and_why() -> None:
    bench = Bench()
    record = store_message(bench)
    message_id = decode(record.properties)["UNIQ_KEY"]
    bench.call(send_back_of(record, delay_level=5))
    bench.call(send_back_of(record, delay_level=-1))
    bench.call(send_back_of(record, max_reconsume_times=0))
    (aside,) = content(bench, SCHEDULE_TOPIC, 4)
    dead = content(bench, "%DLQ%g")
    assert [
        (e.group, e.topic, e.message_id, e.reconsume_times, e.delay_level, e.physical_offset)
        for e in events(bench, MessageSentBack)
    ] == [("g", "orders", message_id, 1, 5, aside.physical_offset)]
    assert [
        (e.group, e.topic, e.message_id, e.reconsume_times, e.reason, e.physical_offset)
        for e in events(bench, MessageDeadLettered)
    ] == [
        ("g", "orders", message_id, 1, "asked", dead[0].physical_offset),
        ("g", "orders", message_id, 1, "exhausted", dead[1].physical_offset),
    ]


@pytest.mark.parametrize(("level", "used"), [(1, 1), (18, 18), (40, 18), (0, 3)])
def test_the_consumer_may_choose_the_delay(level: int, used: int) -> None:
    bench = Bench()
    bench.call(send_back_of(store_message(bench), delay_level=level))
    assert len(content(bench, SCHEDULE_TOPIC, used - 1)) == 1


@pytest.mark.parametrize(("limit", "asked", "dead"), [(2, None, True), (3, None, False), (2, 3, False), (16, 2, True)])
def test_the_groups_limit_or_the_consumers(limit: int, asked: int | None, dead: bool) -> None:
    bench = Bench()
    configure(bench, retryMaxTimes=limit)
    bench.call(c.SendMessage(topic="orders", messages=[c.OutgoingMessage(body=b"x", queue_id=0, reconsume_times=2)]))
    (record,) = content(bench, "orders")
    bench.call(send_back_of(record, max_reconsume_times=asked))
    assert bool(content(bench, "%DLQ%g")) is dead


def test_a_group_that_wants_no_retries_gets_none() -> None:
    bench = Bench()
    configure(bench, retryQueueNums=0)
    record = store_message(bench)
    end = bench.context.store.appended_offset
    assert bench.call(send_back_of(record)) == c.Done()
    assert bench.context.store.appended_offset == end
    assert bench.context.topics.get("%RETRY%g") is None


def test_topics_are_made_as_rocketmq_makes_them() -> None:
    bench = Bench()
    configure(bench, retryQueueNums=2)
    record = store_message(bench)
    for _ in range(4):
        bench.call(send_back_of(record, delay_level=1))
    bench.call(send_back_of(record, delay_level=-1))
    bench.tick(1000)
    assert [len(content(bench, "%RETRY%g", queue_id)) for queue_id in (0, 1)] == [2, 2]
    made = [(e.topic, e.read_queues, e.write_queues, e.perm) for e in events(bench, TopicChanged) if e.topic[0] == "%"]
    assert made == [("%RETRY%g", 2, 2, 6), ("%DLQ%g", 1, 1, 6)]


def test_bad_requests_to_send_back_are_refused() -> None:
    bench = Bench(auto_create_subscription_group=False)
    record = store_message(bench)
    unknown = bench.call(send_back_of(record))
    assert isinstance(unknown, c.Failed) and unknown.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    configure(bench)
    for offset in (-1, 1, 1 << 62, record.physical_offset + record.size):
        gone = bench.call(c.ConsumerSendMsgBack(group="g", physical_offset=offset))
        assert isinstance(gone, c.Failed) and gone.code == ResponseCode.SYSTEM_ERROR, offset
    bench.call(c.UpdateAndCreateTopic(topic="%RETRY%g", perm=4))
    closed = bench.call(send_back_of(record))
    assert isinstance(closed, c.Failed) and closed.code == ResponseCode.NO_PERMISSION
    bench.call(c.UpdateBrokerConfig(changes={"brokerPermission": 4}))
    closed = bench.call(send_back_of(record))
    assert isinstance(closed, c.Failed) and "broker" in closed.remark
    for group in ("", "a/b", "x" * 121):
        named = bench.call(c.ConsumerSendMsgBack(group=group, physical_offset=0))
        assert isinstance(named, c.Failed), group
    bench.take(bench.engine.drain(bench.clock.now()))
    stopping = bench.call(send_back_of(record))
    assert isinstance(stopping, c.Failed) and stopping.code == ResponseCode.SERVICE_NOT_AVAILABLE


def test_a_half_message_cannot_be_sent_back() -> None:
    """Otherwise its group would consume it although its transaction was not committed."""
    bench = Bench()
    configure(bench)
    sent = begin(bench)
    reply = bench.call(c.ConsumerSendMsgBack(group="g", physical_offset=sent.physical_offset))
    assert isinstance(reply, c.Failed) and reply.code == ResponseCode.SYSTEM_ERROR


def test_a_message_whose_body_is_damaged_is_not_copied() -> None:
    bench = Bench()
    bench.send("orders", b"abcdefgh")
    (record,) = content(bench, "orders")
    image = bench.context.store._log.mapped_files.find(0).buffer
    image[image.find(b"abcdefgh")] = 0
    reply = bench.call(send_back_of(record))
    assert isinstance(reply, c.Failed) and reply.code == ResponseCode.SYSTEM_ERROR


def test_under_sync_flush_it_is_acknowledged_when_it_is_on_the_disk() -> None:
    bench = Bench(flush_disk_type="SYNC_FLUSH")
    bench.submit(send("orders", b"x", queue_id=0))
    bench.flush()
    (record,) = content(bench, "orders")
    asked, another = bench.submit(send_back_of(record), send("orders", b"y"))
    assert bench.final(asked) is None
    bench.flush()
    assert bench.final(asked) == c.Done() and isinstance(bench.final(another), c.Sent)
    (late,) = bench.submit(send_back_of(record))
    bench.tick(5001)
    reply = bench.final(late)
    assert isinstance(reply, c.Failed) and reply.code == ResponseCode.FLUSH_DISK_TIMEOUT


def test_many_of_one_read_go_to_the_log_as_one_block() -> None:
    bench = Bench()
    record = store_message(bench)
    before = bench.engine.events.seq
    requests = bench.submit(*(send_back_of(record, delay_level=1) for _ in range(40)), send("orders", b"y"))
    assert [bench.final(request) for request in requests[:40]] == [c.Done()] * 40
    stored = [e for e in bench.engine.events.after(before) if type(e).__name__ == "MessagesStored"]
    assert [(e.topic, e.to_offset - e.from_offset) for e in stored] == [(SCHEDULE_TOPIC, 40), ("orders", 1)]


# --- Sends to a retry topic ---


def to_retry(reconsume_times: int, maximum: int | None = None, **properties: str) -> c.SendMessage:
    return c.SendMessage(
        topic="%RETRY%g",
        max_reconsume_times=maximum,
        messages=[c.OutgoingMessage(body=b"x", properties=encode(properties), reconsume_times=reconsume_times)],
    )


def test_a_retry_topic_is_made_as_a_send_makes_topics() -> None:
    bench = Bench()
    assert isinstance(bench.call(to_retry(1)), c.Sent)
    topic = bench.context.topics.get("%RETRY%g")
    assert topic is not None and (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (4, 4, 6)


def test_without_a_template_a_retry_topic_has_one_queue() -> None:
    bench = Bench(auto_create_topic_enable=False)
    assert isinstance(bench.call(to_retry(1)), c.Sent)
    (copy,) = content(bench, "%RETRY%g")
    assert copy.reconsume_times == 1
    topic = bench.context.topics.get("%RETRY%g")
    assert topic is not None and (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (1, 1, 6)


def test_a_client_may_delay_its_own_copy() -> None:
    bench = Bench()
    sent = bench.call(to_retry(1, DELAY="4", RETRY_TOPIC="orders", UNIQ_KEY="U"))
    assert isinstance(sent, c.Sent) and sent.messages[0].queue_id == 0
    bench.tick(30_000)
    assert len(content(bench, "%RETRY%g")) == 1
    assert [
        (e.group, e.topic, e.message_id, e.reconsume_times, e.delay_level) for e in events(bench, MessageSentBack)
    ] == [("g", "orders", "U", 1, 4)]


@pytest.mark.parametrize(
    ("times", "maximum", "dead"),
    [(16, None, False), (17, None, True), (2, 1, True), (1, 1, False), (0, 0, False), (1, 0, True), (-1, -1, False)],
)
def test_past_the_limit_it_goes_to_the_dead_letters(times: int, maximum: int | None, dead: bool) -> None:
    bench = Bench()
    sent = bench.call(to_retry(times, maximum, DELAY="3"))
    assert isinstance(sent, c.Sent) and sent.messages[0].queue_id == 0
    letters = content(bench, "%DLQ%g")
    assert bool(letters) is dead
    assert bool(content(bench, SCHEDULE_TOPIC, 2)) is not dead
    if dead:
        assert decode(letters[0].properties)["DELAY"] == "0" and letters[0].reconsume_times == times
        assert [e.reason for e in events(bench, MessageDeadLettered)] == ["exhausted"]


def test_the_limit_is_for_retry_topics_only() -> None:
    bench = Bench()
    bench.call(
        c.SendMessage(
            topic="orders",
            max_reconsume_times=0,
            messages=[c.OutgoingMessage(body=b"x", queue_id=0, reconsume_times=5)],
        )
    )
    assert len(content(bench, "orders")) == 1


def test_a_message_sent_back_by_an_orderly_group_is_a_dead_letter() -> None:
    bench = Bench()
    bench.send("orders", b"x")
    queue = c.MessageQueue(topic="orders", broker_name="broker-a", queue_id=0)
    assert bench.call(c.LockBatchMq(group="g", client_id="me", queues=[queue])) == c.LockedQueues(queues=[queue])
    bench.call(to_retry(1, DELAY="3"))
    assert len(content(bench, "%DLQ%g")) == 1
    assert [e.reason for e in events(bench, MessageDeadLettered)] == ["ordered"]
    bench.tick(61_000)  # the lock is not renewed
    bench.call(to_retry(1))
    assert sum(len(content(bench, "%RETRY%g", queue_id)) for queue_id in range(4)) == 1


def test_bad_sends_to_a_retry_topic_are_refused() -> None:
    bench = Bench(auto_create_subscription_group=False)
    unknown = bench.call(to_retry(1))
    assert isinstance(unknown, c.Failed) and unknown.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    configure(bench)
    batch = bench.call(send("%RETRY%g", b"1", b"2", queue_id=0))
    assert isinstance(batch, c.Failed) and batch.code == ResponseCode.MESSAGE_ILLEGAL
    bad = bench.call(to_retry(1, DELAY="x"))
    assert isinstance(bad, c.Failed) and bad.pointer == "/messages/0/properties"


# --- RocketMQ's own copies ---


def test_a_copy_has_the_properties_that_rocketmqs_has(tmp_path: Path) -> None:
    """The golden store has a message that its consumer sent back twice; the same is done here with it."""
    root = Path(shutil.copytree(unpack(tmp_path / "golden") / "clean-shutdown", tmp_path / "store"))
    clock = VirtualClock(1_800_000_000_000)
    options = Options(
        mapped_file_size_commit_log=1 << 20,
        mapped_file_size_consume_queue=20_000,
        message_delay_level="1s 2s 3s 10s 30s 1m",
    )
    engine = Engine.open(root, options, RealFiles(), clock, lambda ms: "ID", adopt=True)
    store, group = context_of(engine).store, "golden_retry_group"

    def last_record(topic: str, queue_id: int = 0) -> CommitLogRecord:
        end = store.max_offset(topic, queue_id)
        (record,) = decode_all(store.get_message(topic, queue_id, end - 1, 1, 1 << 20, None).records)
        return record

    retried, dead = last_record(f"%RETRY%{group}"), last_record(f"%DLQ%{group}")
    (origin,) = [
        record for data in query_message(store, "debian-ordered", "o7", 9, 0, 1 << 62) for record in decode_all(data)
    ]
    for record, theirs in ((origin, retried), (retried, dead)):
        command = c.ConsumerSendMsgBack(group=group, physical_offset=record.physical_offset, max_reconsume_times=1)
        (reply,) = engine.handle_batch([("c", 1, command)], clock.now()).replies
        assert reply[2] == c.Done()
        clock.advance(3000)
        engine.tick(clock.now())
        ours = last_record(theirs.topic)
        assert ours.physical_offset > theirs.physical_offset
        assert decode(ours.properties) == decode(theirs.properties)
        assert (ours.body, ours.reconsume_times, ours.flag, ours.sys_flag, ours.born_timestamp, ours.size) == (
            theirs.body,
            theirs.reconsume_times,
            theirs.flag,
            theirs.sys_flag,
            theirs.born_timestamp,
            theirs.size,
        )
    engine.close(clock.now())


def test_the_event_of_a_copy_without_an_original_topic_names_the_retry_topic() -> None:
    bench = Bench()
    bench.send("%RETRY%g", b"x", properties=encode({"DELAY": "3"}))
    assert [event.topic for event in events(bench, MessageSentBack)] == ["%RETRY%g"]
