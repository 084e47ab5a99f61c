"""``glassmq topics``, ``groups``, ``lag`` and ``reset-offset`` at a real broker."""

import threading

import pytest

from broker_core.client.sync import DefaultMQPushConsumer
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
