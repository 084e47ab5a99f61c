"""What a reader chose on a page is in its address, and the address shows it again."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page, expect

pytestmark = pytest.mark.slow
OpenPage = Callable[..., Page]


def query_of(page: Page) -> dict[str, str]:
    query: dict[str, str] = page.evaluate("Object.fromEntries(new URLSearchParams(location.search))")
    return query


def test_the_live_page_keeps_filters_and_order(open_page: OpenPage) -> None:
    page = open_page("busy")
    holds, queues = page.locator('[data-panel="holds"]'), page.locator('[data-panel="queues"]')
    expect(holds.locator("[data-hold-id]").first).to_be_visible()
    holds.get_by_role("searchbox").fill("group-1")
    holds.locator('[data-sort="deadline"]').click()
    holds.locator('[data-sort="deadline"]').click()
    queues.get_by_role("searchbox").fill("@0")
    queues.get_by_role("checkbox").check()
    page.locator('[data-part="cause"]').select_option("timeout")
    assert query_of(page) == {
        "h.q": "group-1",
        "h.sort": "deadline",
        "h.descending": "1",
        "q.q": "@0",
        "q.system": "1",
        "cause": "timeout",
    }
    page.reload()
    expect(holds.get_by_role("searchbox")).to_have_value("group-1")
    expect(holds.locator('th[aria-sort="descending"] [data-sort]')).to_have_attribute("data-sort", "deadline")
    expect(queues.get_by_role("searchbox")).to_have_value("@0")
    expect(queues.get_by_role("checkbox")).to_be_checked()
    expect(page.locator('[data-part="cause"]')).to_have_value("timeout")


def test_a_selected_hold_that_has_ended_leads_to_its_page(open_page: OpenPage) -> None:
    page = open_page("idle")
    page.get_by_role("button", name="Start").click()
    page.locator("[data-hold-id] .row-button").first.click()
    detail = page.locator('[data-part="detail"]')
    expect(detail).to_have_attribute("data-selected-hold", re.compile(r"\d"))
    selected = detail.get_attribute("data-selected-hold")
    assert query_of(page) == {"hold": selected}
    page.reload()  # its client is gone now
    expect(detail).to_contain_text("not among the held pulls")
    expect(detail.get_by_role("link", name=f"#{selected}")).to_have_attribute("href", f"/holds/{selected}")


def test_a_selected_hold_is_selected_again(open_page: OpenPage, browser: Browser) -> None:
    page = open_page("idle")
    page.get_by_role("button", name="Start").click()
    hold = page.locator("[data-hold-id]").first.get_attribute("data-hold-id")
    with browser.new_page() as other:
        other.goto(f"{page.url}?hold={hold}")
        expect(other.locator('[data-part="detail"]')).to_have_attribute("data-selected-hold", hold or "")
        expect(other.locator('[data-part="sentence"]')).to_contain_text("Waits for offset 0")


def test_a_board_that_is_no_longer_kept_is_named(open_page: OpenPage) -> None:
    page = open_page("working", path="/?at=1000000000000")
    expect(page.locator('[data-panel="past"] [data-part="when"]')).to_contain_text("2001-09-09")


def test_a_group_page_shows_only_queues_with_problems_again(open_page: OpenPage) -> None:
    page = open_page("broken", path="/groups")
    page.locator("[data-group-row] a").first.click()
    expect(page.locator("[data-group-queue]").first).to_be_visible()
    box = page.locator('[data-part="problems-only"]')
    box.check()
    assert query_of(page) == {"problems": "1"}
    page.reload()
    expect(box).to_be_checked()
    box.uncheck()
    assert query_of(page) == {}


def test_the_reports_page_keeps_time_range_and_filters(open_page: OpenPage) -> None:
    page = open_page("working", path="/reports")
    page.locator('[name="choice"]').select_option("custom")
    page.locator('[data-panel="window"] [name="from"]').fill("2026-11-20T10:00")
    page.locator('[data-panel="window"] [name="topic"]').fill("orders")
    page.locator('[data-panel="window"] [name="compare"]').check()
    chosen = {"range": "custom", "from": "2026-11-20T10:00", "topic": "orders", "compare": "1"}
    assert query_of(page) == chosen
    page.reload()
    expect(page.locator('[data-panel="window"] [name="from"]')).to_have_value("2026-11-20T10:00")
    expect(page.locator('[data-panel="window"] [name="topic"]')).to_have_value("orders")
    expect(page.locator('[data-panel="window"] [name="compare"]')).to_be_checked()
    assert query_of(page) == chosen
