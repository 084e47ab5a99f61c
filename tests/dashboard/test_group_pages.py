"""The pages of connections and groups in a browser, over the stand-in."""

import re
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from tests.dashboard.conftest import overflowing_widths, turned_texts
from tests.dashboard.fake_groups import JAVA

OpenPage = Callable[..., Page]
LIVE = "body[data-live=live]"
SHOWN_NAME = "<img src=x onerror=\"document.title='owned'\">⟨U+202E⟩gpj"
HOSTILE_PATH = "/groups/%3Cimg%20src%3Dx%20onerror%3D%22document.title%3D%27owned%27%22%3E%E2%80%AEgpj"
MANY_GROUPS = [f"group-{number:04}" for number in range(1500)]
PAGE_OF_GROUPS = 1000
OPEN_CONSUME_DIALOG = """async () => {
  const { consumeDialog } = await import("/static/js/pages/consume_directly.js");
  consumeDialog().open({ broker: "broker-a", topic: "orders", message_id: "M1", queue_id: 0, queue_offset: "7" });
}"""


def test_the_list_shows_the_state_of_each_group(open_page: OpenPage) -> None:
    page = open_page("working", path="/groups")
    rows = page.locator("[data-group-row]")
    expect(rows).to_have_count(4)
    expect(rows.locator(".state-cell")).to_have_text(["■stopped", "◔catching up", "●ok", "●ok"])
    expect(page.locator('[data-group-row="audit"] .lag-cell')).to_have_text("912")
    expect(page.locator('[data-group-row="page-consumer"] .lag-cell')).to_have_text("unknown")
    expect(page.locator('[data-part="figures"] dd')).to_have_text(["4", "5", "≥ 936", "9", "1"])
    states = page.locator('[data-panel="groups"] .state-button')
    expect(states).to_have_text(["1 stopped", "1 catching up", "2 ok"])
    states.nth(2).click()
    expect(rows).to_have_count(2)
    page.reload()  # the state is in the page's address
    expect(states.nth(2)).to_have_attribute("aria-pressed", "true")
    expect(rows).to_have_count(2)
    states.nth(2).click()
    expect(rows).to_have_count(4)
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("orders catching")
    expect(rows).to_have_count(1)
    page.reload()  # the filter is in the page's address
    expect(rows).to_have_count(1)
    expect(page.get_by_role("searchbox")).to_have_value("orders catching")
    expect(page.locator('[data-part="left-out"]')).to_have_text("1 of 4 match")
    page.get_by_role("searchbox").fill("")
    page.get_by_role("button", name="lag").click()
    expect(rows.first).to_contain_text("audit")
    rows.first.get_by_role("link").click()
    expect(page.get_by_role("heading", name="audit")).to_be_visible()
    expect(page.locator(LIVE)).to_be_visible()  # its scripts listen to the keys now
    page.keyboard.press("/")  # this page has no field for a search
    expect(page.get_by_role("dialog").get_by_role("combobox")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator('[data-panel="verdict"] li').first).to_have_text(
        "No member of audit is online, and no client pulls for it; 912 messages wait.Start a consumer of this group."
    )


def test_the_trends_begin_with_the_history(open_page: OpenPage, tab: Page) -> None:
    asked: list[str] = []

    def answer(route: Route) -> None:
        names = parse_qs(urlsplit(route.request.url).query)["groups"][0].split(",")
        asked.extend(names)
        begin_ms = int(time.time()) // 60 * 60_000 - 3_600_000
        lags = [None] * 20 + [5] * 38 + [7] * 2  # the page may have asked in the minute before
        route.fulfill(json={"from_ms": begin_ms, "groups": [{"group": name, "lags": lags} for name in names]})

    tab.route("**/api/v1/history/lags?*", answer)
    page = open_page("working", path="/groups")
    trend = page.locator('[data-group-row="audit"] .sparkline')
    expect(trend).to_have_attribute("aria-label", "lag: from 5 to 912")
    expect(trend).to_have_attribute("data-trend", "up")
    unknown = page.locator('[data-group-row="page-consumer"] .sparkline')
    expect(unknown).to_have_attribute("aria-label", "lag: from 5 to 7")  # its lag of now is not known
    with page.expect_response("**/api/v1/groups?*"):  # a later answer asks for nothing again
        pass
    names = page.locator("[data-group-row]").evaluate_all("rows => rows.map((row) => row.dataset.groupRow)")
    assert sorted(asked) == sorted(names)


