"""Messages by id, by key and by time."""

from typing import Any

import pytest

from broker_core import commands as c
from broker_core.codes import ResponseCode
from broker_core.formats.commit_log_record import decode_all
from broker_core.formats.message_id import encode_offset_message_id
from broker_core.formats.message_properties import encode
from broker_core.processors import query_message
from broker_core.walk import finish
from tests.fakes.engine import Bench
from tests.fakes.members import failure, join
from tests.fakes.timers import sent, timed


def test_by_key() -> None:
    bench = Bench()
    bench.send("orders", b"1", properties=encode({"KEYS": "k1 k2"}))
    bench.send("orders", b"2", properties=encode({"KEYS": "k2"}))
    reply = bench.call(c.QueryMessage(topic="orders", key="k2"))
    assert isinstance(reply, c.Records)
    assert [record.body for record in decode_all(reply.records)] == [b"1", b"2"]


@pytest.mark.parametrize("key", ["a\tb", "c\u00a0d\u3000e", "f#g", "k" * 10_000, "\u00e9" * 5_000])
def test_by_keys_with_other_white_space_than_blanks_and_by_long_keys(key: str) -> None:
    bench = Bench()
    bench.send("orders", b"1", properties=encode({"KEYS": f"x {key} y"}))
    bench.send("orders", b"2", properties=encode({"KEYS": "a b c d e f g k"}))
    reply = bench.call(c.QueryMessage(topic="orders", key=key))
    assert isinstance(reply, c.Records) and [record.body for record in decode_all(reply.records)] == [b"1"]


@pytest.mark.parametrize("key", ["", "k" * 32_768])
def test_keys_that_no_message_can_have_are_refused(key: str) -> None:
    bench = Bench()
    bench.send("orders", b"1")
    reply = failure(bench, c.QueryMessage(topic="orders", key=key))
    assert (reply.code, reply.pointer) == (ResponseCode.INVALID_PARAMETER, "/key") and "32767" in reply.remark


def test_by_tag() -> None:
    bench = Bench()
    bench.send("orders", b"1", properties=encode({"TAGS": "paid"}))
    bench.send("orders", b"2", properties=encode({"KEYS": "paid"}))
    reply = bench.call(c.QueryMessage(topic="orders", key="T#paid"))
    assert isinstance(reply, c.Records) and [record.body for record in decode_all(reply.records)] == [b"1"]


def test_a_query_looks_at_many_messages_with_its_key_in_pieces() -> None:
    """The index has all messages of a key in one chain, the newest first."""
    bench = Bench()
    bench.send("orders", b"first", properties=encode({"KEYS": "k"}))
    end_ms = bench.clock.now().wall_ms
    bench.tick(10_000)
    later = [c.OutgoingMessage(body=b"later", queue_id=0, properties=encode({"KEYS": "k"})) for _ in range(2000)]
    bench.call(c.SendMessage(topic="orders", messages=later))
    walk = bench.engine.walk(c.QueryMessage(topic="orders", key="k", end_ms=end_ms), bench.clock.now())
    pieces = 0
    while True:
        try:
            next(walk)
            pieces += 1
        except StopIteration as end:
            reply = end.value
            break
    assert pieces >= 4 and [record.body for record in decode_all(reply.records)] == [b"first"]


def test_by_unique_key_in_any_topic() -> None:
    bench = Bench()
    message_id = bench.send("orders", b"1").messages[0].message_id
    for topic in ("", "orders"):
        reply = bench.call(c.ViewMessage(message_id=message_id, topic=topic))
        assert isinstance(reply, c.Records) and len(decode_all(reply.records)) == 1


def test_ids_that_lead_nowhere() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    for message_id in ("", "x", "7F00000100002A9F00000000000FFFFF", "Z" * 32, "0" * 300):
        reply = bench.call(c.ViewMessage(message_id=message_id))
        assert isinstance(reply, c.Failed) and reply.pointer == "/message_id"


