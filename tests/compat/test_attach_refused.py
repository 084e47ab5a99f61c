"""What an attached GlassMQ does with real brokers that refuse it, or that it refuses.

Each case has a real broker, so all of them need ``--compat`` (``make compat``).
"""

import asyncio
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_core import commands as c
from broker_core.clock import SystemClock
from broker_core.server.attach.cluster_client import ClusterClient
from broker_core.server.consumer_questions import ConsumerQuestions
from tests.compat.conftest import needs
from tests.compat.followed_brokers import Brokers, copy_of, end_of, equal, log_in, send
from tests.compat.real_rocketmq import jars, name_server
from tests.fakes.ports import unused_ports

AUTH = "org.apache.rocketmq.auth."
SENDS = "34,310"
"""HEART_BEAT and SEND_MESSAGE_V2: what the producer of these tests needs."""


@pytest.fixture
def brokers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Brokers]:
    if not request.config.getoption("--compat"):
        pytest.skip("needs real brokers: --compat")
    needs(jars)
    namesrv = name_server(tmp_path / "namesrv")
    found = Brokers(tmp_path, namesrv)
    try:
        namesrv.start()
        namesrv.wait_ready()
        yield found
    finally:
        found.stop()
        namesrv.stop(signal.SIGKILL)


def access_control(folder: Path, allowed: str) -> dict[str, str]:
    """Authentication and authorization, as RocketMQ 5.4.0's documents switch them on; ``allowed`` needs neither."""
    return {
        "authenticationEnabled": "true",
        "authenticationProvider": AUTH + "authentication.provider.DefaultAuthenticationProvider",
        "authenticationMetadataProvider": AUTH + "authentication.provider.LocalAuthenticationMetadataProvider",
        "initAuthenticationUser": '{"username":"admin","password":"not-a-secret"}',
        "innerClientAuthenticationCredentials": '{"accessKey":"admin","secretKey":"not-a-secret"}',
        "authorizationEnabled": "true",
        "authorizationProvider": AUTH + "authorization.provider.DefaultAuthorizationProvider",
        "authorizationMetadataProvider": AUTH + "authorization.provider.LocalAuthorizationMetadataProvider",
        "authConfigPath": str(folder / "auth"),
        "authenticationWhitelist": allowed,
        "authorizationWhitelist": allowed,
    }


async def test_what_access_control_refuses_is_explained_and_the_log_goes_on(brokers: Brokers, tmp_path: Path) -> None:
    broker = await brokers.start("acl", **access_control(tmp_path, SENDS))
    await send(brokers.namesrv, "acl-topic", 100)
    async with copy_of(brokers.namesrv, "acl", tmp_path / "copy") as copy:
        view = await copy.until(lambda view: "GET_BROKER_CONFIG" in view.problem)
        assert view.state == "waiting" and "access control refuses" in view.problem
        [advice] = set(re.findall(r"add ([0-9,]+) to authenticationWhitelist", view.problem))

        await asyncio.to_thread(broker.stop)
        log_only = access_control(tmp_path, f"26,28,33,{SENDS}")
        broker = await brokers.start("acl", port=broker.port, **log_only)
        await copy.until(lambda view: "followed without GET_ALL_TOPIC_CONFIG, " in view.problem)
        await send(brokers.namesrv, "acl-topic", 100)
        await equal(copy, broker)
        view = await copy.attached()
        assert (view.state, view.tables_ms, view.members_ms) == ("following", None, None)
        assert "GET_ALL_CONSUMER_OFFSET" in view.problem and advice in view.problem
        assert copy.context.topics.get("acl-topic") is not None  # from its messages

        client = ClusterClient(brokers.namesrv)
        questions = ConsumerQuestions(client, copy.calls, SystemClock(), "acl")
        answer = await questions.answer(broker.address, c.GetConsumerRunningInfo(group="g"))
        await client.close()
        assert isinstance(answer, c.Failed) and "refuses GET_CONSUMER_LIST_BY_GROUP" in answer.remark

        await asyncio.to_thread(broker.stop)
        everything = access_control(tmp_path, f"{advice},{SENDS}")
        broker = await brokers.start("acl", port=broker.port, **everything)
        await copy.until(lambda view: view.tables_ms and view.members_ms and not view.problem)
        await equal(copy, broker)
        end = copy.end
    assert log_in(tmp_path / "copy", end) == log_in(broker.folder / "store", end) and end > 50_000


async def test_a_dledger_group_is_refused_with_a_sentence(brokers: Brokers, tmp_path: Path) -> None:
    (port,) = unused_ports(1)
    conf = {"dLegerGroup": "dledger", "dLegerPeers": f"n0-127.0.0.1:{port}", "dLegerSelfId": "n0"}
    broker = await brokers.start("dledger", enableDLegerCommitLog="true", **conf)
    await send(brokers.namesrv, "dledger-topic", 20)
    async with copy_of(brokers.namesrv, "dledger", tmp_path / "copy") as copy:
        view = await copy.until(lambda view: view.state == "stopped")
        assert "has a DLedger commit log (enableDLegerCommitLog), which has no HA port" in view.problem
        assert broker.address in view.problem and copy.end == 0 < await end_of(broker)
