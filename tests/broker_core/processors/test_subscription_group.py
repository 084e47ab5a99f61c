"""Configuration of groups: seen, changed, deleted, and still there after a restart."""

from typing import Any

from broker_core import commands as c
from broker_core.events import SubscriptionGroupChanged
from tests.fakes.engine import ROOT, Bench
from tests.fakes.members import events, failure, join


def configs(bench: Bench, group: str = "") -> dict[str, dict[str, Any]]:
    reply = bench.call(c.GetSubscriptionGroups(group=group))
    assert isinstance(reply, c.SubscriptionGroups)
    return reply.configs


def test_a_group_is_made_changed_and_deleted() -> None:
    bench = Bench()
    for times in (3, 4, 4):
        reply = bench.call(c.UpdateSubscriptionGroup(config={"groupName": "g", "retryMaxTimes": times}))
        assert isinstance(reply, c.SubscriptionGroups) and reply.configs["g"]["retryMaxTimes"] == times
    assert list(configs(bench, "g")) == ["g"] and {"g", "TOOLS_CONSUMER"} < set(configs(bench))
    for _ in range(2):
        assert bench.call(c.DeleteSubscriptionGroup(group="g")) == c.Done()
    assert failure(bench, c.GetSubscriptionGroups(group="g")).code == 26
    assert [e.action for e in events(bench, SubscriptionGroupChanged)] == ["created", "updated", "deleted"]
    assert failure(bench, c.DeleteSubscriptionGroup(group="TOOLS_CONSUMER")).pointer == "/group"
    assert "groupName" in failure(bench, c.UpdateSubscriptionGroup(config={})).remark


def test_offsets_go_with_a_group_when_that_is_asked() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    for clean, left in ((False, {"orders": {0: 1}}), (True, {})):
        join(bench, str(clean))
        bench.call(c.UpdateConsumerOffset(group="g", offsets=[c.QueueOffset(topic="orders", queue_id=0, offset=1)]))
        bench.call(c.DeleteSubscriptionGroup(group="g", clean_offset=clean))
        assert bench.engine.context.offsets.topics("g") == left


def test_groups_are_there_after_a_restart() -> None:
    first = Bench()
    join(first, "A")
    first.call(c.UpdateSubscriptionGroup(config={"groupName": "h", "later": 1}))
    first.file_work()
    assert first.files.exists(ROOT / "config" / "subscriptionGroup.json")
    assert not first.engine.context.subscription_groups.dirty
    first.call(c.UpdateSubscriptionGroup(config={"groupName": "i"}))
    first.take(first.engine.close(first.clock.now()))
    second = Bench(files=first.files, clock=first.clock)
    assert {"g", "h", "i"} < set(configs(second)) and configs(second)["h"]["later"] == 1
    assert second.engine.context.topics.get("%RETRY%g") is not None


def test_a_table_that_could_not_be_written_is_written_later() -> None:
    bench = Bench()
    bench.file_work()
    bench.call(c.UpdateSubscriptionGroup(config={"groupName": "g"}))
    work = bench.engine.next_file_work(bench.clock.now())
    assert work is not None and not bench.engine.context.subscription_groups.dirty
    bench.engine.file_work_failed(work, bench.clock.now())
    assert bench.engine.context.subscription_groups.dirty


def test_a_store_that_was_not_adopted_keeps_its_groups() -> None:
    bench = Bench()
    bench.take(bench.engine.close(bench.clock.now()))
    bench.files.remove(ROOT / "glassmq")
    foreign = Bench(files=bench.files, clock=bench.clock)
    assert "read-only" in failure(foreign, c.UpdateSubscriptionGroup(config={"groupName": "g"})).remark
    assert "read-only" in failure(foreign, c.DeleteSubscriptionGroup(group="g")).remark
