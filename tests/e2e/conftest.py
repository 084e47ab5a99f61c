"""A real broker in its own processes, a real browser, and HTTP clients."""

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from tests.conftest import Manage
from tests.fakes.browser import launch, page_of_a_test

if TYPE_CHECKING:
    import subprocess

READY_SECONDS = 120
PATIENCE_MS = 240_000
"""Covers a Spark start on a busy machine, and a minute until a schedule is due."""


class Broker:
    """The HTTP API of a running broker."""

    def __init__(self, address: str) -> None:
        self.address = address

    def call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return json.load(error)

    def text(self, path: str) -> str:
        """The body of a page that is no JSON."""
        with urllib.request.urlopen(self.address + path, timeout=60) as answer:
            body: bytes = answer.read()
        return body.decode()

    def publish(self, topic: str, body: str, **fields: Any) -> Any:
        return self.call("POST", f"/api/v1/topics/{topic}/messages", {"body": body, "queue_id": 0} | fields)

    def wait_until_running(self, report: str) -> None:
        """Return as soon as a worker has begun a run of the report, PATIENCE_MS later at most."""
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while "running" not in [run["status"] for run in self.call("GET", f"/api/v1/reports/{report}/runs")["runs"]]:
            assert time.monotonic() < deadline, "no run has begun"
            time.sleep(0.1)

    def wait_for(self, topic: str, offset: int, **query: Any) -> "Waiting":
        return Waiting(
            self,
            f"/api/v1/topics/{topic}/queues/0/messages?offset={offset}&"
            + "&".join(f"{name}={value}" for name, value in query.items()),
        )


class Waiting:
    """A long poll under way in a thread."""

    def __init__(self, broker: Broker, path: str) -> None:
        self._answer: Any = None
        self._thread = threading.Thread(target=self._run, args=(broker, path), daemon=True)
        self._thread.start()

    def _run(self, broker: Broker, path: str) -> None:
        self._answer = broker.call("GET", path)

    def answer(self) -> Any:
        self._thread.join(60)
        assert not self._thread.is_alive(), "the long poll was not answered"
        return self._answer


@pytest.fixture(scope="module")
def broker(shared_manage: Manage) -> Broker:
    """A broker for the tests of a file, ready. Each has topics and groups of its own."""
    return wait_until_ready(shared_manage, shared_manage.start("broker", "--no-schedules"))


def wait_until_ready(manage: Manage, process: "subprocess.Popen[str]") -> Broker:
    """The broker in ``process``, once messages can be published. Fails after READY_SECONDS."""
    broker = Broker(f"http://127.0.0.1:{manage.environment['GLASSMQ_WEB_PORT']}")
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[0]
        try:
            if broker.call("GET", "/readyz").get("status") == "ok":
                return broker
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the broker was not ready in time")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for the tests of a file. No asynchronous test of that file can run after the first that uses it."""
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Page:
    """One tab for the tests of a file, one after the other."""
    return browser.new_page(viewport={"width": 1440, "height": 1000})


@pytest.fixture
def page(broker: Broker, tab: Page) -> Iterator[Page]:
    """The dashboard, open and live; a script error or a blocked resource fails the test."""
    problems: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error" and "status of 40" not in message.text:  # the page shows the reason
            problems.append(message.text)

    with page_of_a_test(tab, note, lambda error: problems.append(str(error))):
        tab.goto(broker.address)
        tab.wait_for_selector("body[data-live=live]")
        yield tab
    assert problems == []


@pytest.fixture
def whole_broker(manage: Manage) -> Broker:
    """A fresh broker with the report worker and the scheduler."""
    return wait_until_ready(manage, manage.start("broker", GLASSMQ_SPARK_MASTER="local[1]"))


@pytest.fixture
def reports(whole_broker: Broker) -> Iterator[Page]:
    """The Reports page with long timeouts; a script error or a blocked resource fails the test."""
    with sync_playwright() as playwright:
        browser = launch(playwright)
        opened = browser.new_page(viewport={"width": 1280, "height": 1000})
        opened.set_default_timeout(PATIENCE_MS)
        problems: list[str] = []
        opened.context.on("weberror", lambda error: problems.append(str(error.error)))  # also of a report's own page
        opened.on(
            "console",
            lambda message: (
                problems.append(message.text)
                if message.type == "error" and "status of 400" not in message.text
                else None
            ),
        )  # the tests provoke it
        opened.goto(f"{whole_broker.address}/reports")
        yield opened
        browser.close()
        assert problems == []