def test_a_group_with_problems_lists_them(open_page: OpenPage) -> None:
    page = open_page("broken", path="/groups/billing")
    verdict = page.locator('[data-panel="verdict"] li')
    expect(verdict.first).to_have_attribute("data-tone", "bad")
    expect(verdict.first).to_contain_text(
        re.compile(f"^{JAVA[0]} has sent no heartbeat for 1 min .. s; its process is frozen or its network is cut.")
    )
    expect(page.locator('[data-panel="verdict"] [data-part="state"]')).to_have_text(re.compile("stalled"))
    expect(page.locator('[data-panel="verdict"]')).to_contain_text("zz-spare has no queue")
    stuck = page.locator('[data-group-queue="orders@0"]')
    expect(stuck).to_have_attribute("data-state", "not_polling")
    expect(stuck).to_have_attribute("data-problem", "")
    expect(stuck.locator(".why")).to_contain_text("40 messages are pulled but not committed yet.")
    expect(page.locator('[data-group-queue="orders@2"] .lag-cell')).to_have_text("unknown")
    expect(page.locator('[data-group-queue="orders@3"] .owner-cell')).to_contain_text("locked by zz-spare")
    expect(page.locator('[data-member="zz-spare"] .has-cell')).to_have_text("no queue")
    expect(page.locator(f'[data-member="{JAVA[0]}"] .heartbeat-cell')).to_have_attribute("data-tone", "warn")
    expect(page.locator("[data-event]")).to_have_count(6)  # of this group
    expect(page.locator("[data-event]").first).to_contain_text(
        "Message 0A00000100002A9F0001 of orders was moved to the dead letter queue: the group's maximum of retries is "
        "reached."
    )
    expect(page.locator('[data-panel="verdict"]')).to_contain_text(
        "billing subscribes to oders, but this topic does not exist."
    )
    expect(page.locator('[data-verdict="retries_pending"]')).to_contain_text("2 messages are dead")
    expect(page.locator('[data-panel="retries"] [data-part="waiting"]')).to_have_text(
        re.compile(r"^3; next retry in 1 min \d+ s$")
    )
    dead_letters = "/groups/billing/dead-letters?broker=broker-a"
    expect(page.locator('[data-part="dead-letters"] a')).to_have_attribute("href", dead_letters)
    expect(page.locator('[data-part="waiting-link"]')).to_have_attribute("href", f"{dead_letters}#waiting")
    page.get_by_label("only queues with problems").check()
    expect(page.locator("[data-group-queue]")).to_have_count(4)


def test_a_group_without_problems_reports_held_pulls(open_page: OpenPage) -> None:
    page = open_page("working", path="/groups/mirror-sync")
    expect(page.locator('[data-panel="verdict"] li')).to_have_text(
        "Nothing waits for mirror-sync: it has consumed its queues to their ends. Pulls are held on 4 of 4 queues."
    )
    expect(page.locator('[data-group-queue="debian-packages@0"] .why')).to_have_text(
        re.compile(r"^Waits at offset 18200, the queue's end\. Held for \d+ s\.$")
    )
    expect(page.locator('[data-part="about"]')).to_have_text(
        "Clustering: each queue has one consumer; new queues are consumed from their end."
    )
    expect(page.locator('[data-panel="subscriptions"] dd')).to_have_text("* (all messages)")
    expect(page.locator('[data-panel="retries"] dd')).to_have_text(["none", "none"])


def test_a_member_links_to_its_connection(open_page: OpenPage) -> None:
    page = open_page("working", path="/groups/billing")
    page.locator(f'[data-member="{JAVA[0]}"]').get_by_role("link").click()
    rows = page.locator("[data-client]")
    expect(rows).to_have_count(1)
    expect(rows.locator(".kind-cell")).to_have_text("Java 5.4.0")
    expect(page.get_by_role("searchbox")).to_have_value(JAVA[0])
    rows.get_by_role("link", name="billing").click()
    expect(page.get_by_role("heading", name="billing")).to_be_visible()


