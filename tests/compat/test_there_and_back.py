"""A store goes from GlassMQ to Apache RocketMQ and back: each serves what the other wrote, and writes on."""

import asyncio
import json
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
from broker_core.formats.tags_code import hash_code
from broker_core.options import Options
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.store.config_tables import load_table
from broker_core.store.files import RealFiles
from tests.compat.conftest import needs
from tests.compat.real_rocketmq import BROKER_CONF, RealRocketMQ, jars
from tests.fakes.engine import context_of

CLOCK = SystemClock()
TOPIC, QUEUES, MESSAGES = "orders", 4, 500
SIZES = {
    "mapped_file_size_commit_log": int(BROKER_CONF["mappedFileSizeCommitLog"]),
    "mapped_file_size_consume_queue": int(BROKER_CONF["mappedFileSizeConsumeQueue"]),
    "mapped_file_size_consume_queue_ext": 1 << 16,
    "mapped_file_size_timer_log": int(BROKER_CONF["mappedFileSizeTimerLog"]),
    "max_hash_slot_num": int(BROKER_CONF["maxHashSlotNum"]),
    "max_index_num": int(BROKER_CONF["maxIndexNum"]),
}
Read = dict[int, list[CommitLogRecord]]
SQL_GROUP, EXPRESSION, WANTED = "sql-readers", "KEYS = 'key-442'", "ours 442 äöü"
WITH_EXT = {
    "enableConsumeQueueExt": "true",
    "enableCalcFilterBitMap": "true",
    "mappedFileSizeConsumeQueueExt": str(1 << 16),
}
"""What GlassMQ does by default."""


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
    call(engine, c.UpdateAndCreateTopic(topic=TOPIC, read_queues=QUEUES, write_queues=QUEUES))
    opened = c.OpenConnection(client_id="", protocol="remoting", remote="sql")
    by_sql = c.SubscriptionData(topic=TOPIC, sub_string=EXPRESSION, expression_type="SQL92", sub_version=7)
    group = c.ConsumerData(group=SQL_GROUP, subscriptions=[by_sql])
    beat = c.HeartBeat(client_id="sql", protocol="remoting", consumers=[group])
    engine.handle_batch([("sql", 1, opened), ("sql", 2, beat)], CLOCK.now())
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


def our_selection(engine: Engine) -> list[str]:
    found: list[str] = []
    for queue_id in range(QUEUES):
        offset, end = 0, engine.queue_view(TOPIC, queue_id).max_offset
        while offset < end:
            command = c.PullMessage(
                topic=TOPIC,
                queue_id=queue_id,
                queue_offset=offset,
                subscription=EXPRESSION,
                expression_type="SQL92",
                consumer_group=SQL_GROUP,
            )
            reply = call(engine, command)
            found += [record.body.decode() for record in decode_all(reply.records)]
            offset = reply.next_begin_offset
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


async def filtered(client: RemotingClient, group: str, expression: str, kind: str) -> list[str]:
    """The bodies that a pull of a group gets. With an SQL92 filter its subscription comes from its heartbeat."""
    subscription = {"topic": TOPIC, "subString": expression, "expressionType": kind, "subVersion": 7}
    data = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": [subscription],
        "unitMode": False,
    }
    if kind == "SQL92":
        beat = {"clientID": "me", "consumerDataSet": [data], "producerDataSet": []}
        answer = await client.invoke(RequestCode.HEART_BEAT, {}, json.dumps(beat).encode(), timeout_s=30)
        assert answer.code == 0, answer.remark
    found: list[str] = []
    for queue_id in range(QUEUES):
        offset = 0
        while True:
            fields = {
                "consumerGroup": group,
                "topic": TOPIC,
                "queueId": str(queue_id),
                "queueOffset": str(offset),
                "maxMsgNums": "32",
                "sysFlag": "0" if kind == "SQL92" else "4",
                "commitOffset": "0",
                "suspendTimeoutMillis": "0",
                "subscription": expression,
                "subVersion": "7",
                "expressionType": kind,
            }
            answer = await client.invoke(RequestCode.PULL_MESSAGE, fields, timeout_s=30)
            if answer.code == 0:
                found += [record.body.decode() for record in decode_all(answer.body)]
            elif answer.code != 20:
                assert answer.code == 19, answer.remark
                break
            offset = int(answer.ext_fields["nextBeginOffset"])
    return found


