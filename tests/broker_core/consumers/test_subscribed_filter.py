"""Pulls that rely on the subscription in the group's heartbeats."""

from typing import Any

from broker_core import commands as c
from tests.fakes.engine import Bench
from tests.fakes.members import join, subscribe_by_sql


def pull(bench: Bench, **fields: Any) -> c.Reply:
    command = c.PullMessage(
        topic="orders", queue_id=0, queue_offset=0, consumer_group="g", subscription=None, check_group=True, **fields
    )
    return bench.call(command, "A")


def code(reply: c.Reply) -> int:
    assert isinstance(reply, c.Failed | c.Pulled)
    return reply.code


def test_every_pull_with_a_bad_subscription_is_refused() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    join(bench, "A", topics={"orders": "||"})
    assert code(pull(bench)) == 23
    subscribe_by_sql(bench, "a > 1", 9)
    assert code(pull(bench)) == 20
    assert code(pull(bench, sub_version=10)) == 25
    subscribe_by_sql(bench, "a >", 10)
    reply = pull(bench)
    assert isinstance(reply, c.Failed) and reply.code == 27 and "the expression ends at character 4" in reply.remark
    subscribe_by_sql(bench, "a > 2", 11)
    assert code(pull(bench)) == 20
    bench.call(c.UpdateBrokerConfig(changes={"enablePropertyFilter": False}))
    assert code(pull(bench)) == 1
