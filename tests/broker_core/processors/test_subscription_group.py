"""Configuration of groups: seen, changed, deleted, and still there after a restart."""

from typing import Any

import pytest

from broker_core import commands as c
from broker_core.consumers import subscription_group_manager
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


def test_deleting_a_group_removes_its_offsets_on_request() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    for clean, left in ((False, {"orders": {0: 1}}), (True, {})):
        join(bench, str(clean))
        bench.call(c.UpdateConsumerOffset(group="g", offsets=[c.QueueOffset(topic="orders", queue_id=0, offset=1)]))
        bench.call(c.DeleteSubscriptionGroup(group="g", clean_offset=clean))
        assert bench.context.offsets.topics("g") == left


def test_groups_are_there_after_a_restart() -> None:
    first = Bench()
    join(first, "A")
    first.call(c.UpdateSubscriptionGroup(config={"groupName": "h", "later": 1}))
    first.file_work()
    assert first.files.exists(ROOT / "config" / "subscriptionGroup.json")
    assert not first.context.subscription_groups.dirty
    first.call(c.UpdateSubscriptionGroup(config={"groupName": "i"}))
    first.take(first.engine.close(first.clock.now()))
    second = Bench(files=first.files, clock=first.clock)
    assert {"g", "h", "i"} < set(configs(second)) and configs(second)["h"]["later"] == 1
    assert second.context.topics.get("%RETRY%g") is not None


def test_a_table_that_could_not_be_written_is_written_later() -> None:
    bench = Bench()
    bench.file_work()
    bench.call(c.UpdateSubscriptionGroup(config={"groupName": "g"}))
    work = bench.engine.next_file_work(bench.clock.now())
    assert work is not None and not bench.context.subscription_groups.dirty
    bench.engine.file_work_failed(work, bench.clock.now())
    assert bench.context.subscription_groups.dirty


def test_a_store_that_was_not_adopted_keeps_its_groups() -> None:
    bench = Bench()
    bench.take(bench.engine.close(bench.clock.now()))
    bench.files.remove(ROOT / "glassmq")
    foreign = Bench(files=bench.files, clock=bench.clock)
    assert "read-only" in failure(foreign, c.UpdateSubscriptionGroup(config={"groupName": "g"})).remark
    assert "read-only" in failure(foreign, c.DeleteSubscriptionGroup(group="g")).remark


def test_several_groups_at_once_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    wanted = [{"groupName": "g", "retryMaxTimes": 3}, {"groupName": "h"}]
    assert bench.call(c.UpdateSubscriptionGroupList(configs=wanted)) == c.Done()
    assert configs(bench, "g")["g"]["retryMaxTimes"] == 3 and "h" in configs(bench)
    assert failure(bench, c.UpdateSubscriptionGroupList(configs=[{"groupName": "i"}, {"groupName": "a/b"}])).code == 29
    monkeypatch.setattr(subscription_group_manager, "MAX_GROUPS", len(configs(bench)) + 1)
    assert (
        "the limit is"
        in failure(bench, c.UpdateSubscriptionGroupList(configs=[{"groupName": "i"}, {"groupName": "j"}])).remark
    )
    assert "i" not in configs(bench)
    assert [e.group for e in events(bench, SubscriptionGroupChanged)] == ["g", "h"]


def test_an_unknown_group_is_answered_with_the_defaults() -> None:
    bench = Bench()
    reply = bench.call(c.GetSubscriptionGroups(group="g", or_default=True))
    assert isinstance(reply, c.SubscriptionGroups) and reply.configs["g"]["retryMaxTimes"] == 16
    assert "g" not in configs(bench)
    bench.call(c.UpdateSubscriptionGroup(config={"groupName": "g", "retryMaxTimes": 3}))
    reply = bench.call(c.GetSubscriptionGroups(group="g", or_default=True))
    assert isinstance(reply, c.SubscriptionGroups) and reply.configs["g"]["retryMaxTimes"] == 3
    bench.call(c.UpdateBrokerConfig(changes={"autoCreateSubscriptionGroup": False}))
    assert failure(bench, c.GetSubscriptionGroups(group="h", or_default=True)).code == 26


def test_a_group_can_be_forbidden_to_read_a_topic() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    join(bench, "A")

    def readable(value: bool | None = None, group: str = "g") -> bool:
        reply = bench.call(c.UpdateGroupForbidden(group=group, topic="orders", readable=value))
        assert isinstance(reply, c.GroupForbidden) and (reply.group, reply.topic) == (group, "orders")
        return reply.readable

    def pulled() -> c.Reply | None:
        return bench.final(bench.pull("orders", 0, "A", subscription=None, check_group=True), "A")

    assert readable() and not readable(False) and not readable() and readable(group="h")
    refused = pulled()
    assert isinstance(refused, c.Failed) and refused.code == 16
    reply = bench.call(c.GetSubscriptionGroups())
    assert isinstance(reply, c.SubscriptionGroups) and reply.forbidden == {"g": {"orders": 4}}
    bench.take(bench.engine.close(bench.clock.now()))
    again = Bench(files=bench.files, clock=bench.clock)
    assert not again.context.subscription_groups.may_read("g", "orders")


def test_a_group_can_be_allowed_to_read_again() -> None:
    bench = Bench()
    for value in (False, True):
        bench.call(c.UpdateGroupForbidden(group="g", topic="orders", readable=value))
    reply = bench.call(c.GetSubscriptionGroups())
    assert isinstance(reply, c.SubscriptionGroups) and reply.forbidden == {}
    for group, topic in (("a/b", "orders"), ("g", "a/b"), ("", "orders"), ("g", "")):
        assert failure(bench, c.UpdateGroupForbidden(group=group, topic=topic, readable=False)).code == 29


def test_a_group_with_members_is_deleted_only_where_that_is_asked_for() -> None:
    bench = Bench()
    join(bench, "A")
    command = c.DeleteSubscriptionGroup(group="g", clean_offset=True, members_ok=False, missing_ok=False)
    refused = failure(bench, command)
    assert (refused.kind, refused.pointer) == ("conflict", "/group") and "1 member online" in refused.remark
    assert bench.call(c.DeleteSubscriptionGroup(group="g")) == c.Done()  # mqadmin may


def test_deleting_a_group_removes_all_of_its_state() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    bench.pull("orders", 0, consumer_group="g")
    bench.call(c.UpdateConsumerOffset(group="g", offsets=[c.QueueOffset(topic="orders", queue_id=0, offset=1)]))
    command = c.DeleteSubscriptionGroup(group="g", clean_offset=True, members_ok=False, missing_ok=False)
    assert bench.call(command) == c.Done()
    assert failure(bench, c.GetConsumerGroup(group="g")).kind == "not_found"
    assert failure(bench, command).kind == "not_found"
    assert bench.call(c.DeleteSubscriptionGroup(group="g")) == c.Done()
