"""The guide's chapters, and the links to them."""

import html
import re

import pytest
from django.template import Context, Template
from django.test import RequestFactory

from dashboard import guide
from dashboard.navigation import NAVIGATION, guide_path

LINK = re.compile(r'href="(/guide/[^"]*)"')


def exists(address: str) -> bool:
    name, _, place = address.removeprefix("/guide/").partition("#")
    return name in guide.names() and (not place or f'id="{place}"' in guide.chapter(name).html)


@pytest.mark.parametrize("name", guide.names())
def test_a_chapter_has_a_title_and_its_links_lead_somewhere(name: str) -> None:
    chapter = guide.chapter(name)
    assert chapter.title != name and "<h1" in chapter.html
    wrong = [link for link in LINK.findall(chapter.html) if not exists(html.unescape(link))]
    own = [link for link in re.findall(r'href="#([^"]+)"', chapter.html) if f'id="{link}"' not in chapter.html]
    assert (wrong, own) == ([], [])


def test_the_chapters_have_an_order_for_readers_and_the_decisions_come_last() -> None:
    placed = [name for name in guide.names() if not name.startswith("decisions/")]
    assert placed == list(guide.ORDER), "a new chapter has its place in ORDER"
    assert guide.names()[len(placed)] == "decisions/0001-the-engine-is-a-synchronous-machine"


def test_a_chapter_lists_its_sections() -> None:
    english, chinese = guide.chapter("dashboard"), guide.chapter("dashboard", "zh-hans")
    assert ("groups", "Groups") in english.sections
    assert [place for place, _ in english.sections] == [place for place, _ in chinese.sections]
    assert all(f'id="{place}"' in english.html for place, _ in english.sections)


def test_every_page_links_to_its_part_of_the_guide() -> None:
    for item in NAVIGATION:
        assert exists(guide_path(item.path)), item
    assert guide_path("/groups/billing") == "/guide/dashboard#groups"
    assert guide_path("/reports") == "/guide/reports"
    assert guide_path("/nowhere") == "/guide/dashboard"


def test_links_to_files_that_are_no_chapters_are_text() -> None:
    assert "README.md" not in guide.chapter("coming-from-rocketmq").html


def test_the_header_links_to_the_guide_from_anywhere() -> None:
    header = Template("{% load glassmq %}{% navigation %}")
    assert 'href="/guide/dashboard#topics"' in header.render(
        Context({"request": RequestFactory().get("/topics/orders")})
    )
    assert 'href="/guide/dashboard"' in header.render(Context())


@pytest.mark.parametrize("name", guide.names())
def test_a_chapter_in_chinese_has_the_same_places_code_links_and_emphasis(name: str) -> None:
    english, chinese = guide.chapter(name), guide.chapter(name, "zh-hans")
    assert chinese.title != english.title and chinese.html != english.html
    for pattern in ('id="[^"]+"', "<code>[^<]+</code>", 'href="[^"]+"', "<em>", "<strong>"):
        assert sorted(re.findall(pattern, chinese.html)) == sorted(re.findall(pattern, english.html))


def test_a_paragraph_without_translation_stays_english() -> None:
    assert guide.translated("The\ndashboard", "zh-hans") == "控制台"
    assert guide.translated("Something\nnew", "zh-hans") == "Something\nnew"
    assert guide.translated("The dashboard", "de") == guide.translated("The dashboard", "en") == "The dashboard"
