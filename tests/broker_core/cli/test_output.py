"""What is printed, for hostile texts too."""

import json

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
)
from broker_core.client import MessageExt
from broker_core.formats.commit_log_record import decode, encode
from broker_core.formats.message_body import COMPRESSED, ZLIB


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


def test_a_body_is_text_or_bytes() -> None:
    assert body_view("é".encode()) == {"body": "é", "body_encoding": "utf8"}
    assert body_view(b"\xff") == {"body": "/w==", "body_encoding": "base64"}
    assert (body_text(b"a\nb"), body_text(b"\xffa\n'")) == ("a\\nb", "\\xffa\\n'")


def test_a_message_with_bytes_that_are_no_text(capsys: pytest.CaptureFixture[str]) -> None:
    found = message(b"x", "TAGS\x01\udcff\x02KEYS\x01a b")
    print_json(message_view(found))
    view = json.loads(capsys.readouterr().out)
    assert (view["tag"], view["keys"], view["queue_offset"]) == ("\ufffd", ["a", "b"], 17)
    assert message_line(found) == "T b:2@17 \\udcff a,b x"


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