def test_connections_show_their_type(open_page: OpenPage) -> None:
    page = open_page("working", path="/connections")
    expect(page.locator("[data-client]")).to_have_count(8)
    expect(page.locator('[data-client="10.0.4.21@731"] .kind-cell')).to_have_text("Go 4.5.2")
    expect(page.locator('[data-client="billing-dashboard"] .kind-cell')).to_have_text("WebSocket")
    expect(page.locator('[data-client=""]')).to_contain_text("not identified yet")
    expect(page.locator('[data-client="producer-eu-1"] .groups-cell')).to_have_text("producer: orders-producer")
    header = page.locator('[data-panel="clients"] th').nth(1)
    header.get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", "ascending")
    expect(page.locator("[data-client]").first).to_contain_text("10.0.4.21@731")


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/groups", "No consumer groups yet."),
        ("/connections", "No client is connected."),
        ("/groups", "No events yet."),
    ],
)
def test_empty_pages_explain_themselves(open_page: OpenPage, path: str, sentence: str) -> None:
    page = open_page("idle", path=path)
    expect(page.get_by_text(sentence)).to_be_visible()


def test_an_unknown_group_shows_a_message(open_page: OpenPage) -> None:
    page = open_page("working", path="/groups/nope")
    expect(page.get_by_role("alert")).to_contain_text("The group nope is not known here")
    expect(page.locator('[data-panel="verdict"]')).to_be_hidden()
    expect(page.locator(LIVE)).to_be_visible()


def test_events_appear_at_once_and_can_be_paused(open_page: OpenPage, stand_in: Any) -> None:
    page = open_page("working", path="/groups")
    lines = page.locator("[data-event]")
    expect(lines).to_have_count(9)
    expect(lines.first).to_contain_text(
        "audit-7f3c left: it sent no heartbeat for 120 s. The group has no members now."
    )
    stand_in.play("joined")
    expect(lines.first).to_contain_text("late-comer joined. The group has 5 members now.")
    page.get_by_role("button", name="Pause").click()
    stand_in.play("joined")
    expect(page.locator('[data-panel="client-events"] [data-part="count"]')).to_contain_text("paused, 1 newer")
    expect(lines).to_have_count(10)
    page.get_by_role("button", name="Resume").click()
    expect(lines).to_have_count(11)


@pytest.mark.parametrize("path", ["/groups", "/groups/billing", "/connections"])
def test_a_failing_api_makes_the_page_stale(open_page: OpenPage, stand_in: Any, path: str) -> None:
    page = open_page("working", path=path)
    expect(page.locator(LIVE)).to_be_visible()
    stand_in.play("failing")
    expect(page.locator("body[data-live=stale]")).to_be_visible()
    expect(page.locator('[data-part="live-detail"]')).to_contain_text(
        re.compile(r"did not answer within 10000 ms.*data is \d+ s old")
    )
    assert page.locator("tbody tr").count() > 0
    stand_in.play("up")
    expect(page.locator(LIVE)).to_be_visible()


def test_an_unavailable_engine_or_server_is_shown(open_page: OpenPage, stand_in: Any) -> None:
    page = open_page("working", path="/groups")
    expect(page.locator(LIVE)).to_be_visible()
    stand_in.play("away")
    expect(page.locator("body[data-live=stale]")).to_be_visible()
    expect(page.locator('[data-part="live-detail"]')).to_contain_text("the broker's engine is restarting")
    stand_in.play("down")
    expect(page.locator("body[data-live=disconnected]")).to_be_visible()
    expect(page.locator('[data-part="live-detail"]')).to_contain_text("reconnecting in")
    stand_in.play("up")
    expect(page.locator(LIVE)).to_be_visible()


def test_counts_are_unknown_before_the_first_frame(open_page: OpenPage, stand_in: Any) -> None:
    page = open_page("silent", path="/connections")
    expect(page.locator('[data-panel="client-events"] [data-part="count"]')).to_have_text("unknown")
    expect(page.locator("body[data-first=waiting]")).to_be_visible()
    stand_in.play("up")


