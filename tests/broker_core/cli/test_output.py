"""What is printed, for hostile texts too, and to an output that is closed, full, or read by ``head``."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from broker_core.cli.output import (
    body_text,
    body_view,
    local_time,
    message_line,
    message_view,
    number,
    print_json,
    print_table,
    printable,
    with_local_times,
)
from broker_core.client import MessageExt
from broker_core.formats.commit_log_record import decode, encode
from broker_core.formats.message_body import COMPRESSED, ZLIB
from broker_core.testing.running_broker import RunningBroker
from tests.broker_core.cli.conftest import Glassmq
from tests.conftest import PROJECT

Shell = Callable[[str], "subprocess.CompletedProcess[str]"]
MESSAGES = 500


def message(body: bytes, properties: str = "", sys_flag: int = 0) -> MessageExt:
    record = encode(
        topic="T",
        body=body,
        properties=properties,
        queue_id=2,
        queue_offset=17,
        physical_offset=0,
        sys_flag=sys_flag,
    )
    return MessageExt(decode(record), "b")


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a b€", "a b€"), ("\x1b[2J", "\\x1b[2J"), ("\u202eabc", "\\u202eabc"), ("\udc80", "\\udc80"), ("\n", "\\n")],
)
def test_texts_cannot_control_a_terminal(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_unknown_values_are_not_shown_as_0() -> None:
    assert (number(None), number(0), number(12345)) == ("-", "0", "12,345")
    assert local_time(None) == local_time(0) == local_time(1 << 62) == "-"
    assert local_time(1_700_000_000_123).partition(".")[2].startswith("123")


def test_times_of_sentences_are_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    try:
        sentence = "Refused since 2026-11-23T17:04:10Z, 3 times, by 2026-99-23T17:04:10Z."
        shown = "Refused since 2026-11-24 01:04:10+0800, 3 times, by 2026-99-23T17:04:10Z."
        assert with_local_times(sentence) == shown
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_body_is_text_or_bytes() -> None:
    assert body_view("é".encode()) == {"body": "é", "body_encoding": "utf8"}
    assert body_view(b"\xff") == {"body": "/w==", "body_encoding": "base64"}
    assert (body_text(b"a\nb"), body_text(b"\xffa\n'")) == ("a\\nb", "\\xffa\\n'")


def test_a_message_with_bytes_that_are_no_text(capsys: pytest.CaptureFixture[str]) -> None:
    found = message(b"x", "TAGS\x01\udcff\x02KEYS\x01a\t b")
    print_json(message_view(found))
    view = json.loads(capsys.readouterr().out)
    assert (view["tag"], view["keys"], view["queue_offset"]) == ("\ufffd", ["a\t", "b"], 17)
    assert message_line(found) == "T b:2@17 \\udcff a\\t,b x"


def test_a_body_that_cannot_be_decompressed_is_reported() -> None:
    broken = message(b"no zlib", sys_flag=COMPRESSED | ZLIB)
    view = message_view(broken)
    assert view["body"] is None and view["problem"]
    assert message_line(broken).startswith("T b:2@17 - - (the body cannot be read: ")


def test_a_table_in_a_pipe_is_as_wide_as_its_rows(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("NAME", "#LAG"), [("x" * 150, "1"), ("[red]a\x1b\n", "10,000"), ("y" * 300, "-")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NAME", "LAG"]
    assert lines[1].split() == ["x" * 150, "1"]
    assert lines[2].startswith("[red]a\\x1b\\n ") and lines[2].endswith(" 10,000")
    assert lines[3].split() == ["y" * 199 + "…", "-"]


@pytest.fixture
def shell(broker: RunningBroker) -> Shell:
    """Runs a line of bash, in which ``$glassmq`` is the command at the broker. ``code`` is to be its exit code."""
    program = f"{sys.executable} -c 'from broker_core.cli.main import main; main()'"

    def call(line: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["bash", "-c", f'glassmq() {{ {program} "$@"; }}; {line}'],
            env=os.environ | {"NAMESRV_ADDR": broker.namesrv_addr, "GLASSMQ_URL": "http://127.0.0.1:1"},
            cwd=PROJECT,
            capture_output=True,
            text=True,
            timeout=60,
        )

    return call


def test_a_reader_that_has_enough_does_not_stop_the_sending(shell: Shell, glassmq: Glassmq) -> None:
    done = shell(f"seq {MESSAGES} | glassmq produce head | head -1; exit ${{PIPESTATUS[1]}}")
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("SEND_OK ")
    (found,) = (topic for topic in glassmq("topics", "--json").json["topics"] if topic["topic"] == "head")
    assert found["messages"] == MESSAGES


@pytest.mark.parametrize("command", ["topics", "produce --help"])
def test_a_reader_that_has_enough_is_no_error(shell: Shell, command: str) -> None:
    done = shell(f"glassmq {command} | true; exit ${{PIPESTATUS[0]}}")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_disk_is_reported_after_the_sending(shell: Shell) -> None:
    done = shell("printf 'a\\nb\\n' | glassmq produce full > /dev/full")
    reason = "standard output cannot be written to: No space left on device (2 messages were sent)"
    assert (done.returncode, done.stderr) == (1, f"glassmq: {reason}\n")


@pytest.mark.parametrize("output", ["> /dev/full", ">&-"])
@pytest.mark.parametrize("command", ["--json topics", "doctor"])
def test_output_that_cannot_be_written_is_named(shell: Shell, command: str, output: str) -> None:
    done = shell(f"glassmq {command} {output}")
    assert done.returncode == 1
    assert done.stderr.startswith("glassmq: standard output cannot be written to: ") and done.stderr.count("\n") == 1
