"""Dead letters are looked at and sent to their group again, with a real broker and a member of the group."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

from playwright.sync_api import Page, Route, expect

from broker_core.client import DefaultMQPushConsumer
from tests.conftest import Manage
from tests.e2e.conftest import Broker
from tests.e2e.test_group_members import member

MARKUP = "<img src=x onerror=document.title='owned'>"


async def give_up(broker: Broker, topic: str, messages: int) -> None:
    """A member of the group sends all messages of queue 0 to the dead letter queue."""
    async with member(broker, topic, "giver-up") as only:
        for _ in range(messages):
            message = await only.message()
            await only.send(type="nack", id=1, topic=topic, queue_id=0, offset=message["queue_offset"], delay_level=-1)
        await only.send(type="unsubscribe", id=1)
        await only.receive("unsubscribed")


async def receive(broker: Broker, topic: str) -> tuple[str, str]:
    async with member(broker, topic, "heir") as only:
        message = await only.message()
        await only.ack(message)
        return message["topic"], message["body"]


def run(work: Coroutine[Any, Any, object]) -> object:
    """Playwright's synchronous side counts as this thread's event loop, so the work has a thread of its own."""
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(asyncio.run(work)))
    thread.start()
    thread.join(120)
    return results[0]


def test_one_and_all_dead_letters_are_sent_again(broker: Broker, page: Page) -> None:
    for body in ("first", MARKUP):
        broker.publish("lost", body, keys=["k"])
    run(give_up(broker, "lost", 2))
    page.goto(f"{broker.address}/groups/lost-readers")
    page.get_by_role("link", name="show").click()
    rows = page.locator("[data-dead-letter]")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text(MARKUP)
    expect(rows.first).to_contain_text("after 1 attempt: its consumer gave it up, or allows fewer retries than")
    rows.last.get_by_role("button", name="Send the dead letter").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("1 message will be stored again for lost-readers.")
    dialog.get_by_role("button", name="Send again").click()
    expect(page.locator('[data-part="note"]')).to_have_text("1 message was sent to lost-readers again.")
    assert run(receive(broker, "lost")) == ("%RETRY%lost-readers", "first")
    page.get_by_role("button", name="Send all again").click()
    expect(dialog).to_contain_text("2 messages will be stored again for lost-readers.")
    dialog.get_by_role("button", name="Send again").click()
    expect(page.locator('[data-part="note"]')).to_have_text("2 messages were sent to lost-readers again.")
    assert page.title() != "owned"


def test_cancel_stops_sending_and_no_other_preview_changes_what_is_sent(page: Page, broker: Broker) -> None:
    asked: list[dict[str, int]] = []
    held: list[Route] = []

    def answer(route: Route) -> None:
        body = route.request.post_data_json
        if body.get("dry_run"):
            to = body.get("to_offset", 90)
            route.fulfill(json={"messages": str(to - body.get("from_offset", 0)), "to_offset": str(to)})
            return
        asked.append(body)
        held.append(route)

    letter = {"broker": "b", "queue_offset": "5", "store_time_ms": "1000", "tag": "", "keys": [], "properties": {}}
    letter |= {"reconsume_times": 1, "body": "x", "body_encoding": "utf8", "problem": "", "topic": "%DLQ%g"}
    letters = [
        letter | {"queue_id": queue, "message_id": f"M{queue}", "offset_message_id": f"O{queue}"} for queue in (0, 1)
    ]
    page.route("**/api/v1/messages?*", lambda route: route.fulfill(json={"messages": letters}))
    page.route("**/dead-letters/resend?*", answer)
    page.goto(f"{broker.address}/groups/g/dead-letters")
    expect(page.locator("[data-dead-letter]")).to_have_count(1)
    expect(page.locator('[data-part="elsewhere"]')).to_contain_text("1 message in other queues of %DLQ%g is not shown")
    page.get_by_role("button", name="Send all again").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Send again").click()
    expect(dialog.get_by_role("button", name="Send again")).to_be_disabled()
    dialog.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Send the dead letter at offset 5 again").click()
    expect(dialog).to_contain_text("1 message will be stored again for g.")
    held[0].fulfill(json={"messages": "32", "left_out": 0, "next_offset": "32", "to_offset": "90"})
    expect(page.locator('[data-part="note"]')).to_contain_text("You stopped at offset 32; 58 messages were not sent.")
    expect(dialog).to_be_visible()
    dialog.get_by_role("button", name="Send again").click()
    expect(dialog.get_by_role("button", name="Send again")).to_be_disabled()
    held[1].fulfill(json={"messages": "1", "left_out": 0, "next_offset": "6", "to_offset": "6"})
    expect(page.locator('[data-part="note"]')).to_have_text("1 message was sent to g again.")
    assert asked == [{"from_offset": 0, "to_offset": 90}, {"from_offset": 5, "to_offset": 6}]


def test_a_group_without_dead_letters(broker: Broker, page: Page) -> None:
    page.goto(f"{broker.address}/groups/nobody/dead-letters")
    expect(page.get_by_text("The group has no dead letters.")).to_be_visible()


class Member(threading.Thread):
    """A RocketMQ client of a group, until ``leave``. Its listener raises an error for every message."""

    def __init__(self, namesrv: str, group: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._place = namesrv, group, topic
        self.client_id = ""
        self.topics: list[str] = []
        self.joined, self._left = threading.Event(), threading.Event()

    def run(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        namesrv, group, topic = self._place

        def listener(messages: list[Any], context: Any) -> None:
            self.topics.append(messages[0].topic)
            raise ValueError(f"no {MARKUP}")

        consumer = DefaultMQPushConsumer(group, namesrv_addr=namesrv)
        consumer.subscribe(topic)
        consumer.register_message_listener(listener)
        async with consumer:
            self.client_id = consumer.instance.client_id
            self.joined.set()
            await asyncio.to_thread(self._left.wait)

    def leave(self) -> None:
        self._left.set()
        self.join(60)


def test_a_client_consumes_a_dead_letter_directly(broker: Broker, page: Page, shared_manage: Manage) -> None:
    broker.publish("tried", "again")
    run(give_up(broker, "tried", 1))
    page.goto(f"{broker.address}/groups/tried-readers/dead-letters")
    page.get_by_role("button", name="Have a client consume").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("No client of tried-readers is online.")
    expect(dialog.get_by_role("button", name="Consume")).to_be_disabled()
    dialog.get_by_role("button", name="Close").click()
    only = Member(f"127.0.0.1:{shared_manage.environment['GLASSMQ_NAMESRV_PORT']}", "tried-readers", "tried")
    only.start()
    assert only.joined.wait(60)
    try:
        page.get_by_role("button", name="Have a client consume").click()
        expect(dialog.get_by_label("Client")).to_contain_text(f"{only.client_id} (Python")
        dialog.get_by_role("button", name="Consume").click()
        result = dialog.get_by_role("status")
        expect(result).to_contain_text(f"{only.client_id} answered CR_THROW_EXCEPTION after")
        expect(result).to_contain_text(f"ValueError: no {MARKUP}")
        assert only.topics == ["tried"] and page.title() != "owned"
    finally:
        only.leave()
