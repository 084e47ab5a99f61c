"""report.html: complete in itself, and closed to what a topic may be called."""

import json
import re
from base64 import b64encode
from hashlib import sha256
from typing import Any

from spark_jobs.report_page import facts, page

SUMMARY: dict[str, Any] = {
    "report": "throughput", "title": "Throughput",
    "rows": [{"topic": "orders", "messages": 2, "bytes": 300}],
    "total": {"messages": 2, "bytes": 300, "body_bytes": 20},
    "parameters": {"from_ms": None, "to_ms": 1_700_000_000_000},
    "input": {"store": "/data/<store>", "start_offset": 0, "end_offset": 300, "ended_by": "unwritten space",
        "messages": 2, "segments_read": 1, "segments_gone": [], "segments_unread": ["x"], "foreign_files": [],
        "torn_bytes": 0},
    "code_version": "0.1.0+abc", "started_ms": 0, "finished_ms": 1_700_000_000_000, "duration_s": 1.25,
}
TABLES: dict[str, dict[str, list[Any]]] = {
    "by_topic": {"topic": ["orders"], "messages": [2], "bytes": [300]},
    "by_queue": {"topic": ["orders"], "queue_id": [0], "messages": [2]},
    "by_minute": {"minute_ts": [60_000], "topic": ["orders"], "messages": [2], "bytes": [300]},
    "by_size": {"topic": ["orders"], "size_class": [16], "messages": [2]},
}


def test_it_needs_no_other_file() -> None:
    text = page(SUMMARY, TABLES)
    assert not re.search(r'(src|href)\s*=\s*["\']', text)
    assert "{{" not in re.sub(r"(?s)<script type=\"module\">.*?</script>", "", text)
    assert "Leon Sorokin" in text  # the licence of what draws the charts goes with it


def test_its_policy_lets_in_exactly_its_script() -> None:
    text = page(SUMMARY, TABLES)
    script = re.findall(r'(?s)<script type="module">(.*?)</script>', text)
    assert len(script) == 1
    digest = b64encode(sha256(script[0].encode()).digest()).decode()
    assert f"script-src &#x27;sha256-{digest}&#x27;" in text
    assert "default-src &#x27;none&#x27;" in text


def test_what_comes_from_the_log_cannot_leave_its_place() -> None:
    hostile = "</script><script>alert(1)</script><!--{{ style }}"
    text = page(SUMMARY | {"rows": [{"topic": hostile, "messages": 1, "bytes": 1}], "title": hostile}, TABLES)
    assert "<script>alert" not in text
    data = re.search(r'(?s)<script type="application/json" id="data">(.*?)</script>', text)
    assert data is not None
    assert json.loads(data[1])["summary"]["rows"][0]["topic"] == hostile


def test_it_says_what_was_read() -> None:
    text = facts(SUMMARY)
    assert "<dd>/data/&lt;store&gt;</dd>" in text
    assert "<dd>bytes 0 to 300; nothing is written behind that</dd>" in text
    assert "<dd>1 read, 1 behind the end, not read</dd>" in text
    assert "<dd>from its beginning to 2023-11-14 22:13:20 UTC</dd>" in text
