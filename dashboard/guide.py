"""The chapters of the guide, which are the files of docs/, as HTML.

In another language than English each paragraph is translated by its text, so one that has changed is English until it
is translated again. The catalog is ``locale/LANGUAGE/LC_MESSAGES/guide.po``.
"""

import gettext
import re
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import TYPE_CHECKING, NamedTuple

from django.utils.safestring import SafeString
from django.utils.translation import to_locale
from markdown_it import MarkdownIt

if TYPE_CHECKING:
    from markdown_it.token import Token

DOCS = Path(__file__).resolve().parent.parent / "docs"
LOCALES = Path(__file__).resolve().parent / "locale"
ORDER = (
    "dashboard",
    "verdicts",
    "coming-from-rocketmq",
    "attach",
    "api",
    "client",
    "pull-loop",
    "command-line",
    "alerts",
    "reports",
    "operations",
    "options",
    "growing",
    "reliability",
    "rocketmq-features",
    "request-codes",
)
"""The chapters as a reader needs them: what is seen, what is used, what runs it, what it can and cannot do."""
FIRST = ORDER[0]
_OUTSIDE = re.compile(r"^(?:https?:|#)")
_CHAPTER = re.compile(r"^(?P<name>[^#]+)\.md(?P<anchor>#.*)?$")


class Chapter(NamedTuple):
    """``title`` is text; ``html`` is safe: a chapter is a file of this project, and raw HTML in it is shown as text.
    ``sections`` are its headings of the second level: (id, text)."""

    title: str
    html: SafeString
    sections: list[tuple[str, str]]


@lru_cache(1)
def names() -> list[str]:
    """The names of all chapters: paths below docs/ without ``.md``, in ORDER, the decisions last."""
    found = [path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")]
    return sorted(found, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))


@lru_cache(128)
def chapter(name: str, language: str = "en") -> Chapter:
    """The chapter with this name, one of ``names()``, in one of the languages of pages. KeyError for any other name."""
    if name not in names():
        raise KeyError(name)
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse((DOCS / f"{name}.md").read_text(encoding="utf-8"))
    title, sections = name, []
    for token, following in pairwise(tokens):
        if token.type == "heading_open":  # the id is that of the English heading, so links lead there in any language
            token.attrSet("id", anchor(following.content))
            if token.tag == "h1":
                title = translated(following.content, language)
            elif token.tag == "h2":
                text = translated(following.content, language).replace("`", "")
                sections.append((anchor(following.content), text))
    for token in tokens:
        if token.type == "inline" and (text := translated(token.content, language)) != token.content:
            token.children = markdown.parseInline(text)[0].children
        if token.children:
            token.children = _follow_links(token.children, name)
    return Chapter(title, SafeString(markdown.renderer.render(tokens, markdown.options, {})), sections)


def translated(paragraph: str, language: str) -> str:
    """A paragraph's Markdown in this language; as it is if there is no translation of it."""
    key = " ".join(paragraph.split())
    found = _catalog(language).gettext(key)
    return paragraph if found == key else found


@lru_cache(8)
def _catalog(language: str) -> gettext.NullTranslations:
    return gettext.translation("guide", LOCALES, [to_locale(language)], fallback=True)


def anchor(heading: str) -> str:
    """The id of a heading, as GitHub makes it: links between the files of docs/ rely on it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _follow_links(tokens: "list[Token]", name: str) -> "list[Token]":
    """Links between chapters lead to the guide's pages. A link to a file that is no chapter becomes text."""
    shown: list[Token] = []
    is_dropped = False
    for token in tokens:
        if token.type == "link_open":
            address = str(token.attrs["href"])
            is_dropped = False
            if not _OUTSIDE.match(address):
                match = _CHAPTER.match(address)
                target = normpath(join(dirname(name), match["name"])) if match else ""
                is_dropped = target not in names()
                token.attrs["href"] = f"/guide/{target}{(match and match['anchor']) or ''}"
        if token.type not in ("link_open", "link_close") or not is_dropped:
            shown.append(token)
    return shown
