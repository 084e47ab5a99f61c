"""The stand-in server and a browser, for the tests of the pages."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.fakes.browser import launch

HERE = Path(__file__).parent


class StandIn:
    """The running stand-in server."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def play(self, scenario: str) -> None:
        body = json.dumps({"scenario": scenario}).encode()
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/stand-in", body, method="POST"), timeout=10).close()


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
        process.wait(timeout=20)
        process.stdout.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for each module, not for the session: while Playwright is open, its event loop is the thread's
    running loop, and other tests could not start one."""
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser, stand_in: StandIn) -> Iterator[Callable[..., Page]]:
    """Opens a page in a scenario. Fails the test if the console has an error at the end."""
    errors: list[str] = []
    contexts = []

    def open_(scenario: str, *, width: int = 1440, height: int = 900, theme: str = "light", path: str = "/") -> Page:
        stand_in.play(scenario)
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(stand_in.url + path)
        return page

    open_.errors = errors  # type: ignore[attr-defined]  # for a test that provokes an error
    yield open_
    for context in contexts:
        context.close()
    # The browser itself logs failed requests; any other line is an error of the page.
    browser_lines = ("WebSocket connection to", "Failed to load resource")
    assert [line for line in errors if not any(own in line for own in browser_lines)] == []
