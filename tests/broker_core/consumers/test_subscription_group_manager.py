"""The table behind subscriptionGroup.json: RocketMQ's form, whatever it has that this broker does not know."""

from typing import Any

import pytest

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.consumers import subscription_group_manager
from broker_core.consumers.subscription_group_manager import (
    SYSTEM_GROUPS,
    SubscriptionGroupManager,
    is_system_group,
    retry_topic,
)
from broker_core.errors import NotFoundError, RequestError
from broker_core.formats import rocketmq_json
from broker_core.options import Options
from tests.fakes.golden_store import STORES, unpack

NOW = Now(1_700_000_000_000, 1)
DEFAULTS = {
    "attributes": {},
    "brokerId": 0,
    "consumeBroadcastEnable": True,
    "consumeEnable": True,
    "consumeFromMinEnable": True,
    "consumeMessageOrderly": False,
    "consumeTimeoutMinute": 15,
    "groupName": "g",
    "groupRetryPolicy": {"type": "CUSTOMIZED"},
    "groupSysFlag": 0,
    "notifyConsumerIdsChangedEnable": True,
    "retryMaxTimes": 16,
    "retryQueueNums": 1,
    "whichBrokerWhenConsumeSlowly": 1,
}


def manager(loaded: dict[str, Any] | None = None, **options: Any) -> SubscriptionGroupManager:
    return SubscriptionGroupManager(Options(**options), loaded, NOW)


def stored(groups: SubscriptionGroupManager) -> dict[Any, Any]:
    return rocketmq_json.decode(rocketmq_json.encode(groups.as_table()))


def test_a_new_store_has_rocketmqs_own_groups() -> None:
    groups = manager()
    assert {config.group_name for config in groups} == set(SYSTEM_GROUPS)
    assert groups.dirty and groups.data_version["counter"] == len(SYSTEM_GROUPS)
    assert is_system_group("CID_RMQ_SYS_ANY") and not is_system_group("g")


def test_a_new_group_has_rocketmqs_defaults_in_the_order_of_the_file() -> None:
    groups = manager()
    groups.create("g", NOW)
    assert list(groups.entry("g").items()) == list(DEFAULTS.items())
    assert groups.create("CID_RMQ_SYS_ANY", NOW) and retry_topic("g") == "%RETRY%g"


def test_an_unknown_group_is_not_created_while_auto_creation_is_off() -> None:
    groups = manager(auto_create_subscription_group=False)
    with pytest.raises(NotFoundError) as error:
        groups.create("g", NOW)
    assert error.value.code == 26 and "g" not in groups
    groups.change_options(Options())
    assert groups.create("g", NOW).group_name == "g"
    with pytest.raises(RequestError, match="group"):
        groups.create("a/b", NOW)


@pytest.mark.parametrize("store", STORES)
def test_the_table_of_a_real_broker_is_written_unchanged(store: str, tmp_path: Any) -> None:
    text = (unpack(tmp_path) / store / "config" / "subscriptionGroup.json").read_text()
    table: Any = rocketmq_json.decode(text)
    groups = manager(table)
    assert not groups.dirty and "golden_retry_group" in groups
    written = rocketmq_json.encode(groups.as_table())
    assert rocketmq_json.decode(written) == table
    assert written == "".join(text.split())


def test_unknown_fields_are_kept() -> None:
    table: Any = {
        "dataVersion": {"counter": 7, "stateVersion": 1, "timestamp": 5},
        "forbiddenTable": {"g": {"t": 4}},
        "fromTheFuture": [1],
        "subscriptionGroupTable": {
            "g": DEFAULTS | {"retryMaxTimes": 3, "later": {"a": 1}},
            **{name: DEFAULTS | {"groupName": name} for name in SYSTEM_GROUPS},
        },
    }
    groups = manager(table)
    assert stored(groups) == table and not groups.dirty
    assert not groups.may_read("g", "t") and groups.may_read("g", "u") and groups.may_read("h", "t")
    groups.create("new", NOW)
    changed = stored(groups)
    assert changed["dataVersion"] == {"counter": 8, "stateVersion": 1, "timestamp": NOW.wall_ms}
    assert changed["fromTheFuture"] == [1] and changed["subscriptionGroupTable"]["g"]["later"] == {"a": 1}


def test_an_update_replaces_all_but_attributes() -> None:
    groups = manager()
    groups.update(
        {
            "groupName": "g",
            "retryMaxTimes": 3,
            "attributes": {"+priority.factor": "20"},
            "later": 5,
            "groupRetryPolicy": None,
        },
        NOW,
    )
    assert groups.entry("g") == DEFAULTS | {"retryMaxTimes": 3, "attributes": {"priority.factor": "20"}, "later": 5}
    version = groups.data_version
    groups.update({"groupName": "g", "retryMaxTimes": 3, "later": 5}, NOW)
    assert groups.data_version == version  # nothing new
    groups.update({"groupName": "g", "attributes": {"-priority.factor": ""}, "consumeEnable": "false"}, NOW)
    assert groups.entry("g") == DEFAULTS | {"attributes": {}, "consumeEnable": False}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "groupName"),
        ({"groupName": "a/b"}, "group"),
        ({"groupName": 7}, "groupName"),
        ({"groupName": "g", "retryMaxTimes": "many"}, "retryMaxTimes"),
        ({"groupName": "g", "retryQueueNums": 1025}, "retryQueueNums"),
        ({"groupName": "g", "x": "y" * 70_000}, "bytes"),
    ],
)
def test_an_update_that_is_refused_says_why(config: dict[str, Any], words: str) -> None:
    groups = manager()
    before = groups.as_table()
    with pytest.raises(RequestError, match=words):
        groups.update(config, NOW)
    assert groups.as_table() == before