def test_a_message_whose_body_is_damaged_is_shown_all_the_same() -> None:
    bench = Bench()
    message = bench.send("orders", b"abcdefgh").messages[0]
    image = bench.context.store._log.mapped_files.find(0).buffer
    image[image.find(b"abcdefgh")] = 0
    for message_id in (message.message_id, message.offset_message_id):
        assert isinstance(bench.call(c.ViewMessage(message_id=message_id)), c.Records)
        assert isinstance(bench.call(c.GetMessageTimeline(message_id=message_id)), c.Timeline)


def test_names_that_are_no_text_find_nothing() -> None:
    reply = Bench().call(c.ViewMessage(message_id="x", topic="\ud800"))
    assert isinstance(reply, c.Failed) and reply.kind == "not_found"


def test_a_query_ends_with_the_record_that_fills_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_message, "MAX_BYTES", 2000)
    bench = Bench()
    for body in (b"a", b"b", b"c"):
        bench.send("orders", body * 1500, properties=encode({"KEYS": "k"}))
    reply = bench.call(c.QueryMessage(topic="orders", key="k"))
    assert isinstance(reply, c.Records)
    assert [record.body[:1] for record in decode_all(reply.records)] == [b"b", b"c"]


def test_by_physical_offset() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    offset = bench.send("orders", b"2").messages[0].physical_offset
    reply = bench.call(c.ViewMessage(physical_offset=offset))
    assert isinstance(reply, c.Records) and [record.body for record in decode_all(reply.records)] == [b"2"]


@pytest.mark.parametrize("offset", [-1, -(1 << 63), 1, 1 << 40, (1 << 63) - 1])
def test_physical_offsets_where_no_message_begins(offset: int) -> None:
    bench = Bench()
    bench.send("orders", b"1")
    reply = bench.call(c.ViewMessage(physical_offset=offset))
    assert isinstance(reply, c.Failed) and reply.code == ResponseCode.SYSTEM_ERROR and str(offset) in reply.remark


def test_a_query_says_how_far_the_index_is() -> None:
    bench = Bench()
    bench.call(c.UpdateAndCreateTopic(topic="orders"))
    reply = bench.call(c.QueryMessage(topic="orders", key="k"))
    assert reply == c.Records(records=b"")
    bench.send("orders", b"1")
    last = bench.send("orders", b"2").messages[0]
    reply = bench.call(c.QueryMessage(topic="orders", key="k"))
    assert isinstance(reply, c.Records)
    assert (reply.index_last_update_timestamp, reply.index_last_update_physical_offset) == (
        last.store_time_ms,
        last.physical_offset,
    )
    assert Bench(message_index_enable=False).call(c.QueryMessage(topic="TBW102", key="k")) == c.Records(records=b"")


def by_time(bench: Bench, **fields: Any) -> tuple[list[bytes], int | None]:
    reply = bench.call(c.QueryMessageByTime(**({"topic": "orders"} | fields)))
    assert isinstance(reply, c.Records), reply
    return [record.body for record in decode_all(reply.records)], reply.next


def test_messages_of_all_queues_by_time_in_pages() -> None:
    bench = Bench()
    times = []
    for number in range(7):
        times.append(bench.clock.now().wall_ms)
        bench.send("orders", b"%d" % number, queue_id=number % 3)
        bench.send("others", b"x")
        bench.tick(1000)
    assert by_time(bench) == ([b"0", b"1", b"2", b"3", b"4", b"5", b"6"], None)
    assert by_time(bench, begin_ms=times[2], end_ms=times[4]) == ([b"2", b"3", b"4"], None)
    assert by_time(bench, begin_ms=times[2] + 1, end_ms=times[4] - 1) == ([b"3"], None)
    assert by_time(bench, begin_ms=times[6] + 1) == ([], None)
    newest, older = by_time(bench, max_num=3)
    assert newest == [b"4", b"5", b"6"] and older is not None
    middle, older = by_time(bench, max_num=3, before=older)
    assert middle == [b"1", b"2", b"3"] and older is not None
    assert by_time(bench, max_num=3, before=older) == ([b"0"], None)
    assert by_time(bench, max_num=3, before=0) == ([], None)


