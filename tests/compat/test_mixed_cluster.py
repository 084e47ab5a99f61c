"""A cluster of both kinds: a broker of GlassMQ and one of Apache RocketMQ under RocketMQ's name server. The client in
Python uses both as one, and goes on when one of them is killed.
"""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Protocol

import pytest

from broker_core.client import DefaultMQProducer, DefaultMQPushConsumer, Message, MQClientException, MQClientInstance
from broker_core.client.client_events import ClientEvent, PullAnswered, PullSent
from broker_core.client.remoting_client import RemotingClient
from broker_core.codes import RequestCode
from tests.compat.conftest import needs
from tests.compat.glassmq_broker import PATIENT, GlassMQ
from tests.compat.real_rocketmq import Server, broker, brokers_of, jars, name_server
from tests.compat.test_python_client import FIRST, PATIENCE, until
from tests.fakes.client import Inbox

GLASS, ROCKET = "glass", "rocket"
QUEUES = 4
EACH = 50
"""Messages that each broker that runs must have acknowledged before the next step."""


class Broker(Protocol):
    def start(self) -> None: ...

    def stop(self, how: signal.Signals) -> None: ...


class Cluster:
    """Both brokers, and the name server at which they register."""

    def __init__(self, namesrv: Server, glass: GlassMQ, rocket: Server) -> None:
        self.namesrv = namesrv
        self.brokers: dict[str, Broker] = {GLASS: glass, ROCKET: rocket}
        self.addresses = {GLASS: glass.address.broker, ROCKET: rocket.address}

    async def create_topic(self, topic: str) -> None:
        """Create a topic at both brokers; return when the name server knows that."""
        for address in self.addresses.values():
            host, _, port = address.rpartition(":")
            client = RemotingClient(host, int(port))
            fields = {"topic": topic, "defaultTopic": "TBW102", "perm": "6", "topicFilterType": "SINGLE_TAG"}
            counts = {"readQueueNums": str(QUEUES), "writeQueueNums": str(QUEUES)}
            more = {"topicSysFlag": "0", "order": "false"}
            answer = await client.invoke(
                RequestCode.UPDATE_AND_CREATE_TOPIC, fields | counts | more, timeout_s=PATIENCE
            )
            assert answer.code == 0, answer.remark
            await client.close()
        await until(lambda: brokers_of(self.namesrv.port, topic) == [GLASS, ROCKET])


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if not request.config.getoption("--compat"):
        pytest.skip("needs a real broker: --compat")
    needs(jars)
    folder = tmp_path_factory.mktemp("mixed")
    (folder / "glass").mkdir()
    with ExitStack() as stack:
        namesrv = name_server(folder / "namesrv")
        stack.callback(namesrv.stop)
        namesrv.start()
        namesrv.wait_ready()
        rocket = broker(folder / "rocket", namesrv.address, brokerName=ROCKET)
        stack.callback(rocket.stop)
        rocket.start()
        options = (*PATIENT, f"brokerName={GLASS}", f"namesrvAddr={namesrv.address}")
        glass = GlassMQ(folder / "glass", options=options)
        stack.callback(glass.stop)
        glass.start()
        namesrv.wait_ready(lambda port: brokers_of(port, "TBW102") == [GLASS, ROCKET])
        yield Cluster(namesrv, glass, rocket)


class Traffic:
    """Sends one message after the other, and notes which broker acknowledged which."""

    def __init__(self, producer: DefaultMQProducer, topic: str) -> None:
        self.acknowledged: dict[str, set[bytes]] = {GLASS: set(), ROCKET: set()}
        self.failures: list[MQClientException] = []
        self._producer, self._topic = producer, topic
        self._stopped = False
        self._sending = asyncio.ensure_future(self._send())

    async def _send(self) -> None:
        number = 0
        while not self._stopped:
            number += 1
            body = b"%d" % number
            try:
                async with asyncio.timeout(PATIENCE):  # a send that hangs fails the test
                    result = await self._producer.send(Message(self._topic, body))
                self.acknowledged[result.message_queue.broker_name].add(body)
            except MQClientException as error:
                self.failures.append(error)
            await asyncio.sleep(0.005)

    async def until_more(self, *names: str) -> None:
        """Wait until each of these brokers has acknowledged some more messages."""
        goals = {name: len(self.acknowledged[name]) + EACH for name in names}
        await until(lambda: self._sending.done() or all(len(self.acknowledged[name]) >= goals[name] for name in names))
        assert not self._sending.done(), self._sending.exception()

    async def stop(self) -> None:
        self._stopped = True
        await self._sending


@pytest.mark.parametrize("killed", [ROCKET, GLASS])
async def test_one_of_them_is_killed_and_comes_back(cluster: Cluster, killed: str) -> None:
    """Meanwhile the other one takes and gives all messages. In the end, each acknowledged message was consumed."""
    topic, inbox = f"Mixed-{killed}", Inbox()
    survivor = GLASS if killed == ROCKET else ROCKET
    pulls: list[ClientEvent] = []
    await cluster.create_topic(topic)
    instance = MQClientInstance(
        cluster.namesrv.address,
        event_listener=lambda event: pulls.append(event) if isinstance(event, PullSent | PullAnswered) else None,
    )
    consumer = DefaultMQPushConsumer(f"g-{topic}", instance=instance, **FIRST)
    consumer.subscribe(topic)
    consumer.register_message_listener(inbox)
    producer = DefaultMQProducer("mixed", namesrv_addr=cluster.namesrv.address, send_msg_timeout=10_000)
    async with asyncio.timeout(4 * PATIENCE), producer, consumer:
        traffic = Traffic(producer, topic)
        await traffic.until_more(GLASS, ROCKET)
        await asyncio.to_thread(cluster.brokers[killed].stop, signal.SIGKILL)
        await traffic.until_more(survivor)
        at_kill = len(traffic.acknowledged[killed])
        await traffic.until_more(survivor)
        await until(lambda: traffic.acknowledged[survivor] <= set(inbox.bodies))
        assert len(traffic.acknowledged[killed]) == at_kill
        await asyncio.to_thread(cluster.brokers[killed].start)
        await traffic.until_more(killed, survivor)
        await traffic.stop()
        everything = traffic.acknowledged[GLASS] | traffic.acknowledged[ROCKET]
        await until(lambda: everything <= set(inbox.bodies))
    assert [str(failure) for failure in traffic.failures] == []
    sent, answered = (sum(isinstance(pull, kind) for pull in pulls) for kind in (PullSent, PullAnswered))
    assert sent == answered > 0
