"""The live page in a browser, over the stand-in."""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.conftest import overflowing_widths, turned_texts

pytestmark = pytest.mark.slow
OpenPage = Callable[..., Page]


def test_the_idle_page_explains_held_pulls(open_page: OpenPage) -> None:
    page = open_page("idle")
    expect(page.locator("body[data-live=live]")).to_be_visible()
    holds = page.locator('[data-panel="holds"]')
    expect(holds.get_by_text("No pull is held.")).to_be_visible()
    expect(holds.locator('[data-part="curl"]')).to_contain_text("wait_ms=15000")
    expect(page.locator('[data-panel="wakeups"]').get_by_text("No held pull has ended yet.")).to_be_visible()
    expect(page.locator('[data-panel="histograms"]').get_by_text("No held pull has ended yet.")).to_be_visible()


def test_show_me_holds_a_pull_and_wakes_it(open_page: OpenPage) -> None:
    page = open_page("idle")
    page.get_by_role("button", name="Show me").click()
    own = page.locator('[data-panel="holds"] [data-hold-id]')
    expect(own).to_have_count(4)
    expect(own.first).to_have_attribute("data-own", "")
    steps = page.locator('[data-part="steps"] li')
    expect(steps.nth(3)).to_contain_text("woken by arrival")
    expect(steps.nth(4)).to_contain_text("That is long polling")
    second = page.locator('[data-part="next"]')
    expect(second).to_contain_text("No group stands still now")
    expect(second.get_by_role("link")).to_have_attribute("href", "/groups")
    expect(page.locator('[data-part="wake-p99-label"]')).to_have_text("slowest wake-up")
    expect(page.locator('[data-part="wakeup-figures"]')).to_have_text(re.compile("^≤ .* 1 total$"))
    expect(page.locator('[data-panel="wakeups"] [data-cause="arrival"]')).to_have_count(1)
    expect(page.locator('[data-part="received"] li').first).to_contain_text(re.compile(r"held .* woken by arrival"))
    expect(page.locator('[data-queue="quickstart@0"]')).to_have_attribute("data-max-offset", "1")
    expect(own).to_have_count(4)
    page.get_by_role("button", name="Stop").click()
    expect(own).to_have_count(0)
    expect(page.locator('[data-panel="wakeups"] [data-cause="channel_gone"]')).to_have_count(4)


def test_the_second_step_leads_to_a_group_that_stands_still(open_page: OpenPage) -> None:
    page = open_page("broken")
    page.get_by_role("button", name="Show me").click()
    link = page.locator('[data-part="next"]').get_by_role("link", name="Why is its consumer waiting?")
    expect(link).to_have_attribute("href", re.compile("^/groups/."))
    link.click()
    expect(page.locator('[data-panel="verdict"]')).to_contain_text("stalled")


def test_explains_a_selected_hold_and_its_end(open_page: OpenPage) -> None:
    page = open_page("idle")
    page.get_by_role("button", name="Start").click()
    page.locator("[data-hold-id]").first.click()
    sentence = page.locator('[data-part="sentence"]')
    expect(sentence).to_contain_text("Waits for offset 0 of quickstart@0; the queue ends at 0, so no new message has")
    expect(sentence).to_contain_text(re.compile(r"It will be answered in \d+\.\d s at the latest\."))
    page.get_by_label("body").fill("hello")
    page.get_by_role("button", name="Publish", exact=True).click()
    expect(page.locator('[data-part="result"]')).to_contain_text("Stored as quickstart@0 at offset 0")
    expect(sentence).to_contain_text("Woken after")
    expect(sentence).to_contain_text("by arrival")


def test_names_the_filter_that_rejects_messages(open_page: OpenPage) -> None:
    page = open_page("idle")
    page.locator("#consumer-filter").fill("TagA")
    page.get_by_role("button", name="Start").click()
    page.locator("[data-hold-id]").first.click()
    page.locator("#publish-tag").fill("TagB")
    page.get_by_role("button", name="Publish", exact=True).click()
    expect(page.locator('[data-part="sentence"]')).to_contain_text("its filter TagA rejects it")
    expect(page.locator('[data-node="passedOver"] .node-value')).to_have_text("1")


