"""Following a broker from discovery to the copy, and every reason not to."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from broker_core.clock import SystemClock
from broker_core.codes import RequestCode
from broker_core.remoting.auto_switch_transfer import LEARNER_ID
from broker_core.server.attach import follower as follower_module
from broker_core.server.attach import slave_synchronize
from broker_core.server.attach.cluster_client import ALLOWED, Source
from broker_core.server.attach.follower import SLAVE_MAX_BEHIND, Follower, FollowOptions, choose
from tests.fakes.fake_master import FakeMaster, fake_master
from tests.fakes.followed import SEGMENT, log_of, master
from tests.fakes.following import Copy, empty_copy
from tests.fakes.simulated_files import SimulatedFiles


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses of milliseconds."""
    monkeypatch.setattr(follower_module, "AGAIN_S", 0.01)
    monkeypatch.setattr(follower_module, "REPORT_S", 0.01)
    monkeypatch.setattr(follower_module, "PERIOD_S", 0.02)
    monkeypatch.setattr(slave_synchronize, "PERIOD_S", 0.02)


@asynccontextmanager
async def following(leader: FakeMaster, copy: Copy, **more: Any) -> AsyncIterator[Follower]:
    options = FollowOptions(namesrv_addr=leader.address, broker_name="broker-a", **({"begin": "min"} | more))
    follower = Follower(copy.runner, SystemClock(), options)
    follower.start()
    try:
        yield follower
    finally:
        await follower.stop()


async def test_a_copy_follows_its_master_and_only_reads() -> None:
    bench = master(250)
    async with fake_master(bench) as leader, empty_copy() as copy, following(leader, copy):
        await copy.until(lambda view: view.confirmed == len(log_of(bench)))
        leader.grow(b"new", b"newer")
        view = await copy.until(lambda view: view.lag_bytes == 0 and view.confirmed == len(log_of(bench)))
        assert (view.state, view.source, view.lag_ms, view.problem) == ("following", leader.address, 0, "")
        await copy.until(lambda view: view.tables_ms and view.members_ms)
    assert set(leader.codes) <= {int(code) for code in ALLOWED}
    assert {21, 26, 28, 43, 45, 106, 201} <= set(leader.codes)
    assert not {38, 208, 307} & set(leader.codes)  # these only when a person asks
    first, *others = leader.reports
    assert first == 1 and others and all(report < -SLAVE_MAX_BEHIND for report in others)


async def test_a_copy_goes_on_after_the_connection_and_the_engine_ended() -> None:
    bench, files = master(120), SimulatedFiles()
    async with fake_master(bench) as leader:
        async with empty_copy(files) as copy, following(leader, copy):
            await copy.until(lambda view: view.confirmed == len(log_of(bench)))
        end = len(log_of(bench))
        leader.grow(*[b"x" * 500] * 200)
        async with empty_copy(files) as copy, following(leader, copy):
            await copy.until(lambda view: view.confirmed == len(log_of(bench)))
            assert leader.reports.count(end) == 1
            assert int(RequestCode.VIEW_MESSAGE_BY_ID) in leader.codes


async def test_the_tables_come_from_the_new_master_after_a_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower_module, "DISCOVER_S", 0.01)
    old, new = master(20), master(20)
    new.send("only-at-the-new-master", b"x")
    async with fake_master(old) as leader, fake_master(new) as successor, empty_copy() as copy, following(leader, copy):
        await copy.until(lambda view: view.tables_ms)
        assert copy.context.topics.get("only-at-the-new-master") is None
        leader.address = successor.address  # what its name server says from now on
        async with asyncio.timeout(60):
            while copy.context.topics.get("only-at-the-new-master") is None:
                await asyncio.sleep(0.005)
        assert (await copy.attached()).state == "following"


