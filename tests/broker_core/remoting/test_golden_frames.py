"""Frames that stock clients and Apache RocketMQ 5.4.0 sent each other (tests/golden/README.md says how they came)."""

import json
import struct
from collections.abc import Iterator
from typing import Any

from broker_core.remoting.frame_decoder import FrameDecoder
from broker_core.remoting.remoting_command import RemotingCommand
from tests.conftest import PROJECT

ROWS = [json.loads(line) for line in (PROJECT / "tests" / "golden" / "remoting.jsonl").read_text().splitlines()]


def name_of(row: dict[str, Any]) -> str:
    return " ".join(str(value) for key, value in row.items() if key != "hex")


def decoded(frame: bytes) -> RemotingCommand:
    [command] = FrameDecoder().feed(frame)
    return command


def json_header(frame: bytes) -> dict[str, Any]:
    [size] = struct.unpack_from(">I", frame, 4)
    header: dict[str, Any] = json.loads(frame[8 : 8 + (size & 0xFFFFFF)])
    return header


def rows(encoding: str = "") -> Iterator[tuple[str, dict[str, Any], bytes]]:
    """The frames, or those of one encoding: name, row and bytes. A loop: 262 parameters a test cost more than it."""
    for row in ROWS:
        if encoding in ("", row["encoding"]):
            yield name_of(row), row, bytes.fromhex(row["hex"])


def test_there_is_something_of_everyone() -> None:
    assert {(row["client"].split()[0], row["encoding"]) for row in ROWS if row["from"] == "client"} == {
        ("Java", "JSON"),
        ("Java", "ROCKETMQ"),
        ("Go", "JSON"),
        ("mqadmin", "JSON"),
    }
    assert {row["kind"] for row in ROWS} == {"request", "response", "oneway"}
    assert {row["from"] for row in ROWS} == {"client", "broker", "namesrv"}


def test_recorded_frames_decode_to_their_recorded_fields() -> None:
    for name, row, frame in rows():
        command = decoded(frame)
        assert command.code == row.get("response_code", row["request_code"]), name
        assert command.is_response == (row["kind"] == "response"), name
        assert command.is_oneway == (row["kind"] == "oneway"), name
        assert command.serialize_type == row["encoding"], name
        language = "GO" if row["client"].startswith("Go") and row["from"] == "client" else "JAVA"
        assert command.language == language, name


def test_json_headers_have_every_field() -> None:
    for name, _, frame in rows("JSON"):
        command, header = decoded(frame), json_header(frame)
        assert command.ext_fields == (header.get("extFields") or {}), name
        assert command.remark == (header.get("remark") or ""), name
        numbers = [command.opaque, command.flag, command.version]
        assert numbers == [header[field] for field in ("opaque", "flag", "version")], name
        body = len(frame) - len(command.body)
        assert frame[body:] == command.body and body == 8 + (struct.unpack_from(">I", frame, 4)[0] & 0xFFFFFF), name


def test_recorded_frames_decode_to_the_same_after_encoding() -> None:
    for name, _, frame in rows():
        command = decoded(frame)
        assert decoded(command.encode()) == command, name


def test_binary_headers_are_the_same_bytes_when_encoded_again() -> None:
    for name, _, frame in rows("ROCKETMQ"):
        assert decoded(frame).encode() == frame, name


def test_json_headers_have_the_same_members_when_encoded_again() -> None:
    """RocketMQ writes some members that are empty, and Go the name of its encoding as a number."""
    for name, _, frame in rows("JSON"):
        again, before = json_header(decoded(frame).encode()), json_header(frame)
        for header in (again, before):
            header.pop("serializeTypeCurrentRPC", None)
        assert again == {member: value for member, value in before.items() if value not in ("", {}, None)}, name


def test_every_truncation_is_waited_for() -> None:
    for name, _, frame in rows():
        for end in range(len(frame)):
            assert FrameDecoder().feed(frame[:end]) == [], (name, end)


def test_recorded_frames_are_decoded_from_a_stream_cut_anywhere() -> None:
    stream = b"".join(bytes.fromhex(row["hex"]) for row in ROWS)
    expected = [decoded(bytes.fromhex(row["hex"])) for row in ROWS]
    for size in (1, 7, 1000, len(stream)):
        decoder = FrameDecoder()
        commands = [command for at in range(0, len(stream), size) for command in decoder.feed(stream[at : at + size])]
        assert commands == expected
        assert decoder.unfinished == 0
