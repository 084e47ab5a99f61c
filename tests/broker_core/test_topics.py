"""Topics: names by RocketMQ's rules, creation from templates, changes, and the content of topics.json."""

import re
from typing import Any

import pytest

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.errors import NotFoundError, RequestError
from broker_core.formats import rocketmq_json
from broker_core.options import Options
from broker_core.topics import TopicConfigManager, validate_group, validate_topic

NOW = Now(1_700_000_000_000, 0)


def manager(loaded: dict[str, object] | None = None, **options: object) -> TopicConfigManager:
    return TopicConfigManager(Options(**options), loaded, NOW)  # type: ignore[arg-type]


def stored(topics: TopicConfigManager) -> dict[Any, Any]:
    return rocketmq_json.decode(rocketmq_json.encode(topics.as_table()))


@pytest.mark.parametrize("name", ["T", "%RETRY%g", "a-b_c|d", "x" * 127])
def test_good_names(name: str) -> None:
    assert validate_topic(name) == name


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a b", "ü", "x" * 128, "a\x00", "a\n", "T\\"])
def test_bad_names(name: str) -> None:
    with pytest.raises(RequestError):
        validate_topic(name)


def test_group_names_have_a_lower_limit() -> None:
    with pytest.raises(RequestError):
        validate_group("g" * 121)


def test_a_send_creates_from_the_template() -> None:
    topics = manager()
    topics.dirty = False
    created = topics.create_in_send_message("new", "TBW102", 4, NOW)
    assert (created.read_queue_nums, created.write_queue_nums, created.perm) == (4, 4, 6)
    assert topics.create_in_send_message("wide", "TBW102", 99, NOW).write_queue_nums == 8
    assert topics.dirty


def test_no_topic_is_created_if_that_is_off_or_the_template_lacks_inherit() -> None:
    with pytest.raises(NotFoundError) as caught:
        manager(auto_create_topic_enable=False).create_in_send_message("new", "TBW102", 4, NOW)
    assert caught.value.code is ResponseCode.TOPIC_NOT_EXIST
    topics = manager()
    topics.update("plain", 4, 4, 6, NOW)
    with pytest.raises(NotFoundError):
        topics.create_in_send_message("new", "plain", 4, NOW)


def test_update_creates_changes_and_ignores_none() -> None:
    topics = manager()
    assert topics.update("t", None, None, None, NOW).read_queue_nums == 4
    assert topics.update("t", 8, None, None, NOW).write_queue_nums == 4
    topics.dirty = False
    topics.update("t", 8, 4, 6, NOW)
    assert not topics.dirty
    for wrong in ((0, None, None), (1025, None, None), (None, None, 8)):
        with pytest.raises(RequestError):
            topics.update("t", *wrong, NOW)


def test_system_topics_cannot_be_changed() -> None:
    topics = manager()
    for call in (lambda: topics.update("SCHEDULE_TOPIC_XXXX", 1, 1, 6, NOW), lambda: topics.delete("TBW102", NOW)):
        with pytest.raises(RequestError, match="system topic"):
            call()
    assert topics.is_system("rmq_sys_wheel_timer") and not topics.is_system("orders")


def test_the_cluster_and_the_broker_have_topics_of_their_names() -> None:
    topics = manager(broker_name="b", broker_cluster_name="c", broker_topic_enable=False)
    cluster, broker = topics.require("c"), topics.require("b")
    assert (cluster.read_queue_nums, cluster.write_queue_nums, cluster.perm) == (16, 16, 7)
    assert (broker.read_queue_nums, broker.write_queue_nums, broker.perm) == (1, 1, 1)
    assert topics.is_system("c") and topics.is_system("b")
    assert manager(broker_cluster_name="no topic's name").get("no topic's name") is None


def test_a_deleted_topic_is_unknown() -> None:
    topics = manager()
    topics.update("t", 4, 4, 6, NOW)
    topics.delete("t", NOW)
    assert topics.get("t") is None
    with pytest.raises(NotFoundError):
        topics.require("t")


def test_the_table_survives_a_restart_with_unknown_fields() -> None:
    loaded: dict[str, Any] = {
        "dataVersion": {"counter": 7, "stateVersion": 0, "timestamp": 5},
        "fromTheFuture": [1],
        "topicConfigTable": {
            "T": {
                "topicName": "T",
                "readQueueNums": 2,
                "writeQueueNums": 2,
                "perm": 4,
                "order": False,
                "topicFilterType": "SINGLE_TAG",
                "topicSysFlag": 0,
                "attributes": {"+message.type": "NORMAL"},
            }
        },
    }
    topics = manager(loaded)
    again = manager(stored(topics))
    config = again.get("T")
    assert config is not None and config.perm == 4 and config.attributes == {"+message.type": "NORMAL"}
    assert again.as_table()["fromTheFuture"] == [1]
    assert again.as_table()["dataVersion"]["counter"] >= 7
    assert stored(again)["topicConfigTable"]["T"] == loaded["topicConfigTable"]["T"]