async def test_a_broker_that_left_its_name_servers_is_shown_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower_module, "DISCOVER_S", 0.01)
    async with fake_master(master(20)) as leader, empty_copy() as copy, following(leader, copy):
        await copy.until(lambda view: view.state == "following" and view.tables_ms)
        leader.answers[RequestCode.GET_BROKER_CLUSTER_INFO] = 0, b'{"brokerAddrTable":{}}'
        view = await copy.until(lambda view: view.problem)
        assert (view.state, view.problem) == ("following", "the name servers know no broker broker-a any more")
        leader.answers.clear()
        await copy.until(lambda view: not view.problem)


async def test_a_new_copy_begins_at_the_last_segment_unless_told_otherwise() -> None:
    bench = master(250)
    async with fake_master(bench) as leader, empty_copy() as copy, following(leader, copy, begin="last-file"):
        view = await copy.until(lambda view: view.confirmed == len(log_of(bench)))
    assert view.min == len(log_of(bench)) // SEGMENT * SEGMENT == leader.reports[0]


async def test_an_empty_log_is_not_asked_for_before_it_has_a_byte() -> None:
    bench = master(0)
    async with fake_master(bench) as leader, empty_copy() as copy, following(leader, copy):
        view = await copy.until(lambda view: view.state == "waiting")
        assert "is empty" in view.problem and leader.reports == []
        leader.grow(b"first")
        await copy.until(lambda view: view.confirmed == len(log_of(bench)) > 0)


async def stopped(bench_of_copy: Any, bench: Any, **changes: Any) -> str:
    """Why a copy of one broker's log does not follow another broker."""
    files = SimulatedFiles()
    async with fake_master(bench_of_copy) as leader, empty_copy(files) as copy, following(leader, copy):
        await copy.until(lambda view: view.confirmed == len(log_of(bench_of_copy)))
        log = log_of(bench_of_copy)
    async with fake_master(bench) as leader, empty_copy(files) as copy:
        for name, value in changes.items():
            setattr(leader, name, value)
        async with following(leader, copy):
            view = await copy.until(lambda view: view.state == "stopped")
            assert leader.reports == [] and copy.end == len(log)
    return view.problem


async def test_a_master_that_was_wiped_is_not_followed() -> None:
    wiped = master(20)
    problem = await stopped(master(120), wiped)
    assert f"at {len(log_of(wiped))}: it was cut or replaced; the copy is kept" in problem


async def test_a_master_that_was_replaced_is_not_followed() -> None:
    assert "differ at offset" in await stopped(master(120), master(200, size=701))


async def test_a_gap_of_retention_is_not_skipped() -> None:
    problem = await stopped(master(60), master(250), min_offset=2 * SEGMENT)
    assert f"has deleted its log up to {2 * SEGMENT}" in problem


async def test_segments_of_another_size_are_not_followed() -> None:
    problem = await stopped(master(60), master(60), config={"mappedFileSizeCommitLog": "1048576"})
    assert "(mappedFileSizeCommitLog)" in problem


async def test_a_dledger_broker_is_refused_with_a_sentence() -> None:
    async with fake_master(master(5)) as leader, empty_copy() as copy:
        leader.config = {"enableDLegerCommitLog": "true"}
        async with following(leader, copy):
            view = await copy.until(lambda view: view.state == "stopped")
    assert "has a DLedger commit log (enableDLegerCommitLog), which has no HA port" in view.problem
    assert leader.reports == []


async def test_a_broker_in_controller_mode_is_followed_as_an_asynchronous_learner() -> None:
    bench = master(250)
    async with fake_master(bench) as leader, empty_copy() as copy:
        leader.config = {"enableControllerMode": "true"}
        async with following(leader, copy):
            await copy.until(lambda view: view.confirmed == len(log_of(bench)))
            leader.grow(b"new")
            await copy.until(lambda view: view.lag_bytes == 0 and view.confirmed == len(log_of(bench)))
    assert leader.learners == [(1, 0, 1, LEARNER_ID)]
    first, *others = leader.reports
    assert first == 1 and others and all(report < -SLAVE_MAX_BEHIND for report in others)


