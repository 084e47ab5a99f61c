"""A store with timer messages goes from GlassMQ to Apache RocketMQ and back: none is lost, none comes twice."""

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import pytest

from broker_core import commands as c
from broker_core.client.remoting_client import RemotingClient
from broker_core.codes import RequestCode
from broker_core.engine import Engine
from broker_core.formats.commit_log_record import decode_all
from broker_core.formats.message_properties import encode
from tests.compat.conftest import needs
from tests.compat.real_rocketmq import RealRocketMQ, jars
from tests.compat.test_there_and_back import CLOCK, call, our_engine
from tests.fakes.engine import context_of

TOPIC = "timed"
FAR_S = 600


def wall_ms() -> int:
    return CLOCK.now().wall_ms


def let_pass(engine: Engine, seconds: float) -> None:
    """Run what is due."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        engine.tick(CLOCK.now())
        time.sleep(0.01)


def send(engine: Engine, body: bytes, due_ms: int) -> c.SentMessage:
    message = c.OutgoingMessage(body=body, queue_id=0, properties=encode({"TIMER_DELIVER_MS": str(due_ms)}))
    reply = call(engine, c.SendMessage(topic=TOPIC, messages=[message]))
    assert isinstance(reply, c.Sent), reply
    return reply.messages[0]


def pulled(engine: Engine) -> list[bytes]:
    reply = call(engine, c.PullMessage(topic=TOPIC, queue_id=0, queue_offset=0, consumer_group="g"))
    return [record.body for record in decode_all(reply.records)]


async def at_rocketmq(client: RemotingClient, expected: set[bytes], seconds: float) -> list[bytes]:
    """What RocketMQ has in the topic once these messages are there."""
    end = time.monotonic() + seconds
    while True:
        answer = await client.invoke(RequestCode.PULL_MESSAGE, PULL, timeout_s=30)
        bodies = [record.body for record in decode_all(answer.body)] if answer.code == 0 else []
        if expected <= set(bodies) or time.monotonic() > end:
            return bodies
        await asyncio.sleep(0.2)


PULL = {
    "consumerGroup": "readers",
    "topic": TOPIC,
    "queueId": "0",
    "queueOffset": "0",
    "maxMsgNums": "32",
    "sysFlag": "4",
    "commitOffset": "0",
    "suspendTimeoutMillis": "0",
    "subscription": "*",
    "subVersion": "0",
    "expressionType": "TAG",
}


async def with_rocketmq(port: int, soon: set[bytes]) -> tuple[list[bytes], str]:
    client = RemotingClient("127.0.0.1", port)
    try:
        bodies = await at_rocketmq(client, soon, 60)
        for body, due_ms in ((b"theirs soon", wall_ms() + 2500), (b"theirs far", wall_ms() + FAR_S * 1000)):
            fields: dict[str, Any] = {
                "producerGroup": "p",
                "topic": TOPIC,
                "defaultTopic": "TBW102",
                "defaultTopicQueueNums": "4",
                "queueId": "0",
                "sysFlag": "0",
                "bornTimestamp": "1",
                "flag": "0",
                "reconsumeTimes": "0",
                "properties": encode({"TIMER_DELIVER_MS": str(due_ms), "UNIQ_KEY": f"key-{due_ms}"}),
                "unitMode": "false",
            }
            sent = await client.invoke(RequestCode.SEND_MESSAGE, fields, body, timeout_s=30)
            assert sent.code == 0, sent.remark
        bodies = await at_rocketmq(client, {b"theirs soon", *soon}, 30)
        metrics = await client.invoke(RequestCode.GET_TIMER_METRICS, {}, timeout_s=30)
        return bodies, metrics.body.decode()
    finally:
        await client.close()


def test_timers_wait_at_both_brokers(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--compat"):
        pytest.skip("starts RocketMQ: make compat")
    needs(jars)
    store = tmp_path / "store"
    with our_engine(store) as engine:
        start_ms = wall_ms()
        for number in range(3):
            send(engine, b"ours at once %d" % number, start_ms + 300 + number)
        for number in range(20):
            send(engine, b"ours soon %d" % number, start_ms + 20_000 + 100 * number)
        recalled = send(engine, b"recalled", start_ms + 21_000)
        assert isinstance(call(engine, c.RecallMessage(topic=TOPIC, recall_handle=recalled.recall_handle)), c.Recalled)
        send(engine, b"ours far", start_ms + FAR_S * 1000)
        let_pass(engine, 1)
        at_once = pulled(engine)
    assert at_once == [b"ours at once %d" % number for number in range(3)]
    soon = {b"ours soon %d" % number for number in range(20)}
    servers = RealRocketMQ(
        tmp_path / "rocketmq", storePathRootDir=str(store), storePathCommitLog=str(store / "commitlog")
    )
    try:
        servers.start()
        bodies, metrics = asyncio.run(with_rocketmq(servers.broker.port, soon))
    finally:
        servers.stop()
    assert sorted(bodies) == sorted([*at_once, *soon, b"theirs soon"])
    assert re.search(r'"timed":\{"count":2,', metrics), metrics
    with our_engine(store) as engine:
        assert engine.counters.timer_messages_now == 2
        let_pass(engine, 1.5)
        assert context_of(engine).store.timers.counts.by_topic == {TOPIC: 2}
        assert sorted(pulled(engine)) == sorted(bodies)
