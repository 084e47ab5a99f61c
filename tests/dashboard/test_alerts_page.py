"""The Alerts page, over answers that the test makes."""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Locator, Page, Route, expect

NOW_MS = 1_795_000_000_000


class Alerts:
    """The API's alerts: ``ended`` of them, numbered from 1; the newest is the first of a page."""

    def __init__(self, ended: int) -> None:
        self.ended = ended

    def answer(self, route: Route) -> None:
        url = urlsplit(route.request.url)
        query = parse_qs(url.query)
        lists: dict[str, Any] = {"rules": [], "channels": [], "silences": []}
        name = url.path.rsplit("/", 1)[-1]
        if name in lists:
            route.fulfill(json={name: lists[name]})
            return
        numbers = range(self.ended, 0, -1) if query.get("state") == ["resolved"] else range(0)
        page = numbers[: int(query["limit"][0])]
        more = {"next": page[-1]} if len(page) < len(numbers) else {}
        route.fulfill(
            json={
                "firing": {"critical": 0, "warning": 0, "info": 0},
                "alerts": [self._ended(number) for number in page],
                "now_ms": NOW_MS,
                "evaluated_ms": NOW_MS,
                "problems": [],
            }
            | more
        )

    def _ended(self, number: int) -> dict[str, Any]:
        return {
            "id": number,
            "rule": 1,
            "rule_name": "Group stalls",
            "severity": "warning",
            "broker": "broker-a",
            "group": f"g{number}",
            "topic": "",
            "text": "stalled",
            "fired_ms": NOW_MS - 60_000,
            "resolved_ms": NOW_MS,
        }


def test_older_alerts_stay_when_another_one_ends(open_page: Callable[..., Page]) -> None:
    alerts = Alerts(180)
    page = open_page("idle", path="/topics")
    page.route("**/api/v1/alerts**", alerts.answer)
    page.goto(page.url.replace("/topics", "/alerts"))
    rows, older = page.locator('[data-panel="history"] tbody tr'), page.get_by_role("button", name="Show older")
    expect(rows).to_have_count(50)
    older.click()
    expect(rows).to_have_count(150)
    alerts.ended = 181
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # the page asks again at once
    expect(rows.first).to_contain_text("g181")
    expect(rows).to_have_count(150)
    older.click()
    expect(rows).to_have_count(181)
    expect(older).to_be_hidden()
    page.unroute("**/api/v1/alerts**")


def headline(name: str, label: str, kind: str) -> dict[str, Any]:
    return {"name": name, "label": label, "kind": kind, "value": 1, "before": None, "better": "", "report": ""}


def missing_of(dialog: Locator, name: str) -> Callable[[str | re.Pattern[str]], None]:
    """A function that expects what the dialog says is missing, beside its button of this name; "" if nothing is."""
    save = dialog.get_by_role("button", name=name)

    def expect_missing(text: str | re.Pattern[str]) -> None:
        expect(save).to_be_disabled() if text else expect(save).to_be_enabled()
        expect(save).to_have_accessible_description(text)
        expect(dialog.locator('[data-part="missing"]')).to_have_text(text)

    return expect_missing


def test_the_forms_of_a_channel_and_a_silence_say_what_is_missing(open_page: Callable[..., Page]) -> None:
    page = open_page("idle", path="/topics")
    page.route("**/api/v1/alerts**", Alerts(0).answer)
    page.goto(page.url.replace("/topics", "/alerts"))
    page.get_by_role("button", name="Add a channel").click()
    dialog = page.get_by_role("dialog")
    expect_missing = missing_of(dialog, "Save the channel")
    expect_missing("The channel needs a name.")
    dialog.locator("[name=name]").fill("duty")
    expect_missing("The channel needs a URL.")
    dialog.locator("[name=kind]").select_option("email")
    expect_missing("The channel needs a recipient.")
    dialog.locator("[name=recipients]").fill("duty@example.org")
    expect_missing("")
    dialog.locator("[name=kind]").select_option("feishu")
    dialog.locator("[name=url]").fill("https://example.org/hook")
    expect_missing("")
    dialog.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Add a silence").click()
    expect_missing = missing_of(dialog, "Add the silence")
    expect_missing("")
    dialog.locator("[name=group]").fill(" ")
    expect_missing("The silence needs a group, or * for all.")
    page.unroute("**/api/v1/alerts**")


def test_the_form_of_a_rule_says_what_is_missing(open_page: Callable[..., Page]) -> None:
    page = open_page("idle", path="/topics")
    page.route("**/api/v1/alerts**", Alerts(0).answer)
    page.goto(page.url.replace("/topics", "/alerts"))
    page.get_by_role("button", name="Add a rule").click()
    dialog = page.get_by_role("dialog")
    expect_missing = missing_of(dialog, "Save the rule")
    expect_missing("The rule needs a name.")
    dialog.locator("[name=name]").fill("far behind")
    expect_missing("")
    dialog.locator("[name=for_s]").fill("-1")
    expect_missing(re.compile(r"^Must hold for \(seconds\): \S"))
    dialog.locator("[name=for_s]").fill("60")
    dialog.locator("[name=what]").select_option("group_verdict")
    dialog.locator('[name="verdict_severities"]:checked').uncheck()
    expect_missing("Choose a verdict or a severity.")
    dialog.locator("[name=what]").select_option("group_state")
    dialog.locator('[name="states"]:checked').uncheck()
    expect_missing("Choose a state.")
    dialog.locator('[name="states"]').first.check()
    expect_missing("")
    page.unroute("**/api/v1/alerts**")


def test_a_rule_about_a_figure_of_a_report(open_page: Callable[..., Page]) -> None:
    run = {"status": "done", "parameters": {}, "headlines": [headline("most_lag_ms", "Behind in time, at most", "ms")]}
    reports = [
        {"name": "throughput", "title": "Throughput", "runs": []},
        {"name": "consumer_lag", "title": "Consumer lag", "runs": [run]},
    ]
    posted: list[Any] = []

    def answer(route: Route) -> None:
        if route.request.method == "POST":
            posted.append(route.request.post_data_json)
            route.fulfill(status=201, json={})
        else:
            Alerts(0).answer(route)

    page = open_page("idle", path="/topics")
    page.route("**/api/v1/alerts**", answer)
    page.route("**/api/v1/reports?*", lambda route: route.fulfill(json={"reports": reports}))
    page.goto(page.url.replace("/topics", "/alerts"))
    page.get_by_role("button", name="Add a rule").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("[name=figure]")).to_be_hidden()
    dialog.locator("[name=name]").fill("daily lag")
    dialog.locator("[name=what]").select_option("report")
    expect(dialog.locator("[name=figure]")).to_contain_text("none yet: run the report first")
    save = dialog.get_by_role("button", name="Save the rule")
    expect(save).to_be_disabled()
    expect(save).to_have_accessible_description("The report has no figure yet. Run it first.")
    dialog.locator("[name=report]").select_option("consumer_lag")
    expect(dialog.locator("[name=figure]")).to_contain_text("Behind in time, at most (ms)")
    dialog.locator("[name=below]").select_option("true")
    dialog.locator("[name=threshold]").fill("60000")
    save.click()
    expect(dialog).to_be_hidden()
    chosen = {"what": "report", "report": "consumer_lag", "figure": "most_lag_ms", "below": True, "threshold": 60_000}
    assert chosen.items() <= posted[0].items()
    page.unroute("**/api/v1/alerts**")
    page.unroute("**/api/v1/reports?*")
