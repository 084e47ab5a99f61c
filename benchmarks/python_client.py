"""One measurement of the client in Python, in a process of its own. It prints one line, as JSON.

    python benchmarks/python_client.py MODE --namesrv HOST:PORT [--tasks N] [--seconds N] [--warmup N] [--messages N]

sync     tasks that send one message after the other, as the threads of tests/compat/java's Throughput do
push     a push consumer of what is there already, with a coroutine listener and 32 messages in a call
wakeup   a push consumer whose pull is held: microseconds from the bytes of the answer to the call of the listener
idle     a push consumer of 1,000 queues to which nobody sends: processor time
"""

import argparse
import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from broker_core.client import DefaultMQProducer, DefaultMQPushConsumer, Message, remoting_client
from broker_core.codes import RequestCode

BODY = bytes(128)
BATCH = 32
QUEUES, MANY_QUEUES = 4, 1000
PAUSE_SECONDS = 0.005
SETTLE_SECONDS = 20
FIRST: dict[str, Any] = {"consume_from_where": "CONSUME_FROM_FIRST_OFFSET"}


async def create_topic(producer: DefaultMQProducer, queues: int) -> str:
    """A new topic at the broker that creates topics; its name."""
    topic = f"python-{os.getpid()}-{random.randrange(1 << 30)}"
    instance = producer.instance
    await instance.update_topic_route("TBW102")
    (address,) = instance._heartbeat_addresses()
    numbers = {"readQueueNums": str(queues), "writeQueueNums": str(queues), "perm": "6", "topicSysFlag": "0"}
    fields = {"topic": topic, "defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "order": "false"} | numbers
    answer = await instance.api.connection(address).invoke(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
    assert answer.code == 0, answer.remark
    while not await instance.update_topic_route(topic):
        await asyncio.sleep(0.1)
    return topic


def consumer_of(arguments: argparse.Namespace, topic: str, listener: Any, **options: Any) -> DefaultMQPushConsumer:
    consumer = DefaultMQPushConsumer(f"g-{topic}", namesrv_addr=arguments.namesrv, **options)
    consumer.subscribe(topic)
    consumer.register_message_listener(listener)
    return consumer


async def sync(arguments: argparse.Namespace, producer: DefaultMQProducer) -> dict[str, Any]:
    topic = await create_topic(producer, QUEUES)
    sent = 0
    ending = False

    async def send_on() -> None:
        nonlocal sent
        while not ending:
            await producer.send(Message(topic, BODY))
            sent += 1

    tasks = [asyncio.create_task(send_on()) for _ in range(arguments.tasks)]
    await asyncio.sleep(arguments.warmup)
    began, used, before = time.perf_counter(), time.process_time(), sent
    await asyncio.sleep(arguments.seconds)
    result = {
        "messages": sent - before,
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - used,
    }
    ending = True
    await asyncio.gather(*tasks)
    return result


async def push(arguments: argparse.Namespace, producer: DefaultMQProducer) -> dict[str, Any]:
    topic = await create_topic(producer, QUEUES)
    messages = arguments.messages // BATCH * BATCH
    for _ in range(0, messages, BATCH):
        await producer.send_batch([Message(topic, BODY)] * BATCH)
    received, first, used, all_received = 0, 0.0, 0.0, asyncio.Event()

    async def listener(given: list[Any], context: Any) -> None:
        nonlocal received, first, used
        if not received:
            first, used = time.perf_counter(), time.process_time()
        received += len(given)
        if received >= messages:
            all_received.set()

    async with consumer_of(arguments, topic, listener, consume_message_batch_max_size=BATCH, **FIRST):
        async with asyncio.timeout(300):
            await all_received.wait()
        seconds, cpu_seconds = time.perf_counter() - first, time.process_time() - used
    return {"messages": messages, "seconds": seconds, "cpu_seconds": cpu_seconds}


def note_arrivals(note: Callable[[], None]) -> None:
    """Have ``note`` called when a connection of this process has received bytes, before they are read."""
    connection = remoting_client._Connection
    receive = connection.data_received

    def data_received(self: Any, data: bytes) -> None:
        note()
        receive(self, data)

    connection.data_received = data_received  # type: ignore[method-assign]


async def wakeup(arguments: argparse.Namespace, producer: DefaultMQProducer) -> dict[str, Any]:
    topic = await create_topic(producer, 1)
    arrived_ns, waits, called = 0, [], asyncio.Event()

    def note() -> None:
        nonlocal arrived_ns
        arrived_ns = time.perf_counter_ns()

    async def listener(given: list[Any], context: Any) -> None:
        waits.append((time.perf_counter_ns() - arrived_ns) / 1000)
        called.set()

    async with consumer_of(arguments, topic, listener, **FIRST):
        await asyncio.sleep(2)
        note_arrivals(note)
        await producer.shutdown()  # its answers would be taken for pulls; a oneway send has none
        async with DefaultMQProducer("python-oneway", namesrv_addr=arguments.namesrv) as oneway:
            for _ in range(arguments.messages):
                called.clear()
                await oneway.send_oneway(Message(topic, BODY))
                await called.wait()
                await asyncio.sleep(PAUSE_SECONDS)
    waits = sorted(waits[len(waits) // 10 :])
    return {"p50": waits[len(waits) // 2], "p99": waits[len(waits) * 99 // 100], "messages": len(waits)}


async def idle(arguments: argparse.Namespace, producer: DefaultMQProducer) -> dict[str, Any]:
    topic = await create_topic(producer, MANY_QUEUES)

    async def listener(given: list[Any], context: Any) -> None: ...

    async with consumer_of(arguments, topic, listener) as consumer:
        while len(consumer.rebalance.process_queues) < MANY_QUEUES + 1:
            await asyncio.sleep(0.1)
        await asyncio.sleep(SETTLE_SECONDS)
        began, used = time.perf_counter(), time.process_time()
        await asyncio.sleep(arguments.seconds)
        share = (time.process_time() - used) / (time.perf_counter() - began)
    return {"queues": MANY_QUEUES, "percent": share * 100}


async def main() -> None:
    modes = {"sync": sync, "push": push, "wakeup": wakeup, "idle": idle}
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=modes)
    parser.add_argument("--namesrv", required=True)
    for name, otherwise in (("--tasks", 1), ("--seconds", 5), ("--warmup", 2), ("--messages", 500_000)):
        parser.add_argument(name, type=int, default=otherwise)
    arguments = parser.parse_args()
    async with DefaultMQProducer("python-throughput", namesrv_addr=arguments.namesrv) as producer:
        print(json.dumps(await modes[arguments.mode](arguments, producer)))


asyncio.run(main())
