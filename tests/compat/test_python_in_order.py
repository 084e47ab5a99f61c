"""A group that consumes in order, with a member in Python and another in Java or Go."""

import asyncio
import json
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from broker_core.client import DefaultMQProducer, Message, MessageExt
from tests.compat import go_program, java_program
from tests.compat.conftest import needs
from tests.compat.glassmq_broker import Address
from tests.compat.test_python_client import FIRST, consumer_of, producer_of, until

QUEUES = 4
EACH = 20
"""Messages that a member must have consumed before the next step."""


class Consumed(NamedTuple):
    """A call of a listener. The times are ms since 1970 by the clock that both processes have."""

    began_ms: int
    ended_ms: int
    offset: int


class Calls:
    """What both members have consumed, by queue."""

    def __init__(self) -> None:
        self.by_queue: defaultdict[int, list[Consumed]] = defaultdict(list)
        self.of_python = 0
        self.of_stock = 0

    async def listener(self, messages: list[MessageExt], context: Any) -> None:
        """Python's."""
        began_ms = time.time_ns() // 1_000_000
        await asyncio.sleep(0.01)
        queue_id, offset = messages[0].record.queue_id, messages[0].queue_offset
        self.by_queue[queue_id].append(Consumed(began_ms, time.time_ns() // 1_000_000, offset))
        self.of_python += 1

    async def read_stock(self, output: asyncio.StreamReader) -> None:
        async for line in output:
            if line.startswith(b"{"):
                call = json.loads(line)
                self.by_queue[call["queue"]].append(Consumed(call["began_ms"], call["ended_ms"], call["offset"]))
                self.of_stock += 1

    async def until_more(self, *, python: bool = False, stock: bool = False) -> None:
        """Wait until each of these members has consumed some more."""
        of_python, of_stock = self.of_python + EACH * python, self.of_stock + EACH * stock
        await until(lambda: self.of_python >= of_python and self.of_stock >= of_stock)

    def check(self, sent: dict[int, int]) -> None:
        """Everything was consumed, in order, and no queue by both members at once."""
        for queue_id, count in sent.items():
            calls = sorted(self.by_queue[queue_id])
            highest = -1
            for call in calls:  # what comes again begins with the first that was not committed
                assert call.offset <= highest + 1, (queue_id, calls)
                highest = max(highest, call.offset)
            assert highest == count - 1
            for call, following in pairwise(calls):
                assert call.ended_ms <= following.began_ms, (queue_id, call, following)


def java_command(server: Address, group: str, topic: str, home: str) -> list[str]:
    names = ("--namesrv", server.namesrv, "--group", group, "--topic", topic)
    return java_program.command("member", *names, "--orderly", "1", "--listener", "printing", home=home)


def go_command(server: Address, group: str, topic: str, home: str) -> list[str]:
    names = ("-namesrv", server.namesrv, "-group", group, "-topic", topic)
    return [str(go_program.program()), "member", *names, "-orderly"]


@asynccontextmanager
async def stock_member(
    make_command: Callable[[Address, str, str, str], list[str]], server: Address, group: str, topic: str, calls: Calls
) -> AsyncIterator[asyncio.StreamWriter]:
    """A consumer in Java or Go. A line that is written to it makes it leave the group and end."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        pipe, nowhere = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        stock = await asyncio.create_subprocess_exec(
            *make_command(server, group, topic, home),
            stdin=pipe,
            stdout=pipe,
            stderr=nowhere,
            cwd=home,
            env=os.environ | {"HOME": home},
        )
        assert stock.stdin is not None and stock.stdout is not None
        reading = asyncio.ensure_future(calls.read_stock(stock.stdout))
        try:
            yield stock.stdin
            await asyncio.wait_for(stock.wait(), 60)
        finally:
            if stock.returncode is None:
                stock.kill()
            await stock.wait()
            await reading


async def test_queues_are_consumed_in_order_while_a_member_in_java_comes_and_goes(server: Address) -> None:
    needs(java_program.classes)
    await consume_while_a_member_comes_and_goes(server, "PyOrderJava", java_command)


async def test_queues_are_consumed_in_order_while_a_member_in_go_comes_and_goes(
    server: Address, everything: bool
) -> None:
    if not everything:
        pytest.skip("a Go client may wait 20 s for a lock: --compat")
    needs(go_program.program)
    await consume_while_a_member_comes_and_goes(server, "PyOrderGo", go_command)


async def consume_while_a_member_comes_and_goes(
    server: Address, topic: str, make_command: Callable[[Address, str, str, str], list[str]]
) -> None:
    calls, stopped = Calls(), asyncio.Event()
    sent: dict[int, int] = defaultdict(int)

    async def send_on(producer: DefaultMQProducer) -> None:
        while not stopped.is_set():
            result = await producer.send(Message(topic, b"x"))
            queue_id = result.message_queue.queue_id
            sent[queue_id] = max(sent[queue_id], result.queue_offset + 1)
            await asyncio.sleep(0.005)

    consumer = consumer_of(server, topic, None, **FIRST)
    consumer.register_message_listener(calls.listener, orderly=True)
    async with producer_of(server) as producer:
        await producer.send(Message(topic, b"creates four queues"))
        sending = asyncio.ensure_future(send_on(producer))
        async with consumer:
            await calls.until_more(python=True)
            async with stock_member(make_command, server, consumer.group, topic, calls) as stock:
                await calls.until_more(stock=True)
                await calls.until_more(python=True, stock=True)
                stock.write(b"leave\n")
            await calls.until_more(python=True)
            stopped.set()
            await sending
            await until(lambda: all(max(calls.by_queue[n])[2] == count - 1 for n, count in sent.items()))
    calls.check(sent)
    assert len(sent) == QUEUES
