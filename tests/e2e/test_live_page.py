"""The live page with a real broker: pulls are held, shown, woken and answered."""

import re

from playwright.sync_api import Page, expect

from tests.e2e.conftest import Broker


def test_another_clients_hold_appears_and_leaves_with_its_cause(broker: Broker, page: Page) -> None:
    broker.publish("watched", "first")
    waiting = broker.wait_for("watched", 1, group="billing", wait_ms=30000)
    hold = page.locator('[data-panel="holds"] [data-hold-id]', has_text="billing")
    expect(hold).to_have_count(1)
    expect(page.locator('[data-panel="queues"] [data-queue="watched@0"]')).to_have_attribute("data-max-offset", "1")
    page.locator("#publish-topic").fill("watched")
    page.get_by_label("body").fill("<img src=x onerror=alert(1)>")
    for _ in range(4):  # a message without a queue goes to each queue in turn
        page.get_by_role("button", name="Publish", exact=True).click()
        expect(page.locator('[data-panel="publish"] [data-part="result"]')).to_contain_text("Stored as watched@")
    answer = waiting.answer()
    assert answer["hold"]["wake_cause"] == "arrival" and answer["hold"]["wake_us"] > 0
    assert [message["body"] for message in answer["messages"]] == ["<img src=x onerror=alert(1)>"]
    expect(hold).to_have_count(0)
    woken = page.locator('[data-panel="wakeups"] [data-cause="arrival"]', has_text="billing")
    expect(woken).to_have_count(1)
    expect(woken).to_contain_text(re.compile(r"watched@0"))
    expect(page.locator('[data-panel="queues"] [data-queue="watched@0"]')).to_have_attribute("data-max-offset", "2")


def test_show_me_holds_a_pull_and_wakes_it(broker: Broker, page: Page) -> None:
    arrivals = page.locator('[data-panel="wakeups"] [data-cause="arrival"]').filter(has_not_text="billing")
    page.get_by_role("button", name="Show me").click()
    expect(arrivals).to_have_count(1)
    expect(page.locator('[data-part="received"] li')).to_have_count(1)


def test_the_switch_turns_long_polling_off(broker: Broker, page: Page) -> None:
    broker.publish("switched", "first")
    page.get_by_role("switch").click()
    page.get_by_role("dialog").get_by_role("button", name="Switch").click()
    expect(page.get_by_role("switch")).to_have_attribute("aria-checked", "false")
    answer = broker.wait_for("switched", 1, wait_ms=30000).answer()
    page.get_by_role("switch").click()
    page.get_by_role("dialog").get_by_role("button", name="Switch").click()
    expect(page.get_by_role("switch")).to_have_attribute("aria-checked", "true")
    assert answer["hold"]["wake_cause"] == "short_poll" and answer["effective_wait_ms"] == 1000
    expect(page.locator('[data-panel="wakeups"] [data-cause="short_poll"]')).to_have_count(1)


def test_markup_in_a_message_is_shown_as_text(broker: Broker, page: Page) -> None:
    page.locator("#consumer-topic").fill("hostile")
    page.get_by_role("button", name="Start").click()
    expect(page.locator('[data-panel="holds"] [data-hold-id]')).to_have_count(4)
    broker.publish("hostile", "<img src=x onerror=document.title='owned'><script>document.title='owned'</script>")
    received = page.locator('[data-part="received"] li')
    expect(received).to_contain_text("<img src=x")
    assert page.locator('[data-part="received"] img').count() == 0
    assert page.title() != "owned"


def test_a_passed_deadline_is_answered_and_shown(broker: Broker, page: Page) -> None:
    broker.publish("quiet", "first")
    answer = broker.wait_for("quiet", 1, wait_ms=300, group="patient").answer()
    assert answer["status"] == "no_new" and answer["messages"] == [] and answer["hold"]["wake_cause"] == "timeout"
    expect(page.locator('[data-panel="wakeups"] [data-cause="timeout"]', has_text="patient")).to_have_count(1)


def test_several_messages_with_a_queue_and_properties(broker: Broker, page: Page) -> None:
    broker.call("PUT", "/api/v1/topics/several", {"queues": 2})
    form = page.locator('[data-panel="publish"]')
    form.get_by_label("topic").fill("several")
    form.get_by_label("body").fill("one\ntwo\n\nthree")
    form.get_by_text("Queue, delay, properties, several messages").click()
    form.get_by_label("queue").fill("1")
    form.get_by_label("properties").fill("colour")
    form.get_by_label("one message for each line").check()
    form.get_by_role("button", name="Publish").click()
    expect(form.get_by_role("status")).to_contain_text("A property is written as name=value")
    form.get_by_label("properties").fill("colour=red")
    form.get_by_role("button", name="Publish").click()
    expect(form.get_by_role("status")).to_contain_text("3 messages stored, the last as several@1 at offset 2")
    found = broker.call("GET", "/api/v1/messages?topic=several")["messages"]
    assert [(message["body"], message["properties"]["colour"]) for message in found] == [
        ("one", "red"),
        ("two", "red"),
        ("three", "red"),
    ]
    form.get_by_role("link").click()
    expect(page.locator(".message-body")).to_have_text("three")