@pytest.mark.parametrize("spoiled", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff" * 12])
async def test_a_port_that_speaks_something_else_stops_the_follower(spoiled: bytes) -> None:
    async with fake_master(master(5)) as leader, empty_copy() as copy:
        leader.spoiled = spoiled
        async with following(leader, copy):
            view = await copy.until(lambda view: view.state == "stopped")
    assert "offset" in view.problem and view.confirmed == 0


async def test_a_cluster_that_is_away_is_tried_again() -> None:
    async with fake_master(master(5)) as leader, empty_copy() as copy:
        leader.answers[RequestCode.GET_BROKER_CLUSTER_INFO] = 0, b'{"brokerAddrTable":{}}'
        async with following(leader, copy):
            view = await copy.until(lambda view: view.state == "waiting")
            assert "know no broker broker-a" in view.problem
            leader.answers.clear()
            await copy.until(lambda view: view.confirmed > 0)


async def test_the_log_goes_on_while_tables_are_refused() -> None:
    async with fake_master(master(20)) as leader, empty_copy() as copy:
        leader.answers[RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG] = 16, b""
        leader.answers[RequestCode.GET_ALL_CONSUMER_OFFSET] = 16, b""
        async with following(leader, copy):
            view = await copy.until(lambda view: view.confirmed and view.problem)
    assert "followed without GET_ALL_SUBSCRIPTIONGROUP_CONFIG, GET_ALL_CONSUMER_OFFSET: " in view.problem
    assert "(16)" in view.problem and view.problem.count("authenticationWhitelist") == 1
    assert (view.state, view.tables_ms) == ("following", None)


@pytest.mark.parametrize(
    "refused",
    [RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, RequestCode.GET_ALL_TOPIC_CONFIG],
    ids=lambda code: code.name,
)
async def test_members_are_unknown_while_the_table_of_groups_or_topics_is_refused(refused: RequestCode) -> None:
    async with fake_master(master(20)) as leader, empty_copy() as copy:
        leader.answers[refused] = 16, b""
        async with following(leader, copy):
            view = await copy.until(lambda view: view.problem)
    assert refused.name in view.problem and view.members_ms is None


async def test_another_address_of_the_ha_port_is_tried() -> None:
    async with fake_master(master(20)) as leader, empty_copy() as copy:
        leader.config = {"brokerIP2": "127.0.0.255"}
        async with following(leader, copy):
            await copy.until(lambda view: view.confirmed > 0)


def source(broker_id: int, end: int, **config: str) -> Source:
    return Source(f"10.0.0.{broker_id}:10911", broker_id, "V5_4_0", 0, end, config)


def test_a_slave_is_chosen_unless_it_is_far_behind() -> None:
    end = 1 << 40
    near, far, leader = source(1, end - SLAVE_MAX_BEHIND), source(2, end - SLAVE_MAX_BEHIND - 1), source(0, end)
    assert choose([far, near, leader]) == near
    assert choose([far, leader]) == leader
    assert choose([far]) == far
    assert choose([]) is None


def test_a_sync_master_of_rocketmq_4_is_not_followed() -> None:
    old = source(0, 5, brokerRole="SYNC_MASTER")._replace(version="V4_9_8")
    assert choose([old]) is None and "follow a slave" in old.obstacle
    assert choose([old._replace(version="V5_4_0")]) is not None


def test_a_broker_without_an_ha_port_is_not_followed() -> None:
    closed = source(0, 5, haListenPort="0")
    assert choose([closed]) is None and "has no HA port (haListenPort=0)" in closed.obstacle
    assert choose([source(0, 5, haListenPort="10912")]) is not None


def test_controller_mode_of_rocketmq_5_0_is_not_followed() -> None:
    old = source(0, 5, enableControllerMode="true")._replace(version="V5_0_0")
    assert choose([old]) is None and "of RocketMQ 5.0" in old.obstacle
    assert choose([old._replace(version="V5_1_0")]) is not None
