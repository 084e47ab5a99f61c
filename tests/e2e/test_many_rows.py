"""Pages with more rows than a browser could show: 10,000 groups and 2,000 topics at a real broker."""

import json
import socket
from collections.abc import Iterable, Iterator

from playwright.sync_api import Page, expect

from broker_core.codes import RequestCode
from broker_core.remoting.remoting_command import RemotingCommand
from tests.conftest import Manage
from tests.e2e.conftest import Broker
from tests.fakes.remoting import GROUP_CONFIG, commands_of, java

GROUPS, TOPICS = 10_000, 2000
AT_ONCE = 500
"""Requests that are sent before their answers are read."""
PATIENCE_MS = 240_000
GROUP = json.loads(GROUP_CONFIG)


def ask_all(port: int, requests: Iterable[tuple[int, dict[str, str], bytes]]) -> None:
    """Send these requests, (code, fields, body), over one connection. All must succeed."""
    waiting = list(requests)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection, connection.makefile("rb") as answers:
        for start in range(0, len(waiting), AT_ONCE):
            some = waiting[start : start + AT_ONCE]
            connection.sendall(b"".join(java(*request, opaque=number) for number, request in enumerate(some)))
            for _ in some:
                size = answers.read(4)
                [answer] = commands_of(size + answers.read(int.from_bytes(size, "big")))
                assert isinstance(answer, RemotingCommand) and answer.code == 0, answer


def parts(names: list[str], size: int) -> Iterator[list[str]]:
    return (names[start : start + size] for start in range(0, len(names), size))


def port_of(manage: Manage) -> int:
    return int(manage.environment["GLASSMQ_BROKER_PORT"])


def scroll_to_the_end(page: Page, panel: str) -> None:
    page.locator(f'[data-panel="{panel}"] [data-part="scroller"]').evaluate(
        "box => { box.scrollTop = box.scrollHeight; }"
    )


def test_the_last_of_10000_groups_can_be_scrolled_to(broker: Broker, shared_manage: Manage, page: Page) -> None:
    broker.publish("shared", "x")
    names = [f"many-{number:05}" for number in range(GROUPS)]
    create = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
    bodies = (
        json.dumps({"groupConfigList": [GROUP | {"groupName": name} for name in some]}) for some in parts(names, 100)
    )
    ask_all(port_of(shared_manage), ((create, {}, body.encode()) for body in bodies))
    fields = {"topic": "shared", "queueId": "0", "commitOffset": "1"}
    commit = RequestCode.UPDATE_CONSUMER_OFFSET
    ask_all(
        port_of(shared_manage),
        ((commit, fields | {"consumerGroup": name}, b"") for name in names),
    )
    page.goto(f"{broker.address}/groups")
    panel = page.locator('[data-panel="groups"]')
    expect(panel.locator(".state-button").first).to_have_text("10,000 stopped, nothing waits", timeout=PATIENCE_MS)
    panel.get_by_role("button", name="group", exact=True).click()
    expect(page.locator('[data-group-row="many-00000"]')).to_be_visible()
    scroll_to_the_end(page, "groups")
    expect(page.locator('[data-group-row="many-09999"]')).to_be_visible()
    assert panel.locator("[data-group-row]").count() < 100
    page.get_by_role("searchbox").fill("many-0777")
    expect(panel.locator("[data-group-row]")).to_have_count(10)


def test_the_last_of_2000_topics_can_be_scrolled_to(broker: Broker, shared_manage: Manage, page: Page) -> None:
    names = [f"topic-{number:04}" for number in range(TOPICS)]
    config = {"readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0}
    create = RequestCode.UPDATE_AND_CREATE_TOPIC_LIST
    bodies = (
        json.dumps({"topicConfigList": [config | {"topicName": name} for name in some]}) for some in parts(names, 100)
    )
    ask_all(port_of(shared_manage), ((create, {}, body.encode()) for body in bodies))
    page.goto(f"{broker.address}/topics")
    page.get_by_role("searchbox").fill("topic-")
    expect(page.locator('[data-topic-row="topic-0000"]')).to_be_visible(timeout=PATIENCE_MS)
    scroll_to_the_end(page, "topics")
    expect(page.locator('[data-topic-row="topic-1999"]')).to_be_visible()
    assert page.locator("[data-topic-row]").count() < 100
