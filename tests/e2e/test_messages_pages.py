"""The search for messages and the page of one message, with a real broker and hostile messages."""

import base64
import re
import time
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.e2e.conftest import Broker

MARKUP = "<img src=x onerror=document.title='owned'><script>document.title='owned'</script>"
TURNED = "invoice\u202egpj.exe"


def test_a_message_is_found_by_topic_key_and_id(broker: Broker, page: Page) -> None:
    for number in range(60):
        broker.publish("found", f'{{"order": {number}}}', keys=[f"order-{number}"], tag="Paid")
    page.goto(f"{broker.address}/messages")
    page.get_by_label("Topic").fill("found")
    page.get_by_role("button", name="Search").click()
    rows = page.locator("[data-message-row]")
    expect(rows).to_have_count(50)
    expect(rows.first).to_contain_text('{"order": 59}')
    expect(page.locator('[data-part="count"]')).to_have_text("the newest 50 messages")
    page.get_by_role("button", name="Older messages").click()
    expect(rows).to_have_count(60)
    expect(rows.last).to_contain_text('{"order": 0}')
    page.get_by_label("Key").fill("order-7")
    page.get_by_role("button", name="Search").click()
    expect(rows).to_have_count(1)
    page.reload()  # the search is in the page's address
    expect(rows).to_have_count(1)
    message_id = page.locator("[data-message-row]").get_attribute("data-message-row") or ""
    page.go_back()
    expect(rows).to_have_count(50)
    page.get_by_label("Id").fill(message_id)
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("heading", name=f"Message {message_id}")).to_be_visible()
    expect(page.locator(".message-body")).to_have_text('{\n  "order": 7\n}')
    page.get_by_role("button", name="Hex").click()
    expect(page.locator(".message-body")).to_contain_text("00000000  7b 22 6f 72 64 65 72 22")


def test_a_topic_is_followed_filtered_and_paused(broker: Broker, page: Page) -> None:
    broker.publish("followed", "first", tag="Paid")
    page.goto(f"{broker.address}/messages")
    page.get_by_role("link", name="followed", exact=True).click()
    rows = page.locator("[data-message-row]")
    expect(rows).to_have_count(1)
    page.get_by_role("button", name="Follow").click()
    for number in range(200):  # more than one answer holds, and less than four
        broker.publish("followed", f"number {number}")
    expect(page.locator('[data-part="count"]')).to_have_text("201 messages")
    expect(rows.first).to_contain_text("number 199")
    page.get_by_label("Show only rows that contain").fill("PAID")
    expect(rows).to_have_count(1)
    expect(page.locator('[data-part="count"]')).to_have_text("1 of 201 messages")
    broker.publish("followed", "last", tag="Paid")
    expect(rows).to_have_count(2)
    away = {"detail": "the engine is away"}
    page.route("**/api/v1/messages?*", lambda route: route.fulfill(status=404, json=away), times=1)
    page.reload()  # the page's address says that the topic is followed, and the filter; the first answer is a failure
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    expect(rows).to_have_count(2)
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Follow")).to_be_visible()
    assert "follow" not in parse_qs(urlsplit(page.url).query)


def test_a_linked_search_keeps_its_broker_its_id_and_its_rows(broker: Broker, page: Page) -> None:
    asked: list[dict[str, list[str]]] = []
    message = {"broker": "b", "topic": "t", "queue_id": 0, "queue_offset": "0", "store_time_ms": "1000", "tag": ""}
    message |= {"keys": [], "body": "x", "body_encoding": "utf8", "problem": "", "size": 9, "message_id": "M"}

    def answer(route: Route) -> None:
        asked.append(parse_qs(urlsplit(route.request.url).query))
        if "before" in asked[-1]:
            route.fulfill(status=404, json={"detail": "It is gone."})
        else:
            route.fulfill(json={"messages": [message | {"offset_message_id": "O"}], "next": "5"})

    brokers = [{"broker": name, "available": True} for name in ("a", "b")]
    page.route("**/api/v1/brokers?*", lambda route: route.fulfill(json={"brokers": brokers}))
    page.route("**/api/v1/messages?*", answer)
    page.goto(f"{broker.address}/messages")
    page.get_by_label("Topic").fill("t")
    page.get_by_role("button", name="Search").click()
    rows = page.locator("[data-message-row]")
    expect(rows).to_have_count(1)
    page.go_back()
    expect(rows).to_have_count(0)
    expect(page.get_by_text("Choose a topic.")).to_be_visible()
    page.goto(f"{broker.address}/messages?topic=t&broker=b")
    expect(rows).to_have_count(1)
    assert asked[-1]["broker"] == ["b"]
    expect(page.get_by_label("Broker")).to_have_value("b")
    page.get_by_role("button", name="Older messages").click()
    expect(page.get_by_role("alert")).to_contain_text("It is gone.")
    expect(page.locator('[data-part="count"]')).to_have_text("the newest 1 message")
    page.goto(f"{broker.address}/messages?id=nowhere")
    expect(page.get_by_role("heading", name="Message nowhere")).to_be_visible()


