"""A consumer that receives over HTTP from a real engine behind the fake port."""

from typing import Any

import httpx

from bridge.port import commands
from tests.fakes.engine import Bench
from tests.fakes.fake_port import FakePort

TOPIC = "/api/v1/topics/orders"
RECEIPT = "0 1700000000000 60000 0 0 broker-a 0 0"


def engine_behind(port: FakePort) -> Bench:
    """The engine behind the port. It answers at once or, if it would hold a receive, the port holds it."""
    bench = Bench()

    def pop(command: commands.PopMessage) -> commands.Reply | None:
        (request_id,) = bench.submit(command)
        return bench.final(request_id)

    port.replies[commands.PopMessage] = pop
    for kind in (commands.AckMessage, commands.ChangeInvisibleTime):
        port.replies[kind] = bench.call
    return bench


async def post(client: httpx.AsyncClient, call: str, **body: Any) -> Any:
    """A call for group g, which is answered 200."""
    answer = await client.post(f"{TOPIC}/{call}", json={"group": "g"} | body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def receive(client: httpx.AsyncClient, **body: Any) -> list[Any]:
    """The messages that are there."""
    messages: list[Any] = (await post(client, "receive", **{"wait_ms": 0, "n": 32} | body))["messages"]
    return messages
