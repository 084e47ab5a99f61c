"""The texts of the pages and their translations. Nothing here needs GNU gettext."""

import gettext
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.template.loader import render_to_string
from django.test import Client
from django.utils.translation import deactivate, override
from django.utils.translation.template import templatize

from broker_core.verdicts import clients
from broker_core.verdicts.catalogue import CATALOGUE, PROBLEMS
from tests.conftest import PROJECT

CATALOGS = PROJECT / "dashboard" / "locale" / "zh_Hans" / "LC_MESSAGES"
DOMAINS = ("django", "djangojs")
LITERAL = r'"(?:[^"\\]|\\.)*"'
TRANSLATED = re.compile(rf"(?<![\w.])(?:t|noop)\(\s*({LITERAL})")
COUNTED = re.compile(rf"(?<![\w.])(?:plural|choose)\([^\"`]*?,\s*({LITERAL})\s*,\s*({LITERAL})")
IN_TEMPLATE = re.compile(r" gettext\((?:u?'((?:[^'\\]|\\.)*)'|u?\"((?:[^\"\\]|\\.)*)\")\)")
IN_PYTHON = re.compile(rf"gettext(?:_noop)?\(\s*({LITERAL})")
CHINESE = re.compile("[\u4e00-\u9fff]")
PLACES = re.compile(r"\{\d\}|%\(\w+\)s|%%|</?\w[^>]*>|&\w+;")
SAME_IN_CHINESE = {
    "API",
    "Broker",
    "CSV、JSON、Parquet",
    "ID",
    "Key",
    "Slave",
    "Spark",
    "epoch",
    "URL",
    "Webhook",
    "offset message id",
}
"""Translations without a Chinese letter, beside those that only have places."""


class Entry(NamedTuple):
    """An entry of a catalog; ``plural`` is empty for one without plural."""

    text: str
    plural: str
    translation: str
    is_fuzzy: bool


def entries(domain: str) -> list[Entry]:
    """The entries of a .po file without its header."""
    found = []
    for block in (CATALOGS / f"{domain}.po").read_text(encoding="utf-8").split("\n\n"):
        fields = {"msgid": "", "msgid_plural": "", "msgstr": ""}
        name = ""
        for line in block.splitlines():
            if line.startswith("#"):
                continue
            match = re.match(r"(msgid_plural|msgid|msgstr)(?:\[0\])? ", line)
            if match:
                name, line = match[1], line[match.end() :]
            fields[name] += json.loads(line)
        if fields["msgid"]:
            is_fuzzy = re.search("^#,.*fuzzy", block, re.MULTILINE) is not None
            found.append(Entry(fields["msgid"], fields["msgid_plural"], fields["msgstr"], is_fuzzy))
    return found


def texts_of_templates() -> Iterator[str]:
    for path in sorted((PROJECT / "templates").rglob("*.html")):
        for single, double in IN_TEMPLATE.findall(templatize(path.read_text(encoding="utf-8"))):
            text = single or double
            yield re.sub(r"\\(.)", r"\1", text)
    for folder in ("dashboard", "api", "alerts"):
        for path in sorted((PROJECT / folder).rglob("*.py")):
            yield from map(json.loads, IN_PYTHON.findall(path.read_text(encoding="utf-8")))


def texts_of_scripts() -> Iterator[str]:
    for path in sorted((PROJECT / "static" / "js").rglob("*.js")):
        source = path.read_text(encoding="utf-8")
        yield from map(json.loads, TRANSLATED.findall(source))
        yield from (json.loads(one) for one, _ in COUNTED.findall(source))


@pytest.mark.parametrize(("domain", "texts"), [("django", texts_of_templates), ("djangojs", texts_of_scripts)])
def test_the_catalog_has_each_text_of_the_pages_and_no_other(domain: str, texts: Any) -> None:
    missing = "run `make messages`, and translate what it adds"
    assert set(texts()) == {entry.text for entry in entries(domain)}, missing


@pytest.mark.parametrize("domain", DOMAINS)
def test_each_text_is_translated(domain: str) -> None:
    for entry in entries(domain):
        words = PLACES.sub("", entry.translation)
        assert not entry.is_fuzzy, f"a guess that nobody has checked: {entry}"
        is_same = words.strip(" \uff1a") in SAME_IN_CHINESE or not re.search("[A-Za-z]{2}", words)
        assert CHINESE.search(words) or is_same, entry


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_translation_has_the_same_places_and_markup(domain: str) -> None:
    for entry in entries(domain):
        assert set(PLACES.findall(entry.plural or entry.text)) == set(PLACES.findall(entry.translation)), entry
        if '"' not in entry.text:  # a translation stands in attributes as it is
            assert '"' not in entry.translation, entry


