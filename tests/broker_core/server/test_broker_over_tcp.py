"""A whole broker over TCP: engine, runner, sessions and server, and clients made of frames."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from broker_core import commands as c
from broker_core.clock import SystemClock
from broker_core.engine import Engine
from broker_core.formats.commit_log_record import CommitLogRecord, decode_all
from broker_core.formats.message_id import UniqKeyGenerator, decode_offset_message_id
from broker_core.options import Options
from broker_core.remoting.frame_decoder import FrameDecoder
from broker_core.remoting.remoting_command import RemotingCommand, SerializeType
from broker_core.remoting.requests import Identity, decode
from broker_core.server.broker_session import BrokerSessions
from broker_core.server.engine_runner import EngineRunner
from broker_core.server.remoting_server import RemotingServer
from broker_core.server.tls import TlsOptions
from broker_core.store.files import RealFiles
from tests.fakes.engine import SMALL, Bench
from tests.fakes.ports import unused_ports
from tests.fakes.remoting import BATCH_OF_ONE, EXAMPLES, HEARTBEAT, LOCK, PEER, PULL, SEND_V2

PATIENCE = 60.0
NAMES = (
    "topic",
    "consumerGroup",
    "group",
    "producerGroup",
    "clientID",
    "clientId",
    "defaultTopic",
    "a",
    "b",
    "c",
    "key",
    "msgId",
    "originTopic",
    "clientAddr",
    "groupName",
    "srcGroup",
    "destGroup",
    "compareGroup",
    "statsKey",
)
EVIL = ["", ".", "..", "../../etc/passwd", "a/b", "a\\b", "a\0b", "a b", "\u00e9", "x" * 300, "%2e%2e/", "a\nb", "a@b"]


class Client:
    """A client that writes frames and reads frames. ``asked`` are the broker's requests to it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.asked: list[RemotingCommand] = []
        self.kind: SerializeType = "JSON"
        self._answers: dict[int, asyncio.Future[RemotingCommand]] = {}
        self._opaque = 0
        self._reading = asyncio.create_task(self._read(reader))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        decoder = FrameDecoder()
        while data := await reader.read(1 << 20):
            for command in decoder.feed(data):
                if command.is_response:
                    self._answers.pop(command.opaque).set_result(command)
                else:
                    self.asked.append(command)

    def begin(
        self, code: int, fields: dict[str, str] | None = None, body: bytes = b"", oneway: bool = False
    ) -> "asyncio.Future[RemotingCommand]":
        """Send a request; its answer to come."""
        self._opaque += 1
        answer: asyncio.Future[RemotingCommand] = asyncio.get_running_loop().create_future()
        if not oneway:
            self._answers[self._opaque] = answer
        self.writer.write(
            RemotingCommand.request(
                code, fields or {}, body, opaque=self._opaque, oneway=oneway, serialize_type=self.kind
            ).encode()
        )
        return answer

    async def ask(self, code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> RemotingCommand:
        return await asyncio.wait_for(self.begin(code, fields, body), PATIENCE)

    async def send(self, body: bytes, **fields: str) -> RemotingCommand:
        answer = await self.ask(310, SEND_V2 | fields, body)
        assert answer.code == 0, answer.remark
        return answer

    def pull(self, offset: int, **fields: str) -> "asyncio.Future[RemotingCommand]":
        """A pull of queue 1 that brings its own subscription and may be held for 15 s."""
        return self.begin(11, PULL | {"queueOffset": str(offset), "sysFlag": "6", "subscription": "*"} | fields)

    async def beat(self, client_id: str, group: str = "g") -> RemotingCommand:
        body = HEARTBEAT.replace(b"10.0.0.2@1", client_id.encode()).replace(
            b'"groupName":"g"', b'"groupName":"%b"' % group.encode()
        )
        return await self.ask(34, {}, body)

    async def members(self, group: str = "g") -> list[str]:
        answer = await self.ask(38, {"consumerGroup": group})
        return list(msgspec.json.decode(answer.body)["consumerIdList"]) if answer.code == 0 else []

    async def next_request(self, code: int) -> RemotingCommand:
        """The broker's next request of this kind."""
        await until(lambda: any(command.code == code for command in self.asked))
        found = next(command for command in self.asked if command.code == code)
        self.asked.remove(found)
        return found

    async def close(self) -> None:
        self.writer.close()
        await self._reading


class Broker:
    def __init__(self, runner: EngineRunner, port: int) -> None:
        self.runner = runner
        self.port = port
        self.clients: list[Client] = []

    async def connect(self) -> Client:
        self.clients.append(Client(*await asyncio.open_connection("127.0.0.1", self.port)))
        return self.clients[-1]

    @property
    def holds(self) -> int:
        return self.runner.engine.hold_count


@asynccontextmanager
async def running(folder: Path, **options: Any) -> AsyncIterator[Broker]:
    (port,) = unused_ports(1)
    chosen = Options(**(SMALL | {"listen_port": port} | options))
    keys, clock = UniqKeyGenerator("127.0.0.1", 1, random.Random(1)), SystemClock()
    runner = EngineRunner(lambda: Engine.open(folder, chosen, RealFiles(), clock, keys.next), clock)
    await runner.start()
    sessions = BrokerSessions(runner, Identity(chosen.broker_name, chosen.broker_id))
    server = RemotingServer(sessions.make_session, "127.0.0.1", [port], tls=TlsOptions(mode="disabled"))
    await server.start()
    broker = Broker(runner, port)
    try:
        yield broker
    finally:
        server.stop_listening()
        await runner.stop()
        await server.stop()
        await asyncio.gather(*(client.close() for client in broker.clients))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.001)


