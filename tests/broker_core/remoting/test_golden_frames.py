"""Frames that stock clients and Apache RocketMQ 5.4.0 sent each other (tests/golden/README.md says how they came)."""

import json
import struct
from typing import Any

import pytest

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


every_frame = pytest.mark.parametrize("row", ROWS, ids=name_of)


def test_there_is_something_of_everyone() -> None:
    assert {(row["client"].split()[0], row["encoding"]) for row in ROWS if row["from"] == "client"} == {
        ("Java", "JSON"),
        ("Java", "ROCKETMQ"),
        ("Go", "JSON"),
        ("mqadmin", "JSON"),
    }
    assert {row["kind"] for row in ROWS} == {"request", "response", "oneway"}
    assert {row["from"] for row in ROWS} == {"client", "broker", "namesrv"}


@every_frame
def test_it_is_what_it_was_recorded_as(row: dict[str, Any]) -> None:
    command = decoded(bytes.fromhex(row["hex"]))
    assert command.code == row.get("response_code", row["request_code"])
    assert command.is_response == (row["kind"] == "response")
    assert command.is_oneway == (row["kind"] == "oneway")
    assert command.serialize_type == row["encoding"]
    assert command.language == ("GO" if row["client"].startswith("Go") and row["from"] == "client" else "JAVA")


@pytest.mark.parametrize("row", [row for row in ROWS if row["encoding"] == "JSON"], ids=name_of)
def test_json_header_has_every_field(row: dict[str, Any]) -> None:
    frame = bytes.fromhex(row["hex"])
    command, header = decoded(frame), json_header(frame)
    assert command.ext_fields == (header.get("extFields") or {})
    assert command.remark == (header.get("remark") or "")
    assert [command.opaque, command.flag, command.version] == [header[name] for name in ("opaque", "flag", "version")]
    body = len(frame) - len(command.body)
    assert frame[body:] == command.body and body == 8 + (struct.unpack_from(">I", frame, 4)[0] & 0xFFFFFF)


@every_frame
def test_it_means_the_same_when_encoded_again(row: dict[str, Any]) -> None:
    command = decoded(bytes.fromhex(row["hex"]))
    assert decoded(command.encode()) == command


@pytest.mark.parametrize("row", [row for row in ROWS if row["encoding"] == "ROCKETMQ"], ids=name_of)
def test_binary_header_is_the_same_bytes_when_encoded_again(row: dict[str, Any]) -> None:
    frame = bytes.fromhex(row["hex"])
    assert decoded(frame).encode() == frame


@pytest.mark.parametrize("row", [row for row in ROWS if row["encoding"] == "JSON"], ids=name_of)
def test_json_header_has_the_same_members_when_encoded_again(row: dict[str, Any]) -> None:
    """RocketMQ writes some members that are empty, and Go the name of its encoding as a number."""
    frame = bytes.fromhex(row["hex"])
    again, before = json_header(decoded(frame).encode()), json_header(frame)
    for header in (again, before):
        header.pop("serializeTypeCurrentRPC", None)
    assert again == {name: value for name, value in before.items() if value not in ("", {}, None)}


@every_frame
def test_every_truncation_is_waited_for(row: dict[str, Any]) -> None:
    frame = bytes.fromhex(row["hex"])
    for end in range(len(frame)):
        assert FrameDecoder().feed(frame[:end]) == []


def test_all_of_them_in_one_stream_cut_anywhere() -> None:
    stream = b"".join(bytes.fromhex(row["hex"]) for row in ROWS)
    expected = [decoded(bytes.fromhex(row["hex"])) for row in ROWS]
    for size in (1, 7, 1000, len(stream)):
        decoder = FrameDecoder()
        commands = [command for at in range(0, len(stream), size) for command in decoder.feed(stream[at : at + size])]
        assert commands == expected
        assert decoder.unfinished == 0
