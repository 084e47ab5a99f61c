"""Topics with batch consume queues: a client's batch is one record, and each of its messages has an offset."""

import struct
from typing import Any

import pytest

from broker_core import commands as c
from broker_core.codes import ResponseCode
from broker_core.events import MessagesDispatched, MessagesStored
from broker_core.formats.batch_consume_queue_unit import NUMBER_MAX
from broker_core.formats.inner_batch import INNER_FLAGS, split_record
from broker_core.formats.message_properties import decode, encode
from tests.fakes.engine import ROOT, Bench, records
from tests.fakes.followed import append, blocks_of, follower, log_of
from tests.fakes.members import join

TOPIC = "batches"
FOLDER = ROOT / "batchconsumequeue" / TOPIC / "0"


def made(**more: Any) -> Bench:
    bench = Bench(**more)
    reply = bench.call(c.UpdateAndCreateTopic(topic=TOPIC, attributes={"+queue.type": "BatchCQ"}))
    assert not isinstance(reply, c.Failed), reply
    return bench


def batch(bench: Bench, *bodies: str, key: str = "BATCH", topic: str = TOPIC, tag: str = "") -> c.Sent:
    """Send as a RocketMQ client does: one batch with properties of its own."""
    bench.clock.advance(10)
    more = {"TAGS": tag} if tag else {}
    messages = [
        c.OutgoingMessage(body=body.encode(), properties=encode({"UNIQ_KEY": f"{key}-{body}"} | more), queue_id=0)
        for body in bodies
    ]
    properties = encode({"UNIQ_KEY": key} | more) if key else ""
    reply = bench.call(c.SendMessage(topic=topic, messages=messages, batch_properties=properties))
    assert isinstance(reply, c.Sent), reply
    return reply


def texts(pulled: c.Pulled) -> list[tuple[int, str]]:
    """(queue offset, body) of each message in an answer."""
    return [(m.queue_offset, m.body.decode()) for record in records(pulled) for m in split_record(record)]


def pull(bench: Bench, offset: int, **more: Any) -> c.Pulled:
    return bench.pulled(bench.pull(TOPIC, offset, suspend_timeout_ms=0, **more))


def three(bench: Bench) -> Bench:
    """Offsets 0 to 2 are a batch, 3 a single message, 4 and 5 a batch with a tag."""
    batch(bench, "a", "b", "c", key="FIRST")
    bench.clock.advance(10)
    bench.send(TOPIC, b"d")
    batch(bench, "e", "f", key="LAST", tag="A")
    return bench


EVERYTHING = list(enumerate("abcdef"))


def test_a_batch_is_one_record_with_rocketmqs_marks() -> None:
    bench = made()
    sent = batch(bench, "a", "b", "c", key="FIRST")
    assert (sent.batch_uniq_id, [m.queue_offset for m in sent.messages]) == ("FIRST", [0])
    assert (batch(bench, "d", "e").messages[0].queue_offset, bench.send(TOPIC, b"f").messages[0].queue_offset) == (3, 5)
    first, second, single = records(pull(bench, 0))
    assert (first.sys_flag, second.sys_flag, single.sys_flag) == (INNER_FLAGS, INNER_FLAGS, 0)
    marks = [{name: decode(r.properties).get(name) for name in ("INNER_NUM", "INNER_BASE")} for r in (first, second)]
    assert marks == [{"INNER_NUM": "3", "INNER_BASE": "0"}, {"INNER_NUM": "2", "INNER_BASE": "3"}]
    assert decode(first.properties)["UNIQ_KEY"] == "FIRST" and "INNER_NUM" not in single.properties
    assert [(m.queue_offset, m.properties) for m in split_record(first)] == [
        (number, encode({"UNIQ_KEY": f"FIRST-{body}"})) for number, body in enumerate("abc")
    ]


