"""Copies of the logs of running Apache RocketMQ brokers: they are exact, and the cluster does not notice them.

Each case has real brokers, so all of them need ``--compat`` (``make compat``).
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from broker_core import commands as c
from broker_core.client import DefaultMQProducer, DefaultMQPushConsumer, Message
from broker_core.client.mq_client_exception import MQBrokerException, MQClientException
from broker_core.clock import SystemClock
from broker_core.codes import RequestCode
from broker_core.server.attach.cluster_client import ClusterClient, Source
from broker_core.server.attach.engine_calls import EngineRefused
from broker_core.server.consumer_questions import ConsumerQuestions
from broker_core.verdicts.judge import judge
from tests.compat import java_program
from tests.compat.conftest import needs
from tests.compat.followed_brokers import (
    SEGMENT,
    Brokers,
    ask,
    copy_of,
    end_of,
    equal,
    log_in,
    runtime_info,
    send,
    until,
)
from tests.compat.program import running_client
from tests.compat.real_rocketmq import Server, jars, name_server
from tests.conftest import PROJECT
from tests.fakes.ports import unused_broker_port, unused_ports

MESSAGES, KILLS = 20_000, 20
IN_SYNC = ("inSyncReplicas", "notInSyncReplicas")
BLOCKED = "listener_blocked"
CONTROLLER_GET_SYNC_STATE_DATA = 1006


@pytest.fixture(scope="module", autouse=True)
def wanted(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--compat"):
        pytest.skip("needs real brokers: --compat")
    needs(jars)


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A name server for the brokers of all cases."""
    server = name_server(tmp_path_factory.mktemp("namesrv"))
    try:
        server.start()
        server.wait_ready()
        yield server
    finally:
        server.stop()


@pytest.fixture
def brokers(tmp_path: Path, namesrv: Server) -> Iterator[Brokers]:
    found = Brokers(tmp_path, namesrv)
    try:
        yield found
    finally:
        found.stop()


