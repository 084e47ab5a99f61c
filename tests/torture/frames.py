"""Mutated frames on all ports of a real broker: ``python -m tests.torture.frames --frames 10000000``.

The ports are the broker's for RocketMQ's clients, the one two below it for old clients, the name server's, and the
web's with HTTP and both WebSockets. A frame is a valid one with fields, bodies or bytes changed. Many frames are
written at once. A batch ends with a valid request, whose answer says that the broker has read everything, or with bytes
that are no frame, which must end the connection.

Nothing of it may cause a traceback or end a process. Between rounds, when no client is connected, memory, descriptors
and threads are measured; they must be flat. Requests that create or remove topics and groups are rare, and what they
create is removed after each round, because a topic takes memory by right.
"""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from urllib.parse import quote

import httpx
import msgspec
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from broker_core.codes import RequestCode as Q
from broker_core.remoting.frame_decoder import FrameDecoder
from broker_core.remoting.remoting_command import RemotingCommand, RemotingProtocolError
from tests.broker_core.remoting.test_frame_decoder import spoil
from tests.broker_core.server.test_spoiled_requests import BODIES, VALUES
from tests.compat.glassmq_broker import GlassMQ
from tests.fakes.remoting import EXAMPLES, frame, java
from tests.torture.proof import SLACK, Proof, broker_state, http_client, parser, port_of, running

SHARES = {"broker": 0.70, "old_clients": 0.10, "name_server": 0.17, "consumer": 0.015, "events": 0.01, "http": 0.005}
"""Which part of all frames a door gets. The web process reads some thousands a second, the others tens of thousands."""
ROUND, BATCH, HTTP_BATCH, LANES = 50_000, 250, 16, 4
ANSWER_SECONDS = 120
LAST = 0x7FFFFFF0
"""The opaque of the valid request at the end of a batch."""
OPTIONS = ("autoCreateTopicEnable=false", "autoCreateSubscriptionGroup=false", "mappedFileSizeCommitLog=67108864")

