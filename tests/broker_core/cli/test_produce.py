"""``glassmq produce``: every form of input, and what is refused."""

import json
from pathlib import Path

import pytest

from tests.broker_core.cli.conftest import Glassmq


def consumed(glassmq: Glassmq, topic: str, count: int) -> list[dict]:
    """The messages of a topic, in the order of their bodies."""
    done = glassmq("consume", topic, "--group", f"{topic}-g", "--from", "first", "--count", str(count), "--json")
    assert done.code == 0, done.err
    return sorted(done.json_lines, key=lambda message: message["body"])


def test_one_message_from_arguments(glassmq: Glassmq) -> None:
    done = glassmq(
        "produce",
        "one",
        "--body",
        "héllo",
        "--tag",
        "TagA",
        "--key",
        "k1",
        "--key",
        "k2",
        "--property",
        "a=b=c",
        "--json",
    )
    assert done.code == 0 and done.json["send_status"] == "SEND_OK"
    (message,) = consumed(glassmq, "one", 1)
    assert (message["body"], message["tag"], message["keys"]) == ("héllo", "TagA", ["k1", "k2"])
    assert message["properties"]["a"] == "b=c"
    assert message["message_id"] == done.json["message_id"]
    assert message["queue_offset"] == done.json["queue_offset"]