def test_the_units_are_those_of_rocketmq() -> None:
    bench = three(made())
    content = bench.files.read(FOLDER / f"{0:020d}") or b""
    units = [struct.unpack_from(">qiqqqhii", content, 46 * number) for number in range(4)]
    sizes = [unit[1] for unit in units]
    found = records(pull(bench, 0))
    assert [record.size for record in found] == sizes[:3]
    assert units == [
        (0, sizes[0], 0, found[0].store_timestamp, 0, 3, -1, 0),
        (sizes[0], sizes[1], 0, found[1].store_timestamp, 3, 1, -1, 0),
        (sizes[0] + sizes[1], sizes[2], 65, found[2].store_timestamp, 4, 2, -1, 0),
        (0,) * 8,
    ]


@pytest.mark.parametrize("offset", range(6))
def test_a_pull_gets_the_record_that_contains_its_offset(offset: int) -> None:
    bench = three(made())
    pulled = pull(bench, offset, max_msg_nums=1)
    begin, end = next((begin, end) for begin, end in ((0, 3), (3, 4), (4, 6)) if offset < end)
    assert texts(pulled) == EVERYTHING[begin:end]
    assert (pulled.next_begin_offset, pulled.min_offset, pulled.max_offset) == (end, 0, 6)


def test_the_limits_count_messages_and_the_first_record_always_comes() -> None:
    bench = three(made())
    assert [len(texts(pull(bench, 0, max_msg_nums=number))) for number in (1, 3, 4, 5, 6, 32)] == [3, 3, 4, 4, 6, 6]
    assert texts(pull(bench, 0, max_msg_bytes=1)) == EVERYTHING[:3]
    at_end, beyond = pull(bench, 6), pull(bench, 7)
    assert (at_end.status, at_end.next_begin_offset) == ("OFFSET_OVERFLOW_ONE", 6)
    assert (beyond.status, beyond.next_begin_offset) == ("OFFSET_OVERFLOW_BADLY", 6)


def test_filters_look_at_the_record() -> None:
    bench = three(made())
    pulled = pull(bench, 1, subscription="A")
    assert (texts(pulled), pulled.next_begin_offset) == (EVERYTHING[4:], 6)
    nothing = pull(bench, 0, subscription="B")
    assert (nothing.status, nothing.next_begin_offset) == ("NO_MATCHED_MESSAGE", 6)
    sql = pull(bench, 0, subscription="TAGS = 'A'", expression_type="SQL92")
    assert texts(sql) == EVERYTHING[4:]


def test_a_batch_wakes_a_held_pull() -> None:
    bench = made()
    plain, filtered = bench.pull(TOPIC, 0), bench.pull(TOPIC, 0, subscription="A")
    batch(bench, "a", "b")
    bench.tick()
    assert texts(bench.pulled(plain)) == EVERYTHING[:2]
    assert bench.final(filtered) is None
    batch(bench, "c", "d", tag="A")
    bench.tick()
    assert texts(bench.pulled(filtered)) == EVERYTHING[2:4]


def test_each_message_is_counted() -> None:
    bench = three(made())
    for kind in (MessagesStored, MessagesDispatched):
        events = [event for event in bench.engine.events.after(0) if isinstance(event, kind)]
        assert [(event.from_offset, event.to_offset) for event in events] == [(0, 3), (3, 4), (4, 6)]
    assert (bench.engine.counters.messages_stored, bench.engine.counters.messages_dispatched) == (6, 6)
    pull(bench, 0)
    assert bench.engine.counters.messages_delivered == 6


def test_an_offset_by_time_is_that_of_a_batch() -> None:
    bench = three(made())
    first, single, last = (record.store_timestamp for record in records(pull(bench, 0)))
    times = (first, first + 1, single, last, last + 1)
    offsets = [bench.context.store.offset_by_time(TOPIC, 0, time, "lower") for time in times]
    assert offsets == [0, 3, 3, 4, 6]
    assert [bench.context.store.store_time(TOPIC, 0, offset) for offset in (0, 2, 3, 5, 6)] == [
        first,
        first,
        single,
        last,
        None,
    ]


def test_a_search_finds_each_record_once() -> None:
    bench = three(made())
    for command in (
        c.QueryMessageByTime(topic=TOPIC, begin_ms=0, end_ms=1 << 60),
        c.QueryMessage(topic=TOPIC, key="FIRST"),
    ):
        (request_id,) = bench.submit(command)
        bench.tick()
        reply = bench.final(request_id)
        assert isinstance(reply, c.Records), reply
        found = [record.queue_offset for record in records(reply)]  # type: ignore[arg-type]
        assert found == ([0, 3, 4] if isinstance(command, c.QueryMessageByTime) else [0])


