"""Topics with ``queue.type=BatchCQ``: the same answers from GlassMQ and RocketMQ, and stores that both open."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from broker_core import commands as c
from broker_core.client.remoting_client import RemotingClient
from broker_core.codes import RequestCode
from broker_core.formats.commit_log_record import decode_all
from broker_core.formats.inner_batch import split_record
from broker_core.formats.message_batch import BatchEntry, encode_batch
from broker_core.formats.message_properties import decode, encode
from broker_core.remoting.remoting_command import RemotingCommand
from tests.compat.conftest import needs
from tests.compat.glassmq_broker import Address
from tests.compat.real_rocketmq import RealRocketMQ, jars
from tests.compat.test_there_and_back import call, our_engine
from tests.compat.test_topic_attributes import client_of, update

MADE_BY_EACH_BROKER = ("CLUSTER", "MSG_REGION", "TRACE_ON")


async def send(client: RemotingClient, topic: str, key: str, *bodies: str, tag: str = "") -> Mapping[str, str]:
    """Send a batch, or one message, to queue 0; returns the fields of the answer."""
    more = {"TAGS": tag} if tag else {}
    entries = [BatchEntry(0, body.encode(), encode({"UNIQ_KEY": f"{key}-{body}"} | more)) for body in bodies]
    letters = {"a": "p", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0"}
    letters |= {"i": encode({"UNIQ_KEY": key} | more)}
    if len(entries) == 1:
        answer = await client.invoke(RequestCode.SEND_MESSAGE_V2, letters, entries[0].body, timeout_s=60)
    else:
        body = encode_batch(entries)
        answer = await client.invoke(RequestCode.SEND_BATCH_MESSAGE, letters | {"m": "true"}, body, timeout_s=60)
    assert answer.code == 0, answer.remark
    return answer.ext_fields


async def pull(client: RemotingClient, topic: str, offset: int, number: int = 32, tags: str = "*") -> RemotingCommand:
    fields = {
        "consumerGroup": "g",
        "topic": topic,
        "queueId": "0",
        "queueOffset": str(offset),
        "maxMsgNums": str(number),
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": tags,
        "subVersion": "0",
        "expressionType": "TAG",
    }
    return await client.invoke(RequestCode.PULL_MESSAGE, fields, timeout_s=60)


def summary(answer: RemotingCommand) -> tuple[Any, ...]:
    """Code, next, first and last offset, and (offset, flags, INNER_NUM, INNER_BASE, bodies) of each record."""
    found = []
    for record in decode_all(answer.body) if answer.code == 0 else []:
        own = decode(record.properties)
        bodies = "".join(message.body.decode() for message in split_record(record))
        found.append((record.queue_offset, record.sys_flag, own.get("INNER_NUM"), own.get("INNER_BASE"), bodies))
    offsets = [int(answer.ext_fields[name]) for name in ("nextBeginOffset", "minOffset", "maxOffset")]
    return answer.code, *offsets, found


FIRST, SINGLE, LAST = (0, 192, "3", "0", "abc"), (3, 0, None, None, "d"), (4, 192, "2", "4", "ef")


async def fill(client: RemotingClient, topic: str) -> None:
    first = await send(client, topic, "FIRST", "a", "b", "c")
    assert (first["batchUniqId"], first["transactionId"], first["queueOffset"]) == ("FIRST", "FIRST", "0")
    assert "," not in first["msgId"]
    single = await send(client, topic, "SINGLE", "d")
    assert "batchUniqId" not in single and single["queueOffset"] == "3"
    assert (await send(client, topic, "LAST", "e", "f", tag="A"))["queueOffset"] == "4"


async def test_pulls_are_answered_alike(server: Address) -> None:
    client, topic = client_of(server), "batch-queues"
    try:
        answer = await update(client, topic, "+queue.type=BatchCQ")
        assert answer.code == 0, answer.remark
        await fill(client, topic)
        async with asyncio.timeout(90):  # RocketMQ dispatches by another thread
            while summary(await pull(client, topic, 4))[3] != 6:
                await asyncio.sleep(0.05)
        for offset, number, tags, code, following, records in (
            (0, 32, "*", 0, 6, [FIRST, SINGLE, LAST]),
            (1, 32, "*", 0, 6, [FIRST, SINGLE, LAST]),
            (2, 1, "*", 0, 3, [FIRST]),
            (0, 3, "*", 0, 3, [FIRST]),
            (0, 5, "*", 0, 4, [FIRST, SINGLE]),
            (5, 32, "*", 0, 6, [LAST]),
            (0, 32, "A", 0, 6, [LAST]),
            (0, 32, "B", 20, 6, []),
            (6, 32, "*", 19, 6, []),
            (7, 32, "*", 21, 6, []),
        ):
            found = summary(await pull(client, topic, offset, number, tags))
            assert found == (code, following, 0, 6, records), (offset, number, tags)
    finally:
        await client.close()


async def test_only_the_broker_makes_inner_batches(server: Address) -> None:
    client = client_of(server)
    letters = {"a": "p", "b": "plain-queues", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": ""}
    try:
        for changes in ({"f": "128"}, {"i": "INNER_NUM\x011\x02"}):
            answer = await client.invoke(RequestCode.SEND_MESSAGE_V2, letters | changes, b"x", timeout_s=60)
            assert answer.code == 13, answer.remark
    finally:
        await client.close()


def test_each_broker_continues_with_the_batches_of_the_other(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--compat"):
        pytest.skip("starts RocketMQ: make compat")
    needs(jars)
    store, topic = tmp_path / "store", "batches"
    with our_engine(store) as engine:
        made = call(engine, c.UpdateAndCreateTopic(topic=topic, attributes={"+queue.type": "BatchCQ"}))
        assert not isinstance(made, c.Failed), made
        for key, bodies in (("FIRST", "abc"), ("SINGLE", "d"), ("LAST", "ef")):
            messages = [c.OutgoingMessage(body=body.encode(), queue_id=0) for body in bodies]
            properties = encode({"UNIQ_KEY": key}) if len(bodies) > 1 else ""
            sent = call(engine, c.SendMessage(topic=topic, messages=messages, batch_properties=properties))
            assert isinstance(sent, c.Sent), sent
        while (work := engine.next_file_work(engine._context.clock.now())) is not None:
            work.run()
            engine.file_work_done(work, engine._context.clock.now())

    async def with_rocketmq(port: int) -> list[tuple[Any, ...]]:
        client = RemotingClient("127.0.0.1", port)
        try:
            before = summary(await pull(client, topic, 1))
            assert (await send(client, topic, "THEIRS", "g", "h"))["queueOffset"] == "6"
            async with asyncio.timeout(90):
                while (after := summary(await pull(client, topic, 5)))[3] != 8:
                    await asyncio.sleep(0.05)
            return [before, after]
        finally:
            await client.close()

    servers = RealRocketMQ(
        tmp_path / "rocketmq", storePathRootDir=str(store), storePathCommitLog=str(store / "commitlog")
    )
    try:
        servers.start()
        before, after = asyncio.run(with_rocketmq(servers.broker.port))
    finally:
        servers.stop()
    theirs = (6, 192, "2", "6", "gh")
    assert before == (0, 6, 0, 6, [FIRST, SINGLE, LAST])
    assert after == (0, 8, 0, 8, [LAST, theirs])
    with our_engine(store) as engine:
        pulled = call(engine, c.PullMessage(topic=topic, queue_id=0, queue_offset=0))
        sent = call(
            engine,
            c.SendMessage(
                topic=topic,
                messages=[c.OutgoingMessage(body=b"i", queue_id=0)] * 2,
                batch_properties=encode({"UNIQ_KEY": "OURS"}),
            ),
        )
    bodies = [message.body for record in decode_all(pulled.records) for message in split_record(record)]
    assert (b"".join(bodies), pulled.next_begin_offset) == (b"abcdefgh", 8)
    assert sent.messages[0].queue_offset == 8
