"""What became of one message: in its own queue, and through its copies."""

import pytest

from broker_core import commands as c
from broker_core.formats.message_properties import encode
from broker_core.formats.poll_journal import FOLDER, BlockEncoder, JournalEntry, encode_header, file_name
from broker_core.store import query_message as search
from tests.fakes.engine import Bench, records, send
from tests.fakes.pops import RETRY, ack, bodies, change, take


def timeline(bench: Bench, message_id: str, topic: str = "") -> c.Timeline:
    reply = bench.call(c.GetMessageTimeline(message_id=message_id, topic=topic))
    assert isinstance(reply, c.Timeline), reply
    return reply


def types(timeline: c.Timeline) -> list[str]:
    return [event["type"] for event in timeline.events]


def test_a_timeline_follows_a_message_from_storage_to_commit() -> None:
    bench = Bench()
    bench.send("orders", b"0")
    pull = bench.pull("orders", 1)
    message_id = bench.send("orders", b"1").messages[0].message_id
    assert bench.pulled(pull).code == 0
    bench.call(c.UpdateConsumerOffset(group="g", offsets=[c.QueueOffset(topic="orders", queue_id=0, offset=2)]))
    found = timeline(bench, message_id)
    assert found.complete and found.queue_offset == 1
    assert types(found) == [
        "messages_stored",
        "messages_dispatched",
        "pull_woken",
        "messages_delivered",
        "offset_committed",
    ]


def test_the_first_flush_after_the_message_and_the_wake_up_of_its_own_pull() -> None:
    bench = Bench()
    bench.send("orders", b"0")
    bench.pull("others", 0, consumer_group="elsewhere")
    woken = bench.pull("orders", 1, consumer_group="waiting")
    message_id = bench.send("orders", b"1").messages[0].message_id
    bench.tick(1000)
    assert bench.flush()
    bench.send("orders", b"2")
    bench.tick(1000)
    assert bench.flush()
    at_once = bench.pull("orders", 1, consumer_group="late")
    assert bench.pulled(woken).code == bench.pulled(at_once).code == 0
    found = timeline(bench, message_id)
    assert [event["type"] for event in found.events] == [
        "messages_stored",
        "messages_dispatched",
        "pull_woken",
        "messages_delivered",
        "flush_done",
        "messages_delivered",
    ]
    assert [event["group"] for event in found.events if "group" in event] == ["waiting", "waiting", "late"]


def test_a_delayed_message_that_is_sent_back_until_it_is_dead_is_one_story() -> None:
    bench = Bench()
    message_id = bench.send("orders", b"x", properties=encode({"DELAY": "1"})).messages[0].message_id
    bench.send("orders", b"another one", properties=encode({"DELAY": "1"}))
    bench.tick(1000)
    (first, _) = records(bench.pulled(bench.pull("orders", 0)))
    back = c.ConsumerSendMsgBack(group="g", physical_offset=first.physical_offset, max_reconsume_times=1)
    assert bench.call(back) == c.Done()
    bench.tick(10_000)
    (second,) = records(bench.pulled(bench.pull("%RETRY%g", 0)))
    dead = c.ConsumerSendMsgBack(group="g", physical_offset=second.physical_offset, max_reconsume_times=1)
    assert bench.call(dead) == c.Done()
    found = timeline(bench, message_id, "orders")
    assert (found.topic, found.queue_offset, found.complete) == ("orders", 0, True)
    assert types(found) == [
        "messages_stored",
        "messages_delayed",
        "messages_dispatched",
        "messages_stored",
        "messages_dispatched",
        "delay_elapsed",
        "messages_delivered",
        "messages_stored",
        "messages_delayed",
        "messages_dispatched",
        "message_sent_back",
        "messages_stored",
        "messages_dispatched",
        "delay_elapsed",
        "messages_delivered",
        "messages_stored",
        "messages_dispatched",
        "message_dead_lettered",
    ]
    assert [(event["topic"], event["from_offset"]) for event in found.events if event["type"] == "messages_stored"] == [
        ("SCHEDULE_TOPIC_XXXX", 0),
        ("orders", 0),
        ("SCHEDULE_TOPIC_XXXX", 0),
        ("%RETRY%g", 0),
        ("%DLQ%g", 0),
    ]


