"""The lake on the Reports page: cancelled, filled, scheduled, with a real broker, worker and browser."""

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import PATIENCE_MS, Broker

pytestmark = pytest.mark.slow


def figure(lake: Locator, name: str) -> Locator:
    """The value below the name."""
    return lake.locator("dt", has_text=name).locator("xpath=following-sibling::dd")


def test_a_lake_is_cancelled_filled_and_scheduled(whole_broker: Broker, reports: Page) -> None:
    for number in range(5):
        whole_broker.publish("orders", f"message {number}")
    lake = reports.locator('[data-panel="lake"]')
    fill, cancel = lake.get_by_role("button", name="Fill now"), lake.get_by_role("button", name="Cancel the fill")
    expect(figure(lake, "State")).to_have_text("no lake yet")
    expect(cancel).to_be_hidden()

    # Spark needs seconds to start, so the fill can be cancelled before it starts.
    fill.click()
    cancel.click()
    expect(lake.locator('[data-part="status"]')).to_have_text("cancelled", timeout=PATIENCE_MS)
    expect(lake.locator('[data-part="doing"]')).to_contain_text("the next fill continues there")
    expect(cancel).to_be_hidden()
    assert whole_broker.call("GET", "/api/v1/lake")["messages"]["rows"] == 0

    fill.click()
    expect(lake.locator('[data-part="note"]')).to_have_text("Filled.", timeout=PATIENCE_MS)
    expect(figure(lake, "Messages")).to_contain_text("5 in ")
    expect(figure(lake, "Behind the log")).to_have_text("nothing")
    expect(figure(lake, "Last filled")).not_to_have_text("never")
    expect(fill).to_be_visible()
    assert whole_broker.call("GET", "/api/v1/lake")["status"] == "done"

    scheduled = lake.get_by_label("fill automatically")
    expect(scheduled).not_to_be_checked()
    scheduled.check()
    cron = lake.get_by_label("Cron expression in UTC")
    cron.fill("every minute")
    cron.press("Enter")
    expect(lake.locator('[data-part="note"]')).to_contain_text("is no cron expression")
    cron.fill("30 4 * * *")
    cron.press("Enter")
    expect(lake.locator('[data-part="when"]')).to_have_text("At 04:30 AM UTC")
    schedule = whole_broker.call("GET", "/api/v1/lake")["schedule"]
    assert (schedule["cron"], schedule["enabled"]) == ("30 4 * * *", True)