@pytest.mark.parametrize("how", ["closed", "killed", "without queues", "without topics.json"])
def test_a_restart_changes_nothing(how: str) -> None:
    bench = three(made())
    bench.flush()
    bench.tick(10_000)
    bench.file_work()
    batch(bench, "g", "h", "i")
    if how == "closed":
        bench.engine.close(bench.clock.now())
    else:
        bench.files.kill()
    if how == "without queues":
        bench.files.remove_folder(FOLDER.parent)
    if how == "without topics.json":
        bench.files.remove(ROOT / "config" / "topics.json")
    again = Bench(files=bench.files)
    assert texts(pull(again, 0)) == list(enumerate("abcdefghi"))
    config = again.context.topics.require(TOPIC)
    assert config.attributes == {"queue.type": "BatchCQ"}
    assert batch(again, "j", "k").messages[0].queue_offset == 9
    assert texts(pull(again, 10)) == [(9, "j"), (10, "k")]
    assert bench.files.names(ROOT / "consumequeue" / TOPIC) == []


def test_every_crash_leaves_whole_batches() -> None:
    for seed in range(12):
        bench = made(seed=seed)
        bench.tick(1000)
        bench.file_work()
        for number in range(8):
            batch(bench, *(f"{number}-{index}" for index in range(number % 3 + 1)))
            if number == 3:
                bench.tick(2000)
                bench.flush()
                durable = bench.context.store.max_offset(TOPIC, 0)
        sent = texts(pull(bench, 0))
        bench.files.crash()
        again = Bench(files=bench.files)
        end = again.context.store.max_offset(TOPIC, 0)
        assert durable <= end <= len(sent), seed
        assert texts(pull(again, 0)) == sent[:end], seed
        assert batch(again, "after").messages[0].queue_offset == end


def test_old_batches_expire_with_their_segment() -> None:
    bench = made(mapped_file_size_commit_log=1 << 16)
    for number in range(40):
        batch(bench, f"{number}" + "x" * 2000, f"{number}" + "y" * 2000)
    store = bench.context.store
    first = store.commit_log.mapped_files.first
    assert first is not None and len(store.commit_log.mapped_files) > 1
    store.commit_log.mapped_files.take_out(first)
    low = store.min_offset(TOPIC, 0)
    assert 0 < low < 80 and low % 2 == 0
    assert texts(pull(bench, low, max_msg_nums=1))[0] == (low, f"{low // 2}" + "x" * 2000)
    assert pull(bench, low - 1).status == "OFFSET_TOO_SMALL"


def test_a_batch_without_a_unique_key_and_one_in_an_ordinary_topic_are_single_messages() -> None:
    bench = made()
    for topic, key in ((TOPIC, ""), ("ordinary", "BATCH")):
        sent = batch(bench, "a", "b", key=key, topic=topic)
        assert (sent.batch_uniq_id, [m.queue_offset for m in sent.messages]) == ("", [0, 1])
        pulled = bench.pulled(bench.pull(topic, 0))
        assert [(r.queue_offset, r.body, r.sys_flag) for r in records(pulled)] == [(0, b"a", 0), (1, b"b", 0)]


def test_a_batch_of_too_many_messages_is_refused() -> None:
    bench = made()
    messages = [c.OutgoingMessage(body=b"", queue_id=0)] * (NUMBER_MAX + 1)
    reply = bench.call(c.SendMessage(topic=TOPIC, messages=messages, batch_properties=encode({"UNIQ_KEY": "U"})))
    assert isinstance(reply, c.Failed) and reply.code == ResponseCode.MESSAGE_ILLEGAL
    assert "the limit is 32767" in reply.remark
    assert bench.context.store.max_offset(TOPIC, 0) == 0


