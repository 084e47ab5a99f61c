"""SIGKILL with timer messages pending, put back, recalled and due: a real broker in real time."""

import asyncio
import signal
import time
from random import Random
from typing import Any

import httpx
import pytest

from tests.compat.glassmq_broker import PATIENT
from tests.torture.proof import http_client, running

TOPIC = "timed"
OPTIONS = (*PATIENT, "timerRollWindowSlot=4")
"""Messages that are due in 4 s or later are put back into the timer queue once or twice."""
CYCLES, MESSAGES = 4, 60


class Timed:
    """Messages by their numbers: when they are due, wall ms, and those whose recall was answered with success."""

    def __init__(self) -> None:
        self.chance = Random(1)
        self.due: dict[int, int] = {}
        self.recalled: set[int] = set()

    async def send(self, client: httpx.AsyncClient, number: int) -> None:
        """Send one message, and recall one of four."""
        due_ms = int(time.time() * 1000) + self.chance.randrange(500, 12_000)
        message = {"body": str(number), "queue_id": 0, "deliver_at_ms": due_ms}
        is_to_recall = self.chance.random() < 0.25
        try:
            answer = await client.post(f"/api/v1/topics/{TOPIC}/messages", json={"messages": [message]})
            answer.raise_for_status()
            self.due[number] = due_ms
            if is_to_recall:
                handle = {"recall_handle": answer.json()["messages"][0]["recall_handle"]}
                answer = await client.post(f"/api/v1/topics/{TOPIC}/recalls", json=handle)
                if answer.is_success:
                    self.recalled.add(number)
                elif answer.is_server_error:
                    del self.due[number]
        except httpx.TransportError:  # nothing is known of the last request
            self.due.pop(number, None)


async def stored(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    """All messages that were delivered to the topic."""
    messages: list[dict[str, Any]] = []
    while True:
        params = {"offset": len(messages), "wait_ms": 0, "limit": 1000}
        answer = await client.get(f"/api/v1/topics/{TOPIC}/queues/0/messages", params=params)
        page = answer.raise_for_status().json()["messages"]
        if not page:
            return messages
        messages += page


@pytest.mark.torture
@pytest.mark.parametrize("mode", ["SYNC_FLUSH", "ASYNC_FLUSH"])
async def test_a_killed_broker_delivers_every_timer_message_that_is_not_recalled_and_none_early(mode: str) -> None:
    timed = Timed()
    with running(*OPTIONS, f"flushDiskType={mode}") as (broker, _):
        for cycle in range(CYCLES):
            async with http_client(broker) as client:
                if not cycle:
                    (await client.put(f"/api/v1/topics/{TOPIC}", json={"queues": 1})).raise_for_status()
                numbers = range(cycle * MESSAGES, (cycle + 1) * MESSAGES)
                sends = [asyncio.create_task(timed.send(client, number)) for number in numbers]
                await asyncio.wait(sends, timeout=timed.chance.uniform(0.1, 3))
                broker.stop(signal.SIGKILL)
                await asyncio.gather(*sends)
            await asyncio.to_thread(broker.start)
        expected = set(timed.due) - timed.recalled
        async with http_client(broker) as client:
            async with asyncio.timeout(60):
                while not expected <= {int(message["body"]) for message in await stored(client)}:
                    await asyncio.sleep(0.2)
            messages = await stored(client)
    assert len(expected) > MESSAGES and timed.recalled
    assert not timed.recalled & {int(message["body"]) for message in messages}
    early = [one for one in messages if one["store_time_ms"] < timed.due.get(int(one["body"]), 0)]
    assert early == []