Examples = Mapping[int, tuple[dict[str, str], bytes]]
KV = {"namespace": "ns", "key": "k", "value": "v"}
BROKER = {
    "brokerName": "broker-x",
    "brokerAddr": "127.0.0.1:1",
    "clusterName": "C",
    "haServerAddr": "",
    "brokerId": "0",
}
NAME_SERVER_EXAMPLES: Examples = {
    Q.GET_KV_CONFIG: (KV, b""),
    Q.DELETE_KV_CONFIG: (KV, b""),
    Q.GET_ROUTEINFO_BY_TOPIC: ({"topic": "T", "acceptStandardJsonOnly": "true"}, b""),
    Q.GET_BROKER_CLUSTER_INFO: ({}, b""),
    Q.GET_KVLIST_BY_NAMESPACE: ({"namespace": "ns"}, b""),
    Q.GET_TOPICS_BY_CLUSTER: ({"cluster": "DefaultCluster"}, b""),
    Q.GET_NAMESRV_CONFIG: ({}, b""),
    Q.REGISTER_BROKER: (BROKER, b'{"topicConfigSerializeWrapper":{"topicConfigTable":{}},"filterServerList":[]}'),
    Q.UNREGISTER_BROKER: (BROKER, b""),
    Q.QUERY_DATA_VERSION: (BROKER, b'{"counter":1,"timestamp":1}'),
    Q.GET_BROKER_MEMBER_GROUP: ({"brokerName": "broker-a", "clusterName": "C"}, b""),
    Q.BROKER_HEARTBEAT: (BROKER, b""),
    Q.PUT_KV_CONFIG: (KV, b""),
    Q.REGISTER_TOPIC_IN_NAMESRV: ({"topic": "T"}, b'{"queueDatas":[]}'),
}
RARE = {
    Q.UPDATE_AND_CREATE_TOPIC,
    Q.UPDATE_AND_CREATE_TOPIC_LIST,
    Q.DELETE_TOPIC_IN_BROKER,
    Q.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    Q.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    Q.DELETE_SUBSCRIPTIONGROUP,
    Q.CONSUMER_SEND_MSG_BACK,
    Q.UPDATE_CONSUMER_OFFSET,
    Q.CLONE_GROUP_OFFSET,
    Q.UPDATE_BROKER_CONFIG,
    Q.PUT_KV_CONFIG,
    Q.REGISTER_TOPIC_IN_NAMESRV,
}
"""What changes tables that are kept: one request in a thousand."""
HTTP_EXAMPLES = (
    ("POST", "/api/v1/topics/T/messages", '{"body":"x","tag":"TagA","keys":["k"],"properties":{"a":"b"},"queue_id":0}'),
    ("POST", "/api/v1/topics/T/messages", '{"messages":[{"body":"eA==","body_encoding":"base64"},{"body":"y"}]}'),
    ("GET", "/api/v1/topics/T/queues/0/messages?offset=0&wait_ms=0&limit=4&filter=TagA&group=g", ""),
    ("GET", "/api/v1/topics?system=true", ""),
    ("GET", "/api/v1/topics/T", ""),
    ("GET", "/api/v1/topics/T/queues", ""),
    ("GET", "/api/v1/topics/T/queues/0/offset?timestamp_ms=1795267430444", ""),
    ("GET", "/api/v1/messages?topic=T&key=k&limit=4", ""),
    ("GET", "/api/v1/messages/7F0000011170273B018769DF202C0001", ""),
    ("GET", "/api/v1/messages/7F0000011170273B018769DF202C0001/timeline", ""),
    ("GET", "/api/v1/groups", ""),
    ("GET", "/api/v1/groups/g", ""),
    ("GET", "/api/v1/groups/g/offsets", ""),
    ("PUT", "/api/v1/groups/g/offsets", '{"offsets":[{"topic":"T","queue_id":0,"offset":1}]}'),
    ("POST", "/api/v1/groups/g/offsets/reset", '{"topic":"T","to":"min","dry_run":true}'),
    ("GET", "/api/v1/clients?group=g", ""),
    ("GET", "/api/v1/holds?topic=T&limit=4", ""),
    ("GET", "/api/v1/broker", ""),
    ("GET", "/api/v1/snapshot", ""),
    ("GET", "/livez", ""),
    ("GET", "/readyz", ""),
)
CONSUMER_EXAMPLES = (
    '{"type":"pull","id":1,"topic":"T","queue_id":0,"offset":1,"limit":4,"wait_ms":5,"filter":"TagA","group":"g"}',
    '{"type":"cancel","id":1}',
    '{"type":"commit","id":2,"group":"g","topic":"T","queue_id":0,"offset":2}',
    '{"type":"publish","id":3,"topic":"T","body":"x","tag":"TagA","queue_id":0}',
    '{"type":"publish","id":3,"topic":"T","messages":[{"body":"x"},{"body":"eA==","body_encoding":"base64"}]}',
    '{"type":"ping","id":4}',
    '{"type":"subscribe","id":"s","topic":"T","group":"g","filter":"TagA || TagB","from":"first"}',
    '{"type":"permit","id":"s","n":2}',
    '{"type":"ack","id":"s","offsets":[{"topic":"T","queue_id":0,"offset":7},3]}',
    '{"type":"nack","id":"s","topic":"T","queue_id":1,"offset":3,"delay_level":0}',
    '{"type":"unsubscribe","id":"s"}',
    '{"type":"hello","client_id":"c"}',
)
EVENTS_EXAMPLES = (
    '{"type":"snapshot"}',
    '{"type":"subscribe","panels":["holds","queues","wakeups","counters","clients"],"topic":"T","group":"g"}',
    '{"type":"ping","id":1}',
)
SHORT_VALUES = [value for value in VALUES if len(value) < 1000]


