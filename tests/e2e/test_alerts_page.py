"""Alerts on the page, with a real broker: from a rule and a channel to a message."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Broker


class Hook(HTTPServer):
    """A receiver that keeps the bodies it gets."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.bodies: list[Any] = []
        self.url = f"http://127.0.0.1:{self.server_port}/s3cret"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Hook)
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture
def hook() -> Iterator[Hook]:
    server = Hook()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_rule_and_a_channel_are_added_and_a_lagging_group_is_told(broker: Broker, page: Page, hook: Hook) -> None:
    broker.publish("alerted", "x")
    broker.call("PUT", "/api/v1/groups/behind/offsets", {"offsets": [{"topic": "alerted", "queue_id": 0, "offset": 0}]})
    page.goto(f"{broker.address}/alerts")
    dialog = page.get_by_role("dialog")

    page.get_by_role("button", name="Add a channel").click()
    dialog.get_by_label("Name").fill("on call")
    dialog.get_by_label("URL").fill("ftp://nowhere")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("the URL must begin with http:// or https://")
    dialog.get_by_label("URL").fill(hook.url)
    dialog.get_by_role("button", name="Save").click()
    page.get_by_role("button", name="Send a test message to on call").click()
    expect(page.locator('[data-panel="channels"]')).to_contain_text("the test message was accepted")
    expect(page.locator("body")).not_to_contain_text("s3cret")
    assert "TEST" in hook.bodies[0]["commonAnnotations"]["summary"]

    page.get_by_role("button", name="Add a rule").click()
    dialog.get_by_label("Name").fill("Lag of behind")
    dialog.get_by_label("Fires above").fill("0")
    dialog.get_by_label("Groups").fill("behind")
    dialog.get_by_label("Must hold for").fill("0")
    dialog.get_by_role("button", name="Save").click()
    firing = page.locator('[data-panel="firing"]')
    expect(firing).to_contain_text("1 message waits")
    expect(firing.get_by_role("link", name="behind")).to_have_attribute("href", "/groups/behind")
    expect(page.locator(".alert-badge")).to_have_text("1 alert firing")
    expect(firing).to_contain_text("sent ")
    assert hook.bodies[1]["alerts"][0]["labels"]["consumer_group"] == "behind"

    switch = page.get_by_label("Rule Disk fills is on")
    refusal = {"detail": "the database is full"}
    page.route("**/api/v1/alerts/rules/*", lambda route: route.fulfill(status=409, json=refusal), times=1)
    switch.click()
    expect(page.locator('[data-part="page-problem"]')).to_contain_text("the database is full")
    expect(switch).to_be_checked()
    switch.click()
    expect(page.locator("tr[data-off]")).to_contain_text("Disk fills")
    expect(switch).not_to_be_checked()
    expect(switch).to_be_focused()

    page.get_by_role("button", name="Silence Lag of behind").click()
    dialog.get_by_role("button", name="Add the silence").click()
    expect(firing).to_contain_text("silenced")
    page.get_by_role("button", name="Delete the rule Lag of behind").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(page.locator('[data-panel="history"]')).to_contain_text("Lag of behind")


def test_a_rule_on_verdicts_is_added_and_its_alert_has_the_sentence(broker: Broker, page: Page) -> None:
    broker.publish("deserted", "x")
    place = {"topic": "deserted", "queue_id": 0, "offset": 0}
    broker.call("PUT", "/api/v1/groups/deserter/offsets", {"offsets": [place]})
    page.goto(f"{broker.address}/alerts")
    dialog = page.get_by_role("dialog")
    page.get_by_role("button", name="Add a rule").click()
    dialog.get_by_label("Name").fill("Nobody is there")
    dialog.get_by_label("Watch").select_option("group_verdict")
    dialog.get_by_label("Groups").fill("deserter")
    dialog.get_by_label("Must hold for").fill("0")
    save = dialog.get_by_role("button", name="Save")
    dialog.get_by_label("error", exact=True).uncheck()
    expect(save).to_be_disabled()
    dialog.get_by_label("no member", exact=True).check()
    save.click()
    rule = page.locator('[data-panel="rules"]').get_by_role("row").filter(has_text="Nobody is there")
    expect(rule).to_contain_text("a group has the verdict: no member")
    expect(page.locator('[data-panel="firing"]')).to_contain_text(
        "no member: No member of deserter is online, and no client pulls for it; 1 message waits.", timeout=30_000
    )
