"""``glassmq topics``, ``groups``, ``lag`` and ``reset-offset`` at a real broker."""

import threading

import pytest

from broker_core.cli.default_mq_admin_ext import DefaultMQAdminExt, TopicOffset
from broker_core.client.sync import DefaultMQPushConsumer
from broker_core.commands import MessageQueue
from broker_core.testing.running_broker import RunningBroker
from tests.broker_core.cli.conftest import Done, Glassmq


def consume(glassmq: Glassmq, topic: str, group: str, count: int) -> None:
    assert glassmq("consume", topic, "--group", group, "--from", "first", "--count", str(count)).code == 0


def rows(done: Done) -> dict[str, list[str]]:
    """The rows of a table by their first column."""
    return {line.split()[0]: line.split()[1:] for line in done.out.splitlines()}


def test_topics_with_their_messages(glassmq: Glassmq, broker: RunningBroker) -> None:
    broker.create_topic("listed", 3)
    glassmq("produce", "listed", stdin=b"a\nb\n")
    found = {topic["topic"]: topic for topic in glassmq("topics", "--json").json["topics"]}
    assert (found["listed"]["queues"], found["listed"]["messages"]) == (3, 2)
    assert found["listed"]["brokers"] == ["broker-a"] and found["listed"]["last_store_time_ms"] > 0
    assert rows(glassmq("topics"))["listed"][:3] == ["broker-a", "3", "2"]
    assert "TBW102" not in found and "SCHEDULE_TOPIC_XXXX" not in found
    assert "TBW102" in rows(glassmq("topics", "--all"))


def test_groups_and_lag(glassmq: Glassmq) -> None:
    glassmq("produce", "lagging", stdin=b"a\nb\nc\n")
    consume(glassmq, "lagging", "lag-g", 1)
    answer = glassmq("lag", "lag-g", "--json").json
    assert (answer["lag"], answer["members"]) == (2, [])
    assert sum(queue["max_offset"] for queue in answer["queues"]) == 3
    assert {queue["topic"] for queue in answer["queues"]} - {"%RETRY%lag-g"} == {"lagging"}
    assert glassmq("lag", "lag-g").out.splitlines()[-1] == "lag 2, 0 members"
    assert rows(glassmq("groups"))["lag-g"] == ["0", "2", "lagging"]


def test_members_are_shown(glassmq: Glassmq, broker: RunningBroker) -> None:
    glassmq("produce", "with-member", "--body", "x")
    consumer = DefaultMQPushConsumer("member-g", namesrv_addr=broker.namesrv_addr)
    consumer.subscribe("with-member")
    consumer.register_message_listener(lambda messages, context: None)
    with consumer:
        answer = glassmq("lag", "member-g", "--json").json
        assert len(answer["members"]) == 1
        assert rows(glassmq("groups"))["member-g"][0] == "1"


def test_a_reset_is_previewed_and_then_done(glassmq: Glassmq) -> None:
    glassmq("produce", "reset", stdin=b"a\nb\nc\nd\n")
    consume(glassmq, "reset", "reset-g", 4)
    preview = glassmq("reset-offset", "reset-g", "reset", "--to", "first", "--json").json
    assert preview["dry_run"] and sum(change["again"] for change in preview["changes"]) == 4
    assert glassmq("lag", "reset-g", "--json").json["lag"] == 0
    done = glassmq("reset-offset", "reset-g", "reset", "--to", "first", "--yes")
    assert done.out.splitlines()[-1] == "The offsets were reset."
    assert glassmq("lag", "reset-g", "--json").json["lag"] == 4
    skipping = glassmq("reset-offset", "reset-g", "reset", "--to", "last", "--yes", "--json").json
    assert sum(change["skipped"] for change in skipping["changes"]) == 4
    assert glassmq("lag", "reset-g", "--json").json["lag"] == 0


def test_a_reset_to_a_time(glassmq: Glassmq) -> None:
    glassmq("produce", "timed", stdin=b"a\nb\n")
    consume(glassmq, "timed", "timed-g", 2)
    early = glassmq("reset-offset", "timed-g", "timed", "--to", "2020-01-01T00:00:00Z", "--json").json
    late = glassmq("reset-offset", "timed-g", "timed", "--to", "2100-01-01T00:00:00+01:00", "--json").json
    assert sum(change["again"] for change in early["changes"]) == 2
    assert sum(change["again"] + change["skipped"] for change in late["changes"]) == 0


