"""The synchronous face: one thread runs the loop; listeners have threads of their own."""

import asyncio
import inspect
import subprocess
import sys
import threading

import pytest

from broker_core import client
from broker_core.client import Message, MQClientException, sync
from broker_core.client.sync import DefaultMQProducer, DefaultMQPushConsumer, call
from tests.fakes.ports import unused_ports


def test_all_work_is_done_on_one_loop() -> None:
    async def where() -> tuple[int, str]:
        return id(asyncio.get_running_loop()), threading.current_thread().name

    first, second = call(where()), call(where())
    assert first == second and first[1] == "glassmq-client"


def test_a_call_from_its_own_loop_is_refused_instead_of_waiting_for_ever() -> None:
    async def inside() -> None:
        call(asyncio.sleep(0))

    with pytest.raises(MQClientException, match="must await the clients"):
        call(inside())


def test_errors_reach_the_caller() -> None:
    address = f"127.0.0.1:{unused_ports(1)[0]}"
    consumer = DefaultMQPushConsumer("g", namesrv_addr=address)
    consumer.subscribe("orders")
    consumer.register_message_listener(lambda messages, context: None)
    with pytest.raises(MQClientException, match="no name server answers"):
        consumer.start()
    producer = DefaultMQProducer("p", namesrv_addr=address)
    with producer, pytest.raises(MQClientException, match="no name server answers"):
        producer.send(Message("orders", b"x"))


@pytest.mark.parametrize(
    "name",
    [
        "DefaultMQProducer",
        "TransactionMQProducer",
        "DefaultMQPushConsumer",
        "DefaultLitePullConsumer",
        "DefaultMQPullConsumer",
    ],
)
def test_the_methods_take_what_those_for_asyncio_take(name: str) -> None:
    def parameters(kind: type, method: str) -> list[tuple[str, object, object]]:
        found = inspect.signature(getattr(kind, method)).parameters.values()
        return [(one.name, one.kind, one.default) for one in found]

    with_loop, without = getattr(client, name), getattr(sync, name)
    methods = [method for method in vars(without) if not method.startswith("_")]
    assert {"start", "shutdown"} <= set(dir(without)) and methods
    for method in methods:
        assert parameters(without, method) == parameters(with_loop, method), method


FORK = """
import asyncio, os, signal
from broker_core.client.sync import call
call(asyncio.sleep(0))
child = os.fork()
if not child:
    signal.alarm(20)
    print(call(asyncio.sleep(0, "the child's own loop")), flush=True)
    os._exit(0)
status = os.waitpid(child, 0)[1]
print(call(asyncio.sleep(0, status)))
"""


def test_a_forked_process_has_a_loop_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["the child's own loop", "0"]
