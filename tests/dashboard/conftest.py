"""The stand-in server and a browser, for the tests of the pages."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from tests.fakes.browser import launch, page_of_a_test

HERE = Path(__file__).parent


class StandIn:
    """The running stand-in server."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def play(self, scenario: str) -> None:
        body = json.dumps({"scenario": scenario}).encode()
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/stand-in", body, method="POST"), timeout=60).close()


@pytest.fixture(scope="session")
def stand_in() -> Iterator[StandIn]:
    process = subprocess.Popen(
        [sys.executable, str(HERE / "stand_in.py"), "--port", "0", "--scenario", "idle"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    try:
        assert line.startswith("listening on "), f"the stand-in did not start; its first line was {line!r}"
        yield StandIn(int(line.split()[-1]))
    finally:
        process.terminate()
        process.wait(timeout=60)
        process.stdout.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for each module, not for the session: while Playwright is open, its event loop is the thread's
    running loop, and other tests could not start one."""
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Page:
    """One tab for the tests of a module, one after the other."""
    return browser.new_page()


@pytest.fixture
def open_page(tab: Page, stand_in: StandIn) -> Iterator[Callable[..., Page]]:
    """Opens a page in a scenario. Fails the test if the console has an error at the end."""
    errors: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error":
            errors.append(message.text)

    def open_(scenario: str, *, width: int = 1440, height: int = 900, theme: str = "light", path: str = "/") -> Page:
        stand_in.play(scenario)
        tab.set_viewport_size({"width": width, "height": height})
        tab.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        tab.goto(stand_in.url + path)
        return tab

    open_.errors = errors  # type: ignore[attr-defined]  # for a test that provokes an error
    with page_of_a_test(tab, note, lambda error: errors.append(str(error))):
        yield open_
    # The browser itself logs failed requests; any other line is an error of the page.
    browser_lines = ("WebSocket connection to", "Failed to load resource")
    assert [line for line in errors if not any(own in line for own in browser_lines)] == []


WIDTH_OF_THE_PAGE = """new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(
    () => resolve(document.documentElement.scrollWidth))))"""
"""Two frames later: charts get the width of a window that has just changed when the next frame is drawn."""


def overflowing_widths(page: Page, *widths: int) -> list[int]:
    """Those of the ``widths`` of a window, in px, at which the open page is wider than the window."""
    too_narrow = []
    for width in widths:
        page.set_viewport_size({"width": width, "height": 844})
        if page.evaluate(WIDTH_OF_THE_PAGE) > width:
            too_narrow.append(width)
    return too_narrow


def turned_texts(page: Page) -> list[str]:
    """The texts, titles and labels of the open page that a right-to-left override turns."""
    texts: list[str] = page.evaluate(
        """[...document.querySelectorAll('main, main *')].flatMap((node) => [node.title, node.ariaLabel,
            ...[...node.childNodes].filter((child) => child.nodeType === Node.TEXT_NODE).map((child) => child.data)])"""
    )
    return [text for text in texts if text and "\u202e" in text]
