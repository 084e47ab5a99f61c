"""A RocketMQ cluster of one name server and one broker, on real ports, whose log is that of an engine in memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from broker_core.codes import RequestCode
from broker_core.commands import MessageQueue
from broker_core.formats import rocketmq_json
from broker_core.remoting import auto_switch_transfer, fastjson
from broker_core.remoting.frame_decoder import FrameDecoder
from broker_core.remoting.ha_transfer import REPORT
from broker_core.remoting.remoting_command import RemotingCommand
from tests.fakes.engine import Bench
from tests.fakes.followed import SEGMENT, handshake, in_controller_mode, log_of, transfers
from tests.fakes.name_server import topic_config


class FakeMaster:
    """``codes`` are the requests it got, ``reports`` what followers reported on its HA port.

    ``running`` has the ConsumerRunningInfo of clients, ``pulled`` the pull offsets of ``offsets``.
    ``config`` and ``answers`` (by code) replace what it says; with ``enableControllerMode`` the HA port speaks the
    protocol of that mode, and ``learners`` are the handshakes. ``spoiled`` is sent by the HA port in place of the log.
    """

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.codes: list[int] = []
        self.reports: list[int] = []
        self.learners: list[tuple[int, ...]] = []
        self.config: dict[str, str] = {}
        self.answers: dict[int, tuple[int, bytes]] = {}
        self.spoiled: bytes | None = None
        self.min_offset = 0
        self.slaves: dict[int, str] = {}
        self.members: dict[str, list[str]] = {}
        self.offsets: dict[str, dict[int, int]] = {}
        self.pulled: dict[str, dict[int, int]] = {}
        self.running: dict[str, dict[str, Any]] = {}
        self.grown = asyncio.Event()
        self.address = ""
        self.ha_port = 0

    def grow(self, *bodies: bytes) -> None:
        """Store messages and send them to followers."""
        self.bench.clock.advance(1)
        self.bench.send("orders", *bodies)
        self.grown.set()

    # --- the name server and the broker

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        decoder = FrameDecoder()
        while data := await reader.read(65_536):
            for request in decoder.feed(data):
                self.codes.append(request.code)
                code, body = self.answers.get(request.code) or self._answer(request)
                writer.write(request.response(code, "no" if code else "", body=body).encode())
        writer.close()

    def _answer(self, request: RemotingCommand) -> tuple[int, bytes]:
        end = self.bench.context.store.appended_offset
        if request.code == RequestCode.GET_BROKER_CONFIG:
            config = {
                "brokerRole": "ASYNC_MASTER",
                "brokerIP2": "127.0.0.1",
                "haListenPort": str(self.ha_port),
                "mappedFileSizeCommitLog": str(SEGMENT),
                "messageDelayLevel": "1s 5s",
            } | self.config
            return 0, "".join(f"{name}={value}\n" for name, value in config.items()).encode()
        if request.code == RequestCode.VIEW_MESSAGE_BY_ID:
            record = self.bench.context.store.look_message_by_offset(int(request.ext_fields["offset"]))
            return (0, record) if record is not None else (1, b"")
        if request.code == RequestCode.GET_CONSUMER_CONNECTION_LIST:
            members = self.members.get(request.ext_fields["consumerGroup"])
            return (206, b"") if members is None else (0, _json(_connections(members)))
        if request.code == RequestCode.GET_CONSUMER_LIST_BY_GROUP:
            listed = self.members.get(request.ext_fields["consumerGroup"])
            return (0, _json({"consumerIdList": listed})) if listed else (1, b"")
        if request.code == RequestCode.GET_CONSUME_STATS:
            return 0, fastjson.encode({"consumeTps": 0.0, "offsetTable": self._consume_stats(request)})
        if request.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            info = self.running.get(request.ext_fields["clientId"])
            stacks = {"jstack": "main\n\tat Listener"} if request.ext_fields["jstackEnable"] == "true" else {}
            return (1, b"") if info is None else (0, fastjson.encode(info | stacks))
        if request.code == RequestCode.GET_TOPIC_STATS_INFO:
            return 0, self._topic_stats(request.ext_fields["topic"])
        table: dict[Any, Any] = {
            RequestCode.GET_BROKER_CLUSTER_INFO: {
                "brokerAddrTable": {
                    "broker-a": {
                        "cluster": "C",
                        "brokerName": "broker-a",
                        "brokerAddrs": {0: self.address} | self.slaves,
                    }
                }
            },
            RequestCode.GET_BROKER_RUNTIME_INFO: {
                "table": {
                    "brokerVersionDesc": "V5_4_0",
                    "commitLogMinOffset": str(self.min_offset if end else -1),
                    "commitLogMaxOffset": str(end),
                }
            },
            RequestCode.GET_ALL_TOPIC_CONFIG: {
                "dataVersion": {"counter": len(self.bench.context.topics.names())},
                "topicConfigTable": {
                    config.topic_name: topic_config(config.topic_name, config.queue_nums)
                    for config in self.bench.context.topics
                },
            },
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: {
                "dataVersion": {"counter": 1},
                "subscriptionGroupTable": {group: {"groupName": group} for group in self.members},
            },
            RequestCode.GET_ALL_CONSUMER_OFFSET: {"offsetTable": self.offsets},
            RequestCode.GET_ALL_DELAY_OFFSET: {"offsetTable": {1: 0}},
        }
        return 0, _json(table[request.code])

    def _consume_stats(self, request: RemotingCommand) -> dict[Any, Any]:
        table: dict[Any, Any] = {}
        for key, offsets in self.offsets.items():
            topic, _, group = key.rpartition("@")
            if group != request.ext_fields["consumerGroup"]:
                continue
            for queue, offset in offsets.items():
                table[MessageQueue(topic=topic, broker_name="broker-a", queue_id=queue)] = {
                    "brokerOffset": self.bench.context.store.max_offset(topic, queue),
                    "consumerOffset": offset,
                    "lastTimestamp": 0,
                    "pullOffset": self.pulled.get(key, {}).get(queue, -1),
                }
        return table

    def _topic_stats(self, topic: str) -> bytes:
        """As RocketMQ writes it: the keys are objects."""
        store, queues = self.bench.context.store, range(self.bench.context.topics.require(topic).read_queue_nums)
        entries = (
            f'{{"brokerName":"broker-a","queueId":{queue},"topic":"{topic}"}}:'
            f'{{"lastUpdateTimestamp":0,"maxOffset":{store.max_offset(topic, queue)},"minOffset":0}}'
            for queue in queues
        )
        return f'{{"offsetTable":{{{",".join(entries)}}},"topicPutTps":0.0}}'.encode()

    # --- the HA port

    @property
    def has_controller(self) -> bool:
        return self.config.get("enableControllerMode") == "true"

    async def replicate(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.has_controller:
            greeting = await reader.readexactly(auto_switch_transfer.HANDSHAKE_REQUEST.size)
            self.learners.append(auto_switch_transfer.HANDSHAKE_REQUEST.unpack(greeting))
            writer.write(handshake())
        position = await self._read_report(reader)
        listening = asyncio.ensure_future(self._take_reports(reader))
        try:
            if self.spoiled is not None:
                writer.write(self.spoiled)
            while self.spoiled is None and not listening.done():
                self.grown.clear()
                log = log_of(self.bench)
                for transfer in transfers(log, position, [100, 0]):
                    writer.write(in_controller_mode(transfer) if self.has_controller else transfer)
                position = len(log)
                await writer.drain()
                waiting = asyncio.ensure_future(self.grown.wait())
                await asyncio.wait([waiting, listening], return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
            await listening
        except ConnectionError:
            pass
        finally:
            listening.cancel()
            writer.close()

    async def _take_reports(self, reader: asyncio.StreamReader) -> None:
        with suppress(asyncio.IncompleteReadError):
            while True:
                await self._read_report(reader)

    async def _read_report(self, reader: asyncio.StreamReader) -> int:
        report = auto_switch_transfer.REPORT if self.has_controller else REPORT
        *_, offset = report.unpack(await reader.readexactly(report.size))
        self.reports.append(offset)
        return int(offset)


def _json(value: Any) -> bytes:
    return rocketmq_json.encode(value).encode()


def _connections(members: list[str]) -> dict[str, Any]:
    return {
        "connectionSet": [
            {"clientId": member, "clientAddr": "10.0.0.9:1", "language": "JAVA", "version": 493} for member in members
        ],
        "subscriptionTable": {
            "orders": {"topic": "orders", "subString": "*", "expressionType": "TAG", "subVersion": 1}
        },
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
    }


@asynccontextmanager
async def fake_master(bench: Bench) -> AsyncIterator[FakeMaster]:
    """Serve until the end of the block."""
    master = FakeMaster(bench)
    remoting = await asyncio.start_server(master.serve, "127.0.0.1", 0)
    ha = await asyncio.start_server(master.replicate, "127.0.0.1", 0)
    master.address = f"127.0.0.1:{remoting.sockets[0].getsockname()[1]}"
    master.ha_port = ha.sockets[0].getsockname()[1]
    try:
        yield master
    finally:
        remoting.close()
        ha.close()
