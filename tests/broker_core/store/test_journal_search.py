"""Searching the poll journal for single messages."""

from pathlib import Path
from typing import Any

import pytest

from broker_core.formats.poll_journal import (
    ENTRY,
    FOLDER,
    BlockEncoder,
    JournalEntry,
    decode_entry,
    encode_header,
    file_name,
)
from broker_core.store import journal_search
from broker_core.store.journal_search import FoundPulls, search_journal, search_pulls
from broker_core.walk import finish
from tests.fakes.simulated_files import SimulatedFiles

ROOT = Path("/store")


def entry(**fields: Any) -> JournalEntry:
    numbers = {name: -1 for name in JournalEntry.__struct_fields__ if name not in JournalEntry.__struct_defaults__}
    texts = {"topic": "orders", "group": "g", "client_id": "c", "kind": "woken", "cause": "arrival", "status": "FOUND"}
    pull = {"at_ms": 1000, "from_offset": 5, "next_offset": 8, "messages": 3, "queue_id": 2, "protocol": "http"}
    return JournalEntry(**(numbers | texts | pull | fields))


def write(files: SimulatedFiles, number: int, *blocks: list[JournalEntry]) -> None:
    encoder, data = BlockEncoder(), encode_header(number, 1, 1, "b")
    for block in blocks:
        for one in block:
            encoder.add(one)
        data += encoder.take()
    files.append(ROOT / FOLDER / file_name(number), data)


def search(files: SimulatedFiles, since_ms: int = 0) -> list[JournalEntry]:
    return finish(search_journal(files, ROOT, {("orders", 2): {5, 7}, ("unknown", 0): {1}}, since_ms))


def test_pulls_that_returned_a_message_and_commits_that_passed_it() -> None:
    files = SimulatedFiles()
    wanted = [
        entry(),
        entry(kind="answered_at_once", cause="", from_offset=7),
        entry(kind="committed", cause="", status="", messages=-1, from_offset=6),
    ]
    others = [
        entry(queue_id=1),
        entry(topic="others"),
        entry(from_offset=8, next_offset=9),
        entry(next_offset=5, messages=0),
        entry(kind="released", next_offset=-1, messages=0),
        entry(messages=0, cause="filter_advanced"),
    ]
    write(files, 0, [others[0], wanted[0]], others[1:])
    write(files, 1, wanted[1:])
    assert search(files) == wanted


def test_entries_from_a_time_on() -> None:
    files = SimulatedFiles()
    write(files, 0, [entry(at_ms=40)])  # the file was closed before that time, so it is not looked into
    files.wall_ms = 30
    write(files, 1, [entry(at_ms=10)], [entry(at_ms=20), entry(at_ms=30)])
    assert [found.at_ms for found in search(files, 25)] == [30]


def test_a_search_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    files = SimulatedFiles()
    write(files, 0, [entry(at_ms=at) for at in range(3000)])
    assert [found.at_ms for found in search(files)] == list(range(200))
    monkeypatch.setattr(journal_search, "MAX_SEARCHED", 80_000)
    monkeypatch.setattr(journal_search, "MAX_FOUND", 10_000)
    assert len(search(files)) == 1000


def test_a_journal_that_is_missing_torn_or_foreign() -> None:
    files = SimulatedFiles()
    assert search(files) == []
    write(files, 0, [entry()])
    files.append(ROOT / FOLDER / file_name(0), b"\xff" * 50)  # a block that is being written
    files.append(ROOT / FOLDER / file_name(1), b"not a journal, but long enough for the header of one: 12345")
    files.append(ROOT / FOLDER / "notes.txt", b"?")
    write(files, 2, [entry(at_ms=2000)])
    assert [found.at_ms for found in search(files)] == [1000, 2000]


def pulls_of(found: FoundPulls) -> list[JournalEntry]:
    return [decode_entry(fields, found.strings) for fields in ENTRY.iter_unpack(found.entries)]


def test_the_pulls_of_a_topic() -> None:
    files = SimulatedFiles()
    files.wall_ms = 5000
    wanted = [
        entry(client_id="one"),
        entry(kind="woken", cause="timeout", status="OFFSET_FOUND_NULL", messages=0, group="h"),
        entry(kind="released", cause="channel_gone", at_ms=2000, next_offset=-1, messages=0),
    ]
    others = [entry(topic="others"), entry(kind="committed", cause="", status="", messages=-1), entry(at_ms=999)]
    write(files, 0, [entry(topic="first", group="h"), wanted[0]], [wanted[1], *others])
    write(files, 1, others[:2], wanted[2:])
    write(files, 2, others)
    found = finish(search_pulls(files, ROOT, "orders", "", 1000))
    assert pulls_of(found) == wanted and found.complete
    assert pulls_of(finish(search_pulls(files, ROOT, "orders", "h", 1000))) == wanted[1:2]
    assert finish(search_pulls(files, ROOT, "nothing", "", 0)) == FoundPulls([""], b"", complete=True)


def test_the_engine_handles_other_requests_between_a_few_pulls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_search, "ENTRIES_PACKED", 2)
    files = SimulatedFiles()
    write(files, 0, [entry() for _ in range(9)])
    assert len(list(search_pulls(files, ROOT, "orders", "", 0))) == 5, "after two, four, six and eight, and the piece"


def test_the_newest_pulls_are_returned_if_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_search, "MAX_PULLS", 2)
    files = SimulatedFiles()
    write(files, 0, [entry(at_ms=at) for at in (1, 2, 3)])
    found = finish(search_pulls(files, ROOT, "orders", "", 0))
    assert [pull.at_ms for pull in pulls_of(found)] == [2, 3] and not found.complete
    monkeypatch.setattr(journal_search, "MAX_SEARCHED", ENTRY.size)
    monkeypatch.setattr(journal_search, "ENTRIES_LOOKED_AT", 1)
    found = finish(search_pulls(files, ROOT, "orders", "", 0))
    assert [pull.at_ms for pull in pulls_of(found)] == [1] and not found.complete