def test_a_page_by_time_ends_with_the_record_that_fills_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_message, "MAX_BYTES", 2000)
    bench = Bench()
    for body in (b"a", b"b", b"c"):
        bench.send("orders", body * 1500)
    newest, older = by_time(bench)
    assert [body[:1] for body in newest] == [b"b", b"c"] and older is not None
    assert [body[:1] for body in by_time(bench, before=older)[0]] == [b"a"]


def test_a_search_by_time_names_what_is_wrong() -> None:
    bench = Bench()
    missing = bench.call(c.QueryMessageByTime(topic="nowhere"))
    assert isinstance(missing, c.Failed) and missing.code == ResponseCode.TOPIC_NOT_EXIST
    bench.send("orders", b"1")
    none = bench.call(c.QueryMessageByTime(topic="orders", max_num=0))
    assert isinstance(none, c.Failed) and none.pointer == "/limit"


def directly(client_id: str, message_id: str, topic: str = "") -> c.ConsumeMessageDirectly:
    return c.ConsumeMessageDirectly(group="g", client_id=client_id, message_id=message_id, topic=topic)


def test_a_message_for_one_client_of_a_group() -> None:
    bench = Bench()
    sent = bench.send("orders", b"1").messages[0]
    join(bench, "A")
    reply = bench.call(directly("A", sent.message_id, "orders"))
    assert isinstance(reply, c.RelayToConsumer)
    assert (reply.client_id, reply.version, reply.topic, reply.timeout_ms) == ("A", 493, "orders", 10_000)
    (record,) = decode_all(reply.record)
    assert (record.topic, record.body) == ("orders", b"1")
    missing = failure(bench, directly("A", "nothing", "orders"))
    assert (missing.kind, missing.pointer) == ("not_found", "/message_id")
    for unknown in (directly("B", sent.message_id), c.ConsumeMessageDirectly(group="h", client_id="A", message_id="x")):
        refused = failure(bench, unknown)
        assert (refused.code, refused.kind, refused.pointer) == (206, "not_found", "/client_id")
    join(bench, "web", connection="W", protocol="websocket", version=0)
    assert failure(bench, directly("web", sent.message_id)).kind == "conflict"


def test_a_dead_letter_is_consumed_as_the_copy_that_a_resend_makes() -> None:
    """Its topic is the retry topic, for which a Java client puts the first topic."""
    bench = Bench()
    sent = bench.send("orders", b"1", properties=encode({"KEYS": "k"})).messages[0]
    back = c.ConsumerSendMsgBack(group="g", physical_offset=sent.physical_offset, delay_level=-1)
    assert bench.call(back) == c.Done()
    join(bench, "A")
    dead = bench.call(c.PullMessage(topic="%DLQ%g", queue_id=0, queue_offset=0))
    assert isinstance(dead, c.Pulled)
    (letter,) = decode_all(dead.records)
    dead_id = encode_offset_message_id(letter.store_host, letter.store_port, letter.physical_offset)
    reply = bench.call(directly("A", dead_id, "%DLQ%g"))
    assert isinstance(reply, c.RelayToConsumer) and reply.topic == "%DLQ%g"
    (record,) = decode_all(reply.record)
    assert (record.topic, record.body, record.physical_offset) == ("%RETRY%g", b"1", letter.physical_offset)
    assert record.properties == letter.properties and "RETRY_TOPIC\x01orders" in record.properties


@pytest.mark.parametrize("properties", [{"TIMER_DELAY_MS": 5000}, {"DELAY": 3}])
def test_a_message_that_is_not_due_is_found_by_its_topic(properties: dict[str, int]) -> None:
    bench = Bench()
    message = sent(bench, timed(b"waits", **properties))
    if message.recall_handle:
        bench.call(c.RecallMessage(topic="orders", recall_handle=message.recall_handle))
    bench.tick()
    view = c.ViewMessage(message_id=message.message_id, topic="orders")
    found = finish(bench.engine.walk(view, bench.clock.now()))
    assert isinstance(found, c.Records) and [record.body for record in decode_all(found.records)] == [b"waits"]
    elsewhere = finish(bench.engine.walk(c.ViewMessage(message_id=message.message_id, topic="T"), bench.clock.now()))
    assert isinstance(elsewhere, c.Failed)
