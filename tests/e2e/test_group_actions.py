"""What an operator does to groups on the pages, with a real broker."""

import re

from playwright.sync_api import Page, expect

from tests.e2e.conftest import Broker


def commit(broker: Broker, group: str, topic: str, offset: int) -> None:
    place = {"topic": topic, "queue_id": 0, "offset": offset}
    broker.call("PUT", f"/api/v1/groups/{group}/offsets", {"offsets": [place]})


def test_offsets_are_reset_after_a_preview(broker: Broker, page: Page) -> None:
    for number in range(5):
        broker.publish("moved", str(number))
    commit(broker, "mover", "moved", 2)
    page.goto(f"{broker.address}/groups/mover")
    page.get_by_role("button", name="Reset offsets").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Reset", exact=True)).to_be_disabled()
    dialog.get_by_label("Queues").select_option("0")
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog.get_by_role("status")).to_have_text("3 messages skipped in 1 queue.")
    expect(dialog.get_by_role("listitem")).to_have_text("moved@0: 2 → 5, 3 skipped")
    dialog.get_by_role("combobox", name="To", exact=True).select_option("offset")
    expect(dialog.get_by_role("button", name="Reset", exact=True)).to_be_disabled()  # it was another request's preview
    dialog.get_by_label("Offset", exact=True).fill("9")
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog.get_by_role("alert")).to_contain_text("offset 9 is not in queue 0, which has 0 to 5")
    dialog.get_by_label("Offset", exact=True).fill("1")
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog.get_by_role("status")).to_have_text("1 message again in 1 queue.")
    dialog.get_by_role("button", name="Reset", exact=True).click()
    expect(dialog).not_to_be_visible()
    expect(page.locator('[data-group-queue="moved@0"] .pull-offset')).to_have_text("1")
    expect(page.locator('[data-event="offset_reset"]').first).to_contain_text("was reset to 1; it was 2")


def test_a_group_is_deleted_after_its_name_is_typed(broker: Broker, page: Page) -> None:
    broker.publish("left", "x")
    commit(broker, "leaver", "left", 1)
    page.goto(f"{broker.address}/groups/leaver")
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    sure = dialog.get_by_role("button", name="Delete the group")
    expect(sure).to_be_disabled()
    dialog.get_by_label("Type the group's name").fill("leave")
    expect(sure).to_be_disabled()
    dialog.get_by_label("Type the group's name").fill("leaver")
    sure.click()
    expect(page).to_have_url(re.compile("/groups$"))
    expect(page.locator("[data-group-row]").first).to_be_visible()
    expect(page.locator('[data-group-row="leaver"]')).to_have_count(0)


def test_all_of_many_groups_can_be_scrolled_to(broker: Broker, page: Page) -> None:
    broker.publish("many", "x")
    for number in range(400):
        commit(broker, f"many-{number:03}", "many", 1)
    page.goto(f"{broker.address}/groups")
    page.get_by_role("searchbox").fill("many-")
    expect(page.locator('[data-group-row="many-000"]')).to_be_visible()
    assert page.locator("[data-group-row]").count() < 100
    scroller = page.locator('[data-panel="groups"] [data-part="scroller"]')
    scroller.evaluate("box => { box.scrollTop = box.scrollHeight; }")
    expect(page.locator('[data-group-row="many-399"]')).to_be_visible()
    expect(page.locator('[data-group-row="many-000"]')).to_have_count(0)