def test_a_table_that_is_being_written_does_not_change_any_more() -> None:
    groups = manager()
    groups.update({"groupName": "g", "attributes": {"+priority.factor": "5"}}, NOW)
    table = groups.as_table()
    before = rocketmq_json.encode(table)
    groups.update({"groupName": "g", "retryMaxTimes": 3, "attributes": {"-priority.factor": ""}, "later": 1}, NOW)
    groups.create("h", NOW)
    assert rocketmq_json.encode(table) == before
    assert stored(groups)["subscriptionGroupTable"]["g"] == DEFAULTS | {"retryMaxTimes": 3, "later": 1}


def test_groups_are_deleted_but_not_the_brokers_own() -> None:
    groups = manager()
    groups.update({"groupName": "g", "later": 5}, NOW)
    assert groups.delete("g", NOW) and not groups.delete("g", NOW)
    assert groups.create("g", NOW) and "later" not in groups.entry("g")
    with pytest.raises(RequestError, match="system"):
        groups.delete("TOOLS_CONSUMER", NOW)


def test_there_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription_group_manager, "MAX_GROUPS", len(SYSTEM_GROUPS) + 1)
    groups = manager()
    groups.create("g", NOW)
    with pytest.raises(RequestError, match="groups"):
        groups.create("h", NOW)
    assert groups.update({"groupName": "g", "retryMaxTimes": 1}, NOW).retry_max_times == 1


def test_forbidden_pairs_of_group_and_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = manager({"forbiddenTable": {"g": {"other": 2, "orders": 2}}})
    groups.dirty = False
    groups.forbid("g", "orders", NOW, readable=True)
    assert not groups.dirty
    groups.forbid("g", "orders", NOW, readable=False)
    assert groups.dirty and groups.forbidden == {"g": {"other": 2, "orders": 6}} and not groups.may_read("g", "orders")
    groups.forbid("g", "orders", NOW, readable=True)
    assert groups.forbidden == {"g": {"other": 2, "orders": 2}}
    monkeypatch.setattr(subscription_group_manager, "MAX_FORBIDDEN", 2)
    groups.forbid("g", "orders", NOW, readable=False)
    with pytest.raises(RequestError, match="which is the limit"):
        groups.forbid("h", "orders", NOW, readable=False)
    assert groups.may_read("h", "orders") and "h" not in groups.forbidden
    assert groups.as_table()["forbiddenTable"] == groups.forbidden


def test_the_priority_factor_is_a_percentage() -> None:
    groups = manager()
    assert groups.update({"groupName": "g"}, NOW).priority_factor == 100
    assert groups.update({"groupName": "g", "attributes": {"+priority.factor": "0"}}, NOW).priority_factor == 0
    config = groups.get("g")
    assert config is not None and config.priority_factor == 0
    config.attributes = {"priority.factor": "of a newer RocketMQ"}
    assert config.priority_factor == 100


@pytest.mark.parametrize(
    ("is_new", "attributes", "words"),
    [
        (False, {"+priority.factor": "101"}, "value is not in range(0, 100)"),
        (False, {"+priority.factor": "-1"}, "value is not in range(0, 100)"),
        (False, {"+priority.factor": ""}, "For input string: ''"),
        (False, {"+priority.factor": "many"}, "For input string: 'many'"),
        (False, {"+priority.factor": ["1"]}, "is a string, not list"),
        (False, {"+other": "1"}, "unsupported key: other"),
        (False, {"-other": ""}, "attempt to delete a nonexistent key: other"),
        (True, {"-priority.factor": ""}, "only add attribute is supported while creating topic. key: priority.factor"),
        (True, {"priority.factor": "1"}, "only add attribute is supported while creating topic. key: riority.factor"),
        (False, {"priority.factor": "1"}, "wrong format key: riority.factor"),
        (False, {"+priority.factor": "1", "-priority.factor": ""}, "alter duplication key. key: priority.factor"),
        (False, {"+a-b": "1"}, "kv string format wrong."),
        (False, {"": "1"}, "kv string format wrong."),
    ],
)
def test_attributes_are_checked_as_rocketmq_does(is_new: bool, attributes: dict[str, Any], words: str) -> None:
    groups = manager()
    if not is_new:
        groups.update({"groupName": "g", "attributes": {"+priority.factor": 50}}, NOW)
    with pytest.raises(RequestError) as error:
        groups.update({"groupName": "g", "attributes": attributes}, NOW)
    assert words in str(error.value) and error.value.code is ResponseCode.SYSTEM_ERROR
    config = groups.get("g")
    assert (config is None) if is_new else (config is not None and config.attributes == {"priority.factor": "50"})


def test_a_replicated_group_has_the_attributes_of_its_original() -> None:
    groups = manager()
    for attributes in ({"priority.factor": "5", "of.a.newer": "x"}, {"of.a.newer": "y"}):
        assert groups.replicate({"groupName": "g", "attributes": attributes}, NOW).attributes == attributes
