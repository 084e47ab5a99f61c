"""The last minutes of a topic under other ways to poll."""

from typing import Any

import httpx
import pytest

from bridge.port import commands
from broker_core.formats.poll_journal import ENTRY, KINDS
from tests.fakes.fake_port import FakePort

PATH = "/api/v1/topics/orders/what-if"
WRITTEN_MS = 4_000_000


def entry(at_ms: int, held_us: int, wake_us: int, messages: int = 1) -> bytes:
    kind = KINDS.index("woken") + 1
    return ENTRY.pack(at_ms, 0, 1, 1, -1, held_us, wake_us, 15_000, 0, messages, 10, 1, 2, 3, kind, 1, 1, 1)


def pulls(*entries: bytes, **changes: Any) -> commands.Pulls:
    fields = {"strings": ["", "orders", "g", "c"], "entries": b"".join(entries), "complete": True, "journal": True}
    return commands.Pulls(**({"written_ms": WRITTEN_MS} | fields | changes))  # type: ignore[arg-type]


async def test_three_methods_side_by_side(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.GetPulls] = pulls(entry(2000, 1_300_200, 200), entry(3000, 500_000, -1, messages=0))
    body = (await client.get(PATH + "?minutes=10&interval_ms=500&group=g")).json()
    assert body["to_ms"] == WRITTEN_MS
    assert (body["pulls"], body["empty"], body["waits"], body["complete"]) == (2, 1, 2, True)
    long, short, stock = body["methods"]
    assert long == {
        "method": "long_polling",
        "requests": 2,
        "empty": 1,
        "samples": 1,
        "p50_us": 200,
        "p99_us": 200,
        "max_us": 200,
        "delays_us": [200],
    }
    assert (short["method"], short["requests"], short["empty"], short["max_us"]) == ("short_polling", 5, 4, 200_200)
    assert (stock["method"], stock["requests"], stock["max_us"]) == ("stock_rocketmq", 2, 400)
    asked = next(sent for sent in port.commands if isinstance(sent, commands.GetPulls))
    assert (asked.topic, asked.group, asked.since_ms) == ("orders", "g", body["from_ms"])


async def test_a_part_says_of_which_time_it_is_and_no_pulls_are_no_delays(
    client: httpx.AsyncClient, port: FakePort
) -> None:
    port.replies[commands.GetPulls] = pulls(entry(2000, 10, 5), entry(7000, 10, 5), complete=False)
    body = (await client.get(PATH)).json()
    assert (body["from_ms"], body["to_ms"], body["complete"]) == (2000, 7000, False)
    port.replies[commands.GetPulls] = pulls()
    body = (await client.get(PATH)).json()
    assert [(totals["requests"], totals["p99_us"]) for totals in body["methods"]] == [(0, None)] * 3


async def test_without_a_journal_nothing_is_known(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.GetPulls] = pulls(journal=False)
    answer = await client.get(PATH)
    assert answer.status_code == 409 and "pollJournalEnable" in answer.json()["detail"]


@pytest.mark.parametrize("query", ["minutes=0", "minutes=61", "interval_ms=0", "interval_ms=60001", "group=a%20b"])
async def test_bad_questions(client: httpx.AsyncClient, query: str) -> None:
    assert (await client.get(f"{PATH}?{query}")).status_code == 400