def test_a_reset_reaches_a_running_consumer(glassmq: Glassmq, broker: RunningBroker) -> None:
    glassmq("produce", "running", "--body", "x")
    seen: list[bytes] = []
    consumer = DefaultMQPushConsumer(
        "running-g", namesrv_addr=broker.namesrv_addr, consume_from_where="CONSUME_FROM_FIRST_OFFSET"
    )
    changed = threading.Condition()

    def listener(messages: list, context: object) -> None:
        with changed:
            seen.extend(message.body for message in messages)
            changed.notify_all()

    consumer.subscribe("running")
    consumer.register_message_listener(listener)
    with consumer, changed:
        assert changed.wait_for(lambda: len(seen) == 1, 30)
        changed.release()
        try:
            done = glassmq("reset-offset", "running-g", "running", "--to", "first", "--yes")
        finally:
            changed.acquire()
        assert done.code == 0, done.err
        assert changed.wait_for(lambda: len(seen) == 2, 30)


@pytest.fixture
def silent_broker(broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second broker is registered, has all topics, and does not answer."""

    async def masters(*_: object) -> dict[str, str]:
        return {"broker-a": broker.broker_addr, "broker-b": "127.0.0.1:1"}

    monkeypatch.setattr(DefaultMQAdminExt, "masters", masters)
    monkeypatch.setattr(DefaultMQAdminExt, "topic_masters", masters)


def test_the_others_are_shown_when_a_broker_does_not_answer(glassmq: Glassmq, silent_broker: None) -> None:
    glassmq("produce", "with-silent", stdin=b"a\nb\n")
    consume(glassmq, "with-silent", "silent-g", 1)
    for command in (("topics",), ("groups",), ("lag", "silent-g"), RESET):
        done = glassmq(*command)
        assert done.code == 0, done.err
        assert "broker broker-b at 127.0.0.1:1" in done.err and "broker-b" not in done.out
        assert "with-silent" in done.out or command == RESET
        assert glassmq(*command, "--json").json["unavailable"] == ["broker-b"]


RESET = ("reset-offset", "silent-g", "with-silent", "--to", "first")


def test_nothing_is_reset_while_a_broker_does_not_answer(glassmq: Glassmq, silent_broker: None) -> None:
    glassmq("produce", "with-silent", "--body", "x")
    consume(glassmq, "with-silent", "silent-g", 1)
    before = glassmq("lag", "silent-g", "--json").json
    done = glassmq(*RESET, "--yes")
    assert done.code == 3 and "nothing was reset: broker broker-b at 127.0.0.1:1" in done.err
    assert glassmq("lag", "silent-g", "--json").json == before


def test_queues_in_which_nothing_is_committed_are_counted(
    glassmq: Glassmq, broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("partly-committed", 2)
    ends = DefaultMQAdminExt.examine_topic_stats

    async def with_queue_elsewhere(admin: DefaultMQAdminExt, topic: str) -> dict:
        elsewhere = MessageQueue(topic=topic, broker_name="broker-b", queue_id=0)
        return {**await ends(admin, topic), elsewhere: TopicOffset(0, 7)}

    glassmq("produce", "partly-committed", stdin=b"a\n")
    consume(glassmq, "partly-committed", "partly-g", 1)
    monkeypatch.setattr(DefaultMQAdminExt, "examine_topic_stats", with_queue_elsewhere)
    answer = glassmq("lag", "partly-g", "--json").json
    (missing,) = (queue for queue in answer["queues"] if queue["broker"] == "broker-b")
    assert (missing["offset"], missing["max_offset"], missing["lag"], answer["lag"]) == (None, 7, None, 0)
    assert glassmq("lag", "partly-g").out.splitlines()[-1] == (
        "lag 0, without 1 queue in which nothing is committed, 0 members"
    )
    (group,) = (group for group in glassmq("groups", "--json").json["groups"] if group["group"] == "partly-g")
    assert group["queues_without_offset"] == 1


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("lag", "no-such-group"), 4, "no broker knows a group 'no-such-group'"),
        (("reset-offset", "no-such-group", "TBW102", "--to", "last"), 4, "no broker knows a group 'no-such-group'"),
        (("reset-offset", "g", "no-such-topic", "--to", "last"), 4, "no-such-topic"),
        (("reset-offset", "g", "t", "--to", "soon"), 2, "'soon' is not first, last"),
        (("reset-offset", "g", "t"), 2, "Missing option '--to'"),
    ],
)
def test_what_does_not_exist(glassmq: Glassmq, arguments: tuple[str, ...], code: int, words: str) -> None:
    done = glassmq(*arguments)
    assert done.code == code and words in done.err
