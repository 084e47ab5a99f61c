"""The pytest plugin, in a pytest of its own."""

import subprocess
import sys
from pathlib import Path

from tests.conftest import PROJECT

TESTS = """
import asyncio
import pytest
from broker_core.client import DefaultMQProducer as AsyncProducer, DefaultMQPushConsumer, Message
from broker_core.client.sync import DefaultMQProducer

@pytest.mark.parametrize("time", [1, 2])
def test_every_broker_is_empty(glassmq_broker, time):
    with DefaultMQProducer("p", namesrv_addr=glassmq_broker.namesrv_addr) as producer:
        sent = [producer.send(Message("orders", b"x")) for _ in range(4)]
    assert {result.queue_offset for result in sent} == {0}

def test_a_failed_message_comes_again_after_ten_seconds(glassmq_virtual_cluster):
    async def story(cluster):
        cluster.add_broker()
        cluster.create_topic("orders")
        times, done = [], asyncio.Event()

        async def listener(messages, context):
            times.append(cluster.loop.time())
            if len(times) == 1:
                return "RECONSUME_LATER"
            done.set()

        consumer = DefaultMQPushConsumer("g", instance=cluster.make_client())
        consumer.subscribe("orders")
        consumer.register_message_listener(listener)
        async with consumer, AsyncProducer("p", instance=cluster.make_client()) as producer:
            await producer.send(Message("orders", b"x"))
            await done.wait()
        return times[1] - times[0]

    assert 10 <= glassmq_virtual_cluster(story) < 11
"""


def test_a_test_elsewhere_gets_a_broker(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(TESTS)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "broker_core.testing.pytest_plugin",
            "-p",
            "no:django",
            str(tmp_path),
        ],
        cwd=tmp_path,
        env={"PYTHONPATH": str(PROJECT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert "3 passed" in done.stdout, done.stdout + done.stderr
