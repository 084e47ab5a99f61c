"""The command ``glassmq`` at GlassMQ and, with ``--compat``, at Apache RocketMQ."""

from collections.abc import Callable

import pytest

from broker_core.cli.main import run
from tests.broker_core.cli.conftest import Done
from tests.compat.glassmq_broker import Address

Glassmq = Callable[..., Done]


@pytest.fixture
def command(server: Address, capsys: pytest.CaptureFixture[str]) -> Glassmq:
    """Runs a command line at the server; its standard output is JSON."""

    def call(*arguments: str) -> Done:
        code = run(["--namesrv", server.namesrv, "--url", server.web or "http://127.0.0.1:1", "--json", *arguments])
        return Done(code, *capsys.readouterr())

    return call


def test_messages_are_sent_consumed_and_consumed_again(command: Glassmq) -> None:
    topic, group = "command-line", "command-line-g"
    sent = [command("produce", topic, "--body", f"m{n}", "--tag", "T", "--key", f"k{n}").json for n in range(3)]
    for _ in range(2):
        done = command("consume", topic, "--group", group, "--from", "first", "--count", "3")
        assert done.code == 0, done.err
        assert sorted(message["body"] for message in done.json_lines) == ["m0", "m1", "m2"]
        state = command("lag", group).json
        assert state["lag"] == 0 and sum(queue["max_offset"] for queue in state["queues"]) == 3
        preview = command("reset-offset", group, topic, "--to", "first", "--yes")
        assert preview.code == 0, preview.err
        assert sum(change["again"] or 0 for change in preview.json["changes"]) == 3
    assert command("lag", group).json["lag"] == 3
    (found,) = (row for row in command("topics").json["topics"] if row["topic"] == topic)
    assert (found["queues"], found["messages"]) == (4, 3)
    (found,) = (row for row in command("groups").json["groups"] if row["group"] == group)
    assert (found["members"], found["lag"], found["topics"]) == (0, 3, [topic])
    by_offset = command("message", sent[1]["offset_message_id"]).json
    assert (by_offset["body"], by_offset["tag"], by_offset["keys"]) == ("m1", "T", ["k1"])
    assert command("message", sent[1]["message_id"], "--topic", topic).json == by_offset


def test_what_does_not_exist(command: Glassmq) -> None:
    assert command("lag", "no-such-group").code == 4
    assert command("tail", "no-such-topic").code == 4
    assert command("reset-offset", "no-such-group", "TBW102", "--to", "last").code == 4


def test_only_glassmq_shows_held_pulls(command: Glassmq, server: Address) -> None:
    done = command("holds")
    if server.web:
        assert done.json["total"] == len(done.json["holds"])
    else:
        assert done.code == 3 and "cannot work with Apache RocketMQ" in done.err


def test_doctor_finds_nothing_wrong(command: Glassmq) -> None:
    done = command("doctor")
    errors = [finding for finding in done.json["findings"] if finding["level"] == "error"]
    assert (done.code, errors) == (0, [])
