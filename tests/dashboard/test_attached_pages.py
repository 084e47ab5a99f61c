"""Pages about a copy of another broker, in a browser over the stand-in."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.conftest import StandIn, overflowing_widths

pytestmark = pytest.mark.slow
OpenPage = Callable[..., Page]
LOOK_AGAIN = "document.dispatchEvent(new Event('visibilitychange'))"
"""As if somebody came back to the page: it polls at once."""
UNKNOWN = ("path", "holds", "wakeups", "histograms", "consumer", "publish", "past")


def test_the_live_page_leaves_out_what_a_copy_cannot_know(open_page: OpenPage) -> None:
    page = open_page("attached")
    expect(page.locator('[data-part="attached-brokers"] li')).to_contain_text("following, 0 B behind")
    expect(page.locator('[data-panel="attached"]')).to_contain_text("not known for an attached broker")
    expect(page.locator('[data-panel="queues"] [data-queue="orders@0"]')).to_be_visible()
    for name in UNKNOWN:
        expect(page.locator(f'[data-panel="{name}"]')).to_be_hidden()
    for name in ("holds", "delivered", "woken", "wake-p99", "uptime", "long-polling"):
        expect(page.locator(f'[data-panel="status"] [data-part="{name}"]')).to_be_hidden()
    assert overflowing_widths(page, 390, 1280) == []


def test_groups_of_a_copy_have_no_held_pulls_and_cannot_be_changed(open_page: OpenPage) -> None:
    page = open_page("attached", path="/groups")
    expect(page.locator('[data-panel="groups"] tbody tr').first).to_be_visible()
    expect(page.get_by_role("columnheader", name="holds")).to_be_hidden()
    expect(page.locator('td[data-label="holds"]').first).to_be_hidden()
    page = open_page("attached", path="/groups/billing")
    expect(page.locator('[data-panel="members"] tbody tr').first).to_be_visible()
    expect(page.locator(".group-actions button").first).to_be_hidden()


def test_the_members_of_a_group_answer_what_they_are_doing(open_page: OpenPage) -> None:
    page = open_page("attached", path="/groups/billing")
    page.get_by_role("button", name="Ask the members").first.click()
    box = page.locator("#running-info-dialog")
    expect(box.locator('[data-part="note"]')).to_contain_text("broker-a (10.0.0.2:10911) asked 2 members")
    expect(box.locator("tr[data-problem]")).to_contain_text("orders@0")
    expect(box.locator("section").nth(1)).to_contain_text("it did not answer within 5 s")
    assert overflowing_widths(page, 390, 1280) == []
    box.get_by_role("button", name="Threads").click()
    expect(box.locator("pre")).to_contain_text("OrderListener.step7")
    expect(box.locator("section")).to_have_count(1)
    box.get_by_role("button", name="Close").click()
    expect(box).to_be_hidden()


def test_an_open_page_shows_a_broker_that_joins_the_cluster(open_page: OpenPage, stand_in: StandIn) -> None:
    page = open_page("attached", path="/groups")
    expect(page.locator('[data-panel="groups"] tbody tr').first).to_be_visible()
    picker = page.get_by_role("combobox", name="Broker", exact=True)
    expect(picker).to_be_hidden()
    stand_in.play("newcomer")
    page.evaluate(LOOK_AGAIN)
    expect(picker.get_by_role("option")).to_have_text(["all brokers", "broker-a", "broker-b"])
    expect(page.locator("[data-event]").first).to_contain_text("broker-bmember-at-broker-b joined")
    assert page.url.endswith("/groups")


def test_an_open_live_page_keeps_its_broker_when_another_joins(open_page: OpenPage, stand_in: StandIn) -> None:
    page = open_page("attached")
    expect(page.locator("body[data-live=live]")).to_be_visible()
    stand_in.play("newcomer")
    page.evaluate(LOOK_AGAIN)
    expect(page).to_have_url(re.compile(r"/\?broker=broker-a&default=1$"))
    picker = page.get_by_role("combobox", name="Broker", exact=True)
    expect(picker.get_by_role("option")).to_have_text(["broker-a", "broker-b"])
    stand_in.play("newcomer")
    page.evaluate(LOOK_AGAIN)
    expect(picker.get_by_role("option")).to_have_count(3)
    expect(picker).to_have_value("broker-a")


def test_a_broker_of_our_own_is_shown_whole(open_page: OpenPage) -> None:
    page = open_page("working")
    expect(page.locator('[data-panel="holds"] [data-hold-id]').first).to_be_visible()
    expect(page.locator(".attached-bar")).to_have_count(0)
    expect(page.locator('[data-panel="attached"]')).to_be_hidden()
    page = open_page("working", path="/groups/billing")
    expect(page.locator('[data-panel="members"] tbody tr').first).to_be_visible()
    expect(page.get_by_role("button", name="Ask the members")).to_be_visible()
