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
    """The running stand-in: its address, and what it plays."""

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
        assert line.startswith("listening on "), f"the stand-in did not start; it said {line!r}"
        yield StandIn(int(line.split()[-1]))
    finally:
        process.terminate()
        process.wait(timeout=20)
        process.stdout.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for the tests of a file, no longer: while Playwright is open, its event loop counts as the thread's own,
    and no test elsewhere could run one."""
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser, stand_in: StandIn) -> Iterator[Callable[..., Page]]:
    """Opens the live page in a scenario. At the end nothing may have gone wrong in its console."""
    wrong: list[str] = []
    contexts = []

    def open_(scenario: str, *, width: int = 1440, height: int = 900, theme: str = "light", path: str = "/") -> Page:
        stand_in.play(scenario)
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(stand_in.url + path)
        return page

    open_.wrong = wrong  # type: ignore[attr-defined]  # for a test that provokes an error
    yield open_
    for context in contexts:
        context.close()
    # That a server is away, or refuses, is the browser's own line; everything else is ours.
    others = ("WebSocket connection to", "Failed to load resource")
    assert [line for line in wrong if not any(other in line for other in others)] == []