def test_what_waits_beside_the_path_is_unknown_unless_the_broker_says_it(open_page: OpenPage) -> None:
    page = open_page("idle")
    expect(page.locator('[data-counter="transactions_pending_now"]')).to_have_text("0")
    expect(page.locator('[data-counter="timer_messages_now"]')).to_have_text("unknown")
    expect(page.locator('[data-counter="timer_messages_now"]')).to_have_class("is-unknown")


def test_the_switch_shows_the_brokers_state_not_the_request(open_page: OpenPage) -> None:
    page = open_page("idle")
    switch = page.get_by_role("switch")
    expect(switch).to_have_attribute("aria-checked", "true")
    page.route(
        "**/api/v1/broker/config*",
        lambda route: route.fulfill(
            status=403,
            content_type="application/problem+json",
            body='{"detail": "This token may not change the configuration.", "code": "NO_PERMISSION"}',
        ),
    )
    switch.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Switch longPollingEnable off?")
    expect(dialog).to_contain_text("Affects 0 held pulls of 0 groups")
    dialog.get_by_role("button", name="Cancel").click()
    expect(switch).to_have_attribute("aria-checked", "true")
    switch.click()
    dialog.get_by_role("button", name="Switch").click()
    expect(page.locator('[data-part="long-polling-note"]')).to_contain_text("may not change the configuration")
    expect(switch).to_have_attribute("aria-checked", "true")
    page.unroute("**/api/v1/broker/config*")
    switch.click()
    dialog.get_by_role("button", name="Switch").click()
    expect(switch).to_have_attribute("aria-checked", "false")
    expect(page.locator('[data-part="long-polling-note"]')).to_contain_text("shortPollingTimeMills (1,000 ms)")


def test_many_holds_are_bounded_and_filtered(open_page: OpenPage) -> None:
    page = open_page("busy")
    holds = page.locator('[data-panel="holds"]')
    expect(holds.locator("[data-hold-id]")).to_have_count(100)
    expect(holds.locator('[data-part="left-out"]')).to_contain_text(re.compile(r"showing 100 of (1,0|9)\d\d"))
    holds.get_by_role("button", name="Show more").click()
    expect(holds.locator("[data-hold-id]")).to_have_count(200)
    holds.get_by_role("searchbox").fill("group-7 apac@3")
    expect(holds.locator('[data-part="left-out"]')).to_contain_text("match")
    cells = holds.locator("[data-hold-id] .queue-cell")
    expect(cells.filter(has_text="shipments-apac@3").first).to_be_visible()
    expect(cells.filter(has_not_text="shipments-apac@3")).to_have_count(0)


def test_only_wakeups_in_sight_are_rows(open_page: OpenPage) -> None:
    page = open_page("busy")
    panel = page.locator('[data-panel="wakeups"]')
    expect(panel.locator('[data-part="count"]')).to_contain_text("last 200")
    panel.get_by_role("button", name="Pause").click()
    holds = panel.locator("[data-cause]")
    assert 10 < holds.count() < 40
    first = holds.first.get_attribute("data-hold")
    panel.get_by_role("region").evaluate("(scroller) => scroller.scrollTo(0, scroller.scrollHeight)")
    expect(panel.locator(f'[data-hold="{first}"]')).to_have_count(0)
    expect(holds.last).to_be_in_viewport()
    panel.get_by_role("region").evaluate("(scroller) => scroller.scrollTo(0, 100)")
    panel.get_by_role("button", name="Resume").click()
    page.evaluate("""() => new Promise((resolve, reject) => {
        const scroller = document.querySelector(".wakeups-scroller");
        const look = () => scroller.scrollTop > 120 && resolve();
        scroller.addEventListener("scroll", look);
        setTimeout(() => reject(new Error("nothing came above")), 60_000);
        look();
    })""")  # newer ones came above


