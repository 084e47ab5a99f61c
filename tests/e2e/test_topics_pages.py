"""Topics on the pages, with a real broker."""

import re

from playwright.sync_api import Page, expect

from tests.e2e.conftest import Broker


def test_a_topic_is_created_changed_and_deleted(broker: Broker, page: Page) -> None:
    page.goto(f"{broker.address}/topics")
    page.get_by_role("button", name="Create").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("not a name")
    dialog.get_by_role("button", name="Create the topic").click()
    expect(dialog.get_by_role("alert")).to_contain_text("the name of a topic has 1 to 127 of the characters")
    dialog.get_by_label("Name").fill("made-here")
    dialog.get_by_label("Queues").fill("3")
    dialog.get_by_role("button", name="Create the topic").click()
    expect(page.get_by_role("heading", name="made-here", exact=True)).to_be_visible()
    expect(page.locator("[data-topic-queue]")).to_have_count(3)
    broker.publish("made-here", "x")
    broker.call(
        "PUT",
        "/api/v1/groups/made-readers/offsets",
        {"offsets": [{"topic": "made-here", "queue_id": 0, "offset": 1}]},
    )
    expect(page.locator('[data-panel="topic-groups"] [data-part="rows"]')).to_have_text("made-readers")
    expect(page.locator('[data-topic-queue="0"]')).to_contain_text("made-here@0")

    page.get_by_role("button", name="Change").click()
    dialog.get_by_label("Queues to read from").fill("2")
    expect(dialog.get_by_role("status")).to_contain_text("Messages in 1 queue can no longer be consumed.")
    dialog.get_by_label("Queues to read from").fill("3")
    dialog.get_by_label("Queues to write to").fill("2")
    dialog.get_by_role("button", name="Change the topic").click()
    expect(page.locator('[data-panel="topic-route"]')).to_contain_text("2 queues to write, 3 queues to read")

    page.get_by_role("button", name="Delete").click()
    expect(dialog).to_contain_text("1 message can no longer be read")
    dialog.get_by_label("Type the topic's name").fill("made-here")
    dialog.get_by_role("button", name="Delete the topic").click()
    expect(page).to_have_url(re.compile("/topics$"))
    expect(page.locator('[data-panel="topics"] [data-part="count"]')).not_to_have_text("unknown")
    expect(page.locator('[data-topic-row="made-here"]')).to_have_count(0)


def test_a_topic_that_does_not_exist_is_named(broker: Broker, page: Page) -> None:
    page.goto(f"{broker.address}/topics/nowhere")
    expect(page.get_by_role("alert").filter(has_text="nowhere")).to_be_visible()


def test_the_last_minutes_are_replayed_under_other_ways_to_poll(broker: Broker, page: Page) -> None:
    broker.publish("replayed", "there already")
    waiting = broker.wait_for("replayed", 1, group="replayers", wait_ms=20_000)
    while not broker.call("GET", "/api/v1/holds?topic=replayed")["holds"]:
        pass
    page.goto(f"{broker.address}/topics/replayed")
    what_if = page.locator('[data-panel="what-if"]')
    what_if.get_by_label("short polling every").select_option("100")
    what_if.get_by_role("button", name="Compare").click()
    expect(what_if.get_by_role("status")).to_contain_text("No pull of this topic ended in this time")
    broker.publish("replayed", "awaited")
    assert waiting.answer()["messages"]
    with_row = what_if.locator('[data-method="long_polling"] td').nth(1)
    for _ in range(50):  # the poll journal is flushed now and then
        what_if.get_by_role("button", name="Compare").click()
        expect(what_if.get_by_role("button", name="Compare")).to_be_enabled()
        if with_row.is_visible():
            break
        page.wait_for_timeout(100)
    expect(with_row).to_have_text("1")
    expect(what_if.locator('[data-method="short_polling"]')).to_contain_text("short polling every 100 ms")
    expect(what_if.get_by_role("status")).to_contain_text("1 pull ended, 0 without messages: 1 wait.")
