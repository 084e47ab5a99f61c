"""Situations that a broker causes, and those that take minutes, at a broker whose clock and disk the test moves."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from broker_core.verdicts.catalogue import CATALOGUE
from tests.e2e import test_why_waiting, test_why_waiting_longer
from tests.e2e.broker_here import BrokerHere, broker_here
from tests.e2e.waiting_site import Site, verdict
from tests.fakes.fake_master import fake_master
from tests.fakes.followed import SEGMENT, master

Situation = Callable[[Site, BrokerHere], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def heartbeat_late(site: Site, broker: BrokerHere) -> AsyncIterator[None]:
    await site.publish("")
    async with site.stock("10.0.0.1@1"):
        broker.clock.advance(46_000)
        yield


@asynccontextmanager
async def pulled_by_another(site: Site, broker: BrokerHere) -> AsyncIterator[None]:
    async with site.stock("10.0.0.1@1"), site.stock("10.0.0.2@2") as other:
        broker.clock.advance(21_000)
        waiting = asyncio.create_task(other.pull(0, sysFlag="2"))
        yield
        await site.publish("")
        await waiting


@asynccontextmanager
async def not_pulling(site: Site, broker: BrokerHere) -> AsyncIterator[None]:
    """It consumed everything, and then called suspend()."""
    await site.publish("")
    async with site.stock("10.0.0.1@1") as client:
        await client.commit(1)
        await site.publish("")
        broker.clock.advance(21_000)
        yield


@asynccontextmanager
async def falling_behind(site: Site, broker: BrokerHere) -> AsyncIterator[None]:
    async with site.stock("10.0.0.1@1") as client:
        for offset in range(1, 4):
            await site.publish_many(300)
            broker.clock.advance(6_000)
            await client.commit(offset)
        yield


@asynccontextmanager
async def engine_busy(site: Site, broker: BrokerHere) -> AsyncIterator[None]:
    broker.runner.turn_listeners.append(lambda: broker.clock.advance(150))  # a processor on which a turn takes so long
    async with site.stock("10.0.0.1@1"):
        yield


@asynccontextmanager
async def flush_behind(site: Site, broker: BrokerHere) -> AsyncIterator[None]:
    broker.disk.works.clear()
    sending = asyncio.create_task(site.publish(""))
    async with site.stock("10.0.0.1@1"):
        yield
    broker.disk.works.set()
    await sending


@asynccontextmanager
async def broker_draining(site: Site, broker: BrokerHere) -> AsyncIterator[None]:
    async with flush_behind(site, broker):
        found, _ = await verdict(site, "flush_behind", "")
        assert "broker_draining" not in {one["id"] for one in found["verdicts"]}
        stopping = asyncio.create_task(broker.host.stop())
        yield
    await stopping


@asynccontextmanager
async def slaves_behind(site: Site, broker: BrokerHere) -> AsyncIterator[None]:
    async with site.stock("10.0.0.1@1"):
        await site.call("POST", f"/api/v1/topics/{site.topic}/messages", {"body": "x", "queue_id": 0})
        yield


@asynccontextmanager
async def broker_away(site: Site, broker: BrokerHere) -> AsyncIterator[None]:
    async with site.stock("10.0.0.1@1") as client:
        await client.commit(0)
        yield


SYNC_FLUSH = {"flushDiskType": "SYNC_FLUSH"}
TABLE: list[tuple[Situation, str, str, dict[str, Any]]] = [
    (heartbeat_late, "stalled", "10.0.0.1@1 has sent no heartbeat for 46 s; its process is frozen", {}),
    (pulled_by_another, "ok", "but 10.0.0.2@2 pulls from it: the members allocate queues differently.", {}),
    (
        not_pulling,
        "stalled",
        "which has not asked for 21 s: it is suspended, frozen, cut off, or busy with its messages.",
        {},
    ),
    (falling_behind, "falling behind", "falls behind: 897 messages wait ... more than at an earlier commit.", {}),
    (engine_busy, "", "Broker broker-a is busy: commands waited up to 1 ... ms for their turn.", {}),
    (flush_behind, "", " bytes of stored messages wait for the disk of broker broker-a", SYNC_FLUSH),
    (broker_draining, "", "Broker broker-a is shutting down and refuses pulls; ... left to answer.", SYNC_FLUSH),
    (
        slaves_behind,
        "",
        "inSyncReplicas needs 1 slave with each message, and 0 are connected.",
        {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "slaveTimeout": 1},
    ),
    (
        broker_away,
        "unknown",
        "No answer from broker-b: what TOPIC-readers does there is unknown.",
        {"beside": "broker-b"},
    ),
]


@pytest.mark.parametrize(("situation", "state", "words", "options"), TABLE, ids=[row[0].__name__ for row in TABLE])
async def test_the_broker_says_why(
    tmp_path: Path, situation: Situation, state: str, words: str, options: dict[str, Any]
) -> None:
    name = situation.__name__
    async with broker_here(tmp_path, **options) as broker:
        site = await asyncio.to_thread(Site, broker, name.replace("_", "-"), broker.environment)
        async with situation(site, broker):
            _, found = await verdict(site, name, words.replace("TOPIC", site.topic), state=state)
            assert found["advice"] and isinstance(found["evidence"], dict)


async def test_an_attached_broker_says_what_it_does_not_know(tmp_path: Path) -> None:
    async with fake_master(master(10)) as cluster:
        cluster.members = {"orders-readers": ["10.0.0.9@9"]}
        cluster.offsets = {"orders@orders-readers": {0: 1}}
        async with broker_here(tmp_path, follows=cluster.address, mappedFileSizeCommitLog=SEGMENT) as broker:
            site = await asyncio.to_thread(Site, broker, "orders", broker.environment)
            answer, _ = await verdict(site, "attached", "The committed offsets are")
            assert not {"ok", "idle"} & {one["id"] for one in answer["verdicts"]}, answer


def test_each_verdict_of_the_catalogue_has_a_situation_in_these_tests() -> None:
    """A client or the broker causes each, and a test reads its verdict from the API."""
    names = {test_why_waiting.verdict_of(row[0]) for row in test_why_waiting.TABLE}
    names |= {row[0].__name__ for row in TABLE} | test_why_waiting_longer.SITUATIONS.keys() | {"attached"}
    assert names == set(CATALOGUE)
