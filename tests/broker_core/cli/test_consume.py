"""``glassmq consume`` and ``glassmq tail``."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import click
import pytest

from broker_core.cli.errors import OutputError
from broker_core.client import Message
from broker_core.client.sync import DefaultMQProducer
from broker_core.testing.running_broker import RunningBroker
from tests.broker_core.cli.conftest import Glassmq
from tests.conftest import PROJECT


@contextmanager
def sending(broker: RunningBroker, *messages: Message) -> Iterator[None]:
    """Messages are sent again and again meanwhile."""
    stopped = threading.Event()

    def send() -> None:
        with DefaultMQProducer("sending-p", namesrv_addr=broker.namesrv_addr) as producer:
            while not stopped.wait(0.02):
                for message in messages:
                    producer.send(message)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        stopped.set()
        sender.join()


def committed(glassmq: Glassmq, group: str) -> int:
    """How many messages of one topic the group has committed."""
    return sum(queue["offset"] for queue in glassmq("lag", group, "--json").json["queues"])


def test_count_prints_and_commits_exactly_so_many(glassmq: Glassmq) -> None:
    glassmq("produce", "counted", "--in-flight", "1", stdin=b"".join(b"m%d\n" % n for n in range(9)))
    first = glassmq("consume", "counted", "--group", "counting", "--from", "first", "--count", "4", "--json")
    assert (first.code, len(first.json_lines), committed(glassmq, "counting")) == (0, 4, 4)
    assert first.err == ""
    rest = glassmq("consume", "counted", "--group", "counting", "--count", "5", "--json")
    bodies = [message["body"] for message in (*first.json_lines, *rest.json_lines)]
    assert sorted(bodies) == [f"m{n}" for n in range(9)]
    assert committed(glassmq, "counting") == 9


def test_a_line_shows_place_tag_keys_and_body_without_control_characters(glassmq: Glassmq) -> None:
    glassmq("produce", "line", "--body", "red \x1b[31m\n\u202e€", "--tag", "T", "--key", "k")
    done = glassmq("consume", "line", "--group", "line-g", "--from", "first", "--count", "1")
    place, rest = done.out.split(" T ")
    assert place.startswith("line broker-a:") and rest == "k red \\x1b[31m\\n\\u202e€\n"


def test_only_messages_with_the_tag(glassmq: Glassmq) -> None:
    glassmq("produce", "tagged", stdin=b'{"body":"1","tag":"A"}\n{"body":"2","tag":"B"}\n{"body":"3","tag":"C"}\n')
    done = glassmq(
        "consume", "tagged", "--group", "tagged-g", "--from", "first", "--tag", "A || C", "--count", "2", "--json"
    )
    assert sorted(message["body"] for message in done.json_lines) == ["1", "3"]


def test_only_messages_whose_properties_satisfy_the_expression(glassmq: Glassmq) -> None:
    sizes = "".join(f'{{"body":"{size}","properties":{{"size":"{size}"}}}}\n' for size in (1, 20, 3, 40))
    glassmq("produce", "sized", stdin=sizes.encode())
    start = ("consume", "sized", "--group", "sized-g", "--from", "first")
    done = glassmq(*start, "--sql", "size > 10", "--count", "2", "--json")
    assert sorted(message["body"] for message in done.json_lines) == ["20", "40"]
    refused = glassmq(*start, "--sql", "size >")
    assert refused.code == 1 and "'size >' is no SQL92 filter: the expression ends at character 7" in refused.err
    both = glassmq(*start, "--sql", "size > 10", "--tag", "A")
    assert both.code == 2 and "give either --tag or --sql" in both.err


def test_wait_ends_it_and_missing_messages_are_an_error(glassmq: Glassmq) -> None:
    glassmq("produce", "few", "--body", "only")
    done = glassmq("consume", "few", "--group", "few-g", "--from", "first", "--count", "2", "--wait", "2")
    assert (done.code, done.err) == (1, "glassmq: only 1 of 2 messages came in time\n")
    assert done.out.endswith(" only\n")


@pytest.mark.parametrize("count", [(), ("--count", "1")])
def test_a_topic_that_does_not_exist_is_an_error(glassmq: Glassmq, count: tuple[str, ...]) -> None:
    done = glassmq("consume", "nowhere", "--group", "nowhere-g", "--wait", "0.1", *count)
    assert (done.code, done.out) == (4, "")
    assert done.err.splitlines() == [
        "glassmq: topic 'nowhere' does not exist yet; waiting for it",
        "glassmq: no topic 'nowhere' was found in time",
    ]


def test_from_last_begins_at_the_end_of_a_young_topic(glassmq: Glassmq, broker: RunningBroker) -> None:
    broker.create_topic("young", queues=1)
    glassmq("produce", "young", "--body", "old")
    with sending(broker, Message("young", b"new")):
        done = glassmq("consume", "young", "--group", "young-g", "--from", "last", "--count", "1", "--json")
    assert done.json["body"] == "new"


def test_a_topic_that_is_created_later_is_noticed_soon(
    glassmq: Glassmq, broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker_core.cli.consume.LOOK_FOR_TOPIC_S", 0.1)
    echo = click.echo
    with ExitStack() as stack:

        def echo_and_send(text: str, **options: Any) -> None:
            echo(text, **options)
            if "waiting for it" in text:
                stack.enter_context(sending(broker, Message("later", b"first")))

        monkeypatch.setattr("click.echo", echo_and_send)
        done = glassmq("consume", "later", "--group", "later-g", "--count", "1", "--wait", "12", "--json")
    assert done.json["body"] == "first"


def test_what_was_printed_is_committed_when_it_is_terminated(glassmq: Glassmq, broker: RunningBroker) -> None:
    glassmq("produce", "ended", "--body", "printed")
    words = ("--namesrv", broker.namesrv_addr, "consume", "ended", "--group", "ended-g", "--from", "first")
    command = [sys.executable, "-c", "from broker_core.cli.main import main; main()", *words]
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().endswith(b" printed\n")
        process.terminate()
        assert (process.wait(60), process.stderr.read()) == (143, b"")
    assert committed(glassmq, "ended-g") == 1


@pytest.mark.parametrize(
    ("time", "words"), [("yesterday", "'yesterday' is not first, last"), ("9" * 16, "is not first, last")]
)
def test_a_wrong_time_is_refused(glassmq: Glassmq, time: str, words: str) -> None:
    done = glassmq("consume", "t", "--group", "g", "--from", time)
    assert done.code == 2 and words in done.err


@pytest.mark.parametrize("group", ["bad group!", "", "DEFAULT_CONSUMER"])
def test_a_wrong_group_is_refused(glassmq: Glassmq, group: str) -> None:
    done = glassmq("consume", "t", "--group", group)
    assert done.code == 2 and "group" in done.err


def test_a_closed_pipe_leaves_the_message_to_others(glassmq: Glassmq, monkeypatch: pytest.MonkeyPatch) -> None:
    glassmq("produce", "pipe", "--body", "kept")

    def fail(text: str) -> None:
        raise OutputError(BrokenPipeError())

    monkeypatch.setattr("broker_core.cli.consume.print_line", fail)
    done = glassmq("consume", "pipe", "--group", "pipe-g", "--from", "first")
    assert (done.code, done.out, done.err) == (0, "", "")
    monkeypatch.undo()
    again = glassmq("consume", "pipe", "--group", "pipe-g", "--count", "1", "--json")
    assert again.json["body"] == "kept"


def test_tail_prints_new_messages_and_joins_no_group(glassmq: Glassmq, broker: RunningBroker) -> None:
    glassmq("produce", "tailed", "--body", "old")
    with sending(broker, Message("tailed", b"new", "A"), Message("tailed", b"other", "B")):
        done = glassmq("tail", "tailed", "--tag", "A", "--count", "3", "--json")
    assert (done.code, [message["body"] for message in done.json_lines]) == (0, ["new"] * 3)
    assert "TOOLS_CONSUMER" not in glassmq("groups").out


def test_tail_of_an_unknown_topic_is_not_found(glassmq: Glassmq) -> None:
    done = glassmq("tail", "unknown")
    assert done.code == 4 and "unknown" in done.err
