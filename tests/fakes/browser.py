"""Debian's Chromium, headless, without background traffic, which a closed network would refuse."""

import shutil

from playwright.sync_api import Browser, Playwright

ARGUMENTS = [
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
]


def launch(playwright: Playwright) -> Browser:
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert path is not None, "no Chromium was found; make test installs it on Debian and Ubuntu"
    return playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
