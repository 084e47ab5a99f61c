"""What a report gets to read."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from broker_core.formats.poll_journal import FOLDER, BlockEncoder, JournalEntry, encode_header, file_name
from spark_jobs import inputs as report_inputs
from spark_jobs.catalogue import LOOK_BACK_MS
from spark_jobs.inputs import RunInputs, StoreInputs, reads_little, stored_offsets, stored_topics, window_read
from spark_jobs.job import BrokerStore
from spark_jobs.reports import load
from tests.spark_jobs.frames import rows
from tests.spark_jobs.stores import make_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def inputs_of(
    spark: "SparkSession", store: Path, name: str, bounds: tuple[int, ...] = (), to_ms: int | None = None
) -> RunInputs:
    return RunInputs(spark, [StoreInputs("a", store, load(name))], name, bounds, to_ms)


def write_journal(store: Path, *times: int) -> None:
    encoder = BlockEncoder()
    for at in times:
        encoder.add(JournalEntry(at, 0, 0, 0, -1, 0, -1, 0, 0, 0, 0, "orders", "g", "c", "answered_at_once"))
    (store / FOLDER).mkdir(parents=True)
    (store / FOLDER / file_name(0)).write_bytes(encode_header(0, 0, 0, "broker") + encoder.take())


def test_a_small_log_and_journal_are_little_to_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "store"
    size = make_store(store, 5).end
    write_journal(store, 1)
    size += (store / FOLDER / file_name(0)).stat().st_size
    stores = (BrokerStore("a", store),)
    for most, is_little in ((size, True), (size - 1, False)):
        monkeypatch.setattr(report_inputs, "SMALLEST_SHARE", most)
        assert reads_little(stores, [None]) == is_little
    monkeypatch.undo()
    lakes: list[Any] = ["a lake"]
    assert reads_little(stores, [None]) and not reads_little(stores, lakes)


def test_only_what_a_report_asks_for_is_read(spark: "SparkSession", tmp_path: Path) -> None:
    make_store(tmp_path, 5)
    write_journal(tmp_path, 1, 2)
    inputs = inputs_of(spark, tmp_path, "retries")
    assert inputs.stores[0].journal is None
    of_log = inputs.of("retries")
    assert set(of_log.messages.columns) == {"broker", *load("retries").reads}
    assert of_log.messages.count() == 5
    assert of_log.polls.count() == 0
    inputs = inputs_of(spark, tmp_path, "hold_time")
    assert inputs.stores[0].plan is None
    assert inputs.of("hold_time").polls.count() == 2


@pytest.mark.parametrize("few_rows", [0, 200_000])
def test_only_the_window_and_the_look_back_of_the_journal_are_read(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_rows: int
) -> None:
    monkeypatch.setattr(report_inputs, "FEW_ROWS", few_rows)
    make_store(tmp_path, 1)
    begin, back = 10 * LOOK_BACK_MS, LOOK_BACK_MS
    write_journal(tmp_path, begin - back - 1, begin - back, begin, begin + 10, begin + 9 + back, begin + 10 + back)
    inputs = inputs_of(spark, tmp_path, "daily_summary", (begin,), begin + 10)
    assert rows(inputs.of("hold_time").polls, "at_ms") == [(begin,)]
    lag = inputs.of("consumer_lag")
    assert rows(lag.polls, "at_ms") == [(begin - back,), (begin,), (begin + 10,), (begin + 9 + back,)]
    assert (lag.since_ms, lag.is_current) == (begin - back, True)


def test_a_window_is_current_if_nothing_newer_is_left_out(spark: "SparkSession", tmp_path: Path) -> None:
    make_store(tmp_path, 1)
    to_ms = 10 * LOOK_BACK_MS
    for now_ms, is_current in ((to_ms + LOOK_BACK_MS, True), (to_ms + LOOK_BACK_MS + 1, False)):
        store = StoreInputs("a", tmp_path, load("consumer_lag"))
        of_window = RunInputs(spark, [store], "consumer_lag", (0,), to_ms, now_ms)
        assert of_window.of("consumer_lag").is_current is is_current
        assert of_window.of("consumer_lag").settled_ms == now_ms - 60_000


def test_only_the_segments_of_the_window_are_read(spark: "SparkSession", tmp_path: Path) -> None:
    make_store(tmp_path, 600, step_ms=3_600_000)
    first_ms, day_ms = 1_700_000_000_000, 86_400_000
    read = {}
    for name in ("throughput", "retries"):
        bounds, to_ms = (first_ms + 10 * day_ms,), first_ms + 11 * day_ms
        window = window_read(name, bounds[0], to_ms)
        store = StoreInputs("a", tmp_path, load(name), None, window)
        times = [row[0] for row in rows(RunInputs(spark, [store], name, bounds, to_ms).of(name).messages, "store_ts")]
        assert min(times) <= window[0] + 3_600_000 < window[1] - 3_600_000 <= max(times)  # type: ignore[operator]
        read[name] = len(times)
    assert 24 <= read["throughput"] <= 70
    assert 72 <= read["retries"] <= 120


def test_a_few_rows_are_read_once_for_all_parts(spark: "SparkSession", tmp_path: Path) -> None:
    make_store(tmp_path, 5)
    write_journal(tmp_path, 1, 2)
    inputs = inputs_of(spark, tmp_path, "daily_summary")
    assert inputs.are_few
    retries, skew = inputs.of("retries"), inputs.of("skew")
    assert (retries.messages.count(), skew.polls.count()) == (5, 2)
    shutil.rmtree(tmp_path / "commitlog")
    shutil.rmtree(tmp_path / FOLDER)
    assert (skew.messages.count(), inputs.of("hold_time").polls.count()) == (5, 2)
    assert set(skew.messages.columns) == {"broker", *load("skew").reads}
    inputs.forget()
    with pytest.raises(Exception, match="NotAStoreError"):  # as one of Spark's
        skew.messages.count()


def test_many_rows_are_read_as_each_part_asks_for_them(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_store(tmp_path, 5)
    write_journal(tmp_path, 1, 2)
    monkeypatch.setattr(report_inputs, "FEW_ROWS", 1)
    inputs = inputs_of(spark, tmp_path, "daily_summary")
    assert not inputs.are_few
    throughput, skew = inputs.of("throughput"), inputs.of("skew")
    assert set(throughput.messages.columns) == {"broker", *load("throughput").reads}
    assert set(skew.messages.columns) == {"broker", *load("skew").reads}
    inputs.forget()  # of nothing


def test_the_brokers_tables(golden: Path) -> None:
    store = golden / "clean-shutdown"
    assert ("golden_sql_group", "debian-packages", 3, 811) in stored_offsets(store)
    assert len(stored_offsets(store)) == 10
    assert ("debian-ordered", 2) in stored_topics(store)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"offsetTable": 5}',
        '{"offsetTable": {"nogroup": {0: 1}}}',
        '{"offsetTable": {"t@g": {"x": 1, "0": "many"}}, "topicConfigTable": {"t": 5, "u": {"writeQueueNums": "x"}}}',
    ],
)
def test_unreadable_tables_are_empty(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").mkdir()
    for name in ("consumerOffset", "topics"):
        (tmp_path / "config" / f"{name}.json").write_text(text)
    assert stored_offsets(tmp_path) == []
    assert stored_topics(tmp_path) == []
    assert stored_offsets(tmp_path / "nowhere") == []


def test_offsets_are_those_of_the_moment_the_inputs_are_made(tmp_path: Path) -> None:
    make_store(tmp_path, 1)
    table = tmp_path / "config" / "consumerOffset.json"
    table.parent.mkdir()
    table.write_text('{"offsetTable": {"orders@g": {0: 1}}}')
    store = StoreInputs("a", tmp_path, load("consumer_lag"))
    table.write_text('{"offsetTable": {"orders@g": {0: 99}}}')
    assert store.table("offsets") == [("g", "orders", 0, 1)]