def test_rows_of_wakeups_are_used_again_and_stay_in_order(open_page: OpenPage) -> None:
    page = open_page("busy")
    panel = page.locator('[data-panel="wakeups"]')
    expect(panel.locator('[data-part="count"]')).to_contain_text("last 200")
    page.evaluate("""() => new Promise((resolve) => {
        const rows = document.querySelector('[data-panel="wakeups"] [data-part="rows"]');
        new MutationObserver(resolve).observe(rows, {attributeFilter: ["data-hold"], subtree: true});
    })""")
    panel.get_by_role("button", name="Pause").click()
    times = panel.locator("[data-cause] td:first-child").all_inner_texts()
    assert len(times) > 10 and times == sorted(times, reverse=True)
    texts = panel.locator("[data-cause]").first.locator("td").all_inner_texts()
    assert all(text.strip() for text in texts)


def test_rows_of_ended_holds_are_bounded(open_page: OpenPage) -> None:
    page = open_page("busy")
    expect(page.locator('[data-panel="wakeups"] [data-part="count"]')).to_contain_text("last 200")
    most = page.evaluate("""() => new Promise((resolve) => {
        const body = document.querySelector('[data-panel="holds"] [data-part="rows"]');
        const sizes = [];
        new MutationObserver(() => {
            sizes.push(body.children.length);
            if (sizes.length === 20) resolve(Math.max(...sizes));
        }).observe(body, {childList: true});
    })""")
    assert most <= 100 + 24


def test_wakeups_pause_and_filter(open_page: OpenPage) -> None:
    page = open_page("busy")
    panel = page.locator('[data-panel="wakeups"]')
    expect(panel.locator('[data-part="count"]')).to_contain_text("last 200")
    panel.get_by_role("button", name="Pause").click()
    first = panel.locator("[data-cause]").first.get_attribute("data-hold")
    expect(panel.locator('[data-part="count"]')).to_contain_text(re.compile(r"paused, .*[1-9]\d* newer"))
    assert panel.locator("[data-cause]").first.get_attribute("data-hold") == first
    panel.get_by_label("Cause").select_option("missed_arrival")
    expect(panel.locator("[data-cause]")).to_have_count(0)
    expect(panel.get_by_text("No wake-up with this cause.")).to_be_visible()
    panel.get_by_label("Cause").select_option("")
    panel.get_by_role("button", name="Resume").click()
    expect(panel.locator('[data-part="count"]')).not_to_contain_text("paused")


def test_a_gap_causes_a_new_snapshot(open_page: OpenPage, stand_in: Any) -> None:
    page = open_page("working")
    expect(page.locator("[data-hold-id]")).to_have_count(8)
    with page.expect_websocket() as opened:
        page.reload()
    expect(page.locator("[data-hold-id]")).to_have_count(8)
    with opened.value.expect_event("framesent", lambda frame: '"snapshot"' in str(frame)):
        stand_in.play("gap")
    expect(page.locator("[data-hold-id]")).to_have_count(8)
    expect(page.locator("body[data-live=live]")).to_be_visible()


def test_disconnected_data_is_greyed_until_the_page_reconnects(open_page: OpenPage, stand_in: Any) -> None:
    page = open_page("working")
    expect(page.locator("[data-hold-id]")).to_have_count(8)
    stand_in.play("down")
    expect(page.locator("body[data-live=disconnected]")).to_be_visible()
    detail = page.locator('[data-part="live-detail"]')
    expect(detail).to_contain_text(re.compile(r"data is \d+ s old; reconnecting in"))
    assert page.locator("[data-hold-id]").count() > 0
    opacity = page.locator(".holds-scroller").evaluate("(node) => getComputedStyle(node).opacity")
    assert float(opacity) < 1
    stand_in.play("up")
    expect(page.locator("body[data-live=live]")).to_be_visible()


def test_an_unavailable_engine_makes_the_page_stale(open_page: OpenPage, stand_in: Any) -> None:
    page = open_page("working")
    expect(page.locator("body[data-live=live]")).to_be_visible()
    stand_in.play("away")
    expect(page.locator("body[data-live=stale]")).to_be_visible()
    expect(page.locator('[data-part="live-detail"]')).to_contain_text("the broker's engine is restarting")
    stand_in.play("working")
    expect(page.locator("body[data-live=live]")).to_be_visible()


