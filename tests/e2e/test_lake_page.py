"""The lake on the page of the reports: cancelled, filled, filled by itself. Everything is real, a browser too."""

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import PATIENCE_MS, Broker

pytestmark = pytest.mark.slow


def figure(lake: Locator, name: str) -> Locator:
    """The value that stands below a name."""
    return lake.locator("dt", has_text=name).locator("xpath=following-sibling::dd")


def test_a_lake_is_cancelled_filled_and_filled_by_itself(whole_broker: Broker, reports: Page) -> None:
    for number in range(5):
        whole_broker.publish("orders", f"message {number}")
    lake = reports.locator('[data-panel="lake"]')
    fill, cancel = lake.get_by_role("button", name="Fill it now"), lake.get_by_role("button", name="Cancel filling")
    expect(figure(lake, "State")).to_have_text("There is none yet.")
    expect(cancel).to_be_hidden()

    # Spark needs seconds to start, so there is time to cancel what it has not begun with.
    expect(reports.locator('[data-panel="spark"]')).to_have_attribute("data-state", "ready", timeout=PATIENCE_MS)
    fill.click()
    cancel.click()
    expect(lake.locator('[data-part="status"]')).to_have_text("cancelled", timeout=PATIENCE_MS)
    expect(lake.locator('[data-part="doing"]')).to_contain_text("the next fill goes on from there")
    expect(cancel).to_be_hidden()
    assert whole_broker.call("GET", "/api/v1/lake")["messages"]["rows"] == 0

    fill.click()
    expect(lake.locator('[data-part="note"]')).to_have_text("Filled.", timeout=PATIENCE_MS)
    expect(figure(lake, "Messages")).to_contain_text("5 in ")
    expect(figure(lake, "Behind the log by")).to_have_text("nothing")
    expect(figure(lake, "Last filled")).not_to_have_text("never")
    expect(fill).to_be_visible()
    assert whole_broker.call("GET", "/api/v1/lake")["status"] == "done"

    by_itself = lake.get_by_label("fill it by itself")
    expect(by_itself).not_to_be_checked()
    by_itself.check()
    cron = lake.get_by_label("Minute, hour, day of the month, month, day of the week")
    cron.fill("every minute")
    cron.press("Enter")
    expect(lake.locator('[data-part="note"]')).to_contain_text("is no cron expression")
    cron.fill("30 4 * * *")
    cron.press("Enter")
    expect(lake.locator('[data-part="when"]')).to_have_text("At 04:30 AM UTC")
    schedule = whole_broker.call("GET", "/api/v1/lake")["schedule"]
    assert (schedule["cron"], schedule["enabled"]) == ("30 4 * * *", True)