@pytest.mark.covers("inner-back")
def test_one_message_of_a_batch_is_sent_back() -> None:
    bench = three(made())
    place = records(pull(bench, 0))[0].physical_offset
    back = c.ConsumerSendMsgBack(group="g", physical_offset=place, delay_level=1, origin_message_id="FIRST-b")
    assert isinstance(bench.call(back), c.Done)
    bench.tick(2000)
    (copy,) = records(bench.pulled(bench.pull("%RETRY%g", 0)))
    assert (copy.body, copy.sys_flag, copy.reconsume_times) == (b"b", 0, 1)
    assert decode(copy.properties)["UNIQ_KEY"] == "FIRST-b" and "INNER_NUM" not in copy.properties
    unknown = bench.call(c.ConsumerSendMsgBack(group="g", physical_offset=place, origin_message_id="FIRST"))
    assert isinstance(unknown, c.Failed) and unknown.code == ResponseCode.MESSAGE_ILLEGAL
    assert unknown.remark == "no message of the batch at physical offset 0 has the id 'FIRST'"
    none = bench.call(c.ConsumerSendMsgBack(group="g", physical_offset=place))
    assert isinstance(none, c.Failed) and none.remark == "no message of the batch at physical offset 0 has the id ''"


def test_a_message_whose_id_another_one_has_too_is_not_sent_back() -> None:
    bench = made()
    batch(bench, "a", "a", key="FIRST")
    reply = bench.call(c.ConsumerSendMsgBack(group="g", physical_offset=0, origin_message_id="FIRST-a"))
    assert isinstance(reply, c.Failed)
    assert reply.remark == "more than one message of the batch at physical offset 0 has the id 'FIRST-a'"


@pytest.mark.parametrize("where", ["a message", "the batch"])
@pytest.mark.parametrize(
    ("kind", "properties"),
    [
        ("delayed", {"TIMER_DELAY_SEC": "10"}),
        ("delayed", {"DELAY": "3"}),
        ("transactional", {"TRAN_MSG": "true", "PGROUP": "p"}),
    ],
)
def test_messages_that_wait_elsewhere_are_not_joined(where: str, kind: str, properties: dict[str, str]) -> None:
    bench = made()
    own, of_batch = (properties, {}) if where == "a message" else ({}, properties)
    messages = [c.OutgoingMessage(body=b"a", properties=encode(one), queue_id=0) for one in ({}, own)]
    send = c.SendMessage(topic=TOPIC, messages=messages, batch_properties=encode({"UNIQ_KEY": "U"} | of_batch))
    reply = bench.call(send)
    assert isinstance(reply, c.Failed) and reply.code == ResponseCode.MESSAGE_ILLEGAL
    assert reply.remark == f"a {kind} message cannot be part of a batch; send it alone"
    assert bench.context.store.max_offset(TOPIC, 0) == 0


def test_no_client_consumes_a_whole_batch_directly() -> None:
    bench = three(made())
    join(bench, "A")
    command = c.ConsumeMessageDirectly(group="g", client_id="A", message_id="FIRST", topic=TOPIC)
    reply = bench.call(command)
    assert isinstance(reply, c.Failed) and (reply.kind, reply.pointer) == ("conflict", "/message_id")
    assert reply.remark == "FIRST is a batch of 3 messages; a client can consume only a single message directly"


@pytest.mark.covers("inner-pop")
def test_pops_are_refused() -> None:
    bench = three(made())
    reply = bench.call(c.PopMessage(topic=TOPIC, consumer_group="g", max_msg_nums=8, invisible_ms=10_000))
    assert isinstance(reply, c.Failed), reply
    assert reply.remark == "messages of topic batches cannot be popped: it has queue.type=BatchCQ; pull them"


def test_a_deleted_topic_may_come_back_with_ordinary_queues() -> None:
    bench = three(made())
    bench.call(c.DeleteTopic(topic=TOPIC))
    assert not bench.files.names(FOLDER)
    batch(bench, "a", "b")
    assert [record.queue_offset for record in records(pull(bench, 0))] == [0, 1]
    assert bench.files.names(ROOT / "consumequeue" / TOPIC) == ["0"]


