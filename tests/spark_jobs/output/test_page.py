"""report.html: complete in itself, and closed to what a topic may be called."""

import json
import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from playwright.sync_api import expect, sync_playwright

from spark_jobs.output.page import facts, lead, page
from spark_jobs.reports.shape import Chart
from tests.fakes.browser import launch

SUMMARY: dict[str, Any] = {
    "report": "throughput",
    "title": "Throughput",
    "rows": [{"topic": "orders", "messages": 2, "bytes": 300}],
    "total": {"messages": 2, "bytes": 300, "body_bytes": 20},
    "headlines": [
        {
            "name": "messages",
            "label": "Messages stored",
            "better": "",
            "report": "",
            "kind": "number",
            "value": 2,
            "before": None,
        }
    ],
    "parameters": {"from_ms": None, "to_ms": 1_700_000_000_000, "topic": None, "consumer_group": "g", "compare": False},
    "brokers": ["broker-a"],
    "inputs": [
        {
            "broker": "broker-a",
            "store": "/data/<store>",
            "start_offset": 0,
            "end_offset": 300,
            "ended_by": "unwritten space",
            "messages": 2,
            "segments_read": 1,
            "segments_outside": 3,
            "segments_gone": [],
            "segments_unread": ["x"],
            "foreign_files": [],
            "torn_bytes": 0,
        }
    ],
    "look_back_ms": 0,
    "words": ["There are <2> messages."],
    "step_ms": 60_000,
    "notes": [],
    "left_out": [],
    "code_version": "0.1.0+abc",
    "started_ms": 0,
    "finished_ms": 1_700_000_000_000,
    "duration_s": 1.25,
    "durations_s": {"start_spark": 0.9, "read": 0.2, "make_tables": 0.1, "write_files": 0.05},
    "span": {"from_ms": 0, "to_ms": 120_000},
}
SOURCE: dict[str, Any] = SUMMARY["inputs"][0]
TABLES = {
    "by_topic": pa.table({"broker": ["broker-a"], "topic": ["orders"], "messages": [2], "bytes": [300]}),
    "by_queue": pa.table({"broker": ["broker-a"], "topic": ["orders"], "queue_id": [0], "messages": [2]}),
    "by_minute": pa.table(
        {"broker": ["broker-a"], "minute_ts": [60_000], "topic": ["orders"], "messages": [2], "bytes": [300]}
    ),
    "by_size": pa.table({"broker": ["broker-a"], "topic": ["orders"], "size_class": [16], "messages": [2]}),
}
CHARTS = (Chart("stack", "Stored", "by_minute", ("messages", "bytes"), split=("topic",)),)


def data_of(text: str) -> dict[str, Any]:
    found = re.search(r'(?s)<script type="application/json" id="data">(.*?)</script>', text)
    assert found is not None
    read: dict[str, Any] = json.loads(found[1])
    return read


def test_the_page_needs_no_other_file() -> None:
    text = page(SUMMARY, TABLES, CHARTS)
    assert not re.search(r'(src|href)\s*=\s*["\']', text)
    assert "{{" not in re.sub(r"(?s)<script type=\"module\">.*?</script>", "", text)
    assert "Leon Sorokin" in text  # the licence of what draws the charts goes with it


def test_characters_that_hide_or_turn_text_are_shown_by_their_codes() -> None:
    turned = TABLES | {"by_queue": TABLES["by_queue"].set_column(1, "topic", pa.array(["10.0.0.1@\u202egpj"]))}
    text = page(SUMMARY | {"words": ["10.0.0.1@\u202egpj received most."]}, turned, CHARTS)
    assert "\u202e" not in text
    assert "10.0.0.1@⟨U+202E⟩gpj received most." in text
    assert data_of(text)["tables"]["by_queue"]["columns"]["topic"] == ["10.0.0.1@⟨U+202E⟩gpj"]


