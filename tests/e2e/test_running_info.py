"""The page of a group asks the group's RocketMQ clients at a broker with a store of its own."""

from playwright.sync_api import Page, expect

from tests.conftest import Manage
from tests.e2e.conftest import Broker
from tests.e2e.test_dead_letters_page import Member


def test_members_are_asked_what_they_have(broker: Broker, page: Page, shared_manage: Manage) -> None:
    broker.publish("asked", "to be consumed")
    only = Member(f"127.0.0.1:{shared_manage.environment['GLASSMQ_NAMESRV_PORT']}", "asked-readers", "asked")
    only.start()
    assert only.joined.wait(60)
    try:
        page.goto(f"{broker.address}/groups/asked-readers")
        page.get_by_role("button", name="Ask the members").click()
        box = page.get_by_role("dialog", name="Members of asked-readers")
        expect(box.get_by_role("status")).to_contain_text("asked 1 member")
        expect(box.get_by_role("heading", name=only.client_id)).to_be_visible()
        expect(box.locator("tbody tr").filter(has_text="asked@0")).to_be_visible()
        box.get_by_role("button", name="Threads").click()
        expect(box).to_contain_text("only RocketMQ's Java client has them")
        box.get_by_role("button", name="Close").click()
    finally:
        only.leave()


def test_a_group_without_members_has_nobody_to_ask(broker: Broker, page: Page) -> None:
    broker.publish("unasked", "x")
    path = "/api/v1/groups/unasked-readers/offsets"
    broker.call("PUT", path, {"offsets": [{"topic": "unasked", "queue_id": 0, "offset": 0}]})
    page.goto(f"{broker.address}/groups/unasked-readers")
    page.get_by_role("button", name="Ask the members").click()
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("No member of the group is online.")
