"""Storing: queue choice, what the broker adds to the properties, topics made on the way."""

import pytest

from broker_core import commands as c
from broker_core.events import TopicChanged
from broker_core.formats.message_properties import decode, encode
from broker_core.processors.send_message import MAX_BATCH
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
        "mine": "1",
        "TAGS": "TagA",
        "UNIQ_KEY": "",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "CLUSTER": "DefaultCluster",
    }
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


@pytest.mark.covers("send-perm")
def test_a_send_to_a_topic_without_write_permission_is_refused() -> None:
    bench = Bench()
    bench.call(c.UpdateAndCreateTopic(topic="readonly", perm=4))
    reply = bench.call(send("readonly", b"x"))
    assert isinstance(reply, c.Failed) and "may not be written" in reply.remark


@pytest.mark.parametrize(
    "bad",
    [
        send("orders", b"x", born_host="nonsense"),
        send("orders", b"x", born_port=1 << 40),
        c.SendMessage(topic="orders", messages=[c.OutgoingMessage(body=b"x", flag=1 << 63, queue_id=0)]),
        send("orders", b"x", properties="a\x01\ud800\x02"),
        send("orders", b"x", properties="a\x01" + "\udcff" * 9000 + "\x02"),
        send("orders", b"x" * 200_000),
    ],
)
def test_a_message_that_no_record_can_hold_fails_alone(bad: c.SendMessage) -> None:
    bench = Bench(mapped_file_size_commit_log=100_000)
    _, refused, last = bench.submit(send("orders", b"1"), bad, send("orders", b"2"))
    reply = bench.final(refused)
    assert isinstance(reply, c.Sent) or (isinstance(reply, c.Failed) and reply.kind in ("request", "too_large"))
    assert bodies(bench.pulled(bench.pull("orders", 0)))[-1] == b"2"
    sent = bench.final(last)
    assert isinstance(sent, c.Sent)
    assert sent.messages[0].queue_offset + 1 == bench.context.store.max_offset("orders", 0)


def test_properties_that_recovery_would_take_for_damage_are_refused() -> None:
    bench = Bench(flush_disk_type="SYNC_FLUSH")
    reply = bench.call(send("orders", b"x", properties="K\x01" + "\0" * 3000 + "\x02"))
    assert isinstance(reply, c.Failed) and reply.pointer == "/messages/0/properties"
    bench.submit(send("orders", b"kept", properties="K\x01" + "\0" * 15 + "\x02"))
    bench.flush()
    bench.files.kill()
    again = Bench(files=bench.files, clock=bench.clock)
    assert bodies(again.pulled(again.pull("orders", 0))) == [b"kept"]


# --- What a send may be: RocketMQ's checks, in its order, with its codes ---


def refused(bench: Bench, command: c.SendMessage) -> c.Failed:
    reply = bench.call(command)
    assert isinstance(reply, c.Failed), reply
    return reply


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("", 29),
        ("a b", 29),
        ("../x", 29),
        ("x" * 128, 29),
        ("名", 29),
        ("%RETRY%" + "x" * 121, 29),
        ("SCHEDULE_TOPIC_XXXX", 16),
        ("RMQ_SYS_TRANS_HALF_TOPIC", 16),
        ("OFFSET_MOVED_EVENT", 16),
        ("SELF_TEST_TOPIC", 16),
        ("TRANS_CHECK_MAX_TIME_TOPIC", 16),
        ("RMQ_SYS_TRANS_OP_HALF_TOPIC", 16),
    ],
)
def test_topics_that_take_no_messages(topic: str, code: int) -> None:
    bench = Bench()
    assert refused(bench, send(topic, b"x")).code == code
    assert bench.context.store.appended_offset == 0


@pytest.mark.parametrize("default_topic", ["TBW102", "nothing", "SELF_TEST_TOPIC"])
def test_a_send_to_a_topic_that_cannot_be_created_is_refused(default_topic: str) -> None:
    bench = Bench(auto_create_topic_enable=False)
    assert refused(bench, send("orders", b"x", default_topic=default_topic)).code == 17
    assert bench.context.topics.get("orders") is None