def test_silence_makes_the_page_stale(open_page: OpenPage, stand_in: Any) -> None:
    page = open_page("working")
    expect(page.locator("body[data-live=live]")).to_be_visible()
    stand_in.play("silent")
    expect(page.locator("body[data-live=stale]")).to_be_visible()
    expect(page.locator('[data-part="live-detail"]')).to_contain_text("no data from the broker for 5 s")
    stand_in.play("up")
    expect(page.locator("body[data-live=live]")).to_be_visible()


def test_figures_are_unknown_before_the_first_frame(open_page: OpenPage, stand_in: Any) -> None:
    page = open_page("silent")
    expect(page.locator('[data-panel="path"] .node-value').first).to_have_text("unknown")
    figures = page.locator('[data-panel="status"] dd')
    expect(figures.first).to_have_text("unknown")
    expect(figures.filter(has_not_text=re.compile(r"^\s*unknown\s*$"))).to_have_count(0)
    stand_in.play("up")


def test_a_broker_that_refuses_messages_is_shown(open_page: OpenPage, stand_in: Any) -> None:
    page = open_page("idle")
    expect(page.locator("body[data-live=live]")).to_be_visible()
    stand_in.play("refusing")
    expect(page.get_by_role("alert").first).to_contain_text("over 95 % full")
    page.get_by_role("button", name="Publish", exact=True).click()
    expect(page.locator('[data-part="result"]')).to_contain_text("over 95 % full")
    expect(page.locator('[data-part="result"]')).to_contain_text("SERVICE_NOT_AVAILABLE")


def test_hostile_names_are_shown_as_text(open_page: OpenPage) -> None:
    page = open_page("hostile")
    expect(page.locator("[data-hold-id]")).to_have_count(1)
    page.locator("#consumer-topic").fill("hostile")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("[data-hold-id]")).to_have_count(2)
    page.locator("[data-hold-id]").last.click()
    expect(page.locator('[data-part="sentence"]')).to_contain_text("<img src=x onerror")
    expect(page.locator('[data-part="problem-banner"]')).to_contain_text("<script>")
    assert page.locator("main img, main script").count() == 0
    assert turned_texts(page) == []
    assert page.title() == "Live · GlassMQ"


def test_markup_in_a_body_is_shown_as_text(open_page: OpenPage) -> None:
    page = open_page("idle")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("[data-hold-id]")).to_have_count(4)
    body = "<img src=x onerror=\"document.title='owned'\">"
    page.get_by_label("body").fill(body)
    page.get_by_role("button", name="Publish", exact=True).click()
    expect(page.locator('[data-part="received"] .received-body')).to_have_text(body)
    assert page.locator("main img").count() == 0
    assert page.title() == "Live · GlassMQ"


@pytest.mark.parametrize("scenario", ["idle", "working", "hostile"])
def test_no_panel_overflows_the_page(open_page: OpenPage, scenario: str) -> None:
    page = open_page(scenario, width=320, height=844)
    expect(page.locator("body[data-live=live]")).to_be_visible()
    page.get_by_role("button", name="Show me").click()
    expect(page.locator('[data-part="steps"] li').first).to_be_visible()
    assert overflowing_widths(page, 320, 820, 1440) == []


@pytest.mark.parametrize(
    ("scenario", "path", "rows"),
    [
        ("busy", "/", "[data-hold-id]"),
        ("broken", "/connections", "[data-client]"),
        ("broken", "/groups/billing", "[data-member]"),
        ("broken", "/groups", "[data-group-row]"),
    ],
)
def test_no_cell_overlaps_its_neighbour(open_page: OpenPage, scenario: str, path: str, rows: str) -> None:
    page = open_page(scenario, width=721, path=path)
    expect(page.locator(rows).first).to_be_visible()
    for width in (721, 768, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        over = page.evaluate(
            """rows => [...document.querySelectorAll(`${rows} td:not(.long)`)].filter((cell) => {
            const text = document.createRange();
            text.selectNodeContents(cell);
            return text.getBoundingClientRect().right > cell.getBoundingClientRect().right;
        }).map((cell) => cell.textContent)""",
            rows,
        )
        assert (width, over) == (width, [])


@pytest.mark.parametrize("width", [390, 1440])
def test_the_empty_text_waits_for_the_last_leaving_row(open_page: OpenPage, width: int) -> None:
    page = open_page("idle", width=width)
    expect(page.locator("body[data-live=live]")).to_be_visible()
    page.evaluate("""() => {
        window.over = 0;
        const board = document.querySelector('[data-panel="holds"]');
        new MutationObserver(() => {
            const row = board.querySelector("[data-leaving]");
            const empty = board.querySelector('[data-part="empty"]');
            if (row && empty.getClientRects().length) window.over += 1;
        }).observe(board, { subtree: true, attributes: true, childList: true });
    }""")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("[data-hold-id]")).to_have_count(4)
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("No pull is held.")).to_be_visible()
    assert page.evaluate("window.over") == 0