def records(answer: RemotingCommand) -> list[CommitLogRecord]:
    return decode_all(answer.body)


@pytest.mark.parametrize("kind", ["JSON", "ROCKETMQ"])
async def test_send_and_pull(tmp_path: Path, kind: SerializeType) -> None:
    async with running(tmp_path) as broker:
        client = await broker.connect()
        client.kind = kind
        sent = await client.send(b"hello")
        assert sent.ext_fields["queueId"] == "1" and sent.ext_fields["queueOffset"] == "0"
        place = decode_offset_message_id(sent.ext_fields["msgId"])
        assert (place.host, place.port) == ("127.0.0.1", broker.port)
        found = await client.pull(0)
        (record,) = records(found)
        assert (found.code, found.remark, found.ext_fields["nextBeginOffset"]) == (0, "FOUND", "1")
        assert (record.topic, record.body, record.queue_id, record.born_timestamp, record.physical_offset) == (
            "T",
            b"hello",
            1,
            1_700_000_000_000,
            place.physical_offset,
        )
        assert (record.born_host, record.born_port) == client.writer.get_extra_info("sockname")
        by_id = await client.ask(33, {"offset": str(place.physical_offset)})
        assert by_id.body == found.body
        by_key = await client.ask(
            12, EXAMPLES[12][0] | {"key": "0A00000200010000000000000000", "_UNIQUE_KEY_QUERY": "true"}
        )
        assert by_key.body == found.body and by_key.ext_fields["indexLastUpdatePhyoffset"] == str(place.physical_offset)