def test_a_follower_indexes_batches() -> None:
    leader, bench = three(made(mapped_file_size_commit_log=1 << 16)), follower()
    append(bench, blocks_of(log_of(leader)))
    assert texts(pull(bench, 1)) == EVERYTHING
    assert bench.context.store.max_offset(TOPIC, 0) == 6
    assert bench.engine.counters.messages_stored == 6


SINGLE_FIRST = list(enumerate("abcdefg"))


def single_first(bench: Bench) -> Bench:
    """Offset 0 is a single message, 1 to 3 are a batch, 4 a single message, 5 and 6 a batch."""
    bench.send(TOPIC, b"a")
    bench.send("ordinary", b"x")
    batch(bench, "b", "c", "d")
    bench.send(TOPIC, b"e")
    batch(bench, "f", "g")
    return bench


def test_a_follower_that_does_not_know_the_topic_yet_moves_its_first_messages() -> None:
    leader, bench = single_first(made(mapped_file_size_commit_log=1 << 16)), follower()
    log = log_of(leader)
    first = records(pull(leader, 0))[0]
    append(bench, blocks_of(log[: first.size]))
    held = bench.pull(TOPIC, 1)
    append(bench, blocks_of(log, first.size))
    assert texts(bench.pulled(held)) == SINGLE_FIRST[1:]
    assert texts(pull(bench, 0)) == SINGLE_FIRST
    assert bench.engine.counters.messages_stored == 8
    bench.tick(2000)
    bench.flush()
    bench.files.kill()
    again = Bench(files=bench.files, mapped_file_size_commit_log=1 << 16, follows=True)
    assert texts(pull(again, 0)) == SINGLE_FIRST


def moved_in_part(monkeypatch: pytest.MonkeyPatch, queue_id: int = 1) -> tuple[list[tuple[int, str]], Bench]:
    """The messages of a queue, and a follower that has moved the first two of them when it reads a batch of queue 0."""
    monkeypatch.setattr("broker_core.store.slave.follower_store.MESSAGES_MOVED_MAX", 2)
    leader, bench = made(mapped_file_size_commit_log=1 << 16), follower()
    for body in "abcdefg":
        leader.send(TOPIC, body.encode(), queue_id=queue_id)
    log = log_of(leader)
    append(bench, blocks_of(log))
    bench.tick(2000)
    bench.flush()
    for _ in range(20):
        leader.send("ordinary", b"x")
    batch(leader, "y", "z")
    for block in blocks_of(log_of(leader), len(log)):
        bench.call(c.AppendToCommitLog(offset=block.offset, data=block.data, store_timestamp=block.store_timestamp))
    return list(enumerate("abcdefg")), bench


def test_a_follower_moves_no_more_messages_in_a_turn_than_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    expected, bench = moved_in_part(monkeypatch)
    store, turns = bench.context.store, 0
    while store.dispatched_offset < store.appended_offset:
        assert texts(pull(bench, 0, queue_id=1)) == expected and not texts(pull(bench, 0))
        assert bench.engine.next_deadline() == 0
        bench.take(bench.engine.tick(bench.clock.now()))
        turns += 1
    assert turns == 3
    assert texts(pull(bench, 0, queue_id=1)) == expected and texts(pull(bench, 0)) == list(enumerate("yz"))


@pytest.mark.parametrize("stop", ["kill", "close"])
def test_a_stop_while_messages_are_moved_loses_none(monkeypatch: pytest.MonkeyPatch, stop: str) -> None:
    expected, bench = moved_in_part(monkeypatch)
    assert bench.context.store.dispatched_offset < bench.context.store.appended_offset
    if stop == "kill":
        bench.files.kill()
    else:
        bench.engine.close(bench.clock.now())
    again = Bench(files=bench.files, mapped_file_size_commit_log=1 << 16, follows=True)
    assert texts(pull(again, 0, queue_id=1)) == expected and texts(pull(again, 0)) == list(enumerate("yz"))