async def test_a_copy_is_equal_while_messages_are_sent_and_its_process_is_killed(
    brokers: Brokers, tmp_path: Path
) -> None:
    master = await brokers.start("killed")
    store = tmp_path / "copy" / "store"
    conf = tmp_path / "broker.conf"
    conf.write_text(f"brokerName=killed\nmappedFileSizeCommitLog={SEGMENT}\nmaxHashSlotNum=1000\nmaxIndexNum=4000\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GLASSMQ_", "DJANGO_"))}
    environment |= {
        "GLASSMQ_DATA_DIR": str(tmp_path / "copy"),
        "GLASSMQ_STORE_DIR": str(store),
        "GLASSMQ_BROKER_CONF": str(conf),
        "GLASSMQ_ATTACH": brokers.namesrv,
        "GLASSMQ_ATTACH_BEGIN": "min",
    }
    command = [sys.executable, "manage.py", "runworker", "broker-engine", "--socket", str(tmp_path / "engine.sock")]

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command, cwd=PROJECT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def size() -> int:
        with suppress(OSError, IndexError):
            files = sorted((store / "commitlog").glob("[0-9]*"))
            return int(files[-1].name) + len(files[-1].read_bytes().rstrip(b"\0"))
        return 0

    def has_grown(before: int) -> Callable[[], Any]:
        async def is_larger() -> bool:
            return size() > before

        return is_larger

    await send(brokers.namesrv, "orders", 200)
    process = start()
    try:
        sending = asyncio.ensure_future(send(brokers.namesrv, "orders", MESSAGES))
        for _ in range(KILLS):
            if sending.done():
                sending = asyncio.ensure_future(send(brokers.namesrv, "orders", MESSAGES // KILLS))
            await until(has_grown(size()))
            process.kill()
            process.wait()
            process = start()
        assert set(await sending) == {"SEND_OK"}
        end = await end_of(master)
        theirs = log_in(master.folder / "store", end)

        async def is_equal() -> bool:
            return log_in(store, end) == theirs

        await until(is_equal)
        assert end > 3 * SEGMENT and len(theirs) == end
    finally:
        process.kill()
        process.wait()


async def test_a_sync_master_answers_as_without_the_copy(brokers: Brokers, tmp_path: Path) -> None:
    master = await brokers.start("sync", brokerRole="SYNC_MASTER", inSyncReplicas="2", slaveTimeout="1000")
    alone = await send(brokers.namesrv, "sync-topic", 3, workers=3)
    assert set(alone) == {"FLUSH_SLAVE_TIMEOUT"}
    async with copy_of(brokers.namesrv, "sync", tmp_path / "copy") as copy:
        await equal(copy, master)
        assert set(await send(brokers.namesrv, "sync-topic", 3, workers=3)) == {"FLUSH_SLAVE_TIMEOUT"}
        await equal(copy, master)
        status = await ask(master.address, RequestCode.GET_BROKER_HA_STATUS)
        assert status["inSyncSlaveNums"] == 0
        assert [connection["inSync"] for connection in status["haConnectionInfo"]] == [False]
    assert set(await send(brokers.namesrv, "sync-topic", 3, workers=3)) == {"FLUSH_SLAVE_TIMEOUT"}


async def test_in_controller_mode_a_copy_joins_no_set(tmp_path: Path) -> None:
    (port,) = unused_ports(1)
    controller = name_server(
        tmp_path / "controller",
        enableControllerInNamesrv="true",
        controllerDLegerGroup="g",
        controllerDLegerPeers=f"n0-127.0.0.1:{port}",
        controllerDLegerSelfId="n0",
        controllerStorePath=str(tmp_path / "controller" / "store"),
    )
    found = Brokers(tmp_path, controller)
    modes = {"enableControllerMode": "true", "controllerAddr": f"127.0.0.1:{port}", "brokerId": "-1"}

    async def in_sync() -> Any:
        asked = json.dumps(["controlled"]).encode()
        with suppress(MQClientException, KeyError):  # no leader yet, or it does not know the broker
            body = await ask(f"127.0.0.1:{port}", CONTROLLER_GET_SYNC_STATE_DATA, asked)
            replicas = body["replicasInfoTable"]["controlled"]
            return [sorted(one["brokerId"] for one in replicas[name]) for name in IN_SYNC]

    try:
        await asyncio.to_thread(controller.start)
        await asyncio.to_thread(controller.wait_ready)
        master = await found.start("controlled", allAckInSyncStateSet="true", inSyncReplicas="2", **modes)
        assert set(await send(found.namesrv, "controlled-topic", 50)) == {"SEND_OK"}
        alone = await until(in_sync)
        async with copy_of(found.namesrv, "controlled", tmp_path / "copy") as copy:
            await equal(copy, master)
            assert set(await send(found.namesrv, "controlled-topic", 300)) == {"SEND_OK"}
            await equal(copy, master)
            assert await in_sync() == alone
            status = await ask(master.address, RequestCode.GET_BROKER_HA_STATUS)
            assert [connection["inSync"] for connection in status["haConnectionInfo"]] == [False]
            end = copy.end
        assert log_in(tmp_path / "copy", end) == log_in(master.folder / "store", end) and end > 100_000
    finally:
        found.stop()
        controller.stop(signal.SIGKILL)


async def test_the_threads_of_a_blocked_listener_are_shown(brokers: Brokers, tmp_path: Path) -> None:
    needs(java_program.classes)
    await brokers.start("asked")
    await send(brokers.namesrv, "asked-topic", 3)
    given = {"namesrv": brokers.namesrv, "group": "asked-group", "topic": "asked-topic", "listener": "blocked"}
    words = [word for name, value in given.items() for word in (f"--{name}", value)]
    home = str(tmp_path)
    command = java_program.command("member", *words, "--orderly", "0", home=home)
    with running_client(command, home):
        async with copy_of(brokers.namesrv, "asked", tmp_path / "copy") as copy:
            client = ClusterClient(brokers.namesrv)
            questions = ConsumerQuestions(client, copy.calls, SystemClock(), "asked")
            address = (await client.brokers())["asked"].broker_addrs[0]

            async def has_messages() -> Any:
                await send(brokers.namesrv, "asked-topic", 1)
                infos = await questions.answer(address, c.GetConsumerRunningInfo(group="asked-group"))
                assert isinstance(infos, c.ConsumerRunningInfos), infos
                held = [one for one in infos.clients if any(queue.cached for queue in one.queues)]
                return held[0] if held and any(queue.pull_offset for queue in infos.queues) else None

            async def verdict() -> Any:
                await questions.answer(address, c.GetConsumerRunningInfo(group="asked-group"))
                facts = await copy.calls.call(c.GetGroupFacts(group="asked-group"))
                return next((one for one in judge([facts], patience_ms=1000).verdicts if one.id == BLOCKED), None)

            try:
                member = await until(has_messages)
                await copy.until(lambda view: view.members_ms)
                assert (await until(verdict)).evidence["client_id"] == member.client_id
                command_of_stacks = c.GetConsumerRunningInfo(
                    group="asked-group", client_id=member.client_id, stacks=True
                )
                infos = await questions.answer(address, command_of_stacks)
                assert isinstance(infos, c.ConsumerRunningInfos)
                assert "ConsumeMessageThread" in (infos.clients[0].stacks or "")
            finally:
                await client.close()


async def test_it_registers_nowhere_and_shows_topics_groups_offsets_and_members(
    brokers: Brokers, tmp_path: Path
) -> None:
    master = await brokers.start("plain")
    await send(brokers.namesrv, "plain-topic", 20)
    consumer = DefaultMQPushConsumer("plain-group", namesrv_addr=brokers.namesrv)
    consumer.subscribe("plain-topic", "*")
    consumer.register_message_listener(lambda messages, context: None)

    async def cluster() -> Any:
        found = await ask(brokers.namesrv, RequestCode.GET_BROKER_CLUSTER_INFO)
        route = await ask(brokers.namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="plain-topic")
        return found, route

    async with consumer:
        alone = await cluster()
        async with copy_of(brokers.namesrv, "plain", tmp_path / "copy") as copy:
            await equal(copy, master)
            await send(brokers.namesrv, "plain-topic", 20)

            async def has_read_all() -> Any:
                with suppress(EngineRefused):  # the group is not known yet
                    detail = await copy.calls.call(c.GetConsumerGroup(group="plain-group"))
                    queues = [queue for queue in detail.queues if queue.topic == "plain-topic"]
                    is_read = queues and all(queue.offset == queue.max_offset for queue in queues)
                    return detail if detail.members and is_read else None

            detail = await until(has_read_all)
            assert [member.language for member in detail.members] == ["PYTHON"]
            assert sum(queue.max_offset for queue in detail.queues if queue.topic == "plain-topic") >= 42
            assert copy.context.topics.get("plain-topic") is not None
            assert await cluster() == alone
    assert master.port  # it lived until here


async def test_a_copy_that_the_brokers_retention_has_passed_stops_and_is_kept(brokers: Brokers, tmp_path: Path) -> None:
    port = unused_broker_port()
    master = await brokers.start("gap", port=port)
    await send(brokers.namesrv, "gap-topic", 200)
    async with copy_of(brokers.namesrv, "gap", tmp_path / "copy") as copy:
        await equal(copy, master)
        end = copy.end
    kept = log_in(tmp_path / "copy", end)
    await send(brokers.namesrv, "gap-topic", 8000)
    await asyncio.to_thread(master.stop)
    every_hour = ";".join(f"{hour:02d}" for hour in range(24))
    conf = {"fileReservedTime": "0", "deleteWhen": every_hour, "cleanResourceInterval": "1000"}
    master = await brokers.start("gap", port=port, **conf)

    async def has_deleted() -> bool:
        return int((await runtime_info(master))["commitLogMinOffset"]) > end

    await until(has_deleted)
    async with copy_of(brokers.namesrv, "gap", tmp_path / "copy") as copy:
        view = await copy.until(lambda view: view.state == "stopped")
    assert "has deleted its log up to" in view.problem and view.confirmed == end
    assert log_in(tmp_path / "copy", end) == kept
    assert "Offset not matched" not in log_text(master)


def log_text(server: Server) -> str:
    """What a broker wrote to its logs about its store."""
    folder = server.folder / "logs" / "rocketmqlogs"
    return "".join(file.read_text(errors="replace") for file in folder.rglob("store*.log"))


async def test_a_copy_goes_on_when_its_broker_comes_back(brokers: Brokers, tmp_path: Path) -> None:
    master = await brokers.start("restarted")
    await send(brokers.namesrv, "restart-topic", 100)
    async with copy_of(brokers.namesrv, "restarted", tmp_path / "copy") as copy:
        await equal(copy, master)
        for how in (signal.SIGTERM, signal.SIGKILL):
            await asyncio.to_thread(master.stop, how)
            view = await copy.until(lambda view: view.state == "waiting")
            assert view.problem and view.lag_bytes is None
            await brokers.run(master, "restarted")
            await send(brokers.namesrv, "restart-topic", 100)
            await equal(copy, master)
        end = copy.end
    assert log_in(tmp_path / "copy", end) == log_in(master.folder / "store", end)


async def test_a_copy_of_a_broker_that_was_wiped_stops_and_is_kept(brokers: Brokers, tmp_path: Path) -> None:
    master = await brokers.start("wiped")
    await send(brokers.namesrv, "wiped-topic", 100)
    async with copy_of(brokers.namesrv, "wiped", tmp_path / "copy") as copy:
        await equal(copy, master)
        end = copy.end
    await asyncio.to_thread(master.stop)
    shutil.rmtree(master.folder / "store")
    await brokers.run(master, "wiped")
    await send(brokers.namesrv, "wiped-topic", 300)
    async with copy_of(brokers.namesrv, "wiped", tmp_path / "copy") as copy:
        view = await copy.until(lambda view: view.state == "stopped")
        assert "differ at offset" in view.problem and copy.end == end


async def test_a_slave_is_followed_and_what_becomes_master_after_it(brokers: Brokers, tmp_path: Path) -> None:
    master = await brokers.start("pair")
    await send(brokers.namesrv, "pair-topic", 100)
    slave = await brokers.start("pair", "pair-slave", brokerRole="SLAVE", brokerId="1")

    async def slave_has_all() -> bool:
        return await end_of(slave) == await end_of(master) > 0

    await until(slave_has_all)
    async with copy_of(brokers.namesrv, "pair", tmp_path / "copy") as copy:
        await equal(copy, master)
        assert (await copy.until(lambda view: view.source)).source == slave.address  # reported once a second
        status = await ask(master.address, RequestCode.GET_BROKER_HA_STATUS)
        assert len(status["haConnectionInfo"]) == 1  # the slave's
        await asyncio.to_thread(master.stop, signal.SIGKILL)
        await asyncio.to_thread(slave.stop)
        await copy.until(lambda view: view.state == "waiting")
        master = await brokers.start("pair", "pair-slave", slave.port, brokerRole="ASYNC_MASTER", brokerId="0")
        await send(brokers.namesrv, "pair-topic", 100)
        await equal(copy, master)
        end = copy.end
    assert log_in(tmp_path / "copy", end) == log_in(master.folder / "store", end)


async def test_topics_with_messages_in_light_message_queues_are_named(brokers: Brokers, tmp_path: Path) -> None:
    master = await brokers.start("light", enableLmq="true", enableMultiDispatch="true")
    message = Message("light-topic", b"in three queues")
    message.properties["INNER_MULTI_DISPATCH"] = "%LMQ%a,%LMQ%b"
    async with DefaultMQProducer("light-producers", namesrv_addr=brokers.namesrv, send_msg_timeout=20_000) as producer:
        await producer.send(message)

    async def has_light_queues() -> bool:
        return all((master.folder / "store" / "consumequeue" / name).exists() for name in ("%LMQ%a", "%LMQ%b"))

    await until(has_light_queues)
    async with copy_of(brokers.namesrv, "light", tmp_path / "copy") as copy:
        view = await copy.until(lambda view: "LMQ" in view.problem)
    assert view.problem == "the copy lacks the light message queues (LMQ) that have messages of light-topic"


async def test_a_slow_copy_reads_slowly(brokers: Brokers, tmp_path: Path) -> None:
    rate = 1_000_000
    master = await brokers.start("throttled")
    await send(brokers.namesrv, "slow-topic", 8000, 600)
    begin = time.monotonic()
    async with copy_of(brokers.namesrv, "throttled", tmp_path / "copy", max_bytes_per_second=rate) as copy:
        await equal(copy, master)
        took = time.monotonic() - begin
        assert copy.end > 5 * rate and took >= (copy.end - rate) / rate


async def test_an_idle_copy_costs_its_broker_next_to_nothing(brokers: Brokers, tmp_path: Path) -> None:
    master = await brokers.start("idle")
    await send(brokers.namesrv, "idle-topic", 100)
    without = await least_cpu(master)
    async with copy_of(brokers.namesrv, "idle", tmp_path / "copy") as copy:
        await equal(copy, master)
        await copy.until(lambda view: view.members_ms)
        with_copy = await least_cpu(master)
    assert with_copy - without <= 0.01


async def least_cpu(server: Server, windows: int = 4, seconds: float = 10.0) -> float:
    """Share of a core that a process used in its quietest window."""

    def used() -> float:
        fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    shares = []
    for _ in range(windows):
        before, begin = used(), time.monotonic()
        await asyncio.sleep(seconds)
        shares.append((used() - before) / (time.monotonic() - begin))
    return min(shares)


async def test_a_cluster_client_reads_what_a_real_broker_says(brokers: Brokers) -> None:
    master = await brokers.start("read")
    client = ClusterClient(brokers.namesrv)

    async def read_source() -> Source | None:
        try:
            return await client.source(master.address, 0)
        except MQBrokerException:  # RocketMQ has no figures in its first second
            return None

    try:
        source = await until(read_source)
        assert (source.segment_size, source.ha_address) == (SEGMENT, ("127.0.0.1", master.port + 1))
        assert (source.min_offset, source.max_offset, source.obstacle) == (0, 0, "")
    finally:
        await client.close()
