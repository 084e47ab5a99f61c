from pathlib import Path

import pytest

from broker_core.formats.commit_log_record import decode
from broker_core.store import query_message as search
from tests.fakes.store_cases import BEGIN_MS, at, message, open_store, query_message


def test_messages_are_found_by_key_within_a_window(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for number in range(300):
        store.append(
            [
                message(
                    number,
                    topic="TU"[number % 2],
                    keys=f"even{number % 4} all",
                    extra={"IDEMPOTENCY_KEY": f"i{number}"},
                )
            ],
            at(number * 10),
        )
    store.reput()

    def flags_found(key: str, maximum: int = 1000, begin: int = 0, end: int = 1 << 40) -> list[int]:
        records = query_message(store, "T", key, maximum, BEGIN_MS + begin, BEGIN_MS + end)
        return [decode(record).flag for record in records]

    assert flags_found("all") == list(range(0, 300, 2))
    assert flags_found("all", 3) == [294, 296, 298]
    assert flags_found("even2", 1000, 100, 500) == [10, 14, 18, 22, 26, 30, 34, 38, 42, 46, 50]
    assert flags_found("ID000004") == flags_found("IDEMPOTENCY_KEY:i4") == [4]
    assert flags_found("ID000005") == flags_found("nothing") == []
    assert len(list((tmp_path / "index").iterdir())) > 3


def test_offsets_are_found_by_time(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for number, ms in enumerate((10, 20, 20, 20, 30)):
        store.append([message(number)], at(ms))
    store.reput()
    for ms, lower, upper in ((5, 0, 0), (10, 0, 0), (15, 1, 0), (20, 1, 3), (25, 4, 3), (30, 4, 4), (35, 5, 4)):
        assert store.offset_by_time("T", 0, BEGIN_MS + ms, "lower") == lower
        assert store.offset_by_time("T", 0, BEGIN_MS + ms, "upper") == upper
    assert store.offset_by_time("none", 0, 0, "lower") == 0
    assert store.store_time("T", 0, 4) == BEGIN_MS + 30
    assert store.store_time("T", 0, 5) is None
    assert store.store_time("none", 0, 0) is None


def test_the_newest_indexed_message_is_known(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert store.query.last_indexed == (0, 0)
    batch = store.append([message(1), message(2)], at(7))
    store.reput()
    store.build_index()
    assert store.query.last_indexed == (BEGIN_MS + 7, batch.requests[-1].physical_offset)


def test_a_search_pauses_after_some_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path)
    store.append([message(number, keys="all") for number in range(5)], at(0))
    store.reput()
    monkeypatch.setattr(search, "BYTES_READ", 1)
    for steps in (
        store.query.by_key("T", "all", 9, 0, search.NO_END),
        store.query.newest("T", 0, search.NO_END, None, 9, 1 << 20),
    ):
        assert len(list(steps)) >= 4, "a pause between two records"