class Mutator:
    """Makes spoiled frames out of valid ones; a seed always makes the same."""

    def __init__(self, seed: str, examples: Examples) -> None:
        self.chance = Random(seed)
        self._examples = examples
        self._common = [code for code in examples if code not in RARE]
        self._rare = [code for code in examples if code in RARE]

    def remoting_frame(self) -> bytes:
        """One frame of RocketMQ's protocol; one in a hundred has bytes changed anywhere."""
        chance = self.chance
        code = chance.choice(self._rare if self._rare and chance.random() < 0.001 else self._common)
        fields, body = self._examples[code]
        fields = dict(fields)
        for name in chance.choices([*fields], k=chance.randint(0, 3)) if fields else ():
            if chance.random() < 0.3:
                fields.pop(name, None)
            else:
                fields[name] = self._value()
        if body and chance.random() < 0.3:
            spoiled = bytearray(chance.choice(BODIES[:-1]) if chance.random() < 0.3 else body)
            spoil(spoiled, chance)
            body = bytes(spoiled)
        kind = chance.random()
        if kind < 0.02:
            code = chance.choice((0, -1, 3442, 1 << 30))
        if kind > 0.8 and code >= 0:
            data = RemotingCommand.request(code & 0x7FFF, fields, body, opaque=1, serialize_type="ROCKETMQ").encode()
        elif kind > 0.7:
            header = {"code": code, "extFields": fields, "flag": self._number(), "opaque": self._number()}
            data = frame(msgspec.json.encode(header | {"version": self._number()}).decode(), body)
        else:
            data = java(code, fields, body)
        if chance.random() < 0.01:
            spoiled = bytearray(data)
            spoil(spoiled, chance)
            return bytes(spoiled)
        return data

    def remoting_batch(self, last: bytes) -> tuple[bytes, int, bool]:
        """The bytes of a batch, how many frames it has, and whether all are frames; then ``last`` is behind them."""
        frames: list[bytes] = []
        for _ in range(BATCH):
            data = self.remoting_frame()
            frames.append(data)
            decoder = FrameDecoder()
            try:
                decoder.feed(data)
            except RemotingProtocolError:
                return b"".join(frames), len(frames), False
            if decoder.unfinished:  # it would swallow those behind it
                frames[-1] = data[: len(data) // 2]
                return b"".join(frames), len(frames), False
        return b"".join((*frames, last)), len(frames), True

    def json(self, text: str) -> str:
        """A JSON text with values changed or members missing; one in ten has characters changed anywhere."""
        value = msgspec.json.decode(text)
        for _ in range(self.chance.randint(0, 2)):
            self._change(value)
        text = msgspec.json.encode(value).decode()
        if self.chance.random() < 0.1:
            spoiled = bytearray(text.encode())
            spoil(spoiled, self.chance)
            return spoiled.decode("utf-8", "replace")
        return text

    def http_request(self, host: str, *, last: bool) -> bytes:
        """One request; one in ten has bytes changed anywhere."""
        method, path, body = self.chance.choice(HTTP_EXAMPLES)
        if self.chance.random() < 0.5:
            words = path.split("/")
            at = self.chance.randrange(3, len(words)) if len(words) > 3 else -1
            words[at] = quote(self._value(), safe=self.chance.choice(("", "?&=/")))
            path = "/".join(words)
        if body:
            body = self.json(body)
        head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        head += f"Connection: {'close' if last else 'keep-alive'}\r\nContent-Length: {len(body.encode())}\r\n\r\n"
        data = bytearray((head + body).encode("utf-8", "replace"))
        if self.chance.random() < 0.1:
            spoil(data, self.chance)
        return bytes(data)

    def _change(self, value: object) -> None:
        """Change one member of an object, or of one inside it."""
        if not isinstance(value, dict) or not value:
            return
        name = self.chance.choice([*value])
        if isinstance(value[name], list) and value[name] and self.chance.random() < 0.7:
            self._change(value[name][0])
        elif self.chance.random() < 0.2:
            del value[name]
        else:
            value[name] = self.chance.choice((self._value(), self._number(), None, [], {}, True, [self._value()]))

    def _value(self) -> str:
        """Mostly a short text; the longest one would fill the network with itself."""
        return self.chance.choice(VALUES if self.chance.random() < 0.01 else SHORT_VALUES)

    def _number(self) -> int:
        """Mostly one of 32 bits: a larger one makes a frame of RocketMQ's protocol none, which ends its batch."""
        if self.chance.random() < 0.01:
            return self.chance.choice((1 << 31, -(1 << 31) - 1, 1 << 53, (1 << 63) - 1, 1 << 64))
        return self.chance.choice((0, 1, -1, 2, 7, (1 << 31) - 1, -(1 << 31)))


class Attack:
    """Mutated frames for one broker; ``sent`` counts those of each door."""

    def __init__(self, broker: GlassMQ, seed: int) -> None:
        self.sent: Counter[str] = Counter()
        self.problems: list[str] = []
        self._web = broker.address.web
        self._broker_port = port_of(broker.address.broker)
        self._name_server_port = port_of(broker.address.namesrv)
        self._mutators = {
            (door, lane): Mutator(f"{seed} {door} {lane}", NAME_SERVER_EXAMPLES if door == "name_server" else EXAMPLES)
            for door in SHARES
            for lane in range(LANES)
        }

    async def round(self, frames: int) -> None:
        """Send about so many to all doors, and return when all of them are read."""
        targets = {door: self.sent[door] + frames * share for door, share in SHARES.items()}
        async with asyncio.TaskGroup() as group:
            for (door, _), mutator in self._mutators.items():
                group.create_task(self._send(door, mutator, targets[door]))

    async def _send(self, door: str, mutator: Mutator, target: float) -> None:
        while self.sent[door] < target:
            async with asyncio.timeout(ANSWER_SECONDS):
                match door:
                    case "broker":
                        await self._remoting(door, mutator, self._broker_port)
                    case "old_clients":
                        await self._remoting(door, mutator, self._broker_port - 2)
                    case "name_server":
                        await self._remoting(door, mutator, self._name_server_port)
                    case "http":
                        await self._http(mutator)
                    case _:
                        await self._websocket(door, mutator)

    async def _remoting(self, door: str, mutator: Mutator, port: int) -> None:
        if door == "name_server":
            last = java(Q.GET_NAMESRV_CONFIG, {}, opaque=LAST)
        else:
            last = java(Q.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"}, opaque=LAST)
        data, count, whole = mutator.remoting_batch(last)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        decoder, answered = FrameDecoder(), False
        with suppress(ConnectionError):
            writer.write(data)
            if not whole:
                writer.write_eof()
            while not answered and (received := await reader.read(1 << 20)):
                answered = any(command.opaque == LAST for command in decoder.feed(received))
        if whole and not answered:
            self.problems.append(f"{door}: the connection was closed although everything was a frame")
        writer.transport.abort()
        self.sent[door] += count

    async def _http(self, mutator: Mutator) -> None:
        host = self._web.removeprefix("http://")
        requests = [mutator.http_request(host, last=number == HTTP_BATCH - 1) for number in range(HTTP_BATCH)]
        reader, writer = await asyncio.open_connection(*host.split(":"))
        with suppress(ConnectionError):
            writer.write(b"".join(requests))
            writer.write_eof()
            while await reader.read(1 << 20):
                pass
        writer.transport.abort()
        self.sent["http"] += len(requests)

    async def _websocket(self, door: str, mutator: Mutator) -> None:
        examples = CONSUMER_EXAMPLES if door == "consumer" else EVENTS_EXAMPLES
        count = BATCH if door == "consumer" else 20
        with suppress(ConnectionClosed):
            async with connect(
                f"{self._web.replace('http', 'ws')}/ws/v1/{door}",
                subprotocols=[Subprotocol("rmq.v1.json")] if door == "consumer" else None,
                max_size=None,
                compression=None,
                close_timeout=5,
            ) as socket:
                for _ in range(count):
                    await socket.send(mutator.json(mutator.chance.choice(examples)))
                    self.sent[door] += 1
                await socket.send('{"type":"ping","id":"last"}')
                while '"pong"' not in (answer := str(await socket.recv())) or '"last"' not in answer:
                    pass
                if mutator.chance.random() < 0.5:
                    socket.transport.write(mutator.chance.randbytes(mutator.chance.randint(1, 40)))
                    self.sent[door] += 1


async def clean_up(client: httpx.AsyncClient) -> None:
    """Remove the topics and groups that frames created, and make sure that T and g are there."""
    for kind, kept in (("topic", "T"), ("group", "g")):
        answer = (await client.get(f"/api/v1/{kind}s", params={"system": False} if kind == "topic" else {})).json()
        for name in {entry.get("name", entry.get(kind)) for entry in answer[f"{kind}s"]} - {kept, None}:
            await client.delete(f"/api/v1/{kind}s/{quote(name, safe='')}")
    (await client.put("/api/v1/topics/T", json={"queues": 4})).raise_for_status()


async def attack(proof: Proof, broker: GlassMQ, folder: Path, *, frames: int, minutes: float, seed: int) -> None:
    """Rounds of frames until there were enough, or so many minutes are over; then a message must be accepted."""
    pids, attackers = broker.processes, Attack(broker, seed)
    end, samples = time.monotonic() + minutes * 60, []
    async with http_client(broker) as client:
        await clean_up(client)
        while attackers.sent.total() < frames and time.monotonic() < end and not proof.violations:
            await attackers.round(min(ROUND, frames - attackers.sent.total()))
            await clean_up(client)
            samples.append(broker_state(broker, folder)._asdict())
            print(f"{attackers.sent.total()} frames {samples[-1]}", file=sys.stderr, flush=True)
            for problem in attackers.problems:
                proof.check(False, problem)
            proof.check_log(broker)
        answer = await client.post("/api/v1/topics/T/messages", json={"body": "after"})
        proof.check(answer.status_code == httpx.codes.CREATED, f"afterwards a message is refused: {answer.text}")
    proof.check(broker.processes == pids, "a process of the broker ended and was started again")
    proof.figures |= {"sent": attackers.sent.total(), "by_door": dict(attackers.sent)}
    proof.check_flat(samples, SLACK)


def main() -> int:
    arguments = parser(__doc__ or "", frames=10_000_000, minutes=24 * 60.0).parse_args()
    proof = Proof("frames", arguments)
    with running(*OPTIONS) as (broker, folder):
        asyncio.run(attack(proof, broker, folder, **vars(arguments)))
    return proof.finish()


if __name__ == "__main__":
    sys.exit(main())