def test_a_table_that_is_being_written_does_not_change_any_more() -> None:
    topics = manager()
    table = topics.as_table()
    before = rocketmq_json.encode(table)
    topics.update("t", 4, 4, 6, NOW)
    assert rocketmq_json.encode(table) == before
    assert stored(topics)["topicConfigTable"]["t"]["readQueueNums"] == 4


def test_changed_topics_are_returned_once() -> None:
    topics = manager()
    assert "TBW102" in (topics.take_changed() or set())
    assert topics.take_changed() is None
    topics.create_in_send_message("made", "TBW102", 4, NOW)
    topics.update("changed", 3, 3, 6, NOW)
    topics.update("gone", 1, 1, 6, NOW)
    topics.take_changed()
    topics.update("changed", 3, 3, 6, NOW)
    assert topics.take_changed() is None, "nothing was changed"
    topics.update("changed", 4, 3, 6, NOW)
    topics.delete("gone", NOW)
    assert topics.take_changed() == {"changed", "gone"}


def test_every_change_changes_the_data_version() -> None:
    topics = manager({"dataVersion": {"counter": 7, "stateVersion": 2, "timestamp": 5}, "topicConfigTable": {}})
    first = topics.data_version
    assert first["counter"] > 7 and first["stateVersion"] == 2 and first["timestamp"] == NOW.wall_ms
    topics.update("orders", 3, 3, 6, Now(NOW.wall_ms + 1, 0))
    second = topics.data_version
    assert second == {"counter": first["counter"] + 1, "stateVersion": 2, "timestamp": NOW.wall_ms + 1}
    topics.delete("orders", NOW)
    assert topics.data_version["counter"] == second["counter"] + 1


def test_changing_the_brokers_permission_changes_all_topics() -> None:
    topics = manager()
    topics.take_changed()
    topics.dirty = False
    before = topics.data_version
    topics.change_options(Options(auto_create_topic_enable=False))
    assert topics.take_changed() is None and topics.data_version == before and not topics.dirty
    topics.change_options(Options(broker_permission=4))
    assert topics.take_changed() == {config.topic_name for config in topics}
    assert topics.data_version != before and topics.dirty


def test_a_retry_topic_is_created_once_with_the_groups_queues() -> None:
    topics = manager()
    made, created = topics.create_in_send_message_back("%RETRY%g", 3, 6, NOW)
    assert created and (made.read_queue_nums, made.write_queue_nums, made.perm) == (3, 3, 6)
    assert topics.create_in_send_message_back("%RETRY%g", 1, 2, NOW) == (made, False)
    with pytest.raises(RequestError):
        topics.create_in_send_message_back("%RETRY%a/b", 1, 6, NOW)


def test_attributes_are_set_and_removed() -> None:
    topics = manager()

    def update(**attributes: str) -> dict[str, object]:
        return topics.update("t", None, None, None, NOW, attributes=attributes).attributes

    assert update(**{"+message.type": "FIFO", "+queue.type": "SimpleCQ"}) == {
        "message.type": "FIFO",
        "queue.type": "SimpleCQ",
    }
    assert update(**{"+message.type": "DELAY"}) == {"message.type": "DELAY", "queue.type": "SimpleCQ"}
    assert update() == {"message.type": "DELAY", "queue.type": "SimpleCQ"}
    assert update(**{"-message.type": ""}) == {"queue.type": "SimpleCQ"}