@pytest.mark.parametrize("domain", [*DOMAINS, "guide"])
def test_the_compiled_catalog_is_that_of_the_texts(domain: str) -> None:
    with (CATALOGS / f"{domain}.mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)
    for entry in entries(domain):
        found = compiled.ngettext(entry.text, entry.plural, 2) if entry.plural else compiled.gettext(entry.text)
        assert found == entry.translation, "run `make messages`"
    assert len({key for key in compiled._catalog if key}) == len(entries(domain))  # type: ignore[attr-defined]


def test_the_scripts_know_each_verdict_and_advice_of_the_server() -> None:
    sentences = (PROJECT / "static/js/text/verdict_texts.js").read_text(encoding="utf-8")
    assert set(re.findall(r"^  ([a-z_]+): \(e", sentences, re.MULTILINE)) == set(CATALOGUE)
    known = set(re.findall(rf"noop\(({LITERAL})\)", (PROJECT / "static/js/text/verdict_advice.js").read_text()))
    fixed = {situation.advice for situation in CATALOGUE.values()} - {CATALOGUE["listener_blocked"].advice}
    others = re.findall(r'advice="([^"]*)"', (PROJECT / "broker_core/verdicts/judge.py").read_text())
    assert {json.loads(text) for text in known} == fixed | set(clients._ADVICE.values()) | set(others)


def test_the_scripts_have_a_word_for_each_error_and_warning_of_the_server() -> None:
    words = set(re.findall(r"\b([a-z_]+): t\(", (PROJECT / "static/js/text/words.js").read_text(encoding="utf-8")))
    problems = {name for name, one in CATALOGUE.items() if {"error", "warning"} & set(one.severities)}
    assert problems - words == set()


def test_the_scripts_offer_each_problem_of_a_group_to_alert_rules() -> None:
    script = (PROJECT / "static/js/text/alerts_text.js").read_text(encoding="utf-8")
    [listed] = re.findall(r"VERDICTS = \[(.*?)\]", script, re.DOTALL)
    assert re.findall(r'"(\w+)"', listed) == list(PROBLEMS)


WHOLE_TEMPLATE = re.compile(r"`((?:(?!\$\{)[^`])*)`")
NOT_SHOWN = {
    "(prefers-color-scheme: dark)",
    "(prefers-reduced-motion: reduce)",
    "11px system-ui, sans-serif",
    ".run-error span",
    "input, textarea, select, [contenteditable]",
    "use strict",
    "make demo",  # commands
    "falling behind",  # words of the API
    "catching up",
    "invalid record",
    "several brokers",
}


def strings_of(source: str) -> Iterator[str]:
    """The strings of a script that are not translated, with | for the values in them."""
    source = re.sub(r"/\*.*?\*/|(?:^|\s)//[^\n]*", "", source, flags=re.DOTALL)
    source = COUNTED.sub("", TRANSLATED.sub("", source))
    yield from (text[1:-1] for text in re.findall(LITERAL, source))
    for line in re.sub(LITERAL, '""', source).splitlines():
        rest, before = line, ""
        while rest != before:  # a template in a value of another one comes first
            before, rest = rest, re.sub(r"\$\{[^{}`]*\}", "|", rest)
            yield from WHOLE_TEMPLATE.findall(rest)
            rest = WHOLE_TEMPLATE.sub("", rest)


@pytest.mark.parametrize("folder", ["", "pages", "panels", "text"])
def test_a_script_has_no_sentence_outside_translations(folder: str) -> None:
    styles = "".join(path.read_text(encoding="utf-8") for path in (PROJECT / "static" / "css").glob("*.css"))
    classes = {*re.findall(r"\.([a-z][\w-]*)", styles)}
    for path in (PROJECT / "static" / "js" / folder).glob("*.js"):
        for text in strings_of(path.read_text(encoding="utf-8")):
            is_shown = re.search("[A-Za-z]{2,}[,;:]? [a-z]{2,}", text) and not text.startswith("curl ")
            is_shown = is_shown and text not in NOT_SHOWN
            are_classes = all(word in classes or "-" in word for word in text.strip("|").split())
            assert not is_shown or are_classes, f"{path.name} does not translate {text!r}"


TAGS = re.compile(r"{%.*?%}|{{.*?}}|{#.*?#}|<(?:script|style|code|pre|textarea)\b.*?</\w+>|<[^<>]*>", re.DOTALL)
TRANSLATION = re.compile(
    r"{% blocktranslate.*?{% endblocktranslate %}|{% comment %}.*?{% endcomment %}"
    r"|{% block (?:body_attributes|main_class) %}.*?{% endblock %}",
    re.DOTALL,
)
NAMES = {"GlassMQ", "API", "JSON", "UTC", "Hex", "pullRequestTable", "longPollingEnable", "English", "En", "glish"}


TEMPLATES = sorted({*(PROJECT / "templates").rglob("*.html")} - {PROJECT / "templates" / "api" / "docs.html"})
"""Without the page of the API, which is English."""


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_a_template_has_no_text_outside_translations(path: Path) -> None:
    source = TRANSLATION.sub("", path.read_text(encoding="utf-8"))
    for attribute in re.findall(r'\b(?:title|aria-label|placeholder)="([^"{]+)"', source):
        assert not re.search("[a-z]{2}", attribute) or attribute in {"English", "https://…"}, attribute
    for text in TAGS.split(source):
        words = set(re.findall(r"[A-Za-z]{2,}", text))
        assert words <= NAMES or re.fullmatch(r"\s*[\d ·|*]*(?:p50|p99|\d+ m?s|min)?\s*", text), text.strip()


def get(path: str, **headers: str) -> Any:
    try:
        return Client(headers={"host": "localhost", **headers}).get(path)
    finally:
        deactivate()  # the language of the request, in which other tests of this process would run


@pytest.mark.parametrize(
    ("headers", "language"),
    [
        ({}, "en"),
        ({"accept_language": "zh-CN,zh;q=0.9,en;q=0.8"}, "zh-hans"),
        ({"accept_language": "de,en;q=0.5,zh-CN;q=0.4"}, "en"),
        ({"accept_language": "zh-CN", "cookie": "glassmq_language=en"}, "en"),
        ({"cookie": "glassmq_language=zh-hans"}, "zh-hans"),
        ({"cookie": "glassmq_language=xx"}, "en"),
    ],
)
def test_the_cookie_decides_before_the_browsers_languages(headers: dict[str, str], language: str) -> None:
    answer = get("/groups", **headers)
    assert f'<html lang="{language}"' in answer.content.decode()
    assert "Accept-Language" in answer.headers["Vary"]


PAGES = ["/", "/groups", "/groups/a", "/groups/a/dead-letters", "/topics", "/topics/a", "/messages", "/messages/A"]
PAGES += ["/connections", "/alerts", "/reports", "/holds/1", "/there/is/nothing"]
SENTENCE = re.compile("(?:[A-Za-z']+[,;:]? ){2,}[A-Za-z']+")
"""Three words or more."""


@pytest.mark.parametrize("path", PAGES)
def test_a_page_in_chinese_has_no_english_sentence(path: str) -> None:
    text = get(path, accept_language="zh-CN").content.decode()
    shown = re.findall(r'\b(?:title|aria-label|placeholder)="([^"]*)"', text)
    text = re.sub(r"<(script|style|code|pre|textarea)\b.*?</\1>", "", text, flags=re.DOTALL)
    for part in [*shown, *re.split(r"<[^>]*>", text)]:
        assert not SENTENCE.search(html.unescape(part)), part


@pytest.mark.parametrize(
    "path", ["/", "/groups", "/groups/a", "/topics", "/topics/a", "/messages", "/messages/A", "/connections", "/alerts"]
)
def test_a_page_in_chinese(path: str) -> None:
    text = get(path, accept_language="zh-CN").content.decode()
    assert '<a href="/topics"' in text and ">主题</a>" in text and 'data-language="en"' in text
    assert "<h1" not in text or CHINESE.search(text.partition("<main")[2])
    assert re.search(r'<script src="/catalog/zh-hans.js\?v=\w{12}"></script>\s*<script type="module"', text)
    assert "/catalog/" not in get(path).content.decode()


def test_error_pages_in_chinese() -> None:
    assert "页面不存在" in get("/there/is/nothing", accept_language="zh-CN").content.decode()
    with override("zh-hans"):
        assert "服务器未能生成此页面" in render_to_string("500.html")