def test_the_content_security_policy_allows_only_the_pages_script() -> None:
    text = page(SUMMARY, TABLES, CHARTS)
    script = re.findall(r'(?s)<script type="module">(.*?)</script>', text)
    assert len(script) == 1
    digest = b64encode(sha256(script[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text
    assert "default-src 'none'" in text


def test_text_from_the_store_is_escaped() -> None:
    hostile = "</script><script>alert(1)</script><!--{{ style }}"
    tables = TABLES | {
        "by_topic": pa.table({"broker": ["broker-a"], "topic": [hostile], "messages": [1], "bytes": [1]})
    }
    parameters = SUMMARY["parameters"] | {"topic": hostile}
    text = page(SUMMARY | {"title": hostile, "parameters": parameters, "notes": [hostile]}, tables, CHARTS)
    assert "<script>alert" not in text
    assert text.count("{{ style }}") == 5  # as it was called: in the title, heading, lead, notes and data
    assert data_of(text)["tables"]["by_topic"]["columns"]["topic"] == [hostile]


def test_a_table_without_rows_has_no_chart() -> None:
    tables = TABLES | {"by_minute": TABLES["by_minute"].slice(0, 0)}
    assert data_of(page(SUMMARY, tables, CHARTS))["charts"] == []
    assert [chart["title"] for chart in data_of(page(SUMMARY, TABLES, CHARTS))["charts"]] == ["Stored"]


def test_the_time_before_is_beside_the_first_table() -> None:
    tables = TABLES | {"previous": TABLES["by_topic"]}
    found = data_of(page(SUMMARY | {"previous": {"from_ms": 0, "to_ms": 60_000}}, tables, CHARTS))
    assert found["previous"]["columns"]["messages"] == [2]
    assert "previous" not in found["tables"]
    assert data_of(page(SUMMARY, TABLES, CHARTS))["previous"] is None


def test_the_page_lists_what_was_read_and_where_the_time_went() -> None:
    """What is 0 or empty is left out."""
    assert list(facts(SUMMARY)) == [
        ("Store", "/data/<store> of broker-a"),
        (
            "Log",
            "end offset 300, ended by unwritten space, messages 2, segments read 1, segments outside 3, "
            "segments unread x",
        ),
        ("Created", "2023-11-14 22:13:20 UTC, in 1.2 s, by GlassMQ 0.1.0+abc"),
        ("Time spent", "start of Spark 0.9 s, reading 0.2 s, tables 0.1 s, files 0.1 s"),
    ]
    assert "<dt>Store</dt><dd>/data/&lt;store&gt; of broker-a</dd><dt>Log</dt>" in page(SUMMARY, TABLES, CHARTS)


def test_the_page_lists_lake_and_journal_of_a_store() -> None:
    lake = {"folder": "/lake/s", "position": 2_000, "messages": 1_000, "written_ms": 60_000, "gap_bytes": 0}
    journal = {"files": 2, "entries": 4_000, "lost": 3, "torn_bytes": 0, "torn_files": ["a", "b"]}
    sources = [
        {"broker": "a", "store": "/data", "lake": lake, "journal": journal},
        {"broker": "b", "store": "/b", "journal": dict.fromkeys(journal, 0)},
    ]
    assert list(facts(SUMMARY | {"inputs": sources}))[:-2] == [
        ("Store", "/data of a"),
        ("Lake", "folder /lake/s, position 2,000, messages 1,000, written 1970-01-01 00:01:00 UTC"),
        ("Poll journal", "files 2, entries 4,000, lost 3, torn files a, b"),
        ("Store", "/b of b"),
        ("Poll journal", "there is none"),
    ]


def test_notes_come_before_the_sentences_and_the_headlines() -> None:
    left_out = [{"reason": "clock_back", "count": 1_200, "text": "a clock went back"}]
    text = page(SUMMARY | {"notes": ["There is no <journal>."], "left_out": left_out}, TABLES, CHARTS)
    assert text.partition("<main>\n")[2].startswith(
        '<p class="note-line" role="note">There is no &lt;journal&gt;.</p>\n'
        '<p class="note-line" role="note">1,200 left out: a clock went back.</p>\n'
        '<p class="said">There are &lt;2&gt; messages.</p>\n'
        '<div id="headlines"'
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_edge_of_a_table_that_can_be_scrolled_is_shaded(tmp_path: Path, theme: str) -> None:
    wide = pa.table(
        {"broker": ["broker-a"] * 3, "topic": ["orders"] * 3}
        | {f"messages_of_day_{day}": [day] * 3 for day in range(9)}
    )
    (tmp_path / "report.html").write_text(page(SUMMARY, TABLES | {"by_topic": wide}, CHARTS), encoding="utf-8")
    with sync_playwright() as playwright:
        browser = launch(playwright)
        opened = browser.new_page(viewport={"width": 360, "height": 780}, color_scheme=theme)
        opened.goto((tmp_path / "report.html").as_uri())
        table = opened.get_by_role("region", name="by topic, scrollable")
        table.scroll_into_view_if_needed()
        box = table.bounding_box()
        assert box is not None

        def edges() -> tuple[bytes, bytes]:
            """Left and right, of the last row, below its text."""
            line = {"y": box["y"] + box["height"] - 4, "width": 3, "height": 3}
            left, right = box["x"], box["x"] + box["width"] - 3
            return opened.screenshot(clip={"x": left, **line}), opened.screenshot(clip={"x": right, **line})

        plain, shaded = edges()
        assert plain != shaded
        table.evaluate("table => table.scrollLeft = table.scrollWidth")
        left, right = edges()
        assert left != plain and right == plain
        table.focus()
        opened.keyboard.press("ArrowLeft")
        opened.wait_for_function(
            "table => table.scrollWidth - table.clientWidth - table.scrollLeft > 30", arg=table.element_handle()
        )
        assert plain not in edges()
        browser.close()


def test_a_measured_duration_of_0_is_less_than_its_unit_and_a_sum_of_nothing_is_0(tmp_path: Path) -> None:
    headline = SUMMARY["headlines"][0] | {"label": "Half within", "kind": "us", "value": 0}
    minutes = pa.table(
        {
            "broker": ["broker-a"] * 2,
            "minute_ts": [60_000, 180_000],
            "topic": ["orders"] * 2,
            "open_us": [7, 7],
            "p50_us": [0, 7],
        }
    )
    charts = (
        Chart("stack", "Open", "by_minute", ("open_us",), split=("topic",)),
        Chart("time", "Delay", "by_minute", ("p50_us",)),
    )
    held = pa.table({"broker": ["broker-a"], "from_us": [0], "to_us": [1], "samples": [2], "p50_us": [0]})
    text = page(SUMMARY | {"headlines": [headline]}, {"by_length": held, "by_minute": minutes}, charts)
    (tmp_path / "report.html").write_text(text, encoding="utf-8")
    with sync_playwright() as playwright:
        browser = launch(playwright)
        opened = browser.new_page()
        opened.goto((tmp_path / "report.html").as_uri())
        expect(opened.locator("#headlines .value")).to_have_text("< 1 µs")
        cells = opened.locator("table:not(.u-legend)").first.locator("td")
        assert cells.all_inner_texts() == ["broker-a", "0 µs", "1 µs", "2", "< 1 µs"], "the bound of a bar is 0"
        for chart, share, shown in ((0, 0.5, "0 µs"), (0, 0.2, "7 µs"), (1, 0.5, ""), (1, 0.2, "< 1 µs")):
            section = opened.locator("#charts section").nth(chart)
            plot = section.locator(".u-over")
            plot.scroll_into_view_if_needed()
            box = plot.bounding_box()
            assert box is not None
            plot.hover(position={"x": box["width"] * share, "y": box["height"] / 2})
            expect(section.locator(".u-series .u-value").nth(1)).to_have_text(shown)
        browser.close()


def test_the_lead_names_window_and_filters() -> None:
    summary = SUMMARY | {"inputs": [SOURCE | {"segments_outside": 0}]}
    assert lead(summary) == (
        "from the beginning to 2023-11-14 22:13:20 UTC; data that was read: from 1970-01-01 00:00:00 UTC to "
        "1970-01-01 00:02:00 UTC; at broker-a; group g only"
    )
    whole = {"parameters": SUMMARY["parameters"] | {"to_ms": None}, "span": {"from_ms": None, "to_ms": None}}
    assert lead(summary | whole) == "everything there is; at broker-a; group g only"
    assert lead(SUMMARY | {"previous": {"from_ms": 0, "to_ms": 60_000}}).endswith(
        "compared with the time from 1970-01-01 00:00:00 UTC to 1970-01-01 00:01:00 UTC"
    )


def test_the_lead_says_what_a_window_misses_if_a_clock_was_set_back() -> None:
    slack = "what was stored while a clock was set back by more than 1 hour may be missing"
    assert slack in lead(SUMMARY)
    assert slack not in lead(SUMMARY | {"inputs": [SOURCE | {"segments_outside": 0}]})
    assert slack not in lead(SUMMARY | {"inputs": [{"broker": "broker-a"}]})
