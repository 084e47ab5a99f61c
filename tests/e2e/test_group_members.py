"""WebSocket consumers as members of a group, with a real broker and on the real pages."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from playwright.sync_api import Page, expect
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tests.e2e.conftest import Broker


class Member:
    """One WebSocket that subscribes to a topic as a member of a group, whose name is ``group_of`` it."""

    def __init__(self, socket: ClientConnection, topic: str) -> None:
        self._socket = socket
        self._topic = topic

    async def send(self, **frame: Any) -> None:
        await self._socket.send(json.dumps(frame))

    async def receive(self, kind: str) -> dict[str, Any]:
        """The next frame of this kind. Skips others, but fails on an unexpected problem."""
        async with asyncio.timeout(60):
            while True:
                frame: dict[str, Any] = json.loads(await self._socket.recv())
                assert frame["type"] != "problem" or kind == "problem", frame
                if frame["type"] == kind:
                    return frame

    async def queues(self) -> list[int]:
        """Its queues of the topic, from the next ``assigned`` frame."""
        assigned = await self.receive("assigned")
        return [queue["queue_id"] for queue in assigned["queues"] if queue["topic"] == self._topic]

    async def message(self) -> dict[str, Any]:
        return await self.receive("message")

    async def ack(self, message: dict[str, Any]) -> None:
        await self.send(
            type="ack",
            id=1,
            offsets=[{"topic": message["topic"], "queue_id": message["queue_id"], "offset": message["queue_offset"]}],
        )


def group_of(topic: str) -> str:
    return f"{topic}-readers"


@asynccontextmanager
async def member(broker: Broker, topic: str, client_id: str, permits: int = 100) -> AsyncIterator[Member]:
    address = broker.address.replace("http", "ws", 1) + "/ws/v1/consumer"
    async with connect(address, subprotocols=[Subprotocol("rmq.v1.json")]) as socket:
        client = Member(socket, topic)
        await client.send(type="hello", client_id=client_id)
        await client.send(type="subscribe", id=1, topic=topic, group=group_of(topic), **{"from": "first"})
        await client.send(type="permit", id=1, n=permits)
        yield client


def offsets(broker: Broker, topic: str) -> dict[int, int]:
    answer = broker.call("GET", f"/api/v1/groups/{group_of(topic)}/offsets?topic={topic}")
    return {entry["queue_id"]: entry["offset"] for entry in answer["offsets"]}


async def test_members_share_queues_commit_and_take_over(broker: Broker) -> None:
    call = asyncio.to_thread
    await call(broker.call, "PUT", "/api/v1/topics/shared", {"queues": 4})
    async with member(broker, "shared", "shared-a") as first:
        assert await first.queues() == [0, 1, 2, 3]
        async with member(broker, "shared", "shared-b") as second:
            assert (await second.queues(), await first.queues()) == ([2, 3], [0, 1])
            await call(broker.publish, "shared", "one", queue_id=2)
            message = await second.message()
            assert (message["body"], message["queue_offset"]) == ("one", 0)
            await second.ack(message)
            await call(broker.publish, "shared", "two", queue_id=2)
            assert (await second.message())["body"] == "two"  # never acknowledged
        assert await first.queues() == [0, 1, 2, 3]
        taken_over = await first.message()
        assert (taken_over["body"], taken_over["queue_offset"]) == ("two", 1)
        assert (await call(offsets, broker, "shared"))[2] == 1
        await first.ack(taken_over)
        await first.send(type="unsubscribe", id=1)
        await first.receive("unsubscribed")
        assert (await call(offsets, broker, "shared"))[2] == 2
        detail = await call(broker.call, "GET", "/api/v1/groups/shared-readers")
        assert detail["members"] == [] and "held" not in {queue["state"] for queue in detail["queues"]}


async def test_a_nacked_message_is_redelivered_by_the_retry_topic(broker: Broker) -> None:
    call = asyncio.to_thread
    await call(broker.publish, "retried", "difficult", tag="A")
    async with member(broker, "retried", "retried-a") as only:
        message = await only.message()
        await only.send(type="nack", id=1, topic="retried", queue_id=0, offset=message["queue_offset"], delay_level=1)
        again = await only.message()
        assert (again["topic"], again["body"], again["reconsume_times"]) == ("%RETRY%retried-readers", "difficult", 1)
        assert again["properties"]["RETRY_TOPIC"] == "retried"
        await only.ack(again)
        await only.send(type="unsubscribe", id=1)
        await only.receive("unsubscribed")
    committed = await call(broker.call, "GET", "/api/v1/groups/retried-readers/offsets")
    assert {(entry["topic"], entry["queue_id"]): entry["lag"] for entry in committed["offsets"]}[
        "%RETRY%retried-readers", 0
    ] == 0


async def test_a_client_id_belongs_to_one_member(broker: Broker) -> None:
    await asyncio.to_thread(broker.publish, "claimed", "x")
    async with member(broker, "claimed", "same") as first:
        await first.queues()
        async with member(broker, "claimed", "same") as second:
            problem = await second.receive("problem")
            assert (problem["status"], problem["errors"][0]["pointer"]) == (409, "/client_id")


async def test_the_api_lists_members_and_their_join_events(broker: Broker) -> None:
    await asyncio.to_thread(broker.call, "PUT", "/api/v1/topics/listed", {"queues": 2})
    async with member(broker, "listed", "listed-a") as first, member(broker, "listed", "listed-b", permits=1) as second:
        await first.queues()
        await second.queues()
        clients = await asyncio.to_thread(broker.call, "GET", "/api/v1/clients?group=listed-readers")
        assert [
            (client["client_id"], client["protocol"], client["consumer_groups"]) for client in clients["clients"]
        ] == [("listed-a", "websocket", ["listed-readers"]), ("listed-b", "websocket", ["listed-readers"])]
        detail = await asyncio.to_thread(broker.call, "GET", "/api/v1/groups/listed-readers")
        shares = {
            entry["client_id"]: [queue["queue_id"] for queue in entry["queues"] if queue["topic"] == "listed"]
            for entry in detail["assignment"]
        }
        assert shares == {"listed-a": [0], "listed-b": [1]}
        snapshot = await asyncio.to_thread(broker.call, "GET", "/api/v1/snapshot")
        joined = [
            event["client_id"]
            for event in snapshot["client_events"]
            if event["type"] == "group_member_joined" and event["group"] == "listed-readers"
        ]
        assert joined == ["listed-a", "listed-b"]


def test_the_live_page_links_to_the_group_and_its_members(broker: Broker, page: Page) -> None:
    broker.call("PUT", "/api/v1/topics/seen", {"queues": 2})
    ready, over = threading.Event(), threading.Event()

    async def members() -> None:
        async with AsyncExitStack() as stack:
            for name in ("web-a", "web-b", "web-c"):
                await (await stack.enter_async_context(member(broker, "seen", name))).queues()
            ready.set()
            await asyncio.to_thread(over.wait)

    # Playwright's synchronous side counts as this thread's event loop, so the members have a thread of their own.
    beside = threading.Thread(target=lambda: asyncio.run(members()))
    beside.start()
    try:
        assert ready.wait(120)
        look(page)
    finally:
        over.set()
        beside.join(60)


def look(page: Page) -> None:
    page.locator('[data-panel="holds"] [data-hold-id]', has_text="seen-readers").first.get_by_role("link").click()
    expect(page.get_by_role("heading", name="seen-readers")).to_be_visible()
    expect(page.locator('[data-group-queue="seen@0"]')).to_have_attribute("data-state", "held")
    expect(page.locator('[data-member="web-c"] .has-cell')).to_have_text("no queue")
    expect(page.locator('[data-panel="verdict"]')).to_contain_text("3 members for 2 queues: web-c has no queue.")
    expect(page.locator('[data-event="group_member_joined"]')).to_have_count(3)
    page.locator('[data-member="web-a"]').get_by_role("link").click()
    expect(page.locator('[data-client="web-a"] .kind-cell')).to_have_text("WebSocket")
