"""Stock brokers of Apache RocketMQ as slaves of GlassMQ: they copy it, outlive it, and take its place.

Each case has a real slave, so all of them need ``--compat`` (``make compat``).
"""

import asyncio
import json
import os
import signal
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from broker_core.client import DefaultMQProducer, DefaultMQPushConsumer, Message
from broker_core.client.mq_client_exception import MQClientException
from broker_core.client.remoting_client import RemotingClient
from broker_core.codes import RequestCode
from broker_core.formats import rocketmq_json
from tests.compat import java_program
from tests.compat.conftest import needs
from tests.compat.glassmq_broker import PATIENT, GlassMQ
from tests.compat.real_rocketmq import Server, broker, jars, name_server
from tests.fakes.ports import unused_broker_port, unused_ports

SEGMENT = 1 << 20
SECONDS = 150
TOPIC = "orders"


@pytest.fixture(scope="module", autouse=True)
def wanted(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--compat"):
        pytest.skip("needs real brokers: --compat")
    needs(jars)


class Pair:
    """GlassMQ with a stock slave, both at a stock name server."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.name_server = name_server(folder / "namesrv")
        self.namesrv = self.name_server.address
        self.ha_port = unused_ports(1)[0]
        (folder / "glassmq").mkdir()
        self.master = GlassMQ(
            folder / "glassmq",
            options=(
                *PATIENT,
                f"namesrvAddr={self.namesrv}",
                f"haListenPort={self.ha_port}",
                f"mappedFileSizeCommitLog={SEGMENT}",
                *options,
            ),
        )
        self.store = folder / "glassmq" / "data" / "store"
        self.slave_folder = folder / "slave"
        self.slave_port = unused_broker_port()
        self.slave = self.make_slave(brokerRole="SLAVE", brokerId="1")

    def make_slave(self, **conf: str) -> Server:
        """The broker with the slave's store, not started."""
        conf |= {
            "mappedFileSizeCommitLog": str(SEGMENT),
            "slaveReadEnable": "true",
            "haSendHeartbeatInterval": "1000",
        }
        return broker(self.slave_folder, self.namesrv, self.slave_port, **conf)

    def start(self) -> None:
        for server in (self.name_server, self.slave):
            server.start()
        self.name_server.wait_ready()
        self.master.start()
        self.slave.wait_ready()

    def stop(self) -> None:
        self.slave.stop(signal.SIGKILL)
        self.master.stop()
        self.name_server.stop(signal.SIGKILL)

    def view(self) -> Any:
        """``GET /api/v1/broker``."""
        with urllib.request.urlopen(f"{self.master.address.web}/api/v1/broker", timeout=10) as answer:
            return json.load(answer)

    async def has_slave(self) -> Any:
        """Wait until the slave has reported that it has the whole log."""

        async def is_complete() -> Any:
            view = await asyncio.to_thread(self.view)
            slaves = view["replication"]["slaves"]
            return view if slaves and slaves[0]["lag_bytes"] == 0 else None

        return await until(is_complete)

    async def has_offsets(self, group: str, total: int) -> None:
        """Wait until the slave knows that the group has consumed so many messages."""

        async def is_known() -> bool:
            table = await ask(f"127.0.0.1:{self.slave_port}", RequestCode.GET_ALL_CONSUMER_OFFSET)
            offsets = (table or {}).get("offsetTable", {}).get(f"{TOPIC}@{group}", {})
            return sum(int(offset) for offset in offsets.values()) == total

        await until(is_known)


@pytest.fixture
def pair(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pair]:
    made = Pair(tmp_path, *getattr(request, "param", ()))
    try:
        made.start()
        yield made
    finally:
        made.stop()


async def until(condition: Callable[[], Any], seconds: float = SECONDS) -> Any:
    """The condition's first true value."""
    async with asyncio.timeout(seconds):
        while not (value := await condition()):
            await asyncio.sleep(0.1)
    return value


async def ask(address: str, code: int, **fields: str) -> Any:
    """The JSON of a server's answer; None if there is none."""
    host, _, port = address.rpartition(":")
    client = RemotingClient(host, int(port))
    try:
        response = await client.invoke(code, fields, timeout_s=30)
        return rocketmq_json.decode(response.body) if response.code == 0 else None
    finally:
        await client.close()


def log_in(store: Path, end: int) -> bytes:
    """The bytes of a commit log that begins at 0, up to ``end``."""
    files = sorted((store / "commitlog").glob("[0-9]*"))
    return b"".join(file.read_bytes() for file in files)[:end]


async def send(namesrv: str, count: int, prefix: str, acknowledged: list[bytes] | None = None, size: int = 900) -> int:
    """Send so many messages by 16 workers, and note the bodies of those that were acknowledged. Returns their number.

    The first error of a worker ends it.
    """
    numbers, total = iter(range(count)), 0
    producer = DefaultMQProducer(
        "slave-producers", namesrv_addr=namesrv, send_msg_timeout=5000, retry_times_when_send_failed=0
    )

    async def work() -> None:
        nonlocal total
        with suppress(MQClientException, OSError):
            for number in numbers:
                body = f"{prefix}-{number:08d}-".encode() + os.urandom(size).hex().encode()[:size]
                if (await producer.send(Message(TOPIC, body))).send_status == "SEND_OK":
                    total += 1
                    if acknowledged is not None:
                        acknowledged.append(body)

    async with producer:
        await asyncio.gather(*(work() for _ in range(16)))
    return total


async def consume(namesrv: str, group: str, count: int) -> set[bytes]:
    """What a group gets until it has so many different messages; it commits them."""
    bodies: set[bytes] = set()
    enough = asyncio.Event()
    consumer = DefaultMQPushConsumer(group, namesrv_addr=namesrv, consume_from_where="CONSUME_FROM_FIRST_OFFSET")
    consumer.subscribe(TOPIC, "*")

    def listen(messages: Any, context: Any) -> None:
        bodies.update(message.body for message in messages)
        if len(bodies) >= count:
            enough.set()

    consumer.register_message_listener(listen)
    async with consumer, asyncio.timeout(SECONDS):
        await enough.wait()
    return bodies


async def test_a_stock_slave_copies_goes_on_alone_and_becomes_the_master(pair: Pair) -> None:
    needs(java_program.classes)
    await pair.has_slave()
    assert await send(pair.namesrv, 3000, "first") == 3000
    view = await pair.has_slave()
    end = view["positions"]["appended"]
    assert end > 3 * SEGMENT
    assert log_in(pair.store, end) == log_in(pair.slave_folder / "store", end)

    first = await consume(pair.namesrv, "readers", 3000)
    status = await ask(pair.master.address.broker, RequestCode.GET_BROKER_HA_STATUS)
    assert (status["inSyncSlaveNums"], status["haConnectionInfo"][0]["diff"]) == (1, 0)

    await pair.has_offsets("readers", 3000)  # its first synchronization comes a minute after its start
    await asyncio.to_thread(pair.master.stop, signal.SIGKILL)

    async def is_gone() -> bool:
        known = (await ask(pair.namesrv, RequestCode.GET_BROKER_CLUSTER_INFO))["brokerAddrTable"]
        return list(known["broker-a"]["brokerAddrs"]) == [1]

    await until(is_gone)
    java = ("--namesrv", pair.namesrv, "--group", "java-readers", "--topic", TOPIC)
    with java_program.start_program("member", *java, seconds=SECONDS):
        await pair.has_offsets("java-readers", 3000)

    await asyncio.to_thread(pair.slave.stop)
    pair.slave = pair.make_slave(brokerRole="ASYNC_MASTER", brokerId="0")
    pair.slave.start()
    await asyncio.to_thread(pair.slave.wait_ready)

    async def is_master() -> bool:
        known = (await ask(pair.namesrv, RequestCode.GET_BROKER_CLUSTER_INFO))["brokerAddrTable"]
        return list(known.get("broker-a", {"brokerAddrs": {}})["brokerAddrs"]) == [0]

    await until(is_master)
    assert await send(pair.namesrv, 50, "second") == 50
    second = await consume(pair.namesrv, "readers", 50)
    assert len(second) == 50 and not second & first


SYNC = ("brokerRole=SYNC_MASTER", "inSyncReplicas=2", "slaveTimeout=3000")


@pytest.mark.parametrize("pair", [SYNC], indirect=True, ids=["sync"])
@pytest.mark.parametrize("kills", [3, pytest.param(50, marks=pytest.mark.torture)], ids=["3", "50"])
async def test_nothing_that_a_sync_master_acknowledged_is_missing_in_its_slave(pair: Pair, kills: int) -> None:
    acknowledged: list[bytes] = []
    await pair.has_slave()
    for kill in range(kills):
        sending = asyncio.ensure_future(send(pair.namesrv, 100_000, f"kill-{kill}", acknowledged, 300))
        enough = len(acknowledged) + 200 + 37 * kill % 300

        async def has_some(enough: int = enough) -> bool:
            return len(acknowledged) >= enough

        await until(has_some)
        await asyncio.to_thread(pair.master.stop, signal.SIGKILL)
        await sending
        data = log_in(pair.slave_folder / "store", 1 << 40)
        assert [body for body in acknowledged if body not in data] == []
        await asyncio.to_thread(pair.master.start)
        view = await pair.has_slave()
        end = view["positions"]["appended"]
        assert log_in(pair.store, end) == log_in(pair.slave_folder / "store", end)
        assert view["replication"]["refused"] == 0