def test_json_lines_of_a_file(glassmq: Glassmq, tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text(
        '{"body":"1","tag":"T","key":"a","keys":["b"],"properties":{"p":"q"}}\n'
        "\n"
        '{"body":{"x":[2]},"body_encoding":"json"}\n'
        '{"body":"/w==","body_encoding":"base64"}\n'
    )
    done = glassmq("produce", "file", "--file", str(lines), "--tag", "Other", "--key", "k")
    assert (done.code, [line.split()[0] for line in done.out.splitlines()]) == (0, ["SEND_OK"] * 3)
    binary, first, value = consumed(glassmq, "file", 3)
    assert (first["body"], first["tag"], first["keys"], first["properties"]["p"]) == ("1", "T", ["b", "a"], "q")
    assert (json.loads(value["body"]), value["tag"], value["keys"]) == ({"x": [2]}, "Other", ["k"])
    assert (binary["body"], binary["body_encoding"]) == ("/w==", "base64")


@pytest.mark.parametrize(
    ("topic", "stdin", "more", "bodies"),
    [
        ("text", b"a\r\n\nb c\n{}", (), ["a", "b c", "{}"]),
        ("json", b'{"body":"x"}\n{"body":"y"}\n', (), ["x", "y"]),
        ("astext", b'{"body":"x"}\n', ("--format", "text"), ['{"body":"x"}']),
    ],
)
def test_standard_input(glassmq: Glassmq, topic: str, stdin: bytes, more: tuple[str, ...], bodies: list[str]) -> None:
    done = glassmq("produce", f"stdin-{topic}", *more, stdin=stdin)
    assert done.code == 0, done.err
    assert sorted(message["body"] for message in consumed(glassmq, f"stdin-{topic}", len(bodies))) == sorted(bodies)


def test_what_consume_prints_can_be_sent_again(glassmq: Glassmq) -> None:
    glassmq("produce", "from", "--body", "again", "--tag", "T", "--key", "k")
    (message,) = consumed(glassmq, "from", 1)
    assert glassmq("produce", "to", stdin=json.dumps(message).encode()).code == 0
    (copy,) = consumed(glassmq, "to", 1)
    assert [copy[name] for name in ("body", "tag", "keys")] == ["again", "T", ["k"]]


def test_what_clients_and_brokers_gave_a_message_is_not_sent_again(glassmq: Glassmq) -> None:
    printed = {"offset_message_id": "x", "body": "again", "properties": {"own": "kept", "DELAY": "3", "KEYS": "k"}}
    printed["properties"] |= {"MSG_REGION": "r", "TRACE_ON": "true", "CLUSTER": "c", "UNIQ_KEY": "u"}
    done = glassmq("produce", "stripped", stdin=json.dumps(printed).encode())
    assert done.code == 0, done.err
    (copy,) = consumed(glassmq, "stripped", 1)
    assert copy["properties"]["own"] == "kept"
    assert not {"DELAY", "KEYS"} & copy["properties"].keys()
    assert (copy["properties"]["MSG_REGION"], copy["properties"]["CLUSTER"]) == ("DefaultRegion", "DefaultCluster")


@pytest.mark.parametrize(
    ("stdin", "words"),
    [
        (
            b'{"body":"x"}\n{"body":3}\n',
            'line 2 is not a message: body must be text; for any other value write "body_enc',
        ),
        (b'{"body":"x","tags":"T"}\n', "line 1 is not a message: Object contains unknown field `tags`"),
        (b'{"body":"?","body_encoding":"base64"}\n', "line 1 is not a message"),
        (b'{"body":"x","properties":{"TAGS":"y"}}\n', "the property 'TAGS' is RocketMQ's own"),
        (b'{"body":"x"}\n[1]\n', "line 2 is not a message: Expected `object`, got `array`"),
        (b"\xff\n", "line 1 is not a message: 'utf-8' codec"),
    ],
)
def test_a_line_that_is_no_message_is_named(glassmq: Glassmq, stdin: bytes, words: str) -> None:
    done = glassmq("produce", "wrong", stdin=stdin)
    assert done.code == 1 and words in done.err


def test_messages_before_a_wrong_line_are_reported(glassmq: Glassmq) -> None:
    done = glassmq("produce", "partly", "--in-flight", "64", stdin=b'{"body":"x"}\n{"body":"y"}\n{}\n')
    assert done.code == 1 and "(2 messages were sent, 0 were not, and the rest was not tried)" in done.err
    assert done.out.count("SEND_OK") == 2
    assert [message["body"] for message in consumed(glassmq, "partly", 2)] == ["x", "y"]


@pytest.mark.parametrize(
    ("topic", "arguments", "line"),
    [
        ("option", ("--delay-ms", "50"), b'{"body":"x"}'),
        ("delay", (), b'{"body":"x","delay_ms":50}'),
        ("time", ("--delay-ms", "3600000"), b'{"body":"x","deliver_at_ms":1}'),
    ],
)
def test_messages_for_an_exact_time(glassmq: Glassmq, topic: str, arguments: tuple[str, ...], line: bytes) -> None:
    done = glassmq("produce", f"timed-{topic}", *arguments, "--json", stdin=line)
    assert done.code == 0 and ("recall_handle" in done.json) == (topic != "time"), done.err
    (message,) = consumed(glassmq, f"timed-{topic}", 1)
    assert message["body"] == "x"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("produce", "a b", "--body", "x"), 2, "contains characters other than"),
        (("produce", "t", "--body", ""), 2, "--body is empty"),
        (("produce", "t", "--body", "x", "--file", __file__), 2, "exclude each other"),
        (("produce", "t", "--body", "x", "--property", "=v"), 2, "--property must be NAME=VALUE"),
        (("produce", "t", "--body", "x", "--delay-level", "19"), 2, "19 is not in the range"),
        (("produce", "t", "--file", "/nowhere"), 2, "does not exist"),
        (("produce",), 2, "Missing argument 'TOPIC'"),
    ],
)
def test_wrong_arguments(glassmq: Glassmq, arguments: tuple[str, ...], code: int, words: str) -> None:
    done = glassmq(*arguments)
    assert (done.code, done.out) == (code, "") and words in done.err


def test_without_a_name_server_the_exit_code_says_so(run_command: Glassmq) -> None:
    done = run_command("--namesrv", "127.0.0.1:1", "produce", "t", "--body", "x")
    assert done.code == 3 and "no name server answers at 127.0.0.1:1" in done.err


def test_empty_input_sends_nothing(glassmq: Glassmq) -> None:
    done = glassmq("produce", "nothing", stdin=b"\n\n")
    assert (done.code, done.out) == (0, "")