def test_the_time_line_leads_from_the_producer_to_the_commit(broker: Broker, page: Page) -> None:
    broker.publish("story", "first")
    waiting = broker.wait_for("story", 1, group="readers", client_id="reader-1", wait_ms=30000)
    expect(page.locator('[data-panel="holds"] [data-hold-id]', has_text="readers")).to_have_count(1)
    stored = broker.publish("story", "second")["messages"][0]
    assert len(waiting.answer()["messages"]) == 1
    place = {"topic": "story", "queue_id": 0, "offset": 2}
    broker.call("PUT", "/api/v1/groups/readers/offsets", {"offsets": [place]})
    page.goto(f"{broker.address}/messages/{stored['message_id']}?topic=story")
    for step in ("born", "stored", "dispatched", "woken", "delivered", "committed"):
        expect(page.locator(f'[data-step="{step}"]')).to_have_count(1)
    expect(page.locator('[data-step="delivered"]')).to_contain_text("to reader-1")
    while page.locator('[data-step="flushed"]').count() == 0:  # flushIntervalCommitLog, half a second
        page.get_by_role("button", name="Refresh").click()
        expect(page.get_by_role("button", name="Refresh")).to_be_enabled()
    expect(page.locator('[data-message-group="readers"]')).to_contain_text("committed")


def test_an_id_that_no_message_has(broker: Broker, page: Page) -> None:
    with page.expect_response(re.compile("/api/v1/messages/nowhere.*")):
        page.goto(f"{broker.address}/messages")
        page.get_by_label("Id").fill("nowhere")
        page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("alert")).to_contain_text("No message has the id nowhere")


def test_hostile_messages_are_shown_as_text_and_bounded(broker: Broker, page: Page) -> None:
    broker.publish("wild", MARKUP, keys=[TURNED], tag=TURNED, properties={MARKUP: TURNED})
    broker.publish("wild", base64.b64encode(b"\xff\xfe\x00binary").decode(), body_encoding="base64")
    broker.publish("wild", "\u0001" * 1000 + "x" * 1_000_000)
    page.goto(f"{broker.address}/messages?topic=wild")
    rows = page.locator("[data-message-row]")
    expect(rows).to_have_count(3)
    expect(rows.nth(2)).to_contain_text("invoice⟨U+202E⟩gpj.exe")
    assert rows.locator("img").count() == 0
    rows.nth(2).get_by_role("link").click()
    expect(page.locator(".message-body")).to_have_text(MARKUP)
    expect(page.locator('[data-panel="properties"]')).to_contain_text("invoice⟨U+202E⟩gpj.exe")
    assert page.title() != "owned" and page.locator(".columns img").count() == 0
    page.go_back()
    rows.nth(1).get_by_role("link").click()
    expect(page.locator(".message-body")).to_have_text(
        re.compile(r"^00000000  ff fe 00 62 69 6e 61 72 79 +\.\.\.binary$")
    )
    page.go_back()
    rows.nth(0).get_by_role("link").click()
    expect(page.locator('[data-part="cut"]')).to_contain_text("The first 16,384 of 1,001,000 ")
    assert len(page.locator(".message-body").inner_text()) < 100_000
    page.goto(f"{broker.address}/messages/{quote(MARKUP, safe='')}")
    expect(page.get_by_role("alert")).to_contain_text("<img src=x")
    assert page.title() != "owned"


@pytest.mark.parametrize("hours", [-1, 1])
def test_the_last_minutes_are_searched_by_the_brokers_clock(broker: Broker, browser: Browser, hours: int) -> None:
    """The browser's clock is wrong by an hour."""
    broker.publish("recent", "now")
    tab = browser.new_page()
    moved = f"{{ const now = Date.now; Date.now = () => now() + {hours * 3_600_000}; }}"
    tab.add_init_script(moved)
    with tab.expect_request("**/api/v1/messages?*") as asked:
        tab.goto(f"{broker.address}/messages?topic=recent&last=900")
    (begin_ms,) = parse_qs(urlsplit(asked.value.url).query)["begin_ms"]
    assert abs(time.time() * 1000 - 900_000 - int(begin_ms)) < 60_000
    expect(tab.locator("[data-message-row]").first).to_be_visible()
    tab.close()
