"""A store goes from GlassMQ to Apache RocketMQ and back: each serves what the other wrote, and writes on."""

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from broker_core import commands as c
from broker_core.client.remoting_client import RemotingClient
from broker_core.clock import SystemClock
from broker_core.codes import RequestCode
from broker_core.engine import Engine
from broker_core.formats.commit_log_record import CommitLogRecord, decode_all
from broker_core.formats.message_id import UniqKeyGenerator
from broker_core.options import Options
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.store.files import RealFiles
from tests.compat.conftest import needs
from tests.compat.real_rocketmq import BROKER_CONF, RealRocketMQ, jars
from tests.fakes.engine import context_of

CLOCK = SystemClock()
TOPIC, QUEUES, MESSAGES = "orders", 4, 500
SIZES = {
    "mapped_file_size_commit_log": int(BROKER_CONF["mappedFileSizeCommitLog"]),
    "mapped_file_size_consume_queue": int(BROKER_CONF["mappedFileSizeConsumeQueue"]),
    "mapped_file_size_timer_log": int(BROKER_CONF["mappedFileSizeTimerLog"]),
    "max_hash_slot_num": int(BROKER_CONF["maxHashSlotNum"]),
    "max_index_num": int(BROKER_CONF["maxIndexNum"]),
}
Read = dict[int, list[CommitLogRecord]]


@contextmanager
def our_engine(store: Path, *, killed: bool = False) -> Iterator[Engine]:
    """An engine on the store; ``killed``: it is not closed, so its abort file stays."""
    keys = UniqKeyGenerator("127.0.0.1", 1, random.Random(7))
    engine = Engine.open(store, Options(**SIZES), RealFiles(), CLOCK, keys.next)
    yield engine
    if killed:
        flush = engine.next_flush(CLOCK.now())
        if flush is not None:
            flush.run()
        lock = context_of(engine).store._lock
        assert lock is not None
        lock.release()
        return
    engine.drain(CLOCK.now())
    engine.close(CLOCK.now())


def call(engine: Engine, command: c.Command) -> Any:
    [(_, _, reply)] = engine.handle_batch([("me", 1, command)], CLOCK.now()).replies
    return reply


def write(engine: Engine) -> None:
    for number in range(MESSAGES):
        properties = f"TAGS\x01Tag{number % 3}\x02KEYS\x01key-{number}\x02"
        reply = call(
            engine,
            c.SendMessage(
                topic=TOPIC,
                messages=[
                    c.OutgoingMessage(
                        body=f"ours {number} äöü".encode(), queue_id=number % QUEUES, properties=properties
                    )
                ],
            ),
        )
        assert isinstance(reply, c.Sent), reply
    call(engine, c.UpdateConsumerOffset(group="readers", offsets=[c.QueueOffset(topic=TOPIC, queue_id=1, offset=17)]))
    while (work := engine.next_file_work(CLOCK.now())) is not None:
        work.run()
        engine.file_work_done(work, CLOCK.now())


def our_view(engine: Engine) -> Read:
    found: Read = {}
    for queue_id in range(QUEUES):
        records: list[CommitLogRecord] = []
        while True:
            pull = call(engine, c.PullMessage(topic=TOPIC, queue_id=queue_id, queue_offset=len(records)))
            if not pull.records:
                break
            records += decode_all(pull.records)
        found[queue_id] = records
    return found


async def pull(client: RemotingClient, queue_id: int, offset: int) -> RemotingCommand:
    return await client.invoke(
        RequestCode.PULL_MESSAGE,
        {
            "consumerGroup": "readers",
            "topic": TOPIC,
            "queueId": str(queue_id),
            "queueOffset": str(offset),
            "maxMsgNums": "32",
            "sysFlag": "4",
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subscription": "*",
            "subVersion": "0",
            "expressionType": "TAG",
        },
        timeout_s=30,
    )


async def their_view(client: RemotingClient) -> Read:
    found: Read = {}
    for queue_id in range(QUEUES):
        records: list[CommitLogRecord] = []
        while (answer := await pull(client, queue_id, len(records))).code == 0:
            records += decode_all(answer.body)
        found[queue_id] = records
    return found


async def with_rocketmq(servers: RealRocketMQ) -> tuple[Read, str, str]:
    """What RocketMQ serves of our store, an offset, a message by its key; and it writes one to each queue."""
    client = RemotingClient("127.0.0.1", servers.broker.port)
    try:
        view = await their_view(client)
        offset = await client.invoke(
            RequestCode.QUERY_CONSUMER_OFFSET,
            {"consumerGroup": "readers", "topic": TOPIC, "queueId": "1"},
            timeout_s=30,
        )
        by_key = await client.invoke(
            RequestCode.QUERY_MESSAGE,
            {"topic": TOPIC, "key": "key-42", "maxNum": "8", "beginTimestamp": "0", "endTimestamp": str(1 << 60)},
            timeout_s=30,
        )
        [record] = decode_all(by_key.body)
        for queue_id in range(QUEUES):
            sent = await client.invoke(
                RequestCode.SEND_MESSAGE,
                {
                    "producerGroup": "p",
                    "topic": TOPIC,
                    "defaultTopic": "TBW102",
                    "defaultTopicQueueNums": "4",
                    "queueId": str(queue_id),
                    "sysFlag": "0",
                    "bornTimestamp": "1",
                    "flag": "0",
                    "reconsumeTimes": "0",
                    "properties": "KEYS\x01theirs\x02",
                    "unitMode": "false",
                },
                f"theirs {queue_id}".encode(),
                timeout_s=30,
            )
            assert sent.code == 0, sent.remark
        return view, offset.ext_fields["offset"], record.body.decode()
    finally:
        await client.close()


@pytest.mark.parametrize("killed", [False, True], ids=["closed", "killed"])
def test_each_broker_continues_with_the_store_of_the_other(
    tmp_path: Path, request: pytest.FixtureRequest, killed: bool
) -> None:
    if not request.config.getoption("--compat"):
        pytest.skip("starts RocketMQ twice: make compat")
    needs(jars)
    store = tmp_path / "store"
    with our_engine(store, killed=killed) as engine:
        write(engine)
        before = our_view(engine)
    assert (store / "abort").exists() is killed
    servers = RealRocketMQ(
        tmp_path / "rocketmq", storePathRootDir=str(store), storePathCommitLog=str(store / "commitlog")
    )
    try:
        servers.start()
        view, offset, by_key = asyncio.run(with_rocketmq(servers))
    finally:
        servers.stop()
    assert view == before
    assert sum(map(len, view.values())) == MESSAGES
    assert (offset, by_key) == ("17", "ours 42 äöü")
    with our_engine(store) as engine:
        after = our_view(engine)
        found = call(engine, c.QueryMessage(topic=TOPIC, key="theirs"))
    for queue_id, records in after.items():
        assert records[:-1] == before[queue_id]
        assert records[-1].body == f"theirs {queue_id}".encode()
    assert len(list(decode_all(found.records))) == QUEUES
