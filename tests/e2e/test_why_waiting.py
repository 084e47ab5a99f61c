"""Real clients in the situations of the catalogue, and what a real broker says about their groups."""

import asyncio
import itertools
import json
import re
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from broker_core.client import DefaultMQPushConsumer, MessageExt
from broker_core.codes import RequestCode
from tests.conftest import Manage
from tests.e2e.conftest import Broker
from tests.e2e.waiting_site import Site, Stock, verdict
from tests.fakes.remoting import GROUP_CONFIG

pytestmark = pytest.mark.slow
Situation = Callable[[Site], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def no_permits(site: Site) -> AsyncIterator[None]:
    await site.publish("", "")
    async with site.member():
        yield


@asynccontextmanager
async def not_acknowledged(site: Site) -> AsyncIterator[None]:
    await site.publish("", "", "")
    async with site.member(permits=2) as client:
        await client.message()
        await client.message()
        yield


@asynccontextmanager
async def filter_rejects_all(site: Site) -> AsyncIterator[None]:
    async with site.member(permits=9, filter="TagX"):
        await site.publish("TagA", "TagB", "TagA")
        yield


@asynccontextmanager
async def subscriptions_disagree(site: Site) -> AsyncIterator[None]:
    async with (
        site.member(f"{site.topic}-a", permits=9, filter="TagA"),
        site.member(f"{site.topic}-b", permits=9, filter="TagB"),
    ):
        await site.publish("TagA", "TagB")
        yield


@asynccontextmanager
async def every_message_fails(site: Site) -> AsyncIterator[None]:
    await site.publish("", "")
    async with site.member(permits=9) as client:
        for _ in range(2):
            offset = (await client.message())["queue_offset"]
            await client.send(type="nack", id=1, topic=site.topic, queue_id=0, offset=offset, delay_level=18)
        yield


@asynccontextmanager
async def some_messages_fail(site: Site) -> AsyncIterator[None]:
    await site.publish("", "")
    async with site.member(permits=9) as client:
        failed, consumed = await client.message(), await client.message()
        await client.send(
            type="nack", id=1, topic=site.topic, queue_id=0, offset=failed["queue_offset"], delay_level=18
        )
        await client.ack(consumed)
        yield


@asynccontextmanager
async def pulls_refused(site: Site) -> AsyncIterator[None]:
    async with site.member(permits=9) as client:
        await site.call("PUT", f"/api/v1/topics/{site.topic}", {"perm": 2})
        await site.publish("")
        await client.receive("problem")
        yield


@asynccontextmanager
async def no_member(site: Site) -> AsyncIterator[None]:
    await site.publish("")
    async with site.member(permits=9) as client:
        await client.ack(await client.message())
        await client.send(type="unsubscribe", id=1)
        await client.receive("unsubscribed")
    await site.publish("", "")
    yield


@asynccontextmanager
async def topic_missing(site: Site) -> AsyncIterator[None]:
    async with site.member():
        await site.delete()
        yield


@asynccontextmanager
async def more_members_than_queues(site: Site) -> AsyncIterator[None]:
    async with site.member(f"{site.topic}-a", permits=9), site.member(f"{site.topic}-b", permits=9):
        yield


@asynccontextmanager
async def idle(site: Site) -> AsyncIterator[None]:
    async with site.member(permits=9):
        yield


@asynccontextmanager
async def ok(site: Site) -> AsyncIterator[None]:
    await site.publish("")
    async with site.member(permits=9) as client:
        await client.ack(await client.message())
        yield


@asynccontextmanager
async def started_at_end(site: Site) -> AsyncIterator[None]:
    await site.publish("", "")
    async with site.stock("10.0.0.1@1") as client:
        await client.pull(2)
        yield


@asynccontextmanager
async def pulled_by_non_members(site: Site) -> AsyncIterator[None]:
    waiting = asyncio.create_task(
        site.call("GET", f"/api/v1/topics/{site.topic}/queues/0/messages?offset=0&wait_ms=20000&group={site.group}")
    )
    yield
    await site.publish("")
    await waiting


@asynccontextmanager
async def reset_pending(site: Site) -> AsyncIterator[None]:
    await site.publish("", "")
    async with site.member():
        await site.call("POST", f"/api/v1/groups/{site.group}/offsets/reset", {"topic": site.topic, "to": "max"})
        yield


@asynccontextmanager
async def offset_beyond_end(site: Site) -> AsyncIterator[None]:
    await site.set_offset(100)
    yield


@asynccontextmanager
async def listener_blocked(site: Site) -> AsyncIterator[None]:
    await site.publish("", "", "")
    async with site.stock("10.0.0.1@1") as client:
        assert (await client.pull(0)).code == 0
        yield


@asynccontextmanager
async def stands_still(site: Site) -> AsyncIterator[None]:
    """It pulls at the queue's end, and leaves out what waits before."""
    await site.publish("", "")
    await site.set_offset(0)
    async with site.stock("10.0.0.1@1") as client:
        waiting = asyncio.create_task(client.pull(2, sysFlag="2"))
        yield
        await site.publish("")
        await waiting


@asynccontextmanager
async def consuming(site: Site) -> AsyncIterator[None]:
    await site.publish("", "")
    await site.set_offset(0)
    async with site.stock("10.0.0.1@1") as client:
        await client.pull(0)
        yield


@asynccontextmanager
async def lag_unknown(site: Site) -> AsyncIterator[None]:
    await site.publish("")
    async with site.stock("10.0.0.1@1"):
        yield


@asynccontextmanager
async def topic_not_subscribed(site: Site) -> AsyncIterator[None]:
    """Its program was changed: it subscribes to another topic now."""
    await site.publish("", "")
    await site.set_offset(1)
    async with site.stock("10.0.0.1@1", topic="another"):
        yield


@asynccontextmanager
async def locked_by_another(site: Site) -> AsyncIterator[None]:
    await site.publish("")
    async with site.stock("10.0.0.1@1") as client:
        await client.lock("10.0.0.9@9")
        yield


@asynccontextmanager
async def may_not_consume(site: Site) -> AsyncIterator[None]:
    await site.publish("")
    async with site.stock("10.0.0.1@1") as client:
        config = json.loads(GROUP_CONFIG) | {"groupName": site.group, "consumeEnable": False}
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        assert (await client.ask(code, {}, json.dumps(config).encode())).code == 0
        yield


@asynccontextmanager
async def broadcasting(site: Site) -> AsyncIterator[None]:
    async with site.stock("10.0.0.1@1", messageModel="BROADCASTING") as client:
        await client.pull(0)
        yield


@asynccontextmanager
async def listener_of_ordered_messages_blocked(site: Site) -> AsyncIterator[None]:
    await site.publish("", "")
    async with site.stock("10.0.0.1@1") as client:
        await client.lock("10.0.0.1@1")
        assert (await client.pull(0)).code == 0
        yield


@asynccontextmanager
async def topic_not_in_heartbeat(site: Site) -> AsyncIterator[None]:
    async with site.stock("10.0.0.1@1", topic="another") as client:
        assert (await client.pull(0)).code == 24
        yield


@asynccontextmanager
async def heartbeat_not_arrived(site: Site) -> AsyncIterator[None]:
    async with site.stock("10.0.0.1@1") as client:
        assert (await client.pull(0, subVersion="1800000000000")).code == 25
        yield


@asynccontextmanager
async def wrong_sql92_expression(site: Site) -> AsyncIterator[None]:
    async with site.stock("10.0.0.1@1", expression_type="SQL92") as client:
        assert (await client.pull(0)).code == 27
        yield


@asynccontextmanager
async def sql92_switched_off(site: Site) -> AsyncIterator[None]:
    await site.call("PATCH", "/api/v1/broker/config", {"enablePropertyFilter": False})
    try:
        async with site.stock("10.0.0.1@1", expression="a = 1", expression_type="SQL92") as client:
            assert (await client.pull(0)).code == 1
            yield
    finally:
        await site.call("PATCH", "/api/v1/broker/config", {"enablePropertyFilter": True})


@asynccontextmanager
async def holds_used_up(site: Site) -> AsyncIterator[None]:
    path = f"/api/v1/topics/{site.topic}/queues/0/messages?offset=0&wait_ms=30000&group=another"
    waiting = asyncio.create_task(site.call("GET", path))
    while not (await site.call("GET", f"/api/v1/holds?topic={site.topic}"))["holds"]:
        await asyncio.sleep(0.05)
    await site.call("PATCH", "/api/v1/broker/config", {"maxHolds": 1})
    try:
        async with site.stock("10.0.0.1@1") as client:
            assert (await client.pull(0, sysFlag="2")).code == 215
            yield
    finally:
        await site.call("PATCH", "/api/v1/broker/config", {"maxHolds": 200_000})
        await site.publish("")
        await waiting


@asynccontextmanager
async def rebalancing(site: Site) -> AsyncIterator[None]:
    await site.publish("")
    async with site.stock("10.0.0.1@1") as client:
        await client.commit(1)
    await site.publish("")
    async with site.stock("10.0.0.2@2"):
        yield


@asynccontextmanager
async def committing(client: Stock, begin: int) -> AsyncIterator[None]:
    """The client commits one message after the other."""

    async def commit() -> None:
        for offset in itertools.count(begin):
            await client.commit(offset)
            await asyncio.sleep(0.2)

    task = asyncio.create_task(commit())
    yield
    task.cancel()
    await asyncio.wait([task])


@asynccontextmanager
async def catching_up(site: Site) -> AsyncIterator[None]:
    await site.publish_many(500)
    async with site.stock("10.0.0.1@1") as client, committing(client, 1):
        yield


@asynccontextmanager
async def sent_back(site: Site, delay_level: int) -> AsyncIterator[None]:
    """It sends one message back; with the level -1 this is a dead letter."""
    published = await site.call("POST", f"/api/v1/topics/{site.topic}/messages", {"body": "x", "queue_id": 0})
    offset = published["messages"][0]["physical_offset"]
    async with site.stock("10.0.0.1@1") as client:
        fields = {"offset": str(offset), "group": site.group, "delayLevel": str(delay_level)}
        more = {"originTopic": site.topic, "originMsgId": "0A", "unitMode": "false", "maxReconsumeTimes": "16"}
        assert (await client.ask(36, fields | more)).code == 0
        await client.commit(1)
        yield


def retries_pending(site: Site) -> AbstractAsyncContextManager[None]:
    return sent_back(site, -1)


def long_retry_delay(site: Site) -> AbstractAsyncContextManager[None]:
    return sent_back(site, 18)


@asynccontextmanager
async def delayed_pending(site: Site) -> AsyncIterator[None]:
    message = {"body": "x", "queue_id": 0, "properties": {"DELAY": "18"}}
    assert "messages" in await site.call("POST", f"/api/v1/topics/{site.topic}/messages", message)
    async with site.member(permits=9):
        yield


@asynccontextmanager
async def push_consumer(site: Site, listener: Any) -> AsyncIterator[None]:
    """A whole push consumer with this listener, and two messages for it."""
    await site.publish("", "")
    consumer = DefaultMQPushConsumer(
        site.group, namesrv_addr=f"127.0.0.1:{site.namesrv_port}", consume_from_where="CONSUME_FROM_FIRST_OFFSET"
    )
    consumer.subscribe(site.topic)
    consumer.register_message_listener(listener)
    async with consumer:
        yield


@asynccontextmanager
async def blocked_push_consumer(site: Site) -> AsyncIterator[None]:
    over = asyncio.Event()

    async def listener(messages: list[MessageExt], context: Any) -> None:
        await over.wait()

    async with push_consumer(site, listener):
        yield
        over.set()


@asynccontextmanager
async def failing_push_consumer(site: Site) -> AsyncIterator[None]:
    async def listener(messages: list[MessageExt], context: Any) -> str:
        context.delay_level_when_next_consume = 18
        return "RECONSUME_LATER"

    async with push_consumer(site, listener):
        yield


IDS: dict[Situation, str] = {
    blocked_push_consumer: "listener_blocked",
    failing_push_consumer: "every_message_fails",
    listener_of_ordered_messages_blocked: "listener_blocked",
    topic_not_in_heartbeat: "pulls_refused",
    heartbeat_not_arrived: "pulls_refused",
    wrong_sql92_expression: "pulls_refused",
    sql92_switched_off: "pulls_refused",
    long_retry_delay: "retries_pending",
}
"""Of situations that are not named after their verdict."""
PATIENCE_MS = {consuming: 30_000}


def verdict_of(situation: Situation) -> str:
    """The id of the verdict that this situation leads to."""
    return IDS.get(situation, situation.__name__)


TABLE: list[tuple[Situation, str, str]] = [
    (no_permits, "stalled", "it has given no permits."),
    (not_acknowledged, "stalled", "2 messages sent to WHO, none acknowledged for ... ; its permits are used up, "),
    (filter_rejects_all, "ok", "none passed TagX; their tags were TagA 2 and TagB 1."),
    (subscriptions_disagree, "", "TOPIC-a takes TagA and TOPIC-b takes TagB;"),
    (every_message_fails, "stalled", "Every message fails: 2 of 2 came back"),
    (pulls_refused, "stalled", "may not be read."),
    (some_messages_fail, "", "Some messages fail: 1 of 2 came back"),
    (no_member, "stopped", "no client pulls for it; 2 messages wait."),
    (topic_missing, "", "subscribes to TOPIC, but this topic does not exist."),
    (more_members_than_queues, "ok", "2 members for 1 queue:"),
    (idle, "ok", "its queues are empty. Pulls are held on 1 of 1 queue."),
    (ok, "ok", "and nothing waits."),
    (started_at_end, "ok", "it does not receive 2 older messages."),
    (pulled_by_non_members, "ok", "No member is online, but"),
    (reset_pending, "", "to offset 2."),
    (offset_beyond_end, "stopped", "is 100, but the queue ends at 0."),
    (listener_blocked, "stalled", "3 messages handed to 10.0.0.1@1, nothing committed for"),
    (stands_still, "stalled", "stands still: 2 messages wait in TOPIC@0, the oldest for"),
    (consuming, "catching up", "2 messages were handed to clients, and TOPIC-readers has committed none of them yet."),
    (lag_unknown, "unknown", "The lag of 1 queue is unknown: TOPIC-readers has committed no offset in TOPIC@0."),
    (topic_not_subscribed, "", "No member subscribes to TOPIC, where 1 message waits."),
    (locked_by_another, "", "10.0.0.9@9 has the lock of TOPIC@0;"),
    (blocked_push_consumer, "stalled", "stands still: 2 messages handed to"),
    (failing_push_consumer, "stalled", "Every message fails: 2 of 2 came back"),
    (listener_of_ordered_messages_blocked, "stalled", "(orderly, TOPIC@0 suspended)"),
    (topic_not_in_heartbeat, "stalled", "does not subscribe to topic TOPIC"),
    (heartbeat_not_arrived, "stalled", "is newer than the broker's"),
    (wrong_sql92_expression, "stalled", "'*' is no SQL92 filter"),
    (sql92_switched_off, "stalled", "refused since 20 ... , last at 20 ... does not support consumer to filter"),
    (holds_used_up, "stalled", "holds 1 pulls, its limit;"),
    (rebalancing, "", "10.0.0.2@2 gets TOPIC@0 and has not pulled yet."),
    (catching_up, "catching up", "catches up:"),
    (delayed_pending, "ok", "1 delayed message of TOPIC is not due yet, the next at 20"),
    (retries_pending, "ok", "1 message is dead."),
    (long_retry_delay, "", "1 message waits for another try, the next at 20"),
    (may_not_consume, "", "may not consume at broker broker-a: its consumeEnable is off."),
    (broadcasting, "unknown", "consumes by broadcasting: 1 member receives every message"),
]


@pytest.mark.parametrize(("situation", "state", "words"), TABLE, ids=[row[0].__name__ for row in TABLE])
async def test_the_broker_says_why(
    broker: Broker, shared_manage: Manage, situation: Situation, state: str, words: str
) -> None:
    name = situation.__name__
    site = await asyncio.to_thread(Site, broker, name.replace("_", "-"), shared_manage.environment)
    async with situation(site):
        words = words.replace("TOPIC", site.topic).replace("WHO", f"{site.topic}-a")
        answer, found = await verdict(site, verdict_of(situation), words, PATIENCE_MS.get(situation, 1000), state)
        assert found["advice"] and isinstance(found["evidence"], dict)
        if answer["state"] != "ok":
            assert not {"ok", "idle"} & {one["id"] for one in answer["verdicts"]}


async def test_a_group_that_nobody_knows(broker: Broker) -> None:
    answer = await asyncio.to_thread(broker.call, "GET", "/api/v1/groups/nobody/verdicts")
    assert answer["status"] == 404


SHOWN: dict[str, tuple[Situation, str]] = {
    "no-permits-page": (
        no_permits,
        r"TOPIC@0 is assigned to TOPIC-a, which does not ask for messages: it has given no permits\.",
    ),
    "filter-page": (
        filter_rejects_all,
        r"3 messages of TOPIC came since [\d:. -]+, none passed TagX; their tags were TagA 2 and TagB 1\.",
    ),
    "disagree-page": (
        subscriptions_disagree,
        r"The members disagree about TOPIC: TOPIC-a takes TagA and TOPIC-b takes TagB; "
        r"each message reaches only the owner of its queue \(1 reached nobody\)\.",
    ),
    "fails-page": (every_message_fails, r"Every message fails: 2 of 2 came back in the last .+, try 1, next in .+\."),
    "gone-page": (no_member, r"No member of TOPIC-readers is online, and no client pulls for it; 2 messages wait\."),
}
"""By the topic's name: the situation, and a pattern of the sentence on the page."""


def test_the_page_says_why(broker: Broker, shared_manage: Manage, page: Page) -> None:
    """Last in this file: no asynchronous test can follow one with a browser."""
    ready, over = threading.Event(), threading.Event()

    async def clients() -> None:
        async with AsyncExitStack() as stack:
            for name, (situation, _) in SHOWN.items():
                site = await asyncio.to_thread(Site, broker, name, shared_manage.environment)
                await stack.enter_async_context(situation(site))
            ready.set()
            await asyncio.to_thread(over.wait)

    beside = threading.Thread(target=lambda: asyncio.run(clients()))
    beside.start()
    try:
        assert ready.wait(180)
        for name, (situation, words) in SHOWN.items():
            page.goto(f"{broker.address}/groups/{quote(name)}-readers")
            row = page.locator(f'[data-panel="verdict"] [data-verdict="{situation.__name__}"]')
            expect(row).to_be_visible()
            expect(row).to_contain_text(re.compile(words.replace("TOPIC", re.escape(name))))
            expect(row).to_have_attribute("data-tone", "warn" if situation is filter_rejects_all else "bad")
            disagree = page.locator('[data-panel="subscriptions"] [data-part="disagree"]')
            expect(disagree).to_be_visible(visible=situation is subscriptions_disagree)
        page.goto(f"{broker.address}/groups")
        expect(page.locator('[data-group-row="fails-page-readers"] .state-cell')).to_have_text("✖stalled")
    finally:
        over.set()
        beside.join(60)