async def look_at_bitmaps(client: RemotingClient) -> list[dict[str, Any]]:
    """What RocketMQ reads from our extension for the messages 438, 442 and 446: QUERY_CONSUME_QUEUE."""
    fields = {"topic": TOPIC, "queueId": "2", "index": "109", "count": "3", "consumerGroup": SQL_GROUP}
    answer = await client.invoke(RequestCode.QUERY_CONSUME_QUEUE, fields, timeout_s=30)
    assert answer.code == 0, answer.remark
    return list(json.loads(answer.body)["queueData"])


async def their_view(client: RemotingClient) -> Read:
    found: Read = {}
    for queue_id in range(QUEUES):
        records: list[CommitLogRecord] = []
        while (answer := await pull(client, queue_id, len(records))).code == 0:
            records += decode_all(answer.body)
        found[queue_id] = records
    return found


async def with_rocketmq(servers: RealRocketMQ, ext: bool) -> tuple[Read, str, str]:
    """RocketMQ serves messages of GlassMQ's store, an offset, and a message by its key. It writes one to each queue.

    ``ext``: whether RocketMQ reads and writes the extension of consume queues.
    """
    client = RemotingClient("127.0.0.1", servers.broker.port)
    try:
        view = await their_view(client)
        assert await filtered(client, SQL_GROUP, EXPRESSION, "SQL92") == [WANTED]
        expected = [
            f"ours {n} äöü" for queue_id in range(QUEUES) for n in range(queue_id, MESSAGES, QUEUES) if n % 3 == 1
        ]
        by_tag = await filtered(client, "readers", "Tag1", "TAG")
        if not ext:  # it cannot read the tagsCodes, so its clients compare the tags
            assert len(by_tag) == MESSAGES
        if ext:
            assert by_tag == expected
            rows = await look_at_bitmaps(client)
            assert [(row["tagsCode"], row["eval"]) for row in rows] == [
                (hash_code("Tag0"), False),
                (hash_code("Tag1"), True),
                (hash_code("Tag2"), False),
            ]
            assert ["1" in row["bitMap"] for row in rows] == [False, True, False]
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
        tmp_path / "rocketmq",
        storePathRootDir=str(store),
        storePathCommitLog=str(store / "commitlog"),
        **({} if killed else WITH_EXT),
    )
    try:
        servers.start()
        view, offset, by_key = asyncio.run(with_rocketmq(servers, ext=not killed))
    finally:
        servers.stop()
    assert view == before
    assert sum(map(len, view.values())) == MESSAGES
    assert (offset, by_key) == ("17", "ours 42 äöü")
    table = load_table(RealFiles(), store / "config", "consumerFilter")
    assert table is not None
    theirs = table["filterDataByTopic"][TOPIC]["groupFilterData"][SQL_GROUP]
    with our_engine(store) as engine:
        ours = context_of(engine).filters.get(TOPIC, SQL_GROUP)
        assert ours is not None and ours.expression == theirs["expression"] == EXPRESSION
        assert theirs["bloomFilterData"] == {"bitNum": ours.bloom.bit_num, "bitPos": ours.bloom.bit_pos}
        assert (ours.version, ours.born_ms) == (theirs["clientVersion"], theirs["bornTime"])
        selected = our_selection(engine)
        after = our_view(engine)
        found = call(engine, c.QueryMessage(topic=TOPIC, key="theirs"))
    assert selected == [WANTED]
    for queue_id, records in after.items():
        assert records[:-1] == before[queue_id]
        assert records[-1].body == f"theirs {queue_id}".encode()
    assert len(list(decode_all(found.records))) == QUEUES
