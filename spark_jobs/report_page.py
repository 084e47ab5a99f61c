"""report.html: one file that needs nothing else, so that it can be mailed and still opens in ten years.

The chart is drawn by the vendored uPlot, which is written into the file. What comes from the log (names of topics) gets
in only as JSON data and is shown as text; the page's own policy allows its one script, known by its digest, and nothing
else.
"""

import base64
import hashlib
import json
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

_PROJECT = Path(__file__).resolve().parent.parent
_UPLOT = _PROJECT / "static" / "vendor" / "uplot"
_ASSETS = Path(__file__).resolve().parent / "assets"

ENDS = {
    "safe end": "up to there its broker had it on the disk",
    "unwritten space": "nothing is written behind that",
    "invalid record": "what lies there is not a valid record",
    "end of the last segment": "the last segment ends there",
    "missing segment": "the next segment is missing",
    "no segment": "there is no segment",
}
"""Why a log ends where it ends, for the reader."""


def page(summary: dict[str, Any], tables: dict[str, dict[str, list[Any]]]) -> str:
    """The page for a run's summary and its tables, column by column."""
    script = read(_UPLOT / "uPlot.esm.js") + read(_ASSETS / "report.js")
    style = read(_UPLOT / "uPlot.min.css") + read(_ASSETS / "report.css")
    if "</script" in script.lower() or "</style" in style.lower():
        raise ValueError("the page's own script or style would end its element")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    policy = (f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'")
    data = json.dumps({"summary": summary, "tables": tables}, ensure_ascii=False).replace("<", "\\u003c")
    body = read(_ASSETS / "report.html")
    for name, value in {"policy": escape(policy), "title": escape(summary["title"]), "facts": facts(summary),
                        "license": escape(read(_UPLOT / "LICENSE").replace("--", "- -")),
                        "style": style, "data": data, "script": script}.items():
        before, mark, after = body.partition("{{ " + name + " }}")
        if not mark:
            raise ValueError(f"report.html has no place for {name}")
        body = before + value + after
    return body


def read(path: Path) -> str:
    """One of the files that the page is put together from."""
    return path.read_text(encoding="utf-8")


def facts(summary: dict[str, Any]) -> str:
    """The list of what was read, how far, by what and how long it took."""
    source = summary["input"]
    ends = ENDS.get(source["ended_by"], source["ended_by"])
    lines = {
        "Store": source["store"],
        "Log": f"bytes {source['start_offset']:,} to {source['end_offset']:,}; {ends}",
        "Segments": f"{source['segments_read']} read" + counted(source, "segments_unread", "behind the end, not read")
            + counted(source, "segments_gone", "deleted meanwhile")
            + counted(source, "foreign_files", "files that are none"),
        "Torn": f"{source['torn_bytes']:,} bytes that are no record",
        "Window": window(summary["parameters"]),
        "Made": f"{at(summary['finished_ms'])}, in {summary['duration_s']:.1f} s, by GlassMQ {summary['code_version']}",
    }
    return "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in lines.items())


def counted(source: dict[str, Any], name: str, words: str) -> str:
    """As ``, 2 deleted meanwhile``; empty when there are none."""
    return f", {len(source[name])} {words}" if source[name] else ""


def window(parameters: dict[str, Any]) -> str:
    """The part of time that the tables are about."""
    start, stop = parameters["from_ms"], parameters["to_ms"]
    if start is None and stop is None:
        return "everything in the log"
    return f"from {'its beginning' if start is None else at(start)} to {'its end' if stop is None else at(stop)}"


def at(ms: int) -> str:
    """A time as people read it."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