@pytest.mark.parametrize(("wanted", "queues"), [(4, 4), (100, 8), (1, 1), (0, 1), (-3, 1)])
def test_a_topic_has_as_many_queues_as_the_client_wants_and_the_template_allows(wanted: int, queues: int) -> None:
    bench = Bench()
    bench.send("orders", b"x", queue_id=-1, default_topic_queue_nums=wanted)
    topic = bench.context.topics.get("orders")
    assert topic is not None and (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (queues, queues, 6)


@pytest.mark.parametrize(("queue_id", "taken"), [(0, True), (3, True), (4, False), (1 << 31, False)])
def test_queues_that_are_not_there(queue_id: int, taken: bool) -> None:
    bench = Bench()
    reply = bench.call(send("orders", b"x", queue_id=queue_id))
    assert isinstance(reply, c.Sent) if taken else isinstance(reply, c.Failed) and reply.code == 29


def test_permissions() -> None:
    bench = Bench()
    bench.call(c.UpdateAndCreateTopic(topic="closed", perm=4))
    assert refused(bench, send("closed", b"x")).code == 16
    bench.send("orders", b"x")
    bench.call(c.UpdateBrokerConfig(changes={"brokerPermission": 4}))
    bench.send("orders", b"y")  # the broker's permission is for ordered topics
    topic = bench.context.topics.get("orders")
    assert topic is not None
    topic.order = True
    assert refused(bench, send("orders", b"z")).code == 16


@pytest.mark.parametrize(
    ("message", "kind", "pointer"),
    [
        (c.OutgoingMessage(body=b"x" * 1025), "too_large", "/messages/0/body"),
        (c.OutgoingMessage(body=b"", properties="k\x01" + "v" * 32_767), "too_large", "/messages/0/properties"),
        (c.OutgoingMessage(body=b"", properties="k\x01" + "é" * 16_384), "too_large", "/messages/0/properties"),
        (c.OutgoingMessage(body=b"", properties="k\x01" + "v" * 32_640 + "\x02DELAY\x011"), "too_large", ""),
    ],
)
def test_refused_messages(message: c.OutgoingMessage, kind: str, pointer: str) -> None:
    bench = Bench(max_message_size=1024)
    reply = refused(bench, c.SendMessage(topic="orders", messages=[message]))
    assert (reply.code, reply.kind, reply.pointer) == (13, kind, pointer)
    assert bench.context.store.appended_offset == 0


@pytest.mark.covers("no-body")
def test_the_largest_body_and_no_body_at_all() -> None:
    bench = Bench(max_message_size=1024)
    bench.send("orders", b"x" * 1024, b"")
    assert [len(record.body) for record in records(bench.pulled(bench.pull("orders", 0)))] == [1024, 0]


def test_the_number_of_messages_of_a_send_is_limited() -> None:
    bench = Bench()
    assert refused(bench, c.SendMessage(topic="orders", messages=[])).code == 13
    many = c.SendMessage(topic="orders", messages=[c.OutgoingMessage(body=b"")] * (MAX_BATCH + 1))
    assert refused(bench, many).code == 13


@pytest.mark.parametrize("properties", ["POP_CK\x010 1 2\x02A\x011\x02", "A\x011\x02POP_CK\x010 1 2"])
def test_the_checkpoint_of_a_pop_is_not_stored(properties: str) -> None:
    bench = Bench()
    bench.send("orders", b"x", properties=properties + "\x02POP_CK_OFFSET\x017\x02")
    (record,) = records(bench.pulled(bench.pull("orders", 0)))
    found = decode(record.properties)
    assert "POP_CK" not in found and (found["A"], found["POP_CK_OFFSET"]) == ("1", "7")


@pytest.mark.parametrize(
    ("priority", "queue_id"),
    [("0", 0), ("2", 2), ("+3", 3), ("9", 3), ("2147483647", 3), ("-1", 1), ("x", 1), ("2147483648", 1)],
)
def test_a_priority_is_the_number_of_a_queue(priority: str, queue_id: int) -> None:
    bench = Bench()
    sent = bench.send("orders", b"x", queue_id=1, properties=f"_SYS_MSG_PRIORITY_\x01{priority}\x02")
    assert sent.messages[0].queue_id == queue_id
    (record,) = records(bench.pulled(bench.pull("orders", 0, queue_id=queue_id)))
    assert decode(record.properties)["_SYS_MSG_PRIORITY_"] == priority


def test_an_ordered_message_loses_its_priority() -> None:
    bench = Bench()
    bench.send("orders", b"x", queue_id=1, properties="_SYS_MSG_PRIORITY_\x013\x02__SHARDINGKEY\x01k\x02")
    (record,) = records(bench.pulled(bench.pull("orders", 0, queue_id=1)))
    assert "_SYS_MSG_PRIORITY_" not in decode(record.properties)


def test_a_batch_stays_in_its_queue() -> None:
    bench = Bench()
    sent = bench.send("orders", b"x", b"y", queue_id=1, properties="_SYS_MSG_PRIORITY_\x013\x02")
    assert [message.queue_id for message in sent.messages] == [1, 1]


def test_properties_without_separators_are_no_properties() -> None:
    bench = Bench()
    bench.send("orders", b"x", properties="nonsense")
    (record,) = records(bench.pulled(bench.pull("orders", 0)))
    assert set(decode(record.properties)) == {"UNIQ_KEY", "MSG_REGION", "TRACE_ON", "CLUSTER"}
