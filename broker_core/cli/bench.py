"""``glassmq bench``: how many messages a cluster takes and gives back, with this client."""

import asyncio
import random
from collections.abc import Iterator
from statistics import quantiles
from typing import Any

import click

from broker_core.cli.default_mq_admin_ext import DefaultMQAdminExt
from broker_core.cli.errors import CommandError, client_errors
from broker_core.cli.output import number, print_json, print_line
from broker_core.cli.target import Command, Target, pass_target
from broker_core.client import DefaultMQProducer, DefaultMQPushConsumer, Message, MessageExt
from broker_core.clock import SystemClock

GROUP = "glassmq-bench"
PATIENCE_S = 30.0
"""How long nothing may be consumed before the measurement is given up."""
CONSUMER_THREADS = 64


@click.command(cls=Command)
@click.option("--topic", default="glassmq-bench", help="The topic is created if missing; its messages are not deleted.")
@click.option("--messages", type=click.IntRange(1, 10_000_000), default=10_000)
@click.option("--size", type=click.IntRange(1, 4 << 20), default=128, help="Bytes of a body.")
@click.option("--tasks", type=click.IntRange(1, 1024), default=64, help="Sends at once.")
@pass_target
def bench(target: Target, topic: str, messages: int, size: int, tasks: int) -> None:
    """Send messages and consume them, and print rates and delays.

    One process of Python measures itself too: the broker may be faster than that.
    """
    with client_errors():
        answer = asyncio.run(_bench(target, topic, messages, size, tasks))
    if target.as_json:
        print_json(answer)
        return
    for what in ("send", "consume"):
        result = answer[what]
        print_line(
            f"{what:8} {number(result['messages_per_s'])} messages/s, "
            f"p50 {result['p50_us'] / 1000:.2f} ms, p99 {result['p99_us'] / 1000:.2f} ms"
        )
    print_line(
        f"{number(messages)} messages of {number(size)} bytes; consume is measured from the send to the listener"
    )


async def _bench(target: Target, topic: str, messages: int, size: int, tasks: int) -> dict[str, Any]:
    async with DefaultMQAdminExt(target.namesrv) as admin:
        await target.check_name_server(admin)
    clock = SystemClock()
    run = f"{random.SystemRandom().getrandbits(64):016x}"
    body = b"x" * size
    begun: dict[int, int] = {}
    send_ns: list[int] = []
    consumed_ns: list[int] = []
    consumed: set[int] = set()
    changed = asyncio.Event()
    last_ns = 0

    async def listener(received: list[MessageExt], context: object) -> None:
        nonlocal last_ns
        for message in received:
            index = int(message.properties.get("index", -1))
            if message.properties.get("run") == run and index not in consumed:
                last_ns = clock.mono_ns()
                consumed.add(index)
                consumed_ns.append(last_ns - begun[index])
        if len(consumed) == messages:
            changed.set()

    async def send(producer: DefaultMQProducer, indexes: Iterator[int]) -> None:
        for index in indexes:
            begun[index] = clock.mono_ns()
            await producer.send(Message(topic, body, properties={"run": run, "index": str(index)}))
            send_ns.append(clock.mono_ns() - begun[index])

    consumer = DefaultMQPushConsumer(GROUP, namesrv_addr=target.namesrv, consume_thread_max=CONSUMER_THREADS)
    consumer.subscribe(topic)
    consumer.register_message_listener(listener)
    async with DefaultMQProducer(f"{GROUP}-producer", namesrv_addr=target.namesrv) as producer:
        await producer.send(Message(topic, b"creates the topic"))
        async with consumer:
            begin_ns = clock.mono_ns()
            indexes = iter(range(messages))
            await asyncio.gather(*(send(producer, indexes) for _ in range(tasks)))
            sent_ns = clock.mono_ns() - begin_ns
            while not changed.is_set():
                before = len(consumed)
                try:
                    await asyncio.wait_for(changed.wait(), PATIENCE_S)
                except TimeoutError:
                    if len(consumed) == before:
                        raise CommandError(
                            f"{len(consumed)} of {messages} messages were consumed, then none for {PATIENCE_S:g} s"
                        ) from None
    return {
        "topic": topic,
        "messages": messages,
        "size": size,
        "tasks": tasks,
        "send": figures(send_ns, sent_ns),
        "consume": figures(consumed_ns, last_ns - begin_ns),
    }


def figures(durations_ns: list[int], span_ns: int) -> dict[str, int]:
    """The rate of events in ``span_ns``, and the quantiles of their durations."""
    cuts = quantiles(durations_ns, n=100) if len(durations_ns) > 1 else durations_ns * 99
    return {
        "messages_per_s": round(len(durations_ns) * 1e9 / max(1, span_ns)),
        "p50_us": round(cuts[49] / 1000),
        "p99_us": round(cuts[98] / 1000),
    }