def test_held_pulls_can_be_selected_by_keyboard(open_page: OpenPage) -> None:
    page = open_page("idle")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("[data-hold-id]")).to_have_count(4)
    page.locator(".holds-scroller").focus()
    for _ in range(7):  # six sort buttons, then the first row
        page.keyboard.press("Tab")
    expect(page.locator("[data-hold-id] .row-button").first).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator('[data-part="sentence"]')).not_to_contain_text("Select a held pull")


def test_focus_moves_on_when_its_hold_ends(open_page: OpenPage) -> None:
    page = open_page("idle")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("[data-hold-id]")).to_have_count(4)
    first = page.locator("[data-hold-id]").first
    hold_id = first.get_attribute("data-hold-id")
    first.locator(".row-button").focus()
    page.evaluate("""() => fetch('/api/v1/topics/quickstart/messages', {method: 'POST', body: '{"body": "x"}'})""")
    expect(page.locator(f'[data-hold-id="{hold_id}"]')).to_have_count(0)
    expect(page.locator("[data-hold-id] .row-button").first).to_be_focused()
    assert page.locator("[data-hold-id]").first.get_attribute("data-hold-id") != hold_id


PUBLISH = """() => fetch('/api/v1/topics/quickstart/messages', {method: 'POST', body: '{"body": "x"}'})"""


def select(page: Page, selector: str) -> str:
    """Select the text of the first element, as to copy it; returns the text."""
    page.locator(selector).first.evaluate("node => getSelection().selectAllChildren(node)")
    return selected(page)


def selected(page: Page) -> str:
    text: str = page.evaluate("getSelection().toString()")
    return text


def test_selected_text_stays_when_its_hold_ends(open_page: OpenPage) -> None:
    page = open_page("idle")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("[data-hold-id]")).to_have_count(4)
    client_id = select(page, "[data-hold-id] .client-cell")
    for number in range(1, 9):  # so each of the four holds has ended
        page.evaluate(PUBLISH)
        expect(page.locator('[data-part="received"] .received-body')).to_have_count(number)
    leaving = page.locator("tr[data-leaving]")
    expect(leaving).to_have_count(1)
    assert client_id and selected(page) == client_id
    page.evaluate("getSelection().removeAllRanges()")
    expect(leaving).to_have_count(0)


def test_wakeups_wait_while_their_text_is_selected(open_page: OpenPage) -> None:
    page = open_page("idle")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("[data-hold-id]")).to_have_count(4)
    page.evaluate(PUBLISH)
    wakeups = page.locator('[data-panel="wakeups"]')
    expect(wakeups.locator("[data-cause]")).to_have_count(1)
    client_id = select(page, '[data-panel="wakeups"] .client-cell')
    page.evaluate(PUBLISH)
    expect(wakeups.locator('[data-part="count"]')).to_have_text("1; paused, 1 newer")
    assert client_id and selected(page) == client_id
    page.evaluate("getSelection().removeAllRanges()")
    page.evaluate(PUBLISH)
    expect(wakeups.locator("[data-cause]")).to_have_count(3)


def test_sort_order_is_set_as_aria_sort(open_page: OpenPage) -> None:
    page = open_page("working")
    expect(page.locator("[data-hold-id]")).to_have_count(8)
    header = page.locator('[data-panel="holds"] th').nth(1)
    header.get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", "ascending")
    expect(page.locator("[data-hold-id]").first).to_contain_text("audit")
    header.get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", "descending")
    expect(page.locator("[data-hold-id]").first).to_contain_text("mirror-sync")


