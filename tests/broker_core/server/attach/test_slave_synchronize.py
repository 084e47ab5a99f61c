"""The tables and members of the followed broker, over rounds."""

import pytest

from broker_core.clock import SystemClock
from broker_core.codes import RequestCode
from broker_core.server.attach import slave_synchronize
from broker_core.server.attach.cluster_client import ClusterClient
from broker_core.server.attach.slave_synchronize import SlaveSynchronize
from tests.fakes.fake_master import fake_master
from tests.fakes.followed import master
from tests.fakes.following import empty_copy


async def test_tables_and_members_reach_the_engine() -> None:
    async with fake_master(master(20)) as leader, empty_copy() as copy:
        leader.members = {"g": ["c1", "c2"], "h": ["c1"]}
        leader.offsets = {"orders@g": {0: 3, 1: 4}}
        client = ClusterClient(leader.address)
        tables = SlaveSynchronize(client, copy.calls, SystemClock())
        assert (tables.tables_ms, tables.members_ms) == (None, None)
        await tables.synchronize(leader.address)
        assert tables.problem == "" and tables.tables_ms and tables.members_ms
        assert (
            copy.context.topics.require("orders").read_queue_nums
            == leader.bench.context.topics.require("orders").queue_nums
        )
        assert copy.context.offsets.query("g", "orders", 1) == 4
        assert copy.context.consumers.client_ids("g") == ["c1", "c2"]
        assert copy.context.store.max_offset("orders", 1) == leader.bench.context.store.max_offset("orders", 1) > 0
        leader.members = {"g": ["c2"], "h": ["c1"]}
        await tables.synchronize(leader.address)
        assert (copy.context.consumers.client_ids("g"), copy.context.consumers.client_ids("h")) == (["c2"], ["c1"])
        leader.members = {"g": ["c2"], "h": []}
        await tables.synchronize(leader.address)
        assert copy.context.consumers.client_ids("h") == [] and len(copy.context.clients) == 1
        await client.close()


async def test_only_offsets_that_moved_are_replicated_again() -> None:
    async with fake_master(master(20)) as leader, empty_copy() as copy:
        client = ClusterClient(leader.address)
        tables = SlaveSynchronize(client, copy.calls, SystemClock())
        for offset in (1, 1, 2):
            tables._due_ns.clear()
            leader.offsets = {f"orders@group-{number}": {0: offset, 1: 7} for number in range(600)}
            await tables.synchronize(leader.address)
            assert copy.context.offsets.query("group-599", "orders", 0) == offset
        assert copy.context.counters.offsets_committed == 1200 + 600
        await client.close()


async def test_a_table_that_takes_long_is_asked_for_less_often() -> None:
    async with fake_master(master(20)) as leader, empty_copy() as copy:
        client = ClusterClient(leader.address)
        tables = SlaveSynchronize(client, copy.calls, SystemClock())
        for _ in range(3):
            await tables.synchronize(leader.address)
        assert leader.codes.count(RequestCode.GET_ALL_TOPIC_CONFIG) == 1
        assert slave_synchronize.COST * 0.005 >= 1  # 5 ms of the broker: at most once a second
        await client.close()


async def test_members_of_many_groups_are_asked_for_in_turn() -> None:
    async with fake_master(master(20)) as leader, empty_copy() as copy:
        leader.members = {f"g{number}": ["c"] for number in range(slave_synchronize.GROUPS_A_ROUND + 1)}
        client = ClusterClient(leader.address)
        tables = SlaveSynchronize(client, copy.calls, SystemClock())
        await tables.synchronize(leader.address)
        assert leader.codes.count(RequestCode.GET_CONSUMER_CONNECTION_LIST) == slave_synchronize.GROUPS_A_ROUND
        assert tables.members_ms is None
        await tables.synchronize(leader.address)
        assert tables.members_ms is not None
        await client.close()


async def test_members_are_known_when_the_ends_of_all_topics_are() -> None:
    async with fake_master(master(20)) as leader, empty_copy() as copy:
        client = ClusterClient(leader.address)
        tables = SlaveSynchronize(client, copy.calls, SystemClock())
        for number in range(slave_synchronize.TOPICS_A_ROUND):
            leader.bench.send(f"topic-{number}", b"x")
        await tables.synchronize(leader.address)
        assert leader.codes.count(RequestCode.GET_TOPIC_STATS_INFO) == slave_synchronize.TOPICS_A_ROUND
        assert tables.members_ms is None
        for _ in range(3):
            await tables.synchronize(leader.address)
        assert leader.codes.count(RequestCode.GET_TOPIC_STATS_INFO) == len(leader.bench.context.topics.names())
        assert tables.members_ms is not None
        await client.close()


async def test_a_new_master_is_asked_at_once_even_if_the_old_one_took_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slave_synchronize, "COST", 1_000_000)
    old, new = master(20), master(20)
    new.send("only-at-the-new-master", b"x")
    async with fake_master(old) as leader, fake_master(new) as successor, empty_copy() as copy:
        client = ClusterClient(leader.address)
        tables = SlaveSynchronize(client, copy.calls, SystemClock())
        for _ in range(2):
            await tables.synchronize(leader.address)
        assert leader.codes.count(RequestCode.GET_ALL_TOPIC_CONFIG) == 1
        await tables.synchronize(successor.address)
        assert copy.context.topics.get("only-at-the-new-master") is not None
        await client.close()


async def test_a_table_that_is_none_is_a_problem_and_the_others_are_taken() -> None:
    async with fake_master(master(20)) as leader, empty_copy() as copy:
        leader.answers[RequestCode.GET_ALL_TOPIC_CONFIG] = 0, b'{"topicConfigTable":[1]}'
        leader.offsets = {"orders@g": {0: 3}}
        client = ClusterClient(leader.address)
        tables = SlaveSynchronize(client, copy.calls, SystemClock())
        await tables.synchronize(leader.address)
        assert "GET_ALL_TOPIC_CONFIG" in tables.problem and tables.tables_ms is None
        assert copy.context.offsets.query("g", "orders", 0) == 3
        await client.close()