async def test_a_held_pull_is_woken_while_its_connection_sends_other_requests(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        consumer, producer = await broker.connect(), await broker.connect()
        await producer.send(b"one")
        held = consumer.pull(1)
        others = [consumer.pull(0, queueId=queue) for queue in ("0", "2", "3")]
        await until(lambda: broker.holds == 4)
        assert (await consumer.ask(30, {"topic": "T", "queueId": "1"})).ext_fields == {"offset": "1"}
        await producer.send(b"two")
        woken = await asyncio.wait_for(held, PATIENCE)
        assert woken.code == 0 and [record.body for record in records(woken)] == [b"two"]
        assert broker.holds == 3 and not any(other.done() for other in others)


async def test_a_held_pull_ends_with_its_time_and_with_its_connection(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        consumer, other = await broker.connect(), await broker.connect()
        await other.send(b"one")
        late = await asyncio.wait_for(consumer.pull(1, suspendTimeoutMillis="30"), PATIENCE)
        assert (late.code, late.remark) == (19, "OFFSET_OVERFLOW_ONE")
        assert {
            name: late.ext_fields[name]
            for name in ("nextBeginOffset", "minOffset", "maxOffset", "suggestWhichBrokerId")
        } == {"nextBeginOffset": "1", "minOffset": "0", "maxOffset": "1", "suggestWhichBrokerId": "0"}
        moved = await consumer.pull(5)
        assert (moved.code, moved.ext_fields["nextBeginOffset"]) == (21, "1")
        consumer.pull(1)
        await until(lambda: broker.holds == 1)
        await consumer.close()
        await until(lambda: broker.holds == 0)


async def test_stopping_answers_those_who_wait(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        consumer = await broker.connect()
        await consumer.send(b"one")
        held = consumer.pull(1)
        await until(lambda: broker.holds == 1)
    assert held.result().code == 19


async def test_a_flood_in_one_write_is_answered_one_by_one(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.connect()
        answers = [client.begin(310, SEND_V2, b"%d" % number) for number in range(500)]
        offsets = [int((await answer).ext_fields["queueOffset"]) for answer in answers]
        assert offsets == list(range(500))


async def test_batches_one_way_sends_and_refusals(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.connect()
        batch = await client.ask(320, SEND_V2 | {"m": "true"}, BATCH_OF_ONE * 3)
        assert len(batch.ext_fields["msgId"].split(",")) == 3 and batch.ext_fields["queueOffset"] == "0"
        client.begin(310, SEND_V2, b"four", oneway=True)
        assert (await client.ask(30, {"topic": "T", "queueId": "1"})).ext_fields == {"offset": "4"}
        for fields, body, code in (
            ({"b": "a/b"}, b"x", 29),
            ({"e": "99"}, b"x", 29),
            ({"b": "SCHEDULE_TOPIC_XXXX"}, b"x", 16),
            ({"b": "new", "c": "nothing"}, b"x", 17),
            ({"i": "nothing"}, b"x", 13),
            ({"g": "soon"}, b"x", 1),
            ({"m": "true"}, BATCH_OF_ONE[:-1], 13),
            ({}, bytes((4 << 20) + 1), 13),
        ):
            refused = await client.ask(310, SEND_V2 | fields, body)
            assert refused.code == code and refused.remark, (fields, refused)
        assert (await client.ask(3442)).remark == " request type 3442 not supported"


async def test_members_of_a_group_are_notified_of_each_other(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        one, two = await broker.connect(), await broker.connect()
        assert (await one.ask(38, {"consumerGroup": "g"})).code == 1
        first = await one.beat("c1")
        assert first.ext_fields == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
        assert await one.members() == ["c1"]
        assert (await one.next_request(40)).ext_fields == {"consumerGroup": "g"}
        await two.beat("c2")
        assert await two.members() == ["c1", "c2"]
        await one.next_request(40)
        await two.next_request(40)
        await two.close()
        await one.next_request(40)
        assert await one.members() == ["c1"]
        assert (await one.ask(35, {"clientID": "c1", "consumerGroup": "g"})).code == 0
        assert await one.members() == []


async def test_offsets(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.connect()
        for number in range(3):
            await client.send(b"%d" % number)
        queue = {"topic": "T", "queueId": "1"}
        mine = queue | {"consumerGroup": "g"}
        await client.beat("c1")
        assert (await client.ask(14, mine | {"setZeroIfNotFound": "false"})).code == 22
        assert (await client.ask(15, mine | {"commitOffset": "-1"})).code == 0
        assert (await client.ask(14, mine | {"setZeroIfNotFound": "false"})).code == 22
        client.begin(15, mine | {"commitOffset": "2"}, oneway=True)
        assert (await client.ask(14, mine)).ext_fields == {"offset": "2"}
        found = await client.pull(0, sysFlag="7", commitOffset="1")
        times = [record.store_timestamp for record in records(found)]
        assert (await client.ask(14, mine)).ext_fields == {"offset": "1"}
        assert (await client.ask(31, queue)).ext_fields == {"offset": "0"}
        assert (await client.ask(29, queue | {"timestamp": str(times[0])})).ext_fields == {"offset": "0"}
        assert (await client.ask(29, queue | {"timestamp": str(times[-1] + 1)})).ext_fields == {"offset": "3"}
        assert (await client.ask(32, queue)).ext_fields == {"timestamp": str(times[0])}
        assert (await client.ask(31, {"topic": "T", "queueId": "99"})).code != 0
        assert (await client.ask(15, mine | {"topic": "unknown", "commitOffset": "2"})).code == 17


async def test_locks_are_one_clients(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.connect()
        await client.send(b"one")
        other = LOCK.replace(b"10.0.0.2@1", b"other")
        locked = b'{"lockOKMQSet":[{"brokerName":"broker-a","queueId":0,"topic":"T"}]}'
        assert (await client.ask(41, {}, LOCK)).body == locked
        assert (await client.ask(41, {}, other)).body == b'{"lockOKMQSet":[]}'
        assert (await client.ask(42, {}, LOCK)).code == 0
        assert (await client.ask(41, {}, other)).body == locked


async def test_a_message_that_a_group_cannot_consume_becomes_a_dead_letter(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.connect()
        await client.beat("c1")
        place = decode_offset_message_id((await client.send(b"poison")).ext_fields["msgId"])
        back = {"group": "g", "offset": str(place.physical_offset), "delayLevel": "-1", "originTopic": "T"}
        assert (await client.ask(36, back)).code == 0
        (dead,) = records(await client.pull(0, topic="%DLQ%g", queueId="0"))
        assert dead.body == b"poison" and dead.reconsume_times == 1
        assert (await client.ask(36, back | {"offset": "1"})).code == 1


async def test_a_tools_question_reaches_the_client_and_its_answer_the_tool(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        tool, client = await broker.connect(), await broker.connect()
        await client.beat("c1")
        sent = await client.send(b"hello")
        question = tool.begin(
            309, {"consumerGroup": "g", "clientId": "c1", "topic": "T", "msgId": sent.ext_fields["msgId"]}
        )
        asked = await client.next_request(309)
        assert asked.ext_fields["brokerName"] == "broker-a" and records(asked)[0].body == b"hello"
        client.writer.write(asked.response(0, "", {}, b'{"consumeResult":"CR_SUCCESS"}').encode())
        assert (await asyncio.wait_for(question, PATIENCE)).body == b'{"consumeResult":"CR_SUCCESS"}'
        unknown = await tool.ask(307, {"consumerGroup": "g", "clientId": "nobody"})
        assert unknown.code == 1 and "nobody" in unknown.remark


@pytest.mark.parametrize("name", EVIL)
def test_names_get_nowhere(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Every request with every name in it bad: none does harm, and none is a surprise to the engine."""
    bench = Bench()
    bench.send("T", b"hello", queue_id=1)
    bench.submit(decode(RemotingCommand.request(11, *EXAMPLES[11], opaque=1), PEER))  # creates the group
    for code, (fields, body) in EXAMPLES.items():
        bodies = [body.replace(b'"%b"' % word, msgspec.json.encode(name)) for word in (b"T", b"g", b"10.0.0.2@1")]
        for changed, text in [
            *((fields | {field: name}, body) for field in NAMES if field in fields),
            *((fields, text) for text in bodies if text != body),
        ]:
            decoded = decode(RemotingCommand.request(code, changed, text, opaque=1), PEER)
            for command in decoded if isinstance(decoded, list) else [decoded]:
                if isinstance(command, c.Command):
                    bench.submit(command)
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []
    context = bench.context
    topics = {config.topic_name for config in context.topics}
    groups = {*context.offsets.groups(), *context.subscription_groups.as_table()["subscriptionGroupTable"]}
    assert "T" in topics and "g" in groups and name not in topics | groups
    assert all(".." not in path.parts and (not name or name not in path.parts) for path in bench.files._names)