def test_system_topics_are_hidden_by_default(open_page: OpenPage) -> None:
    page = open_page("working")
    expect(page.locator('[data-queue="orders@0"]')).to_be_visible()
    expect(page.locator('[data-queue="RMQ_SYS_TRACE_TOPIC@0"]')).to_have_count(0)
    page.get_by_label("system topics").check()
    expect(page.locator('[data-queue="RMQ_SYS_TRACE_TOPIC@0"]')).to_be_visible()


def test_queues_of_retry_topics_come_last(open_page: OpenPage) -> None:
    """Their names would be the first."""
    page = open_page("working")
    expect(page.locator("[data-queue]").last).to_have_attribute("data-queue", "%RETRY%billing@0")
    expect(page.locator('[data-queue="orders@0"]')).to_be_visible()


def test_the_theme_can_be_chosen_and_is_kept(open_page: OpenPage) -> None:
    page = open_page("idle", theme="light")
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.get_by_role("radio", name="Dark").check()
    dark = page.evaluate(background)
    assert dark != light
    page.reload()
    assert page.evaluate(background) == dark
    page.get_by_role("radio", name="Auto").check()
    assert page.evaluate(background) == light


def test_the_content_security_policy_blocks_inline_scripts(open_page: OpenPage) -> None:
    page = open_page("idle")
    blocked = page.evaluate("""() => new Promise((resolve) => {
        document.addEventListener("securitypolicyviolation", (event) => resolve(event.effectiveDirective));
        const script = document.createElement("script");
        script.textContent = "document.title = 'owned'";
        document.body.append(script);
    })""")
    assert blocked.startswith("script-src")
    assert page.title() == "Live · GlassMQ"
    errors: list[str] = open_page.errors  # type: ignore[attr-defined]  # a request may fail late, too
    assert len([errors.remove(line) for line in [*errors] if "Content Security Policy" in line]) == 1


def test_shows_one_of_several_brokers(open_page: OpenPage) -> None:
    page = open_page("cluster")
    picker = page.get_by_label("Broker", exact=True).get_by_role("combobox")
    expect(picker).to_have_value("broker-a")
    expect(page).to_have_url(re.compile(r"/\?broker=broker-a&default=1$"))
    expect(picker.get_by_role("option")).to_have_text(["broker-a", "broker-b", "broker-c (unavailable)"])
    with page.expect_request(re.compile(r"/api/v1/broker\?broker=broker-b&")):
        picker.select_option("broker-b")
    expect(page).to_have_url(re.compile(r"/\?broker=broker-b$"))
    expect(page.locator("body[data-live=live]")).to_be_visible()
    page.locator(".nav").get_by_role("link", name="Topics").click()
    expect(page).to_have_url(re.compile(r"/topics\?broker=broker-b$"))


def test_dead_letters_are_those_of_a_chosen_broker(open_page: OpenPage) -> None:
    page = open_page("cluster")
    expect(page).to_have_url(re.compile(r"/\?broker=broker-a&default=1$"))  # it may be live before it goes there
    page.route("**/api/v1/messages?*", lambda route: route.fulfill(json={"messages": []}))
    page.route("**/dead-letters/resend*", lambda route: route.fulfill(json={"messages": "0", "to_offset": "0"}))
    page.route("**/retries*", lambda route: route.fulfill(json={"messages": [], "total": "0"}))
    page.goto(urljoin(page.url, "/groups/billing/dead-letters"))
    expect(page).to_have_url(re.compile(r"\?broker=broker-a&default=1$"))
    picker = page.get_by_role("combobox", name="Broker")
    expect(picker).to_have_value("broker-a")
    with page.expect_request(re.compile(r"/api/v1/messages\?.*broker=broker-b")):
        picker.select_option("broker-b")
    page.get_by_role("link", name="Group billing").click()
    expect(page).to_have_url(re.compile(r"/groups/billing\?broker=broker-b$"))


def test_one_broker_has_no_picker(open_page: OpenPage) -> None:
    page = open_page("working")
    expect(page.locator("body[data-live=live]")).to_be_visible()
    expect(page.locator('[data-part="broker"]')).to_have_text("broker-a")
    expect(page.locator('[data-part="brokers"]')).to_be_hidden()
    assert "broker=" not in page.url


