"""Debian's Chromium, headless, without background traffic, which a closed network would refuse."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, ConsoleMessage, Page, Playwright, expect

PATIENCE_MS = 60_000
"""How long a page may take to come to what a test expects. Four tests at once share two processors with Spark."""

expect.set_options(timeout=PATIENCE_MS)

ARGUMENTS = [
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    # One process for all pages, one after the other: to start one for each takes a fifth of the time of a test.
    "--renderer-process-limit=1",
    "--disable-site-isolation-trials",
]


def launch(playwright: Playwright) -> Browser:
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert path is not None, "no Chromium was found; make test installs it on Debian and Ubuntu"
    return playwright.chromium.launch(executable_path=path, args=ARGUMENTS)


@contextmanager
def page_of_a_test(
    tab: Page, on_console: Callable[[ConsoleMessage], None], on_error: Callable[[Exception], None]
) -> Iterator[Page]:
    """The tab for one test, which leaves it empty: without a page, storage, cookies, routes and these listeners.

    A new tab takes a second of processor time, because it loads and compiles every script of the page again.
    """
    tab.set_default_timeout(PATIENCE_MS)
    tab.on("console", on_console)
    tab.on("pageerror", on_error)
    try:
        yield tab
    finally:
        tab.remove_listener("console", on_console)
        tab.remove_listener("pageerror", on_error)
        tab.unroute_all()
        tab.evaluate("location.protocol.startsWith('http') && (localStorage.clear(), sessionStorage.clear())")
        tab.context.clear_cookies()
        tab.mouse.move(0, 0)
        tab.goto("about:blank")
