"""A topic and a group in some situation at a real broker, the clients that bring it about, and the verdict on it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from broker_core.remoting.remoting_command import RemotingCommand
from tests.e2e.conftest import Broker
from tests.e2e.test_group_members import Member
from tests.fakes.remoting import HEARTBEAT, LOCK, PULL, commands_of, java

PATIENCE_S = 180.0


class Site:
    """A broker, and the topic and group of one situation."""

    def __init__(self, broker: Broker, name: str, environment: dict[str, str]) -> None:
        self.broker = broker
        self.remoting_port = int(environment["GLASSMQ_BROKER_PORT"])
        self.namesrv_port = int(environment["GLASSMQ_NAMESRV_PORT"])
        self.topic = name
        self.group = f"{name}-readers"
        self.broker.call("PUT", f"/api/v1/topics/{name}", {"queues": 1})

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        return await asyncio.to_thread(self.broker.call, method, path, body)

    async def delete(self) -> None:
        """Delete the topic; the answer has no body."""
        with contextlib.suppress(json.JSONDecodeError):
            await self.call("DELETE", f"/api/v1/topics/{self.topic}")

    async def publish_many(self, number: int, body: str = "x") -> None:
        """Publish messages in one request."""
        messages = [{"body": body, "queue_id": 0} for _ in range(number)]
        answer = await self.call("POST", f"/api/v1/topics/{self.topic}/messages", {"messages": messages})
        assert "messages" in answer, answer

    async def set_offset(self, offset: int) -> None:
        """Set the group's offset as an operator does."""
        entry = {"topic": self.topic, "queue_id": 0, "offset": offset}
        answer = await self.call("PUT", f"/api/v1/groups/{self.group}/offsets", {"offsets": [entry]})
        assert "status" not in answer, answer

    async def publish(self, *tags: str) -> None:
        for tag in tags:
            answer = await asyncio.to_thread(self.broker.publish, self.topic, "x", **({"tag": tag} if tag else {}))
            assert "messages" in answer, answer

    @asynccontextmanager
    async def member(self, client_id: str = "", permits: int = 0, **subscribe: Any) -> AsyncIterator[Member]:
        """A WebSocket consumer of the group that has its queues."""
        address = self.broker.address.replace("http", "ws", 1) + "/ws/v1/consumer"
        async with connect(address, subprotocols=[Subprotocol("rmq.v1.json")]) as socket:
            client = Member(socket, self.topic)
            await client.send(type="hello", client_id=client_id or f"{self.topic}-a")
            fields = {"type": "subscribe", "id": 1, "topic": self.topic, "group": self.group, "from": "first"}
            await client.send(**(fields | subscribe))
            if permits:
                await client.send(type="permit", id=1, n=permits)
            await client.receive("assigned")
            yield client

    @asynccontextmanager
    async def stock(self, client_id: str, **heartbeat: Any) -> AsyncIterator["Stock"]:
        """A client that speaks RocketMQ's protocol and is a member of the group."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.remoting_port)
        try:
            client = Stock(reader, writer, self, client_id)
            await client.beat(**heartbeat)
            yield client
        finally:
            writer.close()


class Stock:
    """Requests as RocketMQ's Java client writes them, one after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, site: Site, client_id: str) -> None:
        self._reader, self._writer, self._site, self._client_id = reader, writer, site, client_id
        self._opaque = 0

    async def ask(self, code: int, fields: dict[str, str], body: bytes = b"") -> RemotingCommand:
        self._opaque += 1
        self._writer.write(java(code, fields, body, opaque=self._opaque))
        async with asyncio.timeout(60):
            while True:
                size = await self._reader.readexactly(4)
                (command,) = commands_of(size + await self._reader.readexactly(int.from_bytes(size, "big")))
                if command.is_response and command.opaque == self._opaque:
                    return command

    async def beat(self, topic: str = "", expression: str = "*", expression_type: str = "TAG", **fields: Any) -> None:
        """A heartbeat of a consumer that subscribes to this topic, by default its site's."""
        data = json.loads(HEARTBEAT)
        data["clientID"] = self._client_id
        consumer = data["consumerDataSet"][0]
        consumer |= {"groupName": self._site.group} | fields
        consumer["subscriptionDataSet"][0] |= {
            "topic": topic or self._site.topic,
            "expressionType": expression_type,
            "subString": expression,
            "tagsSet": [],
            "codeSet": [],
        }
        assert (await self.ask(34, {}, json.dumps(data).encode())).code == 0

    async def pull(self, offset: int, **fields: str) -> RemotingCommand:
        """A pull that is answered at once, without a commit."""
        own = {"consumerGroup": self._site.group, "topic": self._site.topic, "queueId": "0", "sysFlag": "0"}
        return await self.ask(11, PULL | own | {"queueOffset": str(offset)} | fields)

    async def commit(self, offset: int) -> None:
        """Pull from this offset, and commit it."""
        await self.pull(offset, sysFlag="1", commitOffset=str(offset))

    async def lock(self, client_id: str) -> None:
        """Lock the queue for this client."""
        body = json.loads(LOCK) | {"clientId": client_id, "consumerGroup": self._site.group}
        body["mqSet"] = [{"brokerName": "broker-a", "queueId": 0, "topic": self._site.topic}]
        assert (await self.ask(41, {}, json.dumps(body).encode())).code == 0


async def verdict(
    site: Site, wanted: str, words: str, patience_ms: int = 1000, state: str = ""
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the answer, the verdict) as soon as the broker has reached this verdict, in these words, and this state, if any.

    " ... " in the words is any text.
    """
    parts = words.split(" ... ")
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while True:
        answer = await site.call("GET", f"/api/v1/groups/{site.group}/verdicts?patience_ms={patience_ms}")
        for one in answer.get("verdicts", []) if state in ("", answer.get("state")) else []:
            if one["id"] == wanted and all(part in one["sentence"] for part in parts):
                return answer, one
        assert asyncio.get_running_loop().time() < deadline, answer
        await asyncio.sleep(0.2)
