"""A schedule set on the Reports page, with a real broker, worker, scheduler and browser."""

import json
import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import PATIENCE_MS, Broker

pytestmark = pytest.mark.slow

RETURN_TO_THE_PAGE = "document.dispatchEvent(new Event('visibilitychange'))"


def test_a_schedule_set_on_the_page_runs_and_shows_its_progress(whole_broker: Broker, reports: Page) -> None:
    for number in range(5):
        whole_broker.publish("orders", f"message {number}")
    report = reports.locator('[data-report="throughput"]')
    report.get_by_role("button", name="Add a schedule").click()
    report.get_by_label("How often").select_option("cron")
    cron = report.get_by_label("Minute, hour, day of the month, month, day of the week")
    cron.fill("every minute")
    report.get_by_role("button", name="Save").click()
    expect(report.locator(".schedule-problem")).to_contain_text("is no cron expression")
    cron.fill("* * * * *")
    report.get_by_role("button", name="Save").click()
    each_minute = report.locator("[data-schedule]", has_text="Every minute UTC")
    expect(each_minute.get_by_role("checkbox")).to_be_checked()

    whole_broker.wait_until_running("throughput")
    reports.evaluate(RETURN_TO_THE_PAGE)  # it looks at once; by itself it might see the run when it is over
    run = report.locator("tr[data-run]").last
    expect(run).to_have_attribute("data-status", "running", timeout=PATIENCE_MS)
    each_minute.get_by_role("checkbox").uncheck()
    expect(run.locator("progress")).to_have_attribute("value", re.compile("[1-9][0-9]?"), timeout=PATIENCE_MS)
    expect(run).to_have_attribute("data-status", "done", timeout=PATIENCE_MS)
    [latest] = whole_broker.call("GET", "/api/v1/reports/throughput/runs")["runs"][-1:]
    assert (latest["requested_by"], latest["messages"]) == ("schedule", 5)
    with reports.expect_popup() as opened:
        run.get_by_role("link", name="Open").click()
    result = opened.value
    expect(result.get_by_role("heading", level=1)).to_contain_text("Throughput")
    said = r"^5 messages \(.*\) went into 1 topic, 100 % of the messages into orders\.$"
    expect(result.get_by_text(re.compile(said))).to_be_visible()
    expect(result.locator("#charts canvas").first).to_be_visible()
    expect(result.get_by_role("cell", name="orders").first).to_be_visible()
    with reports.expect_download() as saved:
        run.get_by_role("link", name="JSON").click()
    assert json.loads(saved.value.path().read_text())["total"]["messages"] == 5

    expect(each_minute).to_have_attribute("data-enabled", "false")
    each_minute.get_by_role("button", name="Remove").click()
    expect(each_minute).to_have_count(0)
    schedules = whole_broker.call("GET", "/api/v1/reports/throughput/schedules")["schedules"]
    assert [schedule["cron"] for schedule in schedules] == ["30 2 * * *"]
