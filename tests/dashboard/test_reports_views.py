"""The Reports page: its HTML, and the page in a browser over the stand-in."""

import re
from collections.abc import Callable

import pytest
from django.test import Client
from playwright.sync_api import Page, expect

OpenPage = Callable[..., Page]


def test_the_page_has_no_inline_script_or_style() -> None:
    answer = Client().get("/reports")
    text = answer.content.decode()
    assert answer.status_code == 200
    assert '<a href="/reports" aria-current="page">' in text
    assert all("src=" in tag for tag in re.findall(r"<script\b[^>]*>", text))
    assert not re.search(r"<style|\sstyle=|\son\w+=", text)


def test_the_panels_are_there() -> None:
    text = Client().get("/reports").content.decode()
    for hook in ('data-panel="spark"', 'data-panel="reports"', 'id="report-template"', 'data-part="run"'):
        assert text.count(hook) == 1, hook


def test_an_unknown_page_below_reports_is_404() -> None:
    answer = Client().get("/reports/os")
    assert answer.status_code == 404
    assert "text/html" in answer["Content-Type"]


def test_only_reading_is_allowed() -> None:
    assert Client().post("/reports").status_code == 405


def test_the_empty_page_explains_itself(open_page: OpenPage) -> None:
    page = open_page("idle", path="/reports")
    report = page.locator('[data-report="skew"]')
    expect(report.get_by_text("Not run yet.")).to_be_visible()
    expect(report.get_by_role("button", name="Run Skew now")).to_be_visible()
    expect(page.locator('[data-panel="spark"]')).to_be_hidden()
    expect(page.locator('[data-panel="lake"]')).to_contain_text("no lake yet")


def test_a_report_that_never_ran_has_a_row_and_no_panel(open_page: OpenPage) -> None:
    page = open_page("idle", path="/reports")
    expect(page.locator("[data-glance]")).to_have_count(5)
    row = page.locator('[data-glance="hold_time"]')
    expect(row).to_contain_text("not run yet")
    expect(page.locator("[data-report]")).to_have_count(1)
    row.get_by_role("link", name="Hold time").click()
    expect(page.locator('[data-report="hold_time"]').get_by_text("Not run yet.")).to_be_visible()


def test_a_row_has_the_last_result_at_a_glance(open_page: OpenPage) -> None:
    page = open_page("broken", path="/reports")
    row = page.locator('[data-glance="throughput"]')
    expect(row).to_contain_text("failed")
    expect(row).to_contain_text(re.compile("There is one in .*Messages stored, all of them: 1,234,567"))
    expect(row).to_contain_text(re.compile("all stored data, .* ago"))
    expect(page.locator('[data-glance="wakeup_latency"]').get_by_role("button")).to_be_hidden()


def test_all_reports_run_with_the_parameters_of_the_form(open_page: OpenPage) -> None:
    page = open_page("broken", path="/reports")
    expect(page.locator("[data-glance]")).to_have_count(5)
    asked = []
    page.on("request", lambda request: asked.append(request) if request.method == "POST" else None)
    page.get_by_label("Topic", exact=True).first.fill("orders")
    page.locator('[data-panel="window"] [name="broker"]').select_option("broker-b")
    page.get_by_role("button", name="Run all").click()
    expect(page.get_by_role("button", name="Run all")).to_be_enabled()
    names = [re.findall(r"reports/(\w+)/runs\?broker=broker-b", request.url)[0] for request in asked]
    assert names == ["throughput", "skew", "consumer_lag"], "the two others are under way"
    assert {request.post_data_json["topic"] for request in asked} == {"orders"}


def test_run_all_says_that_every_report_is_under_way(open_page: OpenPage) -> None:
    page = open_page("broken", path="/reports")
    answer = page.evaluate("fetch('/api/v1/reports').then((answer) => answer.json())")
    under_way = [report for report in answer["reports"] if report["name"] in ("hold_time", "wakeup_latency")]
    page.route(re.compile(r"/api/v1/reports(\?|$)"), lambda route: route.fulfill(json=answer | {"reports": under_way}))
    expect(page.locator("[data-glance]")).to_have_count(2)
    page.get_by_role("button", name="Run all").click()
    note = page.locator('[data-panel="overview"] [data-part="note"]')
    expect(note).to_have_text("Every report is under way already.")