def test_a_popped_message_that_is_acknowledged_late_and_in_its_second_delivery_is_one_story() -> None:
    bench = Bench()
    bench.send("orders", b"x")
    message_id = bench.send("orders", b"y").messages[0].message_id
    first = take(bench, max_msg_nums=2)
    change(bench, first, 1, 61_000)
    change(bench, first, 0, 1)
    bench.tick(62_000)
    ack(bench, first, 0, 1)
    second = take(bench, max_msg_nums=2)
    assert bodies(second) == [b"x", b"y"]
    ack(bench, second)
    events = timeline(bench, message_id, "orders").events
    other = {"messages_stored", "messages_dispatched", "offset_committed"}
    about = [(event["type"], event["topic"], event.get("late")) for event in events if event["type"] not in other]
    assert about == [
        ("messages_delivered", "orders", None),
        ("invisible_time_changed", "orders", None),
        ("message_sent_back", "orders", None),
        ("messages_acknowledged", "orders", True),
        ("messages_delivered", RETRY, None),
        ("messages_acknowledged", RETRY, False),
    ]


def test_a_timeline_without_its_first_events_is_not_complete() -> None:
    bench = Bench()
    message_id = bench.send("orders", b"x", properties=encode({"DELAY": "1"})).messages[0].message_id
    bench.tick(1000)
    assert timeline(bench, message_id).complete
    again = Bench(files=_killed(bench), clock=bench.clock)
    again.tick(60_000)
    found = timeline(again, message_id, "orders")
    assert not found.complete and "delay_elapsed" in types(found)


def _killed(bench: Bench):  # type: ignore[no-untyped-def]
    bench.files.kill()
    return bench.files


def test_a_topic_that_was_deleted_and_created_again_has_nothing_of_its_former_messages() -> None:
    bench = Bench()
    former = bench.send("orders", b"former").messages[0].message_id
    bench.pull("orders", 0, consumer_group="then")
    bench.tick(1000)
    assert bench.flush()
    assert bench.call(c.DeleteTopic(topic="orders")) == c.Done()
    message_id = bench.send("orders", b"now").messages[0].message_id
    bench.pull("orders", 0, consumer_group="now")
    found = timeline(bench, message_id)
    assert found.complete and types(found) == ["messages_stored", "messages_dispatched", "messages_delivered"]
    assert found.events[-1]["group"] == "now"
    found = timeline(bench, former)
    assert found.complete and [event["group"] for event in found.events if "group" in event] == ["then"]
    assert types(found) == ["messages_stored", "messages_dispatched", "messages_delivered", "flush_done"]


def test_messages_without_an_index_or_with_the_same_key_are_distinguished() -> None:
    bench = Bench(message_index_enable=False)
    sent = bench.send("orders", b"x", b"y").messages[1]
    found = timeline(bench, sent.offset_message_id)
    assert found.complete and types(found) == ["messages_stored", "messages_dispatched"]
    assert bench.call(send("orders", b"z", properties=encode({"UNIQ_KEY": sent.message_id})))
    assert len(timeline(bench, sent.offset_message_id).events) == 2


def test_what_the_ring_no_longer_has_comes_from_the_poll_journal() -> None:
    bench = Bench()
    message_id = bench.send("orders", b"x").messages[0].message_id
    assert timeline(bench, message_id).journal == []
    again = Bench(files=_killed(bench), clock=bench.clock)
    encoder = BlockEncoder()
    for topic in ("others", "orders"):
        numbers = dict.fromkeys(("max_offset", "oldest_store_ms", "held_us", "wake_us", "granted_ms", "bytes"), -1)
        encoder.add(
            JournalEntry(
                **numbers,
                at_ms=again.clock.now().wall_ms,
                from_offset=0,
                next_offset=1,
                queue_id=0,
                messages=1,
                topic=topic,
                group="g",
                client_id="c",
                kind="answered_at_once",
            )
        )
    again.files.wall_ms = again.clock.now().wall_ms
    path = again.context.store.root / FOLDER / file_name(0)
    again.files.append(path, encode_header(0, 1, 1, "b") + encoder.take())
    found = timeline(again, message_id)
    assert not found.complete and found.events == []
    (entry,) = found.journal
    assert (entry["topic"], entry["group"], entry["kind"]) == ("orders", "g", "answered_at_once")


def test_the_copies_of_a_message_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "BYTES_READ", 1)
    bench = Bench()
    key = encode({"UNIQ_KEY": "K"})
    bench.send("orders", *(b"x" for _ in range(9)), properties=key)
    pieces = list(bench.engine.walk(c.GetMessageTimeline(message_id="K", topic="orders"), bench.clock.now()))
    assert len(pieces) > 9
