"""The pages translate the server's sentences by templates, in the server's words. Here both are compared."""

import ast
import json
import re
from collections.abc import Collection, Iterator

import pytest

from tests.conftest import PROJECT

FOLDER = PROJECT / "static" / "js" / "text" / "server"
TEMPLATE = re.compile(r'noop\(("(?:[^"\\]|\\.)*")\)')
PLACE = re.compile(r"\{\d\}")
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
    "alert mail",  # a thread
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
        for node in ast.walk(place):
            if id(node) in notes or id(node) in inner:
                continue
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{0}" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


@pytest.mark.parametrize("name", SOURCES)
def test_each_sentence_of_the_server_has_a_template(name: str) -> None:
    known = " | ".join(templates(name))
    for path, functions in SOURCES[name].items():
        for text in {*texts_of(path, functions)} - OTHER_WORDS:
            for part in PLACE.split(text):
                assert not WORDS.search(part) or part in known, f"{path} says {part!r}, {name} does not have it"


@pytest.mark.parametrize("name", SOURCES)
def test_each_template_is_in_the_servers_words(name: str) -> None:
    texts = {text for path, functions in SOURCES[name].items() for text in texts_of(path, functions)}
    parts = sorted({part.strip() for text in texts for part in PLACE.split(text)}, key=len, reverse=True)
    for template in templates(name):
        rest = PLACE.sub("|", template)
        for part in parts:
            rest = rest.replace(part, "|") if re.search("[A-Za-z]{2}", part) else rest
        assert not re.search("[A-Za-z]{2}", rest), f"the server does not say {rest!r} of {template!r}"
