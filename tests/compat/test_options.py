"""Options that a broker has from its start: each does the same at GlassMQ and at RocketMQ.

The name server is RocketMQ's for both. Options that can be changed at run time are in ``test_java_clients.py``.
"""

import asyncio
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker_core.client import DefaultMQProducer, Message
from broker_core.client.remoting_client import RemotingClient
from broker_core.codes import RequestCode, ResponseCode
from tests.compat import java_program
from tests.compat.conftest import needs
from tests.compat.glassmq_broker import PATIENT, Address, GlassMQ
from tests.compat.real_rocketmq import broker, brokers_of, name_server
from tests.compat.test_java_clients import assert_all_hold, changed_options
from tests.fakes.ports import unused_ports

SECONDS = 150
BROKERS = ("rocketmq", "glassmq")
REGISTRATIONS = {
    "single topics": {"enableSingleTopicRegister": "true"},
    "split": {"enableSplitRegistration": "true", "splitRegistrationSize": "3"},
}
ROUTED = (
    "admin.topics",
    "group.join_and_leave",
    "producer.auto_creation",
    "retry.once",
)
"""Cases that need the routes of topics that were created a moment before."""


@pytest.fixture(scope="module", autouse=True)
def wanted(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--compat"):
        pytest.skip("needs real servers: --compat")
    needs(java_program.classes)


@contextmanager
def started(which: str, folder: Path, **conf: str) -> Iterator[Address]:
    """A broker with these options, and RocketMQ's name server, where it is registered."""
    with ExitStack() as stack:
        namesrv = name_server(folder / "namesrv")
        stack.callback(namesrv.stop, signal.SIGKILL)
        namesrv.start()
        namesrv.wait_ready()
        if which == "rocketmq":
            real = broker(folder / "broker", namesrv.address, None, stock=False, **conf)
            stack.callback(real.stop)
            real.start()
            real.wait_ready(lambda port: bool(brokers_of(namesrv.port, "TBW102")))
            yield Address(namesrv.address, real.address)
        else:
            (folder / "glassmq").mkdir()
            lines = [f"{name}={value}" for name, value in conf.items()]
            glassmq = GlassMQ(folder / "glassmq", options=[*PATIENT, f"namesrvAddr={namesrv.address}", *lines])
            stack.callback(glassmq.stop)
            glassmq.start()
            until(lambda: bool(brokers_of(namesrv.port, "TBW102")))
            yield Address(namesrv.address, glassmq.address.broker, glassmq.address.web)


def until(holds: Callable[[], bool]) -> None:
    """Wait for it."""
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end, f"not within {SECONDS} s"
        time.sleep(0.2)


@pytest.mark.parametrize("options", REGISTRATIONS.values(), ids=REGISTRATIONS)
@pytest.mark.parametrize("which", BROKERS)
def test_registrations_of_new_topics(which: str, options: dict[str, str], tmp_path: Path) -> None:
    with started(which, tmp_path, **options) as server:
        assert_all_hold(java_program.run("cases", "--namesrv", server.namesrv, *ROUTED), len(ROUTED))


# --- The lag of groups in metrics -------------------------------------------------------------------------------------

TOPIC = "lags"
MESSAGES, TAGGED = 100, 10


def lag(url: str, group: str) -> float | None:
    """What the metrics say about the group; None if they have no sample of it."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    for family in families:
        for sample in family.samples:
            if sample.name == "rocketmq_consumer_lag_messages" and (
                (sample.labels["consumer_group"], sample.labels["topic"]) == (group, TOPIC)
            ):
                return sample.value
    return None


async def send_tagged(namesrv: str) -> None:
    """Messages in one queue: each tenth has the tag B, the others have A."""
    async with DefaultMQProducer("lag-producers", namesrv_addr=namesrv, send_msg_timeout=10_000) as producer:
        for number in range(MESSAGES):
            tag = "B" if number % (MESSAGES // TAGGED) == 0 else "A"
            await producer.send(Message(TOPIC, str(number).encode(), tags=tag))


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


async def ask(server: Address, code: RequestCode, fields: dict[str, str]) -> ResponseCode:
    """The code of the broker's answer."""
    client = RemotingClient("127.0.0.1", port_of(server.broker))
    try:
        answer = await client.invoke(code, fields, timeout_s=30)
        return ResponseCode(answer.code)
    finally:
        await client.close()


def commit_0(server: Address, group: str) -> bool:
    """Whether the broker knows the group by now; its offset is 0 then."""
    fields = {"consumerGroup": group, "topic": TOPIC, "queueId": "0", "commitOffset": "0"}
    return asyncio.run(ask(server, RequestCode.UPDATE_CONSUMER_OFFSET, fields)) == ResponseCode.SUCCESS


@pytest.mark.parametrize("which", BROKERS)
def test_the_lag_of_a_group_counts_what_its_filter_matches(which: str, tmp_path: Path) -> None:
    """With estimateAccumulation; without it, all messages that wait."""
    [port] = unused_ports(1)
    conf = {"metricsExporterType": "PROM", "metricsPromExporterPort": str(port)} if which == "rocketmq" else {}
    groups = {"lag-all": "*", "lag-b": "B"}
    with ExitStack() as stack:
        server = stack.enter_context(started(which, tmp_path, **conf))
        url = f"{server.web}/metrics" if server.web else f"http://127.0.0.1:{port}/metrics"
        topic = {"topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
        topic |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
        assert asyncio.run(ask(server, RequestCode.UPDATE_AND_CREATE_TOPIC, topic)) == ResponseCode.SUCCESS
        until(lambda: bool(brokers_of(port_of(server.namesrv), TOPIC)))
        asyncio.run(send_tagged(server.namesrv))
        for group, tags in groups.items():
            named = {"namesrv": server.namesrv, "group": group, "topic": TOPIC, "tags": tags, "listener": "blocked"}
            words = [word for name, value in named.items() for word in (f"--{name}", value)]
            stack.enter_context(java_program.start_program("member", *words, seconds=SECONDS))
        for group in groups:
            until(partial(commit_0, server, group))
        until(lambda: [lag(url, group) for group in groups] == [MESSAGES, TAGGED])
        with changed_options(server, {"estimateAccumulation": ("false", "true")}):
            until(lambda: [lag(url, group) for group in groups] == [MESSAGES, MESSAGES])


# --- A slave's store --------------------------------------------------------------------------------------------------

SLAVE = {"brokerRole": "SLAVE", "brokerId": "1"}


@pytest.mark.parametrize("which", BROKERS)
def test_a_slave_is_no_master(which: str, tmp_path: Path) -> None:
    """RocketMQ starts as a slave and refuses sends. GlassMQ does not start."""
    if which == "rocketmq":
        with started(which, tmp_path, **SLAVE) as server:
            fields = {"a": "p", "b": "TBW102", "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "0", "h": "0", "i": ""}
            assert asyncio.run(ask(server, RequestCode.SEND_MESSAGE_V2, fields)) == ResponseCode.SYSTEM_BUSY
    else:
        glassmq = GlassMQ(tmp_path, options=[f"{name}={value}" for name, value in SLAVE.items()])
        try:
            with pytest.raises(AssertionError, match="brokerRole=SLAVE: its store is the copy of a master's"):
                glassmq.start()
        finally:
            glassmq.stop()
