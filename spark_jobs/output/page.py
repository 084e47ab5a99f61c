"""report.html: one file that needs nothing else, so that it can be mailed and still opens in ten years.

The charts are drawn by the vendored uPlot, which is written into the file. What comes from the store (names of topics,
client ids) is in the page only as JSON data and is shown as text; characters in it that hide or turn text are shown by
their codes. The page's own policy allows only its one script, by its digest.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from django.template import Context, Engine

from spark_jobs.catalogue import REPORTS
from spark_jobs.output.charts import drawn, shown_table
from spark_jobs.reports.shape import Chart
from spark_jobs.sources.commit_log_files import CLOCK_SLACK_MS

_PROJECT = Path(__file__).resolve().parent.parent.parent
_UPLOT = _PROJECT / "static" / "vendor" / "uplot"
_ASSETS = Path(__file__).resolve().parent.parent / "assets"
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Characters that hide text or change its direction; the same as on the dashboard."""
PREVIOUS = "previous"
"""The table that the first one is compared with."""
HOUR_MS = 3_600_000
STEPS = {"start_spark": "start of Spark", "read": "reading", "make_tables": "tables", "write_files": "files"}
"""The steps of a run, in words."""


def page(summary: dict[str, Any], tables: Mapping[str, pa.Table], charts: tuple[Chart, ...]) -> str:
    """The page for a run's summary, its tables and the charts of them."""
    # The page's own part is a block, so that its names are not uPlot's.
    script = f"{read(_UPLOT / 'uPlot.esm.js')}\n{{\n{read(_ASSETS / 'report.js')}}}\n"
    style = read(_UPLOT / "uPlot.min.css") + read(_ASSETS / "report.css")
    if "</script" in script.lower() or "</style" in style.lower():
        raise ValueError("the page's own script or style would end its element")
    parts = {
        "digest": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii"),
        "title": summary["title"],
        "license": read(_UPLOT / "LICENSE").replace("--", "- -"),
        "style": style,
        "lead": lead(summary),
        "words": summary["words"],
        "notes": [*summary["notes"], *(f"{part['count']:,} left out: {part['text']}." for part in summary["left_out"])],
        "facts": list(facts(summary)),
        "data": data(summary, tables, charts),
        "script": script,
    }
    text = Engine(dirs=[str(_ASSETS)]).get_template("report.html").render(Context(parts))
    return _UNSEEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)


def read(path: Path) -> str:
    """The text of one of the page's parts."""
    return path.read_text(encoding="utf-8")


def data(summary: dict[str, Any], tables: Mapping[str, pa.Table], charts: tuple[Chart, ...]) -> str:
    """The data of the page's script, as JSON that cannot end its element."""
    shown = {
        "headlines": [
            figure | {"report_title": REPORTS[figure["report"]].title if figure["report"] else ""}
            for figure in summary["headlines"]
        ],
        "charts": [drawn(chart, tables[chart.table]) for chart in charts if tables[chart.table].num_rows],
        "tables": {name: shown_table(table) for name, table in tables.items() if name != PREVIOUS},
        "previous": shown_table(tables[PREVIOUS]) if PREVIOUS in tables else None,
        "step_ms": summary["step_ms"],
    }
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def lead(summary: dict[str, Any]) -> str:
    """The time, brokers, topic and group of the report, as one line."""
    parameters, brokers = summary["parameters"], summary["brokers"]
    span = summary["span"]
    words = [window(parameters["from_ms"], parameters["to_ms"])]
    if None in (parameters["from_ms"], parameters["to_ms"]) and span["from_ms"] is not None:
        words.append(f"data that was read: {window(span['from_ms'], span['to_ms'])}")
    if summary["look_back_ms"] and words[0] != window(None, None):
        words.append(
            f"with what happened {summary['look_back_ms'] // HOUR_MS} hours before and after, where it matters"
        )
    words.append(f"at {f'{len(brokers)} brokers: ' if len(brokers) > 1 else ''}{', '.join(brokers)}")
    words += [
        f"{what} {parameters[name]} only"
        for name, what in (("topic", "topic"), ("consumer_group", "group"))
        if parameters[name]
    ]
    journals = [source.get("journal", {}) for source in summary["inputs"]]
    if any(part.get("segments_outside") or part.get("files_outside") for part in [*summary["inputs"], *journals]):
        words.append(
            f"files of other times were not read, so what was stored while a clock was set back by more than "
            f"{CLOCK_SLACK_MS // HOUR_MS} hour may be missing"
        )
    if "previous" in summary:
        previous = summary["previous"]
        words.append(f"compared with the time {window(previous['from_ms'], previous['to_ms'])}")
    return "; ".join(words)


def facts(summary: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What was read of each broker, and when, how long and by which version: the names and values of a list."""
    for source in summary["inputs"]:
        yield "Store", f"{source['store']} of {source['broker']}"
        log = {name: value for name, value in source.items() if name not in ("store", "broker", "lake", "journal")}
        for what, values in (("Log", log), ("Lake", source.get("lake")), ("Poll journal", source.get("journal"))):
            if values:
                yield what, listed(values) or "there is none"
    made = f"{at(summary['finished_ms'])}, in {summary['duration_s']:.1f} s, by GlassMQ {summary['code_version']}"
    yield "Created", made
    yield "Time spent", ", ".join(f"{STEPS[step]} {spent:.1f} s" for step, spent in summary["durations_s"].items())


def listed(values: Mapping[str, Any]) -> str:
    """What was read, such as ``messages 3,319, torn bytes 12``, without zeros. Names of times end with ``_ms``."""
    shown = {name: f"{value:,}" if isinstance(value, int | float) else value for name, value in values.items() if value}
    shown |= {name: at(values[name]) for name in shown if name.endswith("_ms")}
    shown |= {name: ", ".join(map(str, value)) for name, value in shown.items() if isinstance(value, list)}
    return ", ".join(f"{name.removesuffix('_ms').replace('_', ' ')} {value}" for name, value in shown.items())


def window(start: int | None, stop: int | None) -> str:
    """A span of time, in words."""
    if start is None and stop is None:
        return "everything there is"
    return f"from {'the beginning' if start is None else at(start)} to {'the end' if stop is None else at(stop)}"


def at(ms: int) -> str:
    """A time as text."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
