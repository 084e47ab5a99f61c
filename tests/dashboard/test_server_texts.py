"""The pages translate the server's sentences by templates, in the server's words. Here both are compared."""

import ast
import json
import re
from collections.abc import Collection, Iterator

import pytest

from spark_jobs.catalogue import REPORTS
from tests.conftest import PROJECT

FOLDER = PROJECT / "static" / "js" / "text" / "server"
TEMPLATE = re.compile(r'noop\(("(?:[^"\\]|\\.)*")\)')
PLACE = re.compile(r"\{\d?\}")
WORD = re.compile("[A-Za-z]{2}")
WORDS = re.compile(r"[A-Za-z']+[,;:]? [A-Za-z(]")
"""Two words or more: what must be translated. A single one may be a name."""

SOURCES: dict[str, dict[str, Collection[str]]] = {
    "queues.js": {
        "broker_core/processors/group_view.py": (
            "_describe_last_pull",
            "_why",
            "_why_of_pops",
            "_late_heartbeat",
            "_why_not_held",
        ),
    },
    "alerts.js": {
        "alerts/facts.py": ("Watch", "_dead_letters_text", "_read_topic"),
        "alerts/reports.py": ("_read",),
        "alerts/sentence.py": (),
        "alerts/sending.py": ("send", "_receiver", "_post", "_mail"),
        "alerts/service.py": ("round",),
    },
    "errors.js": {
        "alerts/reports.py": ("check_figure",),
        "alerts/rules.py": (
            "check_rule",
            "_check_states",
            "_check_verdicts",
            "_check_report",
            "_check_text",
            "_check_pattern",
            "check_silence",
            "check_channel",
            "check_url",
        ),
        "bridge/batching_port.py": ("__init__", "_on_message", "_send_heartbeats", "_time_out"),
        "bridge/calls.py": ("fail_sent",),
        "bridge/port.py": ("get_ports",),
        "bridge/socket_port.py": ("_run",),
        "broker_core/processors/admin_broker.py": ("delete_topic",),
        "broker_core/topics.py": ("not_exist", "validate_name", "validate_topic", "validate_group"),
        "spark_jobs/hosting/schedules.py": ("add", "crontab_of", "_refuse_twice"),
    },
    "report_notes.js": {
        "spark_jobs/hosting/lake_state.py": ("_read_stored",),
        "spark_jobs/hosting/runs.py": ("end_attempt",),
        "spark_jobs/hosting/spark_child.py": ("start_spark",),
        "spark_jobs/hosting/spark_process.py": ("ended",),
        "spark_jobs/hosting/worker.py": ("carry_out", "spark_problem", "full_disk", "__call__"),
        "spark_jobs/job.py": (),
        "spark_jobs/lake/delta.py": ("open",),
        "spark_jobs/lake/state.py": ("read_state",),
        "spark_jobs/lake/lake.py": ("require_same",),
        "spark_jobs/lake/report_lake.py": (),
        "spark_jobs/lake/sync.py": ("compact", "sync"),
        "spark_jobs/output/notes.py": (),
        "spark_jobs/output/result.py": ("compute",),
        "spark_jobs/run.py": ("read_facts", "run_report"),
        "spark_jobs/sources/commit_log_bounds.py": ("implausible_note",),
        "spark_jobs/spark/failures.py": ("sentence",),
        "spark_jobs/spark/installed.py": ("lack_of",),
        "spark_jobs/spark/session.py": ("require_packages",),
    },
    "report_words.js": {"spark_jobs/output/words.py": ()},
    "refusals.js": {
        "broker_core/consumers/subscribed_filter.py": ("subscribed_filter", "_require_filter"),
        "broker_core/processors/context.py": ("problem",),
        "broker_core/processors/outcome.py": ("pull_refused",),
        "broker_core/processors/pull_message.py": ("_check_access", "_hold"),
        "broker_core/store/message_store.py": (
            "problem",
            "_has_more_recovery",
            "_note_no_room",
            "_note_dispatch_failure",
            "flush_failed",
            "reput",
            "build_index",
        ),
    },
}
"""By the file of templates: the functions whose sentences it has. A class stands for its methods."""
OTHER_WORDS = {
    "the broker's engine answers again",
    "alert mail",  # a thread
    "%Y-%m-%d %H:%M UTC",
    "invalid record",  # a key
    "at once",  # the name of a cause
    "request {0} of this connection is held already",  # a client's mistake that no page causes
}


def templates(name: str) -> list[str]:
    found: list[str] = [json.loads(text) for text in TEMPLATE.findall((FOLDER / name).read_text(encoding="utf-8"))]
    assert len(found) == len(set(found)), f"{name} has a template twice"
    return found


def texts_of(path: str, functions: Collection[str]) -> Iterator[str]:
    """The strings of these functions, with {0} for the values in them. ``functions`` empty: of the whole module."""
    tree = ast.parse((PROJECT / path).read_text(encoding="utf-8"))
    wanted: list[ast.AST] = [tree]
    if functions:
        wanted = [node for node in ast.walk(tree) if getattr(node, "name", "") in functions]
        assert wanted, f"{path} has none of {functions}"
    for place in wanted:
        inner = {id(part) for node in ast.walk(place) if isinstance(node, ast.JoinedStr) for part in node.values}
        notes = {id(node.value) for node in ast.walk(place) if isinstance(node, ast.Expr)}
        logged = (node.args for node in ast.walk(place) if isinstance(node, ast.Call) and _is_log(node.func))
        notes |= {id(argument) for arguments in logged for argument in arguments}
        for node in ast.walk(place):
            if id(node) in notes or id(node) in inner:
                continue
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{0}" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def _is_log(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and getattr(function.value, "id", "") in ("log", "logger")


@pytest.mark.parametrize("name", SOURCES)
def test_each_sentence_of_the_server_has_a_template(name: str) -> None:
    known = " | ".join(templates(name))
    for path, functions in SOURCES[name].items():
        for text in {*texts_of(path, functions)} - OTHER_WORDS:
            for part in PLACE.split(text):
                is_known = not WORDS.search(part) or part in known or "[" in part  # a type
                assert is_known, f"{path} says {part!r}, {name} does not have it"


@pytest.mark.parametrize("name", SOURCES)
def test_each_template_is_in_the_servers_words(name: str) -> None:
    texts = {text for path, functions in SOURCES[name].items() for text in texts_of(path, functions)}
    parts = sorted({part.strip() for text in texts for part in PLACE.split(text)}, key=len, reverse=True)
    for template in templates(name):
        rest = PLACE.sub("|", template)
        for part in parts:
            rest = re.sub(rf"(?:^|(?<=\W)|(?=\W)){re.escape(part)}s?(?!\w)", "|", rest) if WORD.search(part) else rest
        assert not WORD.search(rest), f"the server does not say {rest!r} of {template!r}"


def test_the_names_of_reports_and_of_their_figures_have_translations() -> None:
    names = {text for info in REPORTS.values() for text in (info.title, info.description)}
    for path in (PROJECT / "spark_jobs" / "reports").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Figure" and len(node.args) > 1:
                names.add(ast.literal_eval(node.args[1]))
    assert set(templates("report_names.js")) == names
