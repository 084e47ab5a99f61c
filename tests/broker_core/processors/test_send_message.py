"""Storing: queue choice, what the broker adds to the properties, topics made on the way."""

import pytest

from broker_core import commands as c
from broker_core.events import TopicChanged
from broker_core.formats.message_properties import decode, encode
from tests.fakes.engine import Bench, bodies, records, send


def test_queues_are_chosen_in_turn() -> None:
    sent = Bench().send("orders", *(b"x" for _ in range(8)), queue_id=-1)
    assert [message.queue_id for message in sent.messages] == [0, 1, 2, 3] * 2


def test_the_broker_adds_what_rocketmq_adds() -> None:
    bench = Bench()
    sent = bench.send("orders", b"x", tag="TagA", properties=encode({"mine": "1"}))
    (record,) = records(bench.pulled(bench.pull("orders", 0)))
    properties = decode(record.properties)
    assert properties | {"UNIQ_KEY": ""} == {
        "mine": "1", "TAGS": "TagA", "UNIQ_KEY": "", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true",
        "CLUSTER": "DefaultCluster"}
    assert properties["UNIQ_KEY"] == sent.messages[0].message_id and len(sent.messages[0].message_id) == 32


def test_a_clients_own_unique_key_and_a_missing_last_separator() -> None:
    bench = Bench()
    sent = bench.send("orders", b"x", properties="A\x011\x02UNIQ_KEY\x01MINE")
    assert sent.messages[0].message_id == "MINE"
    (record,) = records(bench.pulled(bench.pull("orders", 0)))
    assert decode(record.properties)["A"] == "1" and record.properties.endswith("\x02")


def test_a_new_topic_is_announced_once() -> None:
    bench = Bench()
    bench.send("orders", b"x")
    bench.send("orders", b"y")
    made = [e for e in bench.engine.events.after(0) if isinstance(e, TopicChanged)]
    assert [(e.topic, e.action, e.read_queues) for e in made] == [("orders", "created", 4)]


def test_one_bad_send_of_a_batch_does_not_harm_the_others() -> None:
    bench = Bench()
    good, bad, also_good = bench.submit(send("orders", b"1"), send("../x", b"2"), send("orders", b"3"))
    assert isinstance(bench.final(good), c.Sent) and isinstance(bench.final(also_good), c.Sent)
    assert isinstance(bench.final(bad), c.Failed)


def test_offset_message_ids_lead_back_to_the_record() -> None:
    bench = Bench()
    message = bench.send("orders", b"x").messages[0]
    for message_id in (message.offset_message_id, message.message_id):
        reply = bench.call(c.ViewMessage(message_id=message_id))
        assert isinstance(reply, c.Records) and b"x" in reply.records
    assert message.offset_message_id.startswith("7F000001")


def test_a_topic_that_may_not_be_written() -> None:
    bench = Bench()
    bench.call(c.UpdateAndCreateTopic(topic="readonly", perm=4))
    reply = bench.call(send("readonly", b"x"))
    assert isinstance(reply, c.Failed) and "may not be written" in reply.remark


@pytest.mark.parametrize("bad", [
    send("orders", b"x", born_host="nonsense"),
    send("orders", b"x", born_port=1 << 40),
    c.SendMessage(topic="orders", messages=[c.OutgoingMessage(body=b"x", flag=1 << 63, queue_id=0)]),
    send("orders", b"x", properties="a\x01\ud800\x02"),
    send("orders", b"x", properties="a\x01" + "\udcff" * 9000 + "\x02"),
    send("orders", b"x" * 200_000),
])
def test_what_no_record_can_hold_fails_alone(bad: c.SendMessage) -> None:
    bench = Bench(mapped_file_size_commit_log=100_000)
    _, refused, last = bench.submit(send("orders", b"1"), bad, send("orders", b"2"))
    reply = bench.final(refused)
    assert isinstance(reply, c.Sent) or (isinstance(reply, c.Failed) and reply.kind == "request")
    assert bodies(bench.pulled(bench.pull("orders", 0)))[-1] == b"2"
    sent = bench.final(last)
    assert isinstance(sent, c.Sent)
    assert sent.messages[0].queue_offset + 1 == bench.engine.context.store.max_offset("orders", 0)


def test_properties_that_recovery_would_take_for_damage_are_refused() -> None:
    bench = Bench(flush_disk_type="SYNC_FLUSH")
    reply = bench.call(send("orders", b"x", properties="K\x01" + "\0" * 3000 + "\x02"))
    assert isinstance(reply, c.Failed) and reply.pointer == "/messages/0/properties"
    bench.submit(send("orders", b"kept", properties="K\x01" + "\0" * 15 + "\x02"))
    bench.flush()
    bench.files.kill()
    again = Bench(files=bench.files, clock=bench.clock)
    assert bodies(again.pulled(again.pull("orders", 0))) == [b"kept"]


@pytest.mark.parametrize("sys_flag", [4, 12])
def test_transactional_messages_are_refused(sys_flag: int) -> None:
    bench = Bench()
    bench.send("orders", b"x")
    reply = bench.call(c.SendMessage(topic="orders", messages=[c.OutgoingMessage(body=b"y", sys_flag=sys_flag)]))
    assert isinstance(reply, c.Failed) and "transactional" in reply.remark