@pytest.mark.parametrize("seed", range(4))
def test_a_power_cut_after_a_stop_while_messages_are_moved_loses_none(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr("broker_core.store.slave.follower_store.MESSAGES_MOVED_MAX", 300)
    leader, bench = made(mapped_file_size_commit_log=1 << 16), follower(seed=seed)
    for _ in range(1000):
        leader.send(TOPIC, b"x", queue_id=1)
    log = log_of(leader)
    append(bench, blocks_of(log))
    bench.call(c.ReplicateTables(topics=[{"topicName": TOPIC, "attributes": {"queue.type": "BatchCQ"}}]))
    bench.tick(10_000)
    bench.file_work()
    batch(leader, "y", "z")
    for block in blocks_of(log_of(leader), len(log)):
        bench.call(c.AppendToCommitLog(offset=block.offset, data=block.data, store_timestamp=block.store_timestamp))
    bench.engine.close(bench.clock.now())
    assert bench.context.store.dispatched_offset < bench.context.store.appended_offset
    bench.files.crash()
    again = Bench(files=bench.files, mapped_file_size_commit_log=1 << 16, follows=True)
    found = [record.queue_offset for at in range(0, 1000, 32) for record in records(pull(again, at, queue_id=1))]
    assert found == list(range(1000)) and texts(pull(again, 0)) == list(enumerate("yz"))


def test_a_topic_may_be_deleted_while_its_messages_are_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    expected, bench = moved_in_part(monkeypatch, queue_id=0)
    bench.context.store.delete_topic(TOPIC)
    bench.tick()
    assert texts(pull(bench, 7)) == [(7, "y"), (8, "z")] and bench.context.store.min_offset(TOPIC, 0) == len(expected)


def test_a_power_cut_before_topics_json_is_written_loses_nothing() -> None:
    for seed in range(6):
        bench = made(seed=seed, flush_disk_type="SYNC_FLUSH")
        alone = [c.SendMessage(topic=TOPIC, messages=[c.OutgoingMessage(body=b, queue_id=0)]) for b in (b"a", b"d")]
        both = [c.OutgoingMessage(body=body, queue_id=0) for body in (b"b", b"c")]
        joined = c.SendMessage(topic=TOPIC, messages=both, batch_properties=encode({"UNIQ_KEY": "BATCH"}))
        for command in (alone[0], joined, alone[1]):
            (request_id,) = bench.submit(command)
            bench.flush()
            assert isinstance(bench.final(request_id), c.Sent)
        bench.files.crash()
        assert not bench.files.exists(ROOT / "config" / "topics.json")
        again = Bench(files=bench.files)
        for _ in range(2):
            assert texts(pull(again, 0)) == list(enumerate("abcd")), seed
            assert again.context.topics.require(TOPIC).has_batch_queues
            again.files.kill()
            again = Bench(files=again.files)


def with_stale_queues() -> Bench:
    """A stopped broker whose topic has ordinary queues too."""
    bench = three(made())
    bench.tick(10_000)
    bench.file_work()
    bench.engine.close(bench.clock.now())
    stale = ROOT / "consumequeue" / TOPIC / "0"
    bench.files.make_folders(stale)
    bench.files.write(stale / f"{0:020d}", struct.pack(">qiq", 0, 100, 0) + bytes(19_980))
    return bench


def test_queues_of_the_wrong_kind_are_not_read_and_are_removed() -> None:
    """An older GlassMQ made ordinary queues from the log of a RocketMQ broker with batches."""
    bench = with_stale_queues()
    again = Bench(files=bench.files)
    assert texts(pull(again, 0)) == EVERYTHING
    assert TOPIC not in again.files.names(ROOT / "consumequeue")
    again.file_work()
    assert again.files.names(ROOT / "deleted") == []


def test_a_broker_starts_although_the_disk_refuses_to_remove_queues_of_the_wrong_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*paths: object) -> None:
        raise OSError(5, "Input/output error")

    bench = with_stale_queues()
    with monkeypatch.context() as patch:
        patch.setattr(bench.files, "rename", refuse)
        patch.setattr(bench.files, "remove_folder", refuse)
        again = Bench(files=bench.files)
        assert texts(pull(again, 0)) == EVERYTHING
        assert TOPIC in again.files.names(ROOT / "consumequeue")
        again.files.kill()
    assert TOPIC not in Bench(files=bench.files).files.names(ROOT / "consumequeue")
