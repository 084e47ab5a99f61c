"""Pages in a browser whose clock differs by an hour from the server's: ages and times are by the server's clock."""

import json
import re
import time

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.conftest import Broker

HOUR_MS = 3_600_000
RECENT = re.compile(r"^(now|\d{1,2}( min \d{1,2})? s( ago)?)$")


@pytest.mark.parametrize("hours", [-1, 1])
def test_ages_are_by_the_servers_clock(broker: Broker, browser: Browser, hours: int) -> None:
    topic, group = f"skewed{hours + 1}", f"readers{hours + 1}"
    broker.publish(topic, "waits")
    offset = {"topic": topic, "queue_id": 0, "offset": 0}
    broker.call("PUT", f"/api/v1/groups/{group}/offsets", {"offsets": [offset]})
    tab = browser.new_page()
    tab.add_init_script(f"{{ const now = Date.now; Date.now = () => now() + {hours * HOUR_MS}; }}")

    tab.goto(broker.address)
    row = tab.locator('[data-panel="queues"] tbody tr', has_text=topic)
    expect(row.get_by_role("cell").nth(4)).to_have_text(RECENT)

    tab.goto(f"{broker.address}/groups/{group}")
    expect(tab.locator(".oldest-cell").first).to_have_text(RECENT)

    tab.goto(f"{broker.address}/alerts")
    rules = tab.locator('[data-panel="rules"] [data-part="count"]')
    expect(rules).to_have_text(re.compile(r"^\d+$"))
    expect(tab.locator('[data-part="notes"]')).not_to_contain_text("last evaluated")

    tab.goto(f"{broker.address}/reports")
    tab.route(
        "**/api/v1/reports/**", lambda route: route.abort() if route.request.method == "POST" else route.continue_()
    )
    with tab.expect_request(lambda asked: asked.method == "POST") as asked:
        tab.locator('select[name="choice"]').select_option("day")
        tab.locator('[data-part="nav"] button').first.click()
    assert asked.value.post_data is not None
    assert abs(time.time() * 1000 - json.loads(asked.value.post_data)["to_ms"]) < 120_000
    tab.close()
