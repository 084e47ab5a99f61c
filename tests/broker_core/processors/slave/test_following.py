"""What an engine that follows says about itself, and what it refuses."""

import pytest

from broker_core import commands as c
from broker_core.codes import ResponseCode
from broker_core.processor_table import FOLLOWER_COMMANDS, FOLLOWER_PROCESSORS, GATHERED, PROCESSORS, WALKS
from broker_core.processors.slave import following
from tests.fakes.engine import Bench, send
from tests.fakes.followed import append, blocks_of, follower, log_of, master


def test_every_command_has_a_processor_in_a_follower() -> None:
    assert set(FOLLOWER_PROCESSORS) == set(PROCESSORS) | GATHERED
    assert set(WALKS) <= FOLLOWER_COMMANDS <= set(PROCESSORS)


@pytest.mark.parametrize(
    "command",
    [
        c.UpdateAndCreateTopic(topic="new"),
        c.DeleteTopic(topic="orders"),
        c.UpdateConsumerOffset(group="g", offsets=[]),
        c.UpdateSubscriptionGroup(config={"groupName": "g"}),
        c.DeleteSubscriptionGroup(group="g"),
        c.HeartBeat(client_id="c", protocol="websocket"),
        c.LockBatchMq(group="g", client_id="c", queues=[]),
    ],
)
def test_changes_are_refused_in_the_words_of_a_slave(command: c.Command) -> None:
    bench = follower()
    reply = bench.call(command)
    assert isinstance(reply, c.Failed) and (reply.code, reply.kind) == (ResponseCode.SYSTEM_ERROR, "unavailable")
    assert "Can't modify topic or subscription group from slave broker" in reply.remark
    assert FOLLOWER_PROCESSORS[type(command)] is following.refuse


def test_messages_are_refused_in_the_words_of_a_slave() -> None:
    bench = follower()
    bench.call(c.ReportFollowing(source="10.0.0.1:10911", state="following"))
    reply = bench.call(send("orders", b"no"))
    assert isinstance(reply, c.Failed) and (reply.code, reply.kind) == (ResponseCode.SYSTEM_BUSY, "unavailable")
    assert reply.remark.startswith("[REJECTREQUEST]system busy") and "10.0.0.1:10911: publish there" in reply.remark


def test_the_commands_of_a_follower_are_refused_by_other_engines() -> None:
    bench = Bench()
    for command in (
        c.AppendToCommitLog(offset=0, data=b"", store_timestamp=0),
        c.ReplicateTables(),
        c.ReportFollowing(source="", state="following"),
        c.GetLogEnd(),
    ):
        reply = bench.call(command)
        assert isinstance(reply, c.Failed) and reply.kind == "request"
    assert isinstance(bench.call(c.GetAttached()), c.Failed)


def attached(bench: Bench) -> c.Attached:
    reply = bench.call(c.GetAttached())
    assert isinstance(reply, c.Attached)
    return reply


def test_what_is_not_known_yet_is_not_zero() -> None:
    view = attached(follower())
    assert view.state == "connecting" and view.confirmed == 0
    assert (view.received, view.lag_bytes, view.lag_ms, view.tables_ms, view.confirmed_ms) == (None,) * 5


def test_the_lag_is_what_the_copy_lacks() -> None:
    bench, log = follower(), log_of(master(20))
    append(bench, blocks_of(log))
    stored = attached(bench).confirmed_ms
    assert stored is not None
    bench.call(c.ReportFollowing(source="s", state="following", received=len(log), master_end=len(log)))
    assert (attached(bench).lag_bytes, attached(bench).lag_ms, attached(bench).confirmed) == (0, 0, len(log))
    bench.call(c.ReportFollowing(source="s", state="following", received=len(log) + 7, master_end=len(log) + 500))
    now = bench.clock.advance(5000)
    view = attached(bench)
    assert (view.lag_bytes, view.lag_ms, view.received) == (500, now.wall_ms - stored, len(log) + 7)
    bench.call(c.ReportFollowing(source="s", state="stopped", problem="the copy differs"))
    view = attached(bench)
    assert (view.lag_bytes, view.lag_ms, view.problem, view.since_ms) == (None, None, "the copy differs", now.wall_ms)


def test_a_followers_broker_view_says_slave() -> None:
    view = follower().call(c.GetBroker())
    assert isinstance(view, c.BrokerView) and view.role == "SLAVE"
