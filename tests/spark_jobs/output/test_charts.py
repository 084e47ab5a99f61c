"""What of a table goes into a page."""

from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.output import charts as report_charts
from spark_jobs.output.charts import OTHERS, drawn, kind_of, shown_table
from spark_jobs.reports.shape import Chart


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("first_store_ts", "time"),
        ("day_ts", "day"),
        ("p99_us", "us"),
        ("lag_ms", "ms"),
        ("empty_share", "share"),
        ("body_bytes", "bytes"),
        ("mean_size", "bytes"),
        ("size_class", "bytes"),
        ("messages", "number"),
        ("queue_id", "number"),
    ],
)
def test_the_name_of_a_column_gives_the_unit_of_its_numbers(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_texts_and_flags_are_known_by_their_type() -> None:
    assert kind_of("size", pa.string()) == "text"
    assert kind_of("is_slow", pa.bool_()) == "flag"


def test_the_first_rows_of_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_charts, "SHOWN_ROWS", 2)
    table = pa.table({"topic": ["a", "b", "c"], "wake_us": [1, None, 3]})
    assert shown_table(table) == {
        "kinds": {"topic": "text", "wake_us": "us"},
        "rows": 3,
        "columns": {"topic": ["a", "b"], "wake_us": [1, None]},
    }


def minutes(**columns: list[Any]) -> pa.Table:
    return pa.table({"broker": ["a"] * 6, "minute_ts": [60_000 * (index // 3) for index in range(6)]} | columns)


def test_a_stacked_chart_adds_up_the_smaller_series(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_charts, "MOST_SERIES", 1)
    table = minutes(topic=["a", "b", "c"] * 2, messages=[5, 1, 2, 5, 3, 4])
    made = drawn(Chart("stack", "Stored", "t", ("messages",), split=("topic",)), table)
    assert made["columns"] == {
        "minute_ts": [0, 0, 60_000, 60_000],
        "label": ["a", OTHERS] * 2,
        "messages": [5, 3, 5, 7],
    }
    assert made["left_out"] == 0


def test_a_line_chart_draws_the_largest_series_and_counts_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_charts, "MOST_SERIES", 1)
    table = minutes(group=["a", "b", None] * 2, lag_ms=[1, 5, None, 1, 7, None])
    made = drawn(Chart("time", "Behind", "t", ("lag_ms",), split=("group",)), table)
    assert made["columns"] == {"minute_ts": [0, 60_000], "label": ["b", "b"], "lag_ms": [5, 7]}
    assert (made["left_out"], made["y_kinds"], made["label_kind"]) == (2, {"lag_ms": "ms"}, "text")


def test_a_chart_shows_all_brokers_together() -> None:
    table = pa.table({"broker": ["*", "x", "y"], "topic": ["a"] * 3, "messages": [5, 3, 2]})
    drawing = drawn(Chart("bars", "By topic", "t", ("messages",), split=("topic",)), table)
    assert drawing["columns"] == {"label": ["a"], "messages": [5]}


def test_a_chart_of_each_broker_distinguishes_the_brokers() -> None:
    table = pa.table({"broker": ["x", "y"], "queue_id": [0, 0], "messages": [3, 2]})
    drawing = drawn(Chart("bars", "By queue", "t", ("messages",), split=("queue_id",)), table)
    assert drawing["columns"] == {"label": ["x 0", "y 0"], "messages": [3, 2]}
    assert drawing["split"] == "broker queue_id"


def test_choices_come_with_the_largest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_charts, "MOST_CHOICES", 2)
    table = pa.table(
        {"broker": ["x"] * 4, "topic": ["a", "a", "b", "c"], "queue_id": [0, 1, 0, 0], "messages": [3, 4, 9, 1]}
    )
    made = drawn(Chart("bars", "By queue", "t", ("messages",), split=("queue_id",), choose="topic"), table)
    assert (made["choices"], made["left_out"], made["label_kind"]) == (["b", "a"], 1, "number")
    assert made["columns"] == {"topic": ["a", "a", "b"], "label": [0, 1, 0], "messages": [3, 4, 9]}


def test_bars_of_two_columns_that_share_a_name_are_merged_as_the_chart_says() -> None:
    table = pa.table({"broker": ["x", "x"], "client_id": ["x", "x"], "topic": ["a", "a"], "p50_ms": [3, 8]})
    chart = Chart("bars", "By client", "t", ("p50_ms",), split=("client_id", "topic"), merge="max")
    assert drawn(chart, table)["columns"] == {"label": ["x a"], "p50_ms": [8]}


def test_a_histogram_adds_up_what_it_does_not_tell_apart() -> None:
    table = pa.table({"broker": ["x"] * 3, "from_us": [1, 1, 2], "to_us": [2, 2, 4], "samples": [1, 2, 3]})
    made = drawn(Chart("histogram", "Took", "t", ("samples",)), table)
    assert made["columns"] == {"from_us": [1, 2], "to_us": [2, 4], "samples": [3, 3]}
    assert made["place"] == ["from_us", "to_us"]


def test_ten_thousand_queues_are_no_ten_thousand_bars() -> None:
    table = pa.table({"broker": ["x"] * 10_000, "queue_id": range(10_000), "messages": range(10_000)})
    made = drawn(Chart("bars", "By queue", "t", ("messages",), split=("queue_id",)), table)
    assert made["columns"]["label"] == list(range(9_970, 10_000))
    assert made["left_out"] == 9_970
