"""What ``manage.py logdump`` prints."""

import io
import time
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from bridge.management.commands.logdump import COLUMNS
from broker_core.formats import commit_log_record, message_properties

STORED = "2023-11-14T22:13:20.005Z"


def encoded(offset: int, topic: str, body: bytes = b"x", **properties: str) -> bytes:
    return commit_log_record.encode(
        topic=topic,
        queue_id=3,
        queue_offset=7,
        body=body,
        properties=message_properties.encode(properties),
        born_timestamp=1,
        store_timestamp=1_700_000_000_005,
        physical_offset=offset,
        born_host="10.0.0.2",
        store_host="10.0.0.1",
        born_port=50_000,
    )


def store_of(tmp_path: Path, *topics: str) -> list[int]:
    """A store with a message for each topic; where each begins."""
    data, begins = b"", []
    for topic in topics:
        begins.append(len(data))
        data += encoded(len(data), topic, UNIQ_KEY="ID", TAGS="A", KEYS="k1 \x1b[2J")
    (tmp_path / "commitlog").mkdir(exist_ok=True)
    (tmp_path / "commitlog" / f"{0:020}").write_bytes(data + bytes(1000))
    return begins


def dump(*arguments: Any) -> list[str]:
    out = io.StringIO()
    call_command("logdump", *map(str, arguments), stdout=out)
    head, *lines = out.getvalue().splitlines()
    assert head == COLUMNS
    return lines


def test_a_folder_that_is_not_a_store_is_named_without_a_header(tmp_path: Path) -> None:
    out = io.StringIO()
    with pytest.raises(CommandError, match="is not a store"):
        call_command("logdump", str(tmp_path), stdout=out)
    assert out.getvalue() == ""


def test_an_empty_store_has_a_header_only(tmp_path: Path) -> None:
    store_of(tmp_path)
    assert dump(tmp_path) == []


def test_a_record_is_one_line_without_control_characters(tmp_path: Path) -> None:
    begins = store_of(tmp_path, "orders", "others")
    size = begins[1]
    assert dump(tmp_path) == [
        f"{begin}\t{STORED}\t{topic}\t3\t7\t{size}\tID\tA\tk1 \\x1b[2J"
        for begin, topic in zip(begins, ("orders", "others"), strict=True)
    ]


def test_from_an_offset_and_of_one_topic(tmp_path: Path) -> None:
    begins = store_of(tmp_path, "orders", "others", "orders")
    assert [line.split("\t")[0] for line in dump(tmp_path, "--topic", "orders")] == ["0", str(begins[2])]
    assert [line.split("\t")[0] for line in dump(tmp_path, "--from", begins[1])] == [str(begins[1]), str(begins[2])]


def test_follow_continues_until_it_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store_of(tmp_path, "orders")
    looks = []

    def pause(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            raise KeyboardInterrupt
        store_of(tmp_path, "orders", "others")

    monkeypatch.setattr(time, "sleep", pause)
    assert [line.split("\t")[2] for line in dump(tmp_path, "--follow")] == ["orders", "others"]


def test_a_folder_that_is_not_a_store_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="is not a store: it has no commitlog folder"):
        call_command("logdump", str(tmp_path / "nowhere"), stdout=io.StringIO())