@pytest.mark.parametrize("path", ["/groups", "/connections", HOSTILE_PATH])
def test_hostile_names_are_shown_as_text(open_page: OpenPage, path: str) -> None:
    page = open_page("hostile", path=path)
    expect(page.locator("tbody tr").first).to_contain_text(SHOWN_NAME)
    expect(page.locator("[data-event]").first).to_be_visible()
    assert page.locator("main img, main script").count() == 0
    assert turned_texts(page) == []
    assert page.title() != "owned"


@pytest.mark.parametrize(
    ("scenario", "path"),
    [
        ("working", "/groups"),
        ("working", "/connections"),
        ("broken", "/groups/billing"),
        ("hostile", HOSTILE_PATH),
        ("hostile", "/connections"),
        ("idle", "/groups"),
    ],
)
def test_no_panel_overflows_the_page(open_page: OpenPage, scenario: str, path: str) -> None:
    page = open_page(scenario, width=320, height=844, path=path)
    expect(page.locator(LIVE)).to_be_visible()
    expect(page.locator("body[data-first]")).to_have_count(0)
    assert overflowing_widths(page, 320, 820, 1440) == []


@pytest.mark.parametrize(("path", "table"), [("/groups/mirror-sync", "group-queues"), ("/", "wakeups")])
def test_the_queue_id_stays_visible_when_the_topic_is_clipped(open_page: OpenPage, path: str, table: str) -> None:
    page = open_page("working", width=1280, path=path)
    cell = page.locator(f'[data-panel="{table}"] .queue-cell.long', has_text="debian-packages@").first
    expect(cell).to_be_visible()
    # in one look: a live page may sort its rows anew between two looks
    width, left_over = cell.evaluate(
        """cell => {
            const number = cell.querySelector(".queue-topic + span").getBoundingClientRect();
            return [number.width, cell.getBoundingClientRect().right - number.right];
        }"""
    )
    assert width > 0 and left_over >= 0


def test_a_hold_links_to_its_group_and_client(open_page: OpenPage) -> None:
    page = open_page("working")
    # one that nothing wakes for some seconds; the others may be gone before they are clicked
    hold = page.locator("[data-hold-id]:not([data-leaving])", has_text="billing").first
    hold.locator(".row-button").click()
    facts = page.locator('[data-part="facts"]')
    expect(facts.get_by_role("link", name="10.0.4.21@731")).to_have_attribute(
        "href", "/connections?client=10.0.4.21%40731"
    )
    facts.get_by_role("link", name="billing").click()
    expect(page.get_by_role("heading", name="billing")).to_be_visible()


def test_the_pages_can_be_used_by_keyboard(open_page: OpenPage) -> None:
    page = open_page("working", path="/groups")
    expect(page.locator("[data-group-row]")).to_have_count(4)
    page.get_by_role("region", name="Groups, scrollable").focus()
    for _ in range(10):  # nine sort buttons, then the first group
        page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="audit").first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="audit")).to_be_visible()


def test_a_group_on_several_brokers_is_one_row_with_the_events_of_all(open_page: OpenPage) -> None:
    page = open_page("cluster", path="/groups")
    rows = page.locator("[data-group-row]")
    expect(rows).to_have_count(4)
    audit = page.locator('[data-group-row="audit"]')
    expect(audit.locator(".group-cell")).to_have_text("auditon broker-a and broker-b")
    expect(audit.locator(".lag-cell")).to_have_text("1,824")
    expect(page.locator('[data-group-row="billing"] .members-cell')).to_have_text("4")
    expect(page.locator("[data-event]")).to_have_count(10)
    expect(page.locator("[data-event]").first).to_contain_text("broker-bmember-at-broker-b joined")
    expect(page.locator("[data-event]").nth(1).locator(".event-broker")).to_have_text("broker-a")
    page.goto(page.url + "?broker=broker-a")
    expect(page.locator("[data-event]")).to_have_count(9)
    expect(page.locator(".event-broker:visible")).to_have_count(0)
    page.get_by_role("link", name="audit").first.click()
    expect(page).to_have_url(re.compile(r"/groups/audit\?broker=broker-a$"))
    expect(page.locator(LIVE)).to_be_visible()  # its scripts add the broker to links now
    page.get_by_role("link", name="Connections").click()
    expect(page).to_have_url(re.compile(r"/connections\?broker=broker-a$"))


