"""A whole broker and clients that send nonsense: bytes that are no frames, frames that are no requests.

Each is answered or ends its connection. Nothing of it is a defect in the log, and nothing of it stays. By default some
thousands are sent; ``make torture`` sends 100,000.
"""

import asyncio
import gc
import logging
import os
import random
from pathlib import Path

import pytest

from broker_core.remoting.frame_decoder import FrameDecoder
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.server.broker_session import BrokerSession
from broker_core.server.remoting_channel import Channel
from tests.broker_core.remoting.test_frame_decoder import spoil
from tests.broker_core.server.test_broker_over_tcp import running, until
from tests.fakes.remoting import EXAMPLES, go, java

FRAMES = 1000
VALUES = [
    "",
    " ",
    "-1",
    "0",
    "1.5",
    "1e9",
    "99999999999999999999",
    "-9223372036854775809",
    "2147483648",
    "null",
    "true",
    "*",
    "\0",
    "\1",
    "\2",
    "../..",
    "a/b",
    "%RETRY%",
    "%DLQ%g",
    "TBW102",
    "SCHEDULE_TOPIC_XXXX",
    "x" * 300,
    "x" * 70_000,
    "\U0001f600" * 200,
    "[]",
    "{}",
    "||",
    "TagA ||",
]
BODIES = [
    b"",
    b"\0" * 8,
    b"{",
    b"[]",
    b"null",
    b"\xff" * 50,
    b'{"clientID":null}',
    b'{"mqSet":7}',
    b'{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"topic":5}]}]}',
    b"{" * 100_000,
]


def nonsense(chance: random.Random) -> bytes:
    """One request with something wrong in it, or some bytes that were one."""
    code = chance.choice([*EXAMPLES, *EXAMPLES, 0, -1, 3442, 1 << 30])
    fields, body = EXAMPLES.get(code, ({}, b""))
    fields = dict(fields)
    for name in chance.sample(sorted(fields), min(len(fields), chance.randint(0, 3))):
        if chance.random() < 0.3:
            del fields[name]
        else:
            fields[name] = chance.choice(VALUES)
    if chance.random() < 0.3:
        body = chance.choice(BODIES)
    data = bytearray(body)
    if data and chance.random() < 0.3:
        spoil(data, chance)
    kind = chance.choice(["java", "go", "binary"])
    if kind == "binary" and 0 <= code < 32768:
        frame = RemotingCommand.request(code, fields, bytes(data), opaque=1, serialize_type="ROCKETMQ").encode()
    else:
        frame = (go if kind == "go" else java)(code, fields, bytes(data))
    if chance.random() < 0.1:
        spoiled = bytearray(frame)
        spoil(spoiled, chance)
        return bytes(spoiled)
    return frame


async def send_nonsense(port: int, data: bytes) -> None:
    """Write it, say that there is no more, and see that only frames come back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    writer.write_eof()
    decoder = FrameDecoder()
    try:
        while answer := await reader.read(1 << 20):
            decoder.feed(answer)
    except ConnectionError:
        pass
    writer.transport.abort()


@pytest.mark.seeds(2)
async def test_nonsense_harms_nobody(tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    chance = random.Random(seed)
    async with running(tmp_path) as broker:
        good = await broker.connect()
        await good.send(b"before")
        known, descriptors = connections(), len(os.listdir("/dev/fd"))
        left = FRAMES
        while left > 0:
            number = chance.randint(1, 20)
            await send_nonsense(broker.port, b"".join(nonsense(chance) for _ in range(number)))
            left -= number
        await good.send(b"after")
        await until(lambda: broker.holds == 0)
        await until(lambda: connections() <= known)
        assert len(os.listdir("/dev/fd")) <= descriptors + allowed_files(tmp_path)
    assert [
        record.getMessage() for record in caplog.records if record.levelno > logging.WARNING or record.exc_info
    ] == []


def connections() -> int:
    """How many there are in memory, whoever still knows them."""
    gc.collect()
    return sum(isinstance(thing, Channel | BrokerSession) for thing in gc.get_objects())


def allowed_files(folder: Path) -> int:
    """Files that the broker may keep open: those of its store."""
    return sum(path.is_file() for path in folder.rglob("*"))