def test_the_charts_of_the_history_leave_no_empty_place(open_page: OpenPage) -> None:
    page = open_page("working")
    charts = page.locator(".history-chart")
    expect(charts).to_have_count(4)
    # all in one look: a live page may grow above the charts between two looks
    rows = charts.evaluate_all("charts => charts.map(chart => Math.round(chart.getBoundingClientRect().top))")
    assert rows[0] == rows[1] and rows[2] == rows[3] and len(rows) == 4


@pytest.mark.parametrize("path", ["/", "/topics"])
def test_a_page_says_that_the_engine_does_not_answer(open_page: OpenPage, path: str) -> None:
    page = open_page("idle", path=path)
    banner = page.locator('[data-part="outage"]')
    expect(banner).to_be_hidden()
    page.route(
        "**/readyz*",
        lambda route: route.fulfill(
            status=503,
            content_type="application/problem+json",
            body='{"detail": "the broker\'s engine has not answered for 8 s", "code": "SYSTEM_BUSY"}',
        ),
    )
    expect(banner).to_have_text(
        re.compile(r"^The engine has not answered since \d\d:\d\d:\d\d; publishing is refused\.$")
    )
    page.unroute("**/readyz*")
    page.route(
        "**/readyz*",
        lambda route: route.fulfill(
            status=503,
            content_type="application/problem+json",
            body='{"detail": "the engine does not answer", "code": "SYSTEM_BUSY", "answered_ms": 1000000000000}',
        ),
    )
    expect(banner).to_contain_text("since 2001-09-09 ")
    page.unroute("**/readyz*")
    expect(banner).to_be_hidden()


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/messages/7F00", "/api/v1/messages/7F00?"),
        ("/messages?topic=orders", "/api/v1/messages?"),
        ("/groups/billing/dead-letters", "/api/v1/messages?"),
    ],
)
def test_a_page_that_got_no_answer_asks_again_after_an_outage(open_page: OpenPage, path: str, asked: str) -> None:
    page = open_page("idle", path="/topics")
    for pattern in ("readyz*", "api/v1/messages*/**", "api/v1/messages?**", "api/v1/groups/**"):
        page.route(f"**/{pattern}", lambda route: route.fulfill(status=503, body="{}"))
    page.goto(urljoin(page.url, path))
    expect(page.locator('[data-part="outage"]')).to_be_visible()
    with page.expect_request(lambda request: asked in request.url):
        page.unroute("**/readyz*")


def test_ctrl_k_leads_to_a_group_and_to_a_page(open_page: OpenPage) -> None:
    page = open_page("working", path="/topics")
    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Go to")
    expect(palette.get_by_role("option").first).to_contain_text("Live")
    group = page.evaluate("async () => (await (await fetch('/api/v1/groups')).json()).groups[0].group")
    palette.get_by_label("Go to").fill(group[1:])
    expect(palette.get_by_role("option", selected=True)).to_contain_text(group)
    page.keyboard.press("Escape")
    expect(palette).to_be_hidden()
    page.get_by_role("button", name="Go to").click()
    palette.get_by_label("Go to").fill("mess")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/messages$"))


def test_the_board_of_the_recent_past(open_page: OpenPage) -> None:
    page = open_page("working")
    held = page.locator('[data-panel="holds"] [data-hold-id]:not([data-leaving])')
    expect(held).to_have_count(8)
    slider = page.get_by_label("Earlier board")
    expect(slider).to_be_enabled()
    earliest = page.locator('[data-panel="past"] [data-part="when"]')
    expect(earliest).to_have_text(re.compile(r"^now; drag to go back to (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d$"))
    slider.fill("0")
    expect(page.locator("body[data-live=past]")).to_be_visible()
    expect(page.locator('[data-panel="past"] [data-part="when"]')).to_have_text(re.compile(r":\d\d · 0 held pulls$"))
    expect(held).to_have_count(0)
    expect(page.locator('[data-panel="status"] [data-part="stored"]')).to_have_text("unknown")
    page.get_by_role("button", name="Back to now").click()
    expect(page.locator("body[data-live=live]")).to_be_visible()
    expect(held).to_have_count(8)
    expect(page.get_by_role("button", name="Back to now")).to_be_hidden()