def test_the_history_is_there_when_the_page_opens(open_page: OpenPage) -> None:
    page = open_page("working", path="/groups/billing")
    charts = page.locator('[data-panel="history"] .history-chart')
    expect(charts.locator("canvas")).to_have_count(4)
    expect(charts.locator(".chart").first).to_have_attribute("data-known", "322")
    expect(page.locator('[data-panel="history"] [data-part="note"]')).to_have_text(re.compile("^Recorded since "))
    charts.last.locator(".u-over").hover()
    expect(charts.last.locator(".history-readout")).to_have_text(re.compile(r"\d:\d\d:\d\d · (\d+ µs|unknown)$"))
    day = page.get_by_role("button", name="24 h")
    day.click()
    expect(page).to_have_url(re.compile(r"/groups/billing\?history=24h$"))
    page.reload()  # the range is in the page's address
    expect(day).to_have_attribute("aria-pressed", "true")
    page.evaluate(
        "window.hour = [...document.querySelectorAll('button')].find((one) => one.textContent.trim() === '1 h')"
    )
    page.evaluate(
        "fetch('/stand-in', { method: 'POST', body: JSON.stringify({ scenario: 'idle' }) }).then(() => hour.click())"
    )  # in one go: the group of the page is gone in that scenario, and the page soon hides its history
    expect(page.locator('[data-panel="history"] [data-part="note"]')).to_have_text(
        "Nothing is recorded yet. A point is added every 10 s."
    )
    expect(charts.locator(".chart").first).to_have_attribute("data-known", "0")


def test_a_group_is_deleted_while_its_page_is_open(open_page: OpenPage) -> None:
    page = open_page("working", path="/groups/billing")
    expect(page.locator('[data-panel="group-queues"] tbody tr').first).to_be_visible()
    page.evaluate("fetch('/stand-in', { method: 'POST', body: JSON.stringify({ scenario: 'idle' }) })")
    expect(page.locator("[data-part='missing']")).to_be_visible()
    page.evaluate("new Promise((done) => setTimeout(done, 600))")  # the times are drawn twice a second


def groups_of_topic(route: Route) -> None:
    """A page of the groups. It is shorter than the one that is asked for."""
    after = parse_qs(urlsplit(route.request.url).query).get("after", [""])[0]
    left = [name for name in MANY_GROUPS if name > after]
    more = {"next": left[PAGE_OF_GROUPS - 1]} if len(left) > PAGE_OF_GROUPS else {}
    route.fulfill(
        json={"topic": "orders", "groups": left[:PAGE_OF_GROUPS], "total": len(MANY_GROUPS), "unavailable": []} | more
    )


def clients_of_group(route: Route) -> None:
    (group,) = parse_qs(urlsplit(route.request.url).query)["group"]
    member = {"client_id": f"{group}@1", "protocol": "remoting", "language": "JAVA", "version": "5.4.0"}
    route.fulfill(json={"clients": [member | {"consumer_groups": [group]}], "total": 1})


def test_any_group_of_the_topic_can_be_chosen(open_page: OpenPage) -> None:
    page = open_page("idle", path="/groups/billing/dead-letters")
    page.route("**/api/v1/topics/orders/groups**", groups_of_topic)
    page.route("**/api/v1/clients?**", clients_of_group)
    page.evaluate(OPEN_CONSUME_DIALOG)
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("[name=group] option")).to_have_count(1500)
    expect(dialog.locator("[name=client]")).to_have_value("group-0000@1")
    dialog.locator("[name=group]").select_option("group-1499")
    expect(dialog.locator("[name=client]")).to_have_value("group-1499@1")
    expect(dialog.get_by_role("button", name="Consume")).to_be_enabled()
    page.unroute("**/api/v1/clients?**")
    page.unroute("**/api/v1/topics/orders/groups**")
