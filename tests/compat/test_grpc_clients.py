"""Stock gRPC clients, with Apache's proxy in front of the broker. Each case holds for RocketMQ itself.

Each case needs a real proxy, so all of them need ``--compat`` (``make compat``).
"""

import asyncio
import json
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from broker_core.client.remoting_client import RemotingClient
from broker_core.codes import RequestCode
from tests.compat import grpc_program
from tests.compat.conftest import needs
from tests.compat.glassmq_broker import PATIENT, Address, GlassMQ
from tests.compat.real_rocketmq import GRPC_CLIENT, PROXY, RealRocketMQ, jars, proxy
from tests.compat.test_java_clients import assert_all_hold

CHECKS = {"transactionCheckInterval": "5000"}
"""The broker asks after 6 to 11 s what became of a transaction, instead of 6 to 36 s."""


class Access(NamedTuple):
    """Where gRPC clients connect, GlassMQ's web server or "-", and what kills the broker and starts it again."""

    endpoints: str
    web: str
    restart: Callable[[], None]


def of_both(resources: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Those of the Python program, and those of the Java program."""
    for each in resources:
        yield each
        yield each | {"topic": f"java-{each['topic']}", "group": f"java-{each['group']}"}


async def create(server: Address, resources: Iterable[dict[str, Any]]) -> None:
    """Create the topics and groups of the cases, as mqadmin does."""
    host, _, port = server.broker.rpartition(":")
    client = RemotingClient(host, int(port))
    topic = {"defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6", "order": "false"}
    topic |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0"}
    try:
        for each in resources:
            fields = topic | {"topic": each["topic"], "attributes": f"+message.type={each['type']}"}
            group = {"groupName": each["group"], "consumeMessageOrderly": each["ordered"]}
            group |= {"retryMaxTimes": each["retries"], "retryQueueNums": 1}
            for code, header, body in (
                (RequestCode.UPDATE_AND_CREATE_TOPIC, fields, b""),
                (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, json.dumps(group).encode()),
            ):
                answer = await client.invoke(code, header, body, timeout_s=30)
                assert answer.code == 0, answer.remark
    finally:
        await client.close()


def start(name: str, folder: Path, stack: ExitStack) -> tuple[Address, Callable[[], None]]:
    """Start one of the brokers; returns besides what kills it and starts it again."""
    if name == "rocketmq":
        real = RealRocketMQ(folder, **CHECKS)
        stack.callback(real.stop)
        real.start()

        def restart_real() -> None:
            real.broker.stop(signal.SIGKILL)
            real.broker.start()
            real.broker.wait_ready()

        return Address(real.namesrv.address, real.broker.address), restart_real
    broker = GlassMQ(folder, options=[*PATIENT, *(f"{name}={value}" for name, value in CHECKS.items())])
    stack.callback(broker.stop)
    broker.start()

    def restart() -> None:
        broker.stop(signal.SIGKILL)
        broker.start()

    return broker.address, restart


@pytest.fixture(scope="module", params=["rocketmq", "glassmq"])
def access(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    """A proxy in front of a broker that has the topics and groups of all cases."""
    if not request.config.getoption("--compat"):
        pytest.skip("needs a real proxy: --compat")
    needs(lambda: jars(PROXY))
    needs(grpc_program.python)
    needs(lambda: jars(GRPC_CLIENT))
    with ExitStack() as stack:
        server, restart = start(request.param, tmp_path_factory.mktemp(request.param), stack)
        asyncio.run(create(server, of_both(grpc_program.lines("resources"))))
        front = proxy(tmp_path_factory.mktemp("proxy"), server.namesrv)
        stack.callback(front.stop)
        front.start()
        front.wait_ready()
        yield Access(front.address, server.web or "-", restart)


def test_every_case_of_the_java_client_holds(access: Access) -> None:
    assert_all_hold(grpc_program.java_lines(access.endpoints), 10, "Java gRPC 5.2.0")


def test_every_case_holds(access: Access) -> None:
    assert_all_hold(grpc_program.lines("run", access.endpoints, access.web), 19, "Python gRPC 5.1.2")


def test_clients_go_on_when_the_broker_comes_back(access: Access) -> None:
    """Each message whose send succeeded comes, although the broker is killed. The proxy and the clients stay."""
    with grpc_program.start_program("outage", access.endpoints) as running:
        assert running.line() == {}
        access.restart()
        running.write_line("")
        assert running.line()["failed"]