@pytest.mark.covers("attributes-refused")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"": ""}, "kv string format wrong"),
        ({"+": "1"}, "kv string format wrong"),
        ({"++message.type": "FIFO"}, "kv string format wrong"),
        ({"+message-type": "FIFO"}, "kv string format wrong"),
        ({"+message.type": "FIFO", "-message.type": ""}, "alter duplication key. key: message.type"),
        ({"-message.type": ""}, "only add attribute is supported while creating topic. key: message.type"),
        ({"message.type": "FIFO"}, "only add attribute is supported while creating topic. key: essage.type"),
        ({"+other": "1"}, "unsupported key: other"),
        ({"+reserve.time": "1"}, "unsupported key: reserve.time; messages of all topics"),
        ({"+message.type": "LITE"}, "value is not in set: UNSPECIFIED, NORMAL, FIFO"),
        ({"+queue.type": "Other"}, "value is not in set: SimpleCQ, BatchCQ"),
        ({"+cleanup.policy": "COMPACTION"}, "cleanup.policy cannot be COMPACTION: GlassMQ has no compaction"),
    ],
)
def test_attributes_of_a_new_topic_are_checked(changes: dict[str, str], words: str) -> None:
    topics = manager()
    with pytest.raises(RequestError, match=re.escape(words)) as error:
        topics.update("t", None, None, None, NOW, attributes=changes)
    assert error.value.code is ResponseCode.SYSTEM_ERROR and topics.get("t") is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"+queue.type": "SimpleCQ"}, "attempt to update an unchangeable attribute. key: queue.type"),
        ({"-queue.type": ""}, "attempt to update an unchangeable attribute. key: queue.type"),
        ({"+cleanup.policy": "DELETE"}, "attempt to update an unchangeable attribute. key: cleanup.policy"),
        ({"-other": ""}, "attempt to delete a nonexistent key: other"),
    ],
)
def test_attributes_that_cannot_be_changed(changes: dict[str, str], words: str) -> None:
    topics = manager()
    old = topics.update("t", None, None, None, NOW, attributes={"+queue.type": "SimpleCQ"})
    with pytest.raises(RequestError, match=re.escape(words)):
        topics.update("t", None, None, None, NOW, attributes=changes)
    assert topics.get("t") == old


def test_mixed_types_need_an_option() -> None:
    topics = manager()
    with pytest.raises(RequestError, match="MIXED message type is not supported") as error:
        topics.update("t", None, None, None, NOW, attributes={"+message.type": "MIXED"})
    assert error.value.code is ResponseCode.INVALID_PARAMETER
    topics.change_options(Options(enable_mixed_message_type=True))
    made = topics.update("t", None, None, None, NOW, attributes={"+message.type": "MIXED"})
    assert made.attributes == {"message.type": "MIXED"}


def test_a_changed_configuration_is_not_stored_yet() -> None:
    topics = manager()
    changed = topics.changed_config("t", 2, 3, 4, order=True, filter_type="MULTI_TAG", sys_flag=1)
    assert topics.get("t") is None
    assert topics.put(changed, NOW) == topics.get("t") == topics.update("t", None, None, None, NOW)
    assert (changed.order, changed.topic_filter_type, changed.topic_sys_flag) == (True, "MULTI_TAG", 1)
    assert topics.changed_config("t", None, None, None, order=False).order is False


def test_attributes_of_a_store_that_have_no_effect_are_named() -> None:
    attributes: dict[str, dict[str, object]] = {
        "a": {"cleanup.policy": "COMPACTION", "message.type": "NORMAL"},
        "b": {"cleanup.policy": "COMPACTION", "queue.type": "BatchCQ"},
        "c": {"queue.type": "OtherCQ", "reserve.time": 3600},
        "d": {"x": ["y"], "cleanup.policy": "DELETE"},
    }
    topics = manager({"topicConfigTable": {n: {"topicName": n, "attributes": a} for n, a in attributes.items()}})
    assert topics.unsupported(None) == [
        "GlassMQ ignores the attribute cleanup.policy=COMPACTION of 2 topics (a, b): GlassMQ has no compaction; "
        "messages are deleted when fileReservedTime is over",
        "GlassMQ ignores the attribute queue.type=OtherCQ of 1 topic (c): it has no effect",
        "GlassMQ ignores the attribute reserve.time=3600 of 1 topic (c): messages of all topics are deleted when "
        "fileReservedTime is over",
        "GlassMQ ignores the attribute x=['y'] of 1 topic (d): it has no effect",
    ]
    assert topics.as_table()["topicConfigTable"]["a"].attributes == attributes["a"], "RocketMQ finds them again"
    assert manager().unsupported(None) == []


def test_many_topics_are_not_all_named() -> None:
    entry = {"attributes": {"cleanup.policy": "COMPACTION"}}
    names = [f"t{number:02}" for number in range(22)]
    (sentence,) = manager({"topicConfigTable": {n: entry | {"topicName": n} for n in names}}).unsupported(None)
    assert f"of 22 topics ({', '.join(names[:20])} and 2 more)" in sentence


@pytest.mark.parametrize("mapping", [{}, {"topicQueueMappingInfoMap": {}}, {"topicQueueMappingInfoMap": [1]}])
def test_a_mapping_without_topics_is_not_named(mapping: dict[str, object]) -> None:
    assert manager().unsupported(mapping) == []