def test_names_that_no_broker_knows_are_noted_and_do_not_stop_a_run(open_page: OpenPage) -> None:
    page = open_page("broken", path="/reports?group=gone")
    form = page.locator('[data-panel="window"]')
    note = form.locator('[data-part="unknown"]')
    expect(note).to_have_text("No group of this name is known now. A deleted group may still be in the log.")
    form.get_by_label("Group").fill("")
    expect(note).to_have_text("")
    height = form.evaluate("form => form.offsetHeight")
    form.get_by_label("Topic").fill("gone")
    expect(note).to_have_text("No topic of this name is known now. A deleted topic may still be in the log.")
    assert form.evaluate("form => form.offsetHeight") == height, "no button has moved"
    with page.expect_request("**/reports/skew/runs?*", timeout=15_000) as asked:
        page.locator('[data-glance="skew"]').get_by_role("button").click()
    assert asked.value.post_data_json["topic"] == "gone"


def test_a_comparison_says_what_it_needs(open_page: OpenPage) -> None:
    page = open_page("idle", path="/reports")
    compare = page.get_by_label("compare with the period before")
    why = page.get_by_text("(choose a time range to compare)")
    expect(compare).to_be_disabled()
    expect(compare).to_have_accessible_description("(choose a time range to compare)")
    expect(why).to_be_visible()
    page.locator('[name="choice"]').select_option("day")
    expect(compare).to_be_enabled()
    expect(compare).to_have_accessible_description("")
    expect(why).to_have_count(0)


def test_a_run_queued_for_long_asks_for_a_worker(open_page: OpenPage) -> None:
    page = open_page("broken", path="/reports")
    queued = page.locator('[data-run="6"]')
    expect(queued).to_contain_text(re.compile(r"queued for 3 min.*; no report worker has started it"))
    expect(queued.get_by_role("button", name="Cancel run 6")).to_be_visible()
    expect(page.locator('[data-panel="spark"]')).to_contain_text("Runs wait for Spark: Packages are being")


def test_earlier_runs_are_shown_on_request(open_page: OpenPage) -> None:
    report = open_page("broken", path="/reports").locator('[data-report="throughput"]')
    expect(report.locator("[data-run]")).to_have_count(1)
    report.get_by_role("button", name="Earlier runs").click()
    expect(report.locator("[data-run]")).to_have_count(12)
    report.get_by_role("button", name="Newest run only").click()
    expect(report.locator("[data-run]")).to_have_count(1)


@pytest.mark.parametrize("width", [320, 360, 721, 768, 1280])
def test_no_panel_is_cut_or_overlaps(open_page: OpenPage, width: int) -> None:
    page = open_page("broken", width=width, path="/reports")
    expect(page.locator('[data-panel="lake"]')).to_contain_text("34.0 MB")
    page.locator('[data-report="throughput"]').get_by_role("button", name="Earlier runs").click()
    expect(page.locator('[data-report="throughput"] [data-run]')).to_have_count(12)
    page.locator('[data-report="throughput"]').get_by_text("CSV, JSON, Parquet").last.click()
    page.locator('[data-report="skew"]').get_by_role("button", name="Change").click()
    wide = page.evaluate("""() => [...document.querySelectorAll(".panel, .scroller, .panel-foot, .result, main td")]
        .filter((box) => box.scrollWidth > box.clientWidth + 1).map((box) => `${box.className} ${box.textContent}`)""")
    assert wide == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_schedule_shows_its_parameters_and_lets_them_be_changed(open_page: OpenPage) -> None:
    page = open_page("idle", path="/reports")
    report = page.locator('[data-report="skew"]')
    expect(report).to_contain_text("Monday through Friday: the last 36 hours, topic orders")
    report.get_by_role("button", name=re.compile("Change the schedule")).click()
    period = report.get_by_label("Time range of each run")
    expect(period).to_have_value("36")
    expect(report.get_by_label("Topic", exact=True)).to_have_value("orders")
    period.select_option("the last 24 hours")
    report.get_by_label("Topic", exact=True).fill(" ")
    report.get_by_label("Group", exact=True).fill("billing")
    report.get_by_label("Broker", exact=True).fill("broker-b")
    with page.expect_request(lambda request: request.method == "PATCH") as asked:
        report.get_by_role("button", name="Save").click()
    assert asked.value.post_data_json == {
        "cron": "*/5 1-4 1,15 * 1-5",
        "parameters": {"last_hours": 24, "topic": None, "consumer_group": "billing", "broker": "broker-b"},
    }


def test_a_new_schedule_is_about_the_whole_range_of_its_report(open_page: OpenPage) -> None:
    page = open_page("idle", path="/reports")
    for name, text in (("skew", "all stored data"), ("consumer_lag", "the day before (UTC)")):
        page.locator(f'[data-glance="{name}"]').get_by_role("link").click()
        report = page.locator(f'[data-report="{name}"]')
        report.get_by_role("button", name=re.compile("Add a schedule")).click()
        expect(report.get_by_label("Time range of each run").locator("option:checked")).to_have_text(text)
