"""A WebSocket that subscribes, in one group with the stock Java and Go clients: they share the queues alike."""

import asyncio
import json
import tempfile
import urllib.error
import urllib.request
from contextlib import ExitStack
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tests.compat import go_program, java_program
from tests.compat.conftest import needs
from tests.compat.glassmq_broker import Address
from tests.compat.program import running_client

SECONDS = 120
GROUP, TOPIC, QUEUES = "web-members", "WebMembers", 6


def api(web: str, method: str, path: str, body: Any = None) -> Any:
    """The answer, or the problem, as JSON."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(web + path, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as problem:
        return json.load(problem)


async def hear(socket: ClientConnection, kind: str) -> dict[str, Any]:
    """The next frame of this kind; those of others are passed over."""
    async with asyncio.timeout(SECONDS):
        while (frame := json.loads(await socket.recv()))["type"] != kind:
            assert frame["type"] != "problem", frame
    return dict(frame)


async def until_shared(web: str, among: int) -> dict[str, list[int]]:
    """Queues by client, as soon as ``among`` members have each its fair share and ask for it themselves."""
    async with asyncio.timeout(SECONDS):
        while True:
            detail = await asyncio.to_thread(api, web, "GET", f"/api/v1/groups/{GROUP}")
            queues = [queue for queue in detail.get("queues", ()) if queue["topic"] == TOPIC]
            if (
                queues
                and len(detail["members"]) == among
                and all(queue["state"] == "held" and queue["assigned_to"] == queue["polled_by"] for queue in queues)
            ):
                return {
                    entry["client_id"]: [queue["queue_id"] for queue in entry["queues"] if queue["topic"] == TOPIC]
                    for entry in detail["assignment"]
                }
            await asyncio.sleep(0.2)


async def test_java_go_and_web_members_share_one_group(glassmq: Address) -> None:
    needs(java_program.classes)
    go, web = needs(go_program.program), glassmq.web
    await asyncio.to_thread(api, web, "PUT", f"/api/v1/topics/{TOPIC}", {"queues": QUEUES})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home, ExitStack() as stock:
        java = java_program.command(
            "member", "--namesrv", glassmq.namesrv, "--group", GROUP, "--topic", TOPIC, home=home
        )
        for command in (java, [str(go), "member", "-namesrv", glassmq.namesrv, "-group", GROUP, "-topic", TOPIC]):
            stock.enter_context(running_client(command, home))
        alone = await until_shared(web, 2)
        assert sorted(map(len, alone.values())) == [3, 3]
        address = web.replace("http", "ws", 1) + "/ws/v1/consumer"
        async with connect(address, subprotocols=[Subprotocol("rmq.v1.json")]) as socket:
            await socket.send(json.dumps({"type": "hello", "client_id": "a-web-member"}))
            await socket.send(json.dumps({"type": "subscribe", "id": 1, "topic": TOPIC, "group": GROUP}))
            await socket.send(json.dumps({"type": "permit", "id": 1, "n": 100}))
            assigned = await hear(socket, "assigned")
            shares = await until_shared(web, 3)
            mine = [queue["queue_id"] for queue in assigned["queues"] if queue["topic"] == TOPIC]
            assert mine == shares["a-web-member"]
            assert sorted(map(len, shares.values())) == [2, 2, 2]
            languages = {
                client["language"]: client["version"]
                for client in (await asyncio.to_thread(api, web, "GET", f"/api/v1/clients?group={GROUP}"))["clients"]
            }
            assert languages == {"JAVA": "5.4.0", "GO": "4.5.2", "HTTP": ""}
            for queue_id in range(QUEUES):
                await asyncio.to_thread(
                    api, web, "POST", f"/api/v1/topics/{TOPIC}/messages", {"body": str(queue_id), "queue_id": queue_id}
                )
            assert sorted([int((await hear(socket, "message"))["body"]) for _ in mine]) == mine
        assert await until_shared(web, 2) == alone
